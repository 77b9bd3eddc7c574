"""How the other regions look to a courier: read when there is something to move, not before."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from tradewind.clock import Clock
from tradewind.crew import muster
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.ports import Vitals
from tradewind.view import RegionView

_FRESH_MS: Final = 1_500  # heartbeats come every second: reading more often tells nothing new
_FULL_FOR_MS: Final = 5_000  # after a refusal for memory; what a router waits, too


class Views:
    """The present views of all regions but the courier's own."""

    def __init__(
        self, region: str, fleet: Fleet, others: Mapping[str, Vitals], clock: Clock
    ) -> None:
        """`others` by region name; `region` is the courier's own."""
        self._region, self._fleet, self._others, self._clock = region, fleet, others, clock
        self._lock = asyncio.Lock()
        self._views: list[RegionView] = []
        self._read_ms = -float("inf")
        self._full_until_ms: dict[str, float] = {}

    def follow(self, fleet: Fleet, others: Mapping[str, Vitals]) -> None:
        """Go on with another fleet, and read all of its regions anew."""
        self._fleet, self._others = fleet, others
        self._read_ms = -float("inf")

    async def current(self) -> Sequence[RegionView]:
        """Views at most _FRESH_MS old. A region that does not answer is UNKNOWN. Never raises."""
        async with self._lock:
            while self._clock.monotonic_ms() - self._read_ms > _FRESH_MS:
                others = self._others
                views = await asyncio.gather(*(self._look(*each) for each in others.items()))
                if others is self._others:
                    self._views = list(views)
                    self._read_ms = self._clock.monotonic_ms()
            return self._views

    def filled(self, name: str) -> None:
        """The region has refused for memory."""
        self._full_until_ms[name] = self._clock.monotonic_ms() + _FULL_FOR_MS
        self._read_ms = -float("inf")

    async def _look(self, name: str, vitals: Vitals) -> RegionView:
        try:
            async with asyncio.timeout(self._fleet.health.timeout_ms / SECOND_MS):
                rtt_ms = await vitals.probe()
                workers = await vitals.workers()
        except (StoreError, TimeoutError):
            prior_ms = self._fleet.rtt_ms.get((self._region, name), float("inf"))
            return RegionView(name, prior_ms, health="UNKNOWN")
        is_full = self._full_until_ms.get(name, 0.0) > self._clock.monotonic_ms()
        return muster(workers).view(name, rtt_ms, full=is_full)
