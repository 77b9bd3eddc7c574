"""One router: the product's census and routes, fed by events of the simulation."""

import random
from dataclasses import replace

from bench.sim.engine import SimulatedClock
from router.census import Census
from router.route import Routes
from tradewind.fleet import Fleet
from tradewind.view import RegionView


class Lookout(Census):
    """The product's census without its two loops: what they do after each look is done here.

    `drained` is what no part of the product tells a census yet.
    """

    def __init__(self, fleet: Fleet, region: str, clock: SimulatedClock) -> None:
        """`region` is the router's own."""
        super().__init__(fleet, region, {}, clock)
        self.drained: set[str] = set()

    def views(self, origin: str | None = None) -> list[RegionView]:
        """Return what the census sees, with operators' words."""
        views = super().views(origin)
        if not self.drained:
            return views
        return [
            replace(view, state="DRAINING") if view.name in self.drained else view for view in views
        ]


class Node:
    """A router process of one region."""

    def __init__(self, census: Lookout, number: int, fleet: Fleet, seed: int) -> None:
        """`number` tells the routers of a region apart."""
        self.region, self.name, self.fleet = census.region, f"{census.region}/{number}", fleet
        self.census = census
        self.chance = random.Random(f"{seed}/{self.name}")
        self.routes = Routes(fleet, census, self.chance)
        self.explains = False  # whether decisions say which regions were eligible, a tenth slower
