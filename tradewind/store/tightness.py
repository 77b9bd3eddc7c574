"""Whether a primary is nearly full, as its own process heard lately: what finishes goes by it.

Asked beside the calls, at most once a second a primary, and only while tasks finish there.
"""

import asyncio
import contextlib
import time
from typing import Final

from tradewind.errors import StoreError
from tradewind.store.region_client import RegionClient

TIGHT: Final = 0.9  # of maxmemory; below it there is room for new work
_EVERY_S: Final = 1.0
_ANSWER_S: Final = 2.0


class Tightness:
    """Of all primaries of a region. Belongs to one event loop."""

    def __init__(self, client: RegionClient) -> None:
        """Nothing is known yet."""
        self._client = client
        self._tight: dict[str, bool] = {}  # by address
        self._asked_s: dict[str, float] = {}  # monotonic
        self._asking: set[asyncio.Task[None]] = set()

    def at(self, partition: int) -> bool:
        """Whether the partition's primary is nearly full; False until it has been heard."""
        address, now_s = self._client.nodes.address(partition), time.monotonic()
        if now_s - self._asked_s.get(address, -_EVERY_S) >= _EVERY_S:
            self._asked_s[address] = now_s
            asking = asyncio.create_task(self._ask(address, partition))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        return self._tight.get(address, False)

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        for asking in self._asking:
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _ask(self, address: str, partition: int) -> None:
        with contextlib.suppress(StoreError):  # then what was heard before holds
            link = await self._client.nodes.owner(partition)
            (answer,) = await link.call([["INFO", "memory"]], timeout_s=_ANSWER_S)
            if isinstance(answer, bytes):  # else the login may not ask
                self._tight[address] = _is_tight(answer)


def _is_tight(info: bytes) -> bool:
    lines = (line.partition(b":") for line in info.splitlines())
    said = {name: value for name, _, value in lines}
    used = int(said.get(b"used_memory", 0)) - int(said.get(b"mem_not_counted_for_evict", 0))
    most = int(said.get(b"maxmemory", 0))
    return most > 0 and used >= TIGHT * most
