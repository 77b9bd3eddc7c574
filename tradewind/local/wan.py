"""Distance on one machine: a TCP proxy that delays every byte, as its own process.

    python -m tradewind.local.wan SPEC.json

SPEC.json: {"links": [{"listen_port": 1, "target_host": "127.0.0.1", "target_port": 2,
"delay_ms": 44.5}, ...]}, the delay one way. Bytes keep their order and the link its throughput:
chunks wait side by side for their due time, not one after the other.
"""

import asyncio
import functools
import json
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"  # not imported: this file runs by path, alone

# Bytes under way in one direction of one connection before the sender is held back: like a TCP
# window, about 40 MB/s at 100 ms.
QUEUE_LIMIT_BYTES = 4 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_WRONG_USAGE = 2


@dataclass(frozen=True, slots=True)
class Link:
    """One listening port, and how far away its target shall seem (one way)."""

    listen_port: int
    target_host: str
    target_port: int
    delay_ms: float


def dump(links: Sequence[Link]) -> str:
    """Write links as SPEC.json."""
    return json.dumps({"links": [asdict(link) for link in links]}, indent=2)


def parse(text: str) -> list[Link]:
    """Read SPEC.json. Raises ValueError, KeyError or TypeError if it is not one."""
    return [Link(**link) for link in json.loads(text)["links"]]


class _Line:
    """Bytes under way in one direction."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[tuple[float, bytes]] = deque()
        self._queued_bytes = 0
        self._changed = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy until the end of input, then pass the half close on."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fill(reader))
            group.create_task(self._empty(writer))

    async def _fill(self, reader: asyncio.StreamReader) -> None:
        while True:
            chunk = await reader.read(_CHUNK_BYTES)
            self._chunks.append((self._loop.time() + self._delay_s, chunk))
            self._queued_bytes += len(chunk)
            self._changed.set()
            if not chunk:
                return
            while self._queued_bytes > QUEUE_LIMIT_BYTES:
                await self._wait()

    async def _empty(self, writer: asyncio.StreamWriter) -> None:
        while True:
            while not self._chunks:
                await self._wait()
            due, chunk = self._chunks.popleft()
            await asyncio.sleep(due - self._loop.time())
            if not chunk:
                writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()
            self._queued_bytes -= len(chunk)
            self._changed.set()

    async def _wait(self) -> None:
        # Both ends may wait here, never at once: one for bytes, one for room.
        self._changed.clear()
        await self._changed.wait()


class WanProxy:
    """All links of one machine. Listens between `start()` and `stop()`."""

    def __init__(self, links: Sequence[Link]) -> None:
        """Take the plan; nothing listens before `start()`."""
        self._links = links
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on every link's port. Raises OSError if one is taken."""
        for link in self._links:
            server = await asyncio.start_server(
                functools.partial(self._accept, link),
                LOOPBACK,
                link.listen_port,
                limit=_CHUNK_BYTES,
            )
            self._servers.append(server)

    async def stop(self) -> None:
        """Close every port and cut every connection. May be called twice."""
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = asyncio.ensure_future(_join(link, reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        # Waited for, not awaited: streams report a cancelled callback as an error (3.11).
        await asyncio.wait([connection])


async def _join(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    delay_s = link.delay_ms / 1000
    far_writer: asyncio.StreamWriter | None = None
    try:
        # The handshake over the real distance: the caller's own connect took no time.
        await asyncio.sleep(2 * delay_s)
        far_reader, far_writer = await asyncio.open_connection(link.target_host, link.target_port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_Line(delay_s).carry(reader, far_writer))
            group.create_task(_Line(delay_s).carry(far_reader, writer))
    except* OSError:
        # Either end broke: the other one sees a cut connection, as it would over a network.
        writer.transport.abort()
        if far_writer is not None:
            far_writer.transport.abort()
    finally:
        writer.close()
        if far_writer is not None:
            far_writer.close()


async def serve(links: Sequence[Link]) -> None:
    """Run the proxy until SIGTERM or SIGINT. Raises OSError if a port is taken."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    proxy = WanProxy(links)
    try:
        await proxy.start()
        await ended.wait()
    finally:
        await proxy.stop()


def main(args: Sequence[str]) -> int:
    """Run the command line: one argument, the path of SPEC.json."""
    if len(args) != 1:
        sys.stderr.write("usage: python -m tradewind.local.wan SPEC.json\n")
        return _WRONG_USAGE
    try:
        links = parse(Path(args[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{args[0]} lists no links ({error}): see `pydoc tradewind.local.wan`\n")
        return _WRONG_USAGE
    try:
        asyncio.run(serve(links))
    except OSError as error:
        sys.stderr.write(f"cannot listen: {error.strerror}: choose other ports in {args[0]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
