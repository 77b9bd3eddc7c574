"""The ports Outbox and Inbox: a task that waits leaves, and is what it was if it may not arrive."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_task,
    claim_batch,
    claimed,
    dead,
    outcome,
    record_of,
    stored,
)
from tradewind.state import State
from tradewind.task import (
    Cancelled,
    Crash,
    Evacuated,
    Exported,
    Lane,
    Priority,
    Record,
    RetryAt,
    Stored,
)

DUE_MS = 60_000
LATER_MS = 10_000  # how much of that has passed when it leaves


async def ready(world: World) -> Record:
    task = await stored(world.store, a_task(expires_ms=world.now_ms() + DAY_MS))
    return await record_of(world.store, task.task_id)


async def suspect(world: World) -> Record:
    claim = await claimed(world.store, await stored(world.store))
    await world.store.crashed([Crash(claim, "died", DAY_MS, may_move=False)])
    return await record_of(world.store, claim.task_id)


async def delayed(world: World) -> Record:
    expires_ms = world.now_ms() + DAY_MS
    task = await stored(world.store, a_task(delay_ms=DUE_MS, expires_ms=expires_ms))
    await world.advance(LATER_MS)
    return await record_of(world.store, task.task_id)


async def between_attempts(world: World) -> Record:
    claim = await claimed(world.store)
    await world.store.retry([RetryAt(claim, DUE_MS, FAILURE)])
    await world.advance(LATER_MS)
    return await record_of(world.store, claim.task_id)


WAITING: dict[str, Callable[[World], Awaitable[Record]]] = {
    "ready": ready,
    "a suspect": suspect,
    "delayed": delayed,
    "between attempts": between_attempts,
}
every = pytest.mark.parametrize("wait", WAITING.values(), ids=WAITING)


async def leave(world: World, record: Record) -> Exported:
    exported = await world.store.begin_export(record, "us-east", groups=["eu"], reason="evacuation")
    assert exported is not None
    return exported


async def arrive(store: AnyStore, task: Exported) -> str:
    return await store.import_task(task, hops=b"hops", timeout_s=5, delay_ms=task.delay_ms)


async def came_back(world: World, task: Exported, reason: str = "full") -> State | None:
    return await world.store.abort_export(
        task.record.task_id, task.epoch, "us-east", reason=reason, retry_after_ms=9_000
    )


async def started(store: AnyStore) -> list[str]:
    batch = await claim_batch(store, suspects=10)
    return [claim.task_id for claim in batch.claims]


# --- leaving


@every
async def test_a_waiting_task_leaves_with_the_reason_and_the_state_it_left_in(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    exported = await leave(world, record)
    assert (exported.former, exported.reason) == (record.state, "evacuation")
    assert exported.begun_ms == world.now_ms()
    due = record.state in {State.SCHEDULED, State.FAILED}
    assert exported.delay_ms == (DUE_MS - LATER_MS if due else 0)
    assert exported.record.state is State.MOVING
    assert await world.store.moving(PLACE, limit=5) == [exported]
    assert await leave(world, record) == exported, "a repeat"
    assert (await world.store.counts())["mail"].moving == 1


@every
async def test_what_is_moving_is_neither_started_nor_ended_nor_stored_again(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    await leave(world, record)
    await world.advance(2 * DAY_MS)  # past its due time and its expiry
    assert await started(world.store) == []
    await world.store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert not await world.store.redrive(record.task_id, record.epoch + 1)
    assert not await world.store.purge(record.task_id, record.epoch + 1)
    again = await outcome(world.store, a_task(record.task_id))
    assert again == Stored(record.task_id, State.MOVING, created=False)
    assert (await record_of(world.store, record.task_id)).state is State.MOVING


@every
async def test_an_aborted_move_restores_what_waited(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    task = await leave(world, record)
    assert await came_back(world, task) is record.state
    restored = await record_of(world.store, record.task_id)
    assert restored == replace(record, epoch=2, failover="full", revision=restored.revision)
    assert await came_back(world, task) is None
    assert await world.store.moving(PLACE, limit=5) == []
    if record.state in {State.SCHEDULED, State.FAILED}:
        assert await started(world.store) == []
        await world.advance(DUE_MS - LATER_MS)
    assert await started(world.store) == [record.task_id]
    assert (await record_of(world.store, record.task_id)).failover == "", "it runs here after all"


@every
async def test_an_aborted_move_wakes_somebody(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    task = await leave(world, record)
    while await world.store.wait(["mail"], [PLACE], suspects=True, timeout_s=0.05) is not None:
        pass
    await came_back(world, task)
    woken = await world.store.wait(["mail"], [PLACE], suspects=True, timeout_s=5)
    assert woken == PLACE


@pytest.mark.parametrize("wait", [ready, delayed])
async def test_what_expired_under_way_and_came_back_ends_expired(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    task = await leave(world, record)
    await world.advance(DAY_MS)
    await came_back(world, task)
    await world.store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert (await record_of(world.store, record.task_id)).state is State.EXPIRED


@every
async def test_what_came_back_is_cancelled_as_before(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    task = await leave(world, record)
    assert await world.target.refuse_import(record.task_id, 2) == "fenced"
    await came_back(world, task)
    answer = await world.store.cancel(record.task_id, retention_ms=DAY_MS)
    assert answer == Cancelled(record.task_id)
    assert await arrive(world.target, task) == "refused"


async def test_what_came_back_goes_first(world: World) -> None:
    first = await ready(world)
    second = await ready(world)
    await came_back(world, await leave(world, second))
    assert await started(world.store) == [second.task_id, first.task_id]


async def test_a_task_that_was_claimed_meanwhile_does_not_leave(world: World) -> None:
    record = await ready(world)
    await started(world.store)
    began = await world.store.begin_export(record, "us-east", groups=["eu"], reason="evacuation")
    assert began is None


# --- arriving


@every
async def test_a_waiting_task_arrives_with_all_that_it_still_has(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    task = await leave(world, record)
    assert await arrive(world.target, task) == "imported"
    arrived = await record_of(world.target, record.task_id)
    due = record.state in {State.SCHEDULED, State.FAILED}
    assert arrived.state is (State.SCHEDULED if due else State.PENDING)
    assert arrived.next_attempt_ms == (world.now_ms() + task.delay_ms if due else 0)
    assert (arrived.attempts, arrived.crashes) == (0, record.crashes)
    assert (arrived.expires_ms, arrived.created_ms) == (record.expires_ms, record.created_ms)
    assert (arrived.hops, arrived.failure) == (b"hops", None)
    if due:
        assert await started(world.target) == []
        await world.advance(task.delay_ms)
    assert await started(world.target) == [record.task_id]


async def test_only_moves_of_dead_tasks_count_as_hops(world: World) -> None:
    await arrive(world.target, await leave(world, await ready(world)))
    (claim,) = (await claim_batch(world.target)).claims
    assert (claim.hop_count, claim.epoch, claim.attempt) == (0, 2, 1)


# --- saying why it stays


@every
async def test_a_waiting_task_says_why_it_has_not_left_until_it_runs(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    assert await world.store.keep(record, reason="pinned", retry_after_ms=None)
    kept = await record_of(world.store, record.task_id)
    assert (kept.failover, kept.settled, kept.revision) == ("pinned", False, record.revision)
    assert not await world.store.keep(replace(record, epoch=2), reason="x", retry_after_ms=None)
    await world.advance(DUE_MS)
    assert await started(world.store) == [record.task_id]
    assert (await record_of(world.store, record.task_id)).failover == ""


async def test_a_dead_task_s_reason_is_not_noted_on_one_that_was_redriven(world: World) -> None:
    record = await dead(world.store)
    await world.store.redrive(record.task_id, 1)
    assert not await world.store.keep(record, reason="old news", retry_after_ms=None)
    assert (await record_of(world.store, record.task_id)).failover == ""


# --- what waits


async def found(
    store: AnyStore, older_than_ms: int | None = None, groups: list[str] | None = None
) -> dict[Lane, list[str]]:
    lanes = await store.lanes(PLACE)
    parts = [
        await store.stranded(
            PLACE, lane, offset=0, limit=9, older_than_ms=older_than_ms, groups=groups
        )
        for lane in lanes
    ]
    return {
        lane: [record.task_id for record in part.records]
        for lane, part in zip(lanes, parts, strict=True)
        if part.records
    }


async def test_what_waits_is_listed_by_where_it_waits(world: World) -> None:
    store = world.store
    later = [await between_attempts(world), await delayed(world)]
    odd, plain = await suspect(world), await ready(world)
    high = await stored(store, a_task(priority=Priority.HIGH, queue="q"))
    parked = await stored(store, a_task(name="other", queue="p"))
    await claim_batch(store, queues=["p"])
    assert await found(store) == {
        Lane("ready", Priority.NORMAL, "mail", suspect=True): [odd.task_id],
        Lane("ready", Priority.NORMAL, "mail"): [plain.task_id],
        Lane("ready", Priority.HIGH, "q"): [high.task_id],
        Lane("parked", Priority.NORMAL, "p", "other"): [parked.task_id],
        Lane("due", Priority.NORMAL): [record.task_id for record in later],
    }


async def test_what_has_not_waited_for_long_is_not_listed(world: World) -> None:
    due, waits = await between_attempts(world), await ready(world)
    await world.advance(DUE_MS)
    assert await found(world.store, older_than_ms=DUE_MS + 1) == {}
    listed = await found(world.store, older_than_ms=LATER_MS)
    assert sorted(map(len, listed.values())) == [1, 1]
    listed = await found(world.store, older_than_ms=DUE_MS)
    assert list(listed.values()) == [[waits.task_id]], due.task_id


async def test_a_lane_is_read_part_by_part(world: World) -> None:
    waiting = [(await ready(world)).task_id for _ in range(3)]
    await leave(world, await record_of(world.store, waiting[1]))
    (lane,) = [lane for lane in await world.store.lanes(PLACE) if lane.kind == "ready"]
    listed: list[str] = []
    offset, more = 0, True
    while more:
        part = await world.store.stranded(PLACE, lane, offset=offset, limit=2)
        more, offset = part.more, offset + part.seen
        listed += [record.task_id for record in part.records]
    assert listed == [waiting[0], waiting[2]]


async def test_a_courier_of_another_region_is_told_of_nothing_outside_its_fence(
    world: World,
) -> None:
    store = world.store
    fenced = a_task(fence=("eu",))
    await dead(store, await stored(store, a_task(fence=("eu",))))
    moving = await dead(store, await stored(store, a_task(fence=("eu",))))
    await store.begin_export(moving, "us-east", groups=["eu"])
    await stored(store, fenced)
    await stored(store, a_task(fence=("eu",), delay_ms=DUE_MS))
    for groups, number in ((["us"], 0), (["u", "eux"], 0), (["us", "eu"], 1), (None, 1)):
        assert len(await store.outbox(PLACE, limit=9, groups=groups)) == number
        assert len(await store.moving(PLACE, limit=9, groups=groups)) == number
        listed = await found(store, groups=groups)
        assert sum(map(len, listed.values())) == 2 * number
    assert await store.outbox(PLACE, limit=9, offset=1) == []
    assert await store.moving(PLACE, limit=9, offset=1) == []


# --- counting


async def test_an_evacuation_counts_what_left_for_it_and_what_stays(world: World) -> None:
    store = world.store
    records = [await ready(world) for _ in range(3)]
    for order_ms in (7, 8):
        task = await leave(world, records.pop())
        assert await arrive(world.target, task) == "imported"
        told = await store.evacuated(order_ms)
        assert (told.moved, told.remaining, told.kept) == (0, len(records) + 1, {})
        for _ in range(2):  # a repeat counts once
            acked = await store.ack_export(
                task.record.task_id, 2, "us-east", keep_ms=DAY_MS, order_ms=order_ms
            )
            assert acked
        await store.passed(PLACE, order_ms, {"pinned": 1})
        told = await store.evacuated(order_ms)
        assert (told.moved, told.remaining) == (1, len(records) - 1)
        assert told.kept == {"pinned": 1}
    await store.passed(PLACE, 8, {})
    assert await store.evacuated(8) == Evacuated(1, 1, {})
    assert (await store.evacuated(7)).moved == 0, "the order of before"


async def test_a_dead_task_that_moves_counts_for_no_evacuation(world: World) -> None:
    record = await dead(world.store)
    task = await world.store.begin_export(record, "us-east", groups=["eu"])
    assert task is not None
    await arrive(world.target, task)
    await world.store.ack_export(record.task_id, 2, "us-east", keep_ms=DAY_MS, order_ms=7)
    assert (await world.store.evacuated(7)).moved == 0


@every
async def test_a_task_that_died_or_was_redriven_meanwhile_does_not_leave_as_what_it_was(
    world: World, wait: Callable[[World], Awaitable[Record]]
) -> None:
    record = await wait(world)
    gone = await dead(world.store, await stored(world.store, a_task(queue="d")))
    for stale in (
        replace(record, state=State.DEAD_LETTER),
        replace(gone, state=record.state),
    ):
        assert (
            await world.store.begin_export(stale, "us-east", groups=["eu"], reason="unserved")
            is None
        )
