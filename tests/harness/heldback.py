"""A network that lets requests through at once and holds answers back, or breaks."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_CHUNK_BYTES = 65_536


class HeldBack:
    """A TCP proxy to one address. What the far end sends first, a greeting, is not held back."""

    def __init__(self, target: str, hold_s: float) -> None:
        self._target, self._hold_s = target, hold_s
        self._writers: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self.address = ""
        self.is_down = False  # new connections are closed at once
        self.turned_away = 0  # how many were

    def cut(self) -> None:
        """Reset every connection; new ones may be made unless `is_down`."""
        for writer in self._writers:
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a connection to one of its own."""
        if self.is_down:
            self.turned_away += 1
            writer.transport.abort()
            return
        host, _, port = self._target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, far_writer}
        self._carry(_copy(reader, far_writer))
        self._carry(self._answer(far_reader, writer))

    def _carry(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        writer.write(await _read(reader))
        while chunk := await _read(reader):
            loop.call_later(self._hold_s, writer.write, chunk)
        loop.call_later(self._hold_s, writer.close)

    async def close(self) -> None:
        """End all that is under way."""
        self.cut()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await _read(reader):
        writer.write(chunk)
    writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK_BYTES)
    except OSError:  # reset
        return b""


@asynccontextmanager
async def held_back(target: str, hold_s: float) -> AsyncGenerator[HeldBack]:
    """Listen on a free port for the length of a block."""
    proxy = HeldBack(target, hold_s)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    proxy.address = f"{host}:{port}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
