"""A server that says everything again, and links to it that can be spoilt."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.wan import Link, WanProxy, stop_listening

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


async def cut_off(reader: asyncio.StreamReader) -> None:
    # Reset or closed: either way no connection is left hanging.
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read(1) == b""


@contextlib.asynccontextmanager
async def changeable(handler: Handler = echo) -> AsyncGenerator[tuple[WanProxy, Link]]:
    target = await asyncio.start_server(handler, LOOPBACK, 0)
    link = Link(free_ports(1)[0], LOOPBACK, target.sockets[0].getsockname()[1], 0)
    proxy = WanProxy([link])
    await proxy.start()
    try:
        yield proxy, link
    finally:
        await proxy.stop()
        await stop_listening(target)


async def echoes(link: Link) -> bytes:
    """What comes back through a connection of its own; nothing if it breaks."""
    reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
    try:
        writer.write(b"ping")
        return await reader.read(4)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
