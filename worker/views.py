"""How the other regions look to a courier: read when there is something to move, not before."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from tradewind.clock import Clock
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.ports import Vitals
from tradewind.task import LiveWorker
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
        return view_of(name, rtt_ms, workers, full=is_full)


def view_of(name: str, rtt_ms: float, workers: Sequence[LiveWorker], *, full: bool) -> RegionView:
    """A region as its live workers describe it."""
    beats = [worker.heartbeat for worker in workers]
    served: dict[str, frozenset[str]] = {}
    newest: dict[int, tuple[int, int]] = {}  # partition -> (server time, ready tasks)
    for beat in beats:
        for queue in beat.queues:
            served[queue] = served.get(queue, frozenset()).union(beat.handlers)
        for partition, (depth, at_ms) in beat.depths.items():
            newest[partition] = max(newest.get(partition, (0, 0)), (at_ms, depth))
    timed = [(beat.service_s, beat.slots) for beat in beats if beat.service_s]
    return RegionView(
        name,
        rtt_ms,
        depth=sum(depth for _, depth in newest.values()),
        slots=sum(beat.slots for beat in beats),
        free_slots=sum(max(beat.slots - beat.busy, 0) for beat in beats),
        rate=sum(beat.rate for beat in beats),
        service_s=sum(s * n for s, n in timed) / (sum(n for _, n in timed) or 1),
        full=full,
        served=served,
    )
