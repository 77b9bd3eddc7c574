"""How the other regions look to a courier: read when there is something to move, not before."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from tradewind.clock import Clock
from tradewind.crew import muster
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.ports import Durables, Vitals
from tradewind.view import RegionView

_FRESH_MS: Final = 1_500  # heartbeats come every second: reading more often tells nothing new
_FULL_FOR_MS: Final = 5_000  # after a refusal for memory; what a router waits, too
_LOOK_MS: Final = 30_000  # how a Redis is run changes seldom; as often as a router


class Other(Vitals, Durables, Protocol):
    """What this asks of another region."""


class Views:
    """The present views of all regions but the courier's own."""

    def __init__(
        self,
        region: str,
        fleet: Fleet,
        others: Mapping[str, Other],
        clock: Clock,
        *,
        allow_eviction: bool = False,
    ) -> None:
        """`others` by region name; `region` is the courier's own.

        `allow_eviction`: move tasks also to where Redis may delete them.
        """
        self._allow_eviction = allow_eviction
        self._region, self._fleet, self._others, self._clock = region, fleet, others, clock
        self._lock = asyncio.Lock()
        self._views: list[RegionView] = []
        self._read_ms = -float("inf")
        self._full_until_ms: dict[str, float] = {}
        self._lacks: dict[str, tuple[float, frozenset[str]]] = {}  # and until when it holds

    def follow(self, fleet: Fleet, others: Mapping[str, Other]) -> None:
        """Go on with another fleet, and read all of its regions anew."""
        self._lacks = {}
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

    async def _look(self, name: str, vitals: Other) -> RegionView:
        try:
            async with asyncio.timeout(self._fleet.health.timeout_ms / SECOND_MS):
                probe = await vitals.probe()
                workers = await vitals.workers()
                lacks = await self._lacking(name, vitals)
        except (StoreError, TimeoutError):
            prior_ms = self._fleet.rtt_ms.get((self._region, name), float("inf"))
            return RegionView(name, prior_ms, health="UNKNOWN")
        is_full = probe.full or self._full_until_ms.get(name, 0.0) > self._clock.monotonic_ms()
        view = muster(workers).view(name, probe.rtt_ms, full=is_full)
        evicts = bool(probe.evicts) and not self._allow_eviction
        return replace(view, evicts=evicts, lacks=lacks)

    async def _lacking(self, name: str, other: Other) -> frozenset[str]:
        """Durabilities that some queue asks for and its Redis cannot give. Raises StoreError."""
        if not self._fleet.durable:
            return frozenset()
        until_ms, lacks = self._lacks.get(name, (0.0, frozenset[str]()))
        now_ms = self._clock.monotonic_ms()
        if now_ms >= until_ms:
            lacks = frozenset[str](await other.lacks())
            self._lacks[name] = (now_ms + _LOOK_MS, lacks)
        return lacks
