"""Two real regions and a plain model of them: what the rules stand on."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
)

from tests.conftest import fleet_on
from tests.machine.model import REGIONS, Model, Place
from tests.redis_keys import connected, flush
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Claim,
    Exported,
    Record,
)

MAX_CRASHES, MAX_TASKS = 2, 5
LONG_MS = 600_000
AHEAD = 9_000_000_000_000_000  # a token of the year 2255, in microseconds
regions = st.sampled_from(REGIONS)
lost = st.sampled_from([False, False, True])  # the call is made, its reply never arrives
picks = st.integers(0, 9)
leases = st.sampled_from([0, LONG_MS])
drifts = st.sampled_from([-1, 0, 0, 1])  # of an epoch, from the one that was read

Thing = TypeVar("Thing")


def picked(things: Sequence[Thing], pick: int) -> Thing:
    """One of the things, mostly a late one."""
    return things[-1 - pick % len(things)]


def other(region: str) -> str:
    return REGIONS[1 - REGIONS.index(region)]


def dead_at(place: Place | None, epoch: int) -> bool:
    return place is not None and (place.state, place.epoch) == (State.DEAD_LETTER, epoch)


class World(RuleBasedStateMachine):
    """One partition in two regions, and what somebody holds in hand of it."""

    servers: ClassVar[list[RedisProcess]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        fleet = fleet_on(self.servers)
        for server in self.servers:
            flush(server.port)
        self.stores = {name: RegionStore(fleet.regions[name], fleet) for name in REGIONS}
        self.raw = {
            name: connected(server.port)
            for name, server in zip(REGIONS, self.servers, strict=False)
        }
        self.model = Model()
        # What somebody holds in hand, however old.
        self.claims: list[Claim] = []
        self.records: list[Record] = []
        self.exports: list[tuple[str, Exported]] = []  # with their source
        self.has_it: set[tuple[str, int]] = set()  # the target said: imported, or known
        self.fenced: set[tuple[str, int]] = set()  # the target said: never
        self.let_go: set[tuple[str, int]] = set()

    def run(self, call: Any) -> Any:
        return self.runner.run(call)

    def teardown(self) -> None:
        for store in self.stores.values():
            self.run(store.close())
        self.runner.close()
