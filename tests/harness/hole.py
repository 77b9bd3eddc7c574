"""A network that loses every packet for a while, as no reset or refusal would show it.

Both ends keep their connections and hear nothing, and whoever connects meanwhile is heard by
nobody. Afterwards each connection goes on as TCP would let it: what was sent is delivered late, or
the ends are not told of each other again, as when a firewall has forgotten the connection.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tradewind.local.freeports import LOOPBACK

_CHUNK_BYTES = 65_536


class Hole:
    """A TCP proxy on a port of its own, in front of one server."""

    def __init__(self, target_port: int, *, late: bool) -> None:
        """`late`: what is sent while the network is down arrives once it is back."""
        self.port = 0
        self._target_port, self._late = target_port, late
        self._passes = asyncio.Event()
        self._passes.set()
        self._lost: set[asyncio.Task[None]] = set()  # never to be heard of again
        self._joined: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.WriteTransport] = set()

    def swallow(self) -> None:
        """From now on nothing arrives, either way."""
        self._passes.clear()
        if not self._late:
            self._lost |= self._joined

    def heal(self) -> None:
        """Packets pass again."""
        self._passes.set()

    async def close(self) -> None:
        """Cut every connection."""
        self.heal()
        for transport in self._transports:
            transport.abort()
        await asyncio.gather(*self._joined, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either end closes it."""
        me = asyncio.current_task()
        assert me is not None
        self._joined.add(me)
        self._transports.add(writer.transport)
        if not self._passes.is_set() and not self._late:
            self._lost.add(me)
        try:
            await self._arrives(me)
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
            self._transports.add(far_writer.transport)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(me, reader, far_writer, writer))
                group.create_task(self._carry(me, far_reader, writer, far_writer))
        except* OSError:
            writer.transport.abort()
        finally:
            self._joined.discard(me)
            self._lost.discard(me)

    async def _carry(
        self,
        me: "asyncio.Task[None]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
    ) -> None:
        """Pass on what one end says, and its end."""
        while chunk := await reader.read(_CHUNK_BYTES):
            await self._arrives(me)
            if me not in self._lost:
                writer.write(chunk)
                await writer.drain()
        await self._arrives(me)
        for each in (writer, back):
            each.transport.abort()
            self._transports.discard(each.transport)

    async def _arrives(self, me: "asyncio.Task[None]") -> None:
        """Return once what is sent now would arrive; at once for what is thrown away."""
        if me not in self._lost:
            await self._passes.wait()


@asynccontextmanager
async def hole(target_port: int, *, late: bool) -> AsyncGenerator[Hole]:
    """Run one; every connection is cut afterwards."""
    running = Hole(target_port, late=late)
    server = await asyncio.start_server(running.serve, LOOPBACK, 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        await running.close()
        await server.wait_closed()
