import asyncio
import itertools

import pytest

from tests.unit.worker.world import PLACE, Parts, a_task
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet
from tradewind.limits import HOUR_MS, MAX_EXPIRE, MINUTE_MS
from tradewind.store.region_store import RegionStore
from worker.courier import Courier
from worker.couriers.imports import Imports
from worker.upkeep import Keeper
from worker.views import Views


async def test_more_than_one_sweep_ends_is_ended_at_once(
    home: RegionStore, one_region: Fleet
) -> None:
    """The clock stands still: a partition is swept again only where a sweep asks for it."""
    batch = await home.claim(
        PLACE, worker_id="w", lease_ms={"default": 1_000}, handlers=["t"], limit=1
    )
    number = 2 * MAX_EXPIRE + 2
    soon_ms = batch.now_ms + 500
    await home.enqueue([a_task(i, expires_ms=soon_ms) for i in range(number)], timeout_s=5)
    clock = ManualClock()
    parts = Parts(home, one_region, clock=clock)
    swept: list[int] = []
    all_ended = asyncio.Event()

    def note(partition: int, ended: int) -> None:
        if partition == PLACE:
            swept.append(ended)
        if sum(swept) == number:
            all_ended.set()

    keeper = Keeper(
        home,
        parts.pool,
        courier=Courier(home, one_region, {}, Views("eu-west", one_region, {}, clock), clock=clock),
        imports=Imports(home, one_region, {}),
        reach=parts.reach,
        clock=clock,
        on_swept=lambda partition, what: note(partition, what.expired),
        on_dead=lambda _partition: None,
    )
    # By the server's clock, which rules: it promotes nothing, and sweeps nothing of ours.
    while (await home.sweep(0, worker_id="w", queues=["default"], courier=False)).now_ms < soon_ms:
        pass
    keeping = asyncio.create_task(keeper.run())
    async with asyncio.timeout(10):
        await all_ended.wait()
    keeping.cancel()
    assert swept == [MAX_EXPIRE, MAX_EXPIRE, 2]


class Rounds:
    """A keeper whose clock only the test moves, and the partitions that it has swept."""

    def __init__(self, home: RegionStore, fleet: Fleet) -> None:
        self.clock = ManualClock()
        parts = Parts(home, fleet, clock=self.clock)
        self.swept: list[int] = []
        self._changed = asyncio.Event()
        views = Views("eu-west", fleet, {}, self.clock)
        self.keeper = Keeper(
            home,
            parts.pool,
            courier=Courier(home, fleet, {}, views, clock=self.clock),
            imports=Imports(home, fleet, {}),
            reach=parts.reach,
            clock=self.clock,
            on_swept=lambda partition, _what: self._note(partition),
            on_dead=lambda _partition: None,
        )

    def _note(self, partition: int) -> None:
        self.swept.append(partition)
        self._changed.set()

    async def until(self, number: int) -> list[int]:
        """Wait for so many sweeps, and let go of them."""
        async with asyncio.timeout(10):
            while len(self.swept) < number:
                self._changed.clear()
                await self._changed.wait()
        swept, self.swept = sorted(self.swept), []
        return swept


async def test_a_round_takes_along_what_it_would_wake_up_for_in_a_moment(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = itertools.cycle((0.90, 0.94, 0.96, 0.97))  # of ten seconds, by turns

    def by_turns(_low: float, _high: float) -> float:
        return next(shares)

    monkeypatch.setattr("worker.upkeep.random.uniform", by_turns)
    rounds = Rounds(home, one_region)
    rounds.clock.advance(2 * MINUTE_MS)  # no alert any more
    keeping = asyncio.create_task(rounds.keeper.run())
    every = await rounds.until(home.partitions)
    assert every == list(range(home.partitions))
    rounds.clock.advance(9_000)
    rounds.keeper.visit(0, in_ms=HOUR_MS)  # wakes it up
    first = await rounds.until(home.partitions // 2)
    rounds.clock.advance(700)
    rounds.keeper.visit(0, in_ms=HOUR_MS)
    second = await rounds.until(home.partitions // 2)
    keeping.cancel()
    assert sorted(first + second) == every


async def test_a_visit_keeps_its_time_whatever_else_is_swept(
    home: RegionStore, one_region: Fleet
) -> None:
    rounds = Rounds(home, one_region)
    rounds.clock.advance(2 * MINUTE_MS)
    keeping = asyncio.create_task(rounds.keeper.run())
    await rounds.until(home.partitions)
    rounds.keeper.visit(PLACE, in_ms=12_000)
    rounds.clock.advance(11_000)
    rounds.keeper.visit(PLACE + 1)
    assert PLACE in await rounds.until(home.partitions)  # its round, and that of all others
    rounds.clock.advance(1_000)
    rounds.keeper.visit(PLACE + 1)
    assert await rounds.until(2) == [PLACE, PLACE + 1]
    keeping.cancel()
