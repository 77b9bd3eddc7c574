"""Two real regions and a plain model of them: what the rules stand on."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
)

from tests.machine.clock import Clock
from tests.machine.judge import Judge, Watched
from tests.machine.model import REGIONS, Model, Place
from tests.redis_keys import connected, flush
from tests.scripts.world import PLACE, client_of, keys_at
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Claim,
    Exported,
    Record,
)

MAX_CRASHES, MAX_TASKS = 2, 5
LEASE_MS, RETRY_MS, DELAY_MS, EXPIRY_MS = 30_000, 20_000, 45_000, 90_000
DEAD_MS = 2 * 86_400_000  # retention of what is dead
AHEAD = 9_000_000_000_000_000  # a token of the year 2255, in microseconds
# How long anybody acts on what it has read; memories of moves live twice as long.
HANDS_MS = 300_000
# No st.integers: Hypothesis mixes numbers into it that depend on which modules are loaded.
regions = st.sampled_from(REGIONS)
lost = st.sampled_from([False, False, True])  # the call is made, its reply never arrives
picks = st.sampled_from(range(10))
leases = st.sampled_from([0, LEASE_MS])
drifts = st.sampled_from([-1, 0, 0, 1])  # of an epoch, from the one that was read

Thing = TypeVar("Thing")


def picked(things: Sequence[Thing], pick: int) -> Thing:
    """One of the things, mostly a late one."""
    return things[-1 - pick % len(things)]


def other(region: str) -> str:
    return REGIONS[1 - REGIONS.index(region)]


def dead_at(place: Place | None, epoch: int) -> bool:
    return place is not None and (place.state, place.epoch) == (State.DEAD_LETTER, epoch)


@dataclass(frozen=True, slots=True)
class Move:
    """A move as a courier read it."""

    source: str
    exported: Exported
    read_ms: int

    @property
    def task_id(self) -> str:
        return self.exported.record.task_id

    @property
    def epoch(self) -> int:
        return self.exported.epoch

    @property
    def target(self) -> str:
        return self.exported.target


class World(RuleBasedStateMachine):
    """One partition in two regions, and what somebody holds in hand of it."""

    servers: ClassVar[list[RedisProcess]]
    fleet: ClassVar[Fleet]  # on these
    steps: ClassVar[int] = 0  # of all runs

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        for server in self.servers:
            flush(server.port)
        self.raw = {
            name: connected(server.port)
            for name, server in zip(REGIONS, self.servers, strict=False)
        }
        self.clock = Clock(self.raw)
        fleet = self.fleet
        self.plain = {name: RegionStore(fleet.regions[name], fleet) for name in REGIONS}
        for store in self.plain.values():
            self.run(store.start())
        self.judge = Judge(self.raw, self.clock)
        self.stores: dict[str, Any] = {
            name: Watched(self.judge, name, store) for name, store in self.plain.items()
        }
        self.model = Model(self.clock.now_ms)
        # What somebody holds in hand, however old.
        self.claims: list[Claim] = []
        self.records: list[Record] = []
        self.moves: list[Move] = []
        self.has_it: set[tuple[str, int]] = set()  # the target said: imported, or known
        self.fenced: dict[tuple[str, int], int] = {}  # the target said: never; and when
        self.let_go: set[tuple[str, int]] = set()

    def run(self, call: Any) -> Any:
        return self.runner.run(call)

    def advance(self, by_ms: int) -> None:
        """Time passes, and with it whatever has a TTL."""
        for region, key in self.clock.advance(by_ms):
            self.model.forget(region, key.removeprefix(keys_at().prefix))
        now_ms = self.model.now_ms = self.clock.now_ms
        self.judge.look()
        for store in self.plain.values():
            client_of(store).nodes.note_clock(PLACE, now_ms)
        self.moves = [move for move in self.moves if now_ms - move.read_ms < HANDS_MS]
        self.fenced = {key: at for key, at in self.fenced.items() if now_ms - at < HANDS_MS}

    # No sum of these comes within a second of any limit: real time passes as well, a little.
    @rule(by_ms=st.sampled_from([7_000, 26_000, 26_000, 61_000, 61_000, 660_000, 90_000_000]))
    def time_passes(self, by_ms: int) -> None:
        self.advance(by_ms)

    @precondition(lambda self: self.model.places)
    @rule(region=regions)
    def scripts_are_forgotten(self, region: str) -> None:
        """As after a restart."""
        self.raw[region].script_flush()

    @precondition(lambda self: self.model.places)
    @rule(region=regions, really=st.sampled_from([False, False, True]))
    def connections_are_lost(self, region: str, really: bool) -> None:
        if not really:  # it takes longer than all the rest
            return
        self.raw[region].client_kill_filter(_type="normal", skipme=True)
        self.run(self._until_it_answers(region))

    async def _until_it_answers(self, region: str) -> None:
        async with asyncio.timeout(30):
            while not await self._answers(region):
                pass
        client_of(self.plain[region]).nodes.note_clock(PLACE, self.clock.now_ms)

    async def _answers(self, region: str) -> bool:
        try:
            await self.plain[region].probe()
        except StoreUnavailable:
            return False
        return True

    def teardown(self) -> None:
        for store in self.plain.values():
            self.run(store.close())
        self.runner.close()
