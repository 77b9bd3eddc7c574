"""The settler against a real store: what cannot be packed, and what it does to its neighbours."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.patience import until
from tests.unit.worker.world import KEEP_MS, PLACE, Parts, a_task, claims
from tradewind.errors import StoreError, StoreMoving
from tradewind.fleet import Fleet
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Bury,
    Cancel,
    Crash,
    Failure,
    Finish,
    Record,
    Release,
    RetryAt,
    Settled,
    Settlement,
)
from worker.patience import Patience, lasting
from worker.settler import Settler
from worker.slot import Slot

BAD = "\udcff"  # a lone surrogate: no Redis command can hold it


@asynccontextmanager
async def settler_of(
    store: RegionStore, fleet: Fleet
) -> AsyncGenerator[tuple[Settler, dict[str, str]]]:
    """A settler at work, and what it says of each task."""
    parts = Parts(store, fleet)
    said: dict[str, str] = {}
    settler = Settler(
        store,
        fleet=fleet,
        guard=parts.guard,
        reach=parts.reach,
        on_settled=lambda settled: said.update({s.claim.task_id: what for s, what in settled}),
    )
    running = asyncio.create_task(settler.run())
    yield settler, said
    running.cancel()


async def settle(
    store: RegionStore, fleet: Fleet, settlements: list[Settlement]
) -> tuple[dict[str, str], list[Record]]:
    async with settler_of(store, fleet) as (settler, said):
        settler.put(settlements)
        async with asyncio.timeout(10):
            await settler.idle()
    records = [await store.read(settlement.claim.task_id) for settlement in settlements]
    return said, [record for record in records if isinstance(record, Record)]


async def test_a_report_that_cannot_be_packed_fails_alone_and_in_our_words(
    home: RegionStore, one_region: Fleet
) -> None:
    a, b, c, d, e, f = await claims(home, 6)
    bad, good = Failure("error", BAD), Failure("error", "x")
    _, records = await settle(
        home,
        one_region,
        [
            Finish(a, b"1", "application/json", KEEP_MS),
            Finish(b, b"1", BAD, KEEP_MS),
            RetryAt(c, KEEP_MS, bad),
            RetryAt(d, KEEP_MS, good),
            Bury(e, "exhausted", bad, KEEP_MS, may_move=False, failover="why"),
            Bury(f, "exhausted", good, KEEP_MS, may_move=False, failover="why"),
        ],
    )
    unsent = "internal error of the worker: the report could not be sent"
    assert [(r.state, r.failure.message if r.failure else "") for r in records] == [
        (State.COMPLETED, ""),
        (State.DEAD_LETTER, unsent),
        (State.FAILED, unsent),
        (State.FAILED, "x"),
        (State.DEAD_LETTER, unsent),
        (State.DEAD_LETTER, "x"),
    ]


async def test_what_nothing_can_be_left_out_of_is_given_up(
    home: RegionStore, one_region: Fleet
) -> None:
    good, bad = await claims(home, 2)
    said, _ = await settle(home, one_region, [Release(good), Release(bad._replace(queue=BAD))])
    assert said == {good.task_id: "released"}


async def test_an_end_other_than_asked_is_counted_as_what_it_is(
    home: RegionStore, one_region: Fleet
) -> None:
    wanted = await claims(home, 5)
    retried, buried, released, cancelled, finished = wanted
    for claim in wanted:
        await home.cancel(claim.task_id, retention_ms=KEEP_MS)
    failure = Failure("error", "x")
    said, records = await settle(
        home,
        one_region,
        [
            RetryAt(retried, KEEP_MS, failure),
            Bury(buried, "exhausted", failure, KEEP_MS, may_move=True),
            Release(released),
            Cancel(cancelled, KEEP_MS),
            Finish(finished, b"1", "application/json", KEEP_MS),
        ],
    )
    assert [said[claim.task_id] for claim in wanted] == ["cancelled"] * 4 + ["completed"]
    assert [r.state for r in records] == [State.CANCELLED] * 4 + [State.COMPLETED]


async def test_a_crash_is_another_try_until_it_was_the_last_one(
    home: RegionStore, one_region: Fleet
) -> None:
    tasks = [a_task(0), a_task(1)._replace(max_crashes=1)]
    await home.enqueue(tasks, timeout_s=5)
    batch = await home.claim(
        PLACE, worker_id="w", lease_ms={"default": 60_000}, handlers=["t"], limit=2
    )
    crashes = [Crash(claim, "it exited", KEEP_MS, may_move=False) for claim in batch.claims]
    said, records = await settle(home, one_region, list[Settlement](crashes))
    assert [said[task.task_id] for task in tasks] == ["retried", "dead"]
    by_id = {record.task_id: record for record in records}
    assert [(by_id[t.task_id].state, by_id[t.task_id].death) for t in tasks] == [
        (State.PENDING, ""),
        (State.DEAD_LETTER, "crashed"),
    ]


async def test_a_fault_of_ours_at_one_batch_holds_up_neither_the_next_nor_the_worker(
    home: RegionStore, one_region: Fleet
) -> None:
    """What is never settled would count as backlog for ever, and a worker with that claims nothing.

    Nor may it keep its lease: somebody else is to hear of the task.
    """
    parts = Parts(home, one_region)
    said: list[str] = []

    def settled(settled: Sequence[tuple[Settlement, str]]) -> None:
        for settlement, outcome in settled:
            if outcome == "released":
                raise RuntimeError
            said.append(settlement.claim.task_id)

    settler = Settler(
        home, fleet=one_region, guard=parts.guard, reach=parts.reach, on_settled=settled
    )
    first, second = await claims(home, 2)
    slots = [Slot(claim, asyncio.get_running_loop()) for claim in (first, second)]
    parts.guard.hold(slots, parts.clock.monotonic_ms())
    running = asyncio.create_task(lasting(settler.run, "settling"))
    async with asyncio.timeout(10):
        settler.put([Release(first)])
        await settler.idle()
        assert (settler.backlog, parts.guard.held) == (0, 1)
        settler.put([Finish(second, b"1", "application/json", KEEP_MS)])
        await settler.idle()
    running.cancel()
    assert (said, settler.backlog, parts.guard.held) == ([second.task_id], 0, 0)


class HalfMoved:
    """A store one of whose tasks lies in a partition that moves, until that is over."""

    def __init__(self, store: RegionStore, task_id: str) -> None:
        self._store, self._task_id = store, task_id
        self.over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def finish(self, items: Sequence[Finish]) -> list[Settled | StoreError]:
        answers: list[Settled | StoreError] = []
        for item in items:
            if item.claim.task_id == self._task_id and not self.over:
                answers.append(StoreMoving("eu-west", PLACE))
            else:
                answers += await self._store.finish([item])
        return answers


async def test_what_ended_in_a_partition_that_moves_waits_alone_and_is_sent_again(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_: Patience) -> None:
        raise AssertionError("the others wait, too")

    monkeypatch.setattr(Patience, "wait", wait)
    first, *others = await claims(home, 6)
    store = HalfMoved(home, first.task_id)
    ends = [Finish(claim, b"1", "application/json", KEEP_MS) for claim in (first, *others)]
    async with settler_of(store, one_region) as (settler, said):  # pyright: ignore[reportArgumentType] - the store, and a fault
        settler.put(ends[:1])
        for number, end in enumerate(ends[1:], 1):
            settler.put([end])
            await until(lambda number=number: len(said) == number, "it has been sent")
        assert settler.backlog == 1
        store.over = True
        async with asyncio.timeout(10):
            await settler.idle()
    assert said == dict.fromkeys([end.claim.task_id for end in ends], "completed")
