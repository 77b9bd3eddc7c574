"""What if routers knew more, or counted otherwise? The product's decisions over other views.

A missed target has a cause; these tell causes apart. None of them is what the product does today.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.sim.engine import SimulatedClock
from bench.sim.node import Lookout
from bench.sim.site import Site
from tradewind.fleet import Fleet
from tradewind.task import LiveWorker
from tradewind.view import RegionView

NAMES: Mapping[str, str] = {
    "routers": "each router knows how many others there are",
    "own": "depth, free slots and age are those of the heartbeats; own tasks since then are added",
    "whole": "as own, and every enqueue reports the whole region: ready tasks and free slots",
    "truth": "every view is exact and fresh, with what is on its way from all routers",
}


class Corrected(Lookout):
    """A lookout whose views are changed as NAMES say."""

    def __init__(
        self,
        fleet: Fleet,
        region: str,
        clock: SimulatedClock,
        what_ifs: frozenset[str],
        routers: int,
    ) -> None:
        """`routers` is how many there are in all regions."""
        super().__init__(fleet, region, clock)
        self.sites: Mapping[str, Site] = {}
        self._what_ifs, self._routers = what_ifs, routers
        self._sent_ms = {name: deque[float]() for name in fleet.regions}
        self._beats_ms = dict.fromkeys(fleet.regions, 0.0)
        self._depths = dict.fromkeys(fleet.regions, 0)
        self._free: dict[str, int] = {}

    def sent(self, region: str, names: Mapping[str, int]) -> None:
        """Remember when, until a heartbeat is newer."""
        super().sent(region, names)
        self._sent_ms[region].extend([self._clock.monotonic_ms()] * sum(names.values()))

    def mustered(self, region: str, workers: Sequence[LiveWorker]) -> None:
        """Forget what the heartbeats include: what arrived before the oldest of them."""
        super().mustered(region, workers)
        if not workers:
            return
        age_ms = self._trip_ms(region) + max(worker.age_ms for worker in workers)
        if not self._is_newer(region, self._clock.monotonic_ms() - age_ms):
            return
        self._free.pop(region, None)
        newest: dict[int, tuple[int, int]] = {}
        for worker in workers:
            for partition, (ready, stamp) in worker.heartbeat.depths.items():
                newest[partition] = max(newest.get(partition, (0, 0)), (stamp, ready))
        self._depths[region] = sum(ready for _, ready in newest.values())

    def told(self, region: str, at_ms: float, ready: int, free: int) -> None:
        """Take the whole region's load as an enqueue found it at `at_ms`."""
        if self._is_newer(region, at_ms):
            self.news += 1
            self._depths[region], self._free[region] = ready, free

    def views(self, origin: str | None = None) -> list[RegionView]:
        """Return the views with what would be known."""
        return [self._corrected(view) for view in super().views(origin)]

    def _corrected(self, view: RegionView) -> RegionView:
        if not self._what_ifs.isdisjoint({"own", "whole"}):
            age_s = (self._clock.monotonic_ms() - self._beats_ms[view.name]) / 1000
            own = len(self._sent_ms[view.name])
            free = self._free.get(view.name, self._signs[view.name].crew.free_slots)
            depth = max(0, round(self._depths[view.name] + own - view.rate * age_s))
            view = replace(view, depth=depth, free_slots=free, in_flight=0, age_s=age_s)
        if "routers" in self._what_ifs:
            view = replace(view, routers=self._routers)
        if "truth" in self._what_ifs and view.name in self.sites:
            site = self.sites[view.name]
            view = replace(
                view,
                depth=len(site.queue),
                in_flight=site.coming,
                free_slots=site.free_slots,
                slots=site.slots,
                age_s=0.0,
                routers=1,
            )
        return view

    def _is_newer(self, region: str, at_ms: float) -> bool:
        """Take a report's time, and forget the tasks that it includes."""
        if at_ms < self._beats_ms[region]:
            return False
        self._beats_ms[region] = at_ms
        sent_ms, trip_ms = self._sent_ms[region], self._trip_ms(region)
        while sent_ms and sent_ms[0] + trip_ms <= at_ms:
            sent_ms.popleft()
        return True

    def _trip_ms(self, region: str) -> float:
        return self._signs[region].rtt.ms / 2
