"""One way to a server, that a test can spoil: a link of tradewind.local.wan in the test's loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.wan import Link, WanProxy


class Way:
    """A link that is well, and without delay, until it is told to be otherwise."""

    def __init__(self, well: Link) -> None:
        self._well, self._proxy = well, WanProxy([well])
        self.port = well.listen_port

    async def become(self, **how: Any) -> None:
        """Be so from now on, in the fields of Link; without any it is well again."""
        await self._proxy.change([replace(self._well, **how)])

    async def open(self) -> None:
        """Listen."""
        await self._proxy.start()

    async def close(self) -> None:
        """Cut every connection, and take no more."""
        await self._proxy.stop()


@asynccontextmanager
async def way_to(target_port: int) -> AsyncGenerator[Way]:
    """A way to what listens there, for the length of a block."""
    way = Way(Link(free_ports(1)[0], LOOPBACK, target_port, 0))
    await way.open()
    try:
        yield way
    finally:
        await way.close()
