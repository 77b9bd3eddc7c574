"""expires_ms: a task that may not start any more does not, and one that runs is left alone."""

from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    PLACE,
    a_bury,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    keys_at,
    let_expire,
    now_ms,
    outcome,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Finish,
    NewTask,
    Priority,
    Reaped,
    Release,
    RetryAt,
    Settled,
    Stored,
    Swept,
)

KEYS = keys_at()


async def sweep(store: RegionStore) -> Swept:
    return await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)


async def perishable(store: RegionStore, **fields: Any) -> NewTask:
    return await stored(store, a_task(expires_ms=LATER_MS, **fields))


async def assert_expired(store: RegionStore, raw: Any, task_id: str) -> None:
    record = await record_of(store, task_id)
    assert (record.state, record.settled) == (State.EXPIRED, True)
    assert record.finished_ms > 0
    assert 0 < raw.pttl(KEYS.task(task_id)) <= DAY_MS
    assert raw.zscore(KEYS.expiry, task_id) is None
    assert raw.zscore(KEYS.due_normal, task_id) is None


async def test_a_task_says_when_it_expires(store: RegionStore, raw: Any) -> None:
    task = await perishable(store)
    assert (await record_of(store, task.task_id)).expires_ms == LATER_MS
    assert raw.zscore(KEYS.expiry, task.task_id) == LATER_MS
    lasting = await stored(store)
    assert (await record_of(store, lasting.task_id)).expires_ms == 0
    assert raw.zcard(KEYS.expiry) == 1


@pytest.mark.parametrize("delay_ms", [0, 60_000])
async def test_one_that_arrives_too_late_is_stored_expired(
    store: RegionStore, raw: Any, delay_ms: int
) -> None:
    past_ms = await now_ms(store) - 5
    task = a_task(expires_ms=past_ms, delay_ms=delay_ms)
    assert await outcome(store, task) == Stored(task.task_id, State.EXPIRED, created=True)
    assert await outcome(store, task) == Stored(task.task_id, State.EXPIRED, created=False)
    await assert_expired(store, raw, task.task_id)
    assert (await claim_batch(store)).claims == ()


async def test_a_claim_does_not_start_what_has_expired_and_gives_the_next(
    store: RegionStore, raw: Any
) -> None:
    gone = [await perishable(store) for _ in range(3)]
    kept = await perishable(store)
    for task in gone:
        let_expire(raw, task.task_id)
    batch = await claim_batch(store, limit=1)
    assert [claim.task_id for claim in batch.claims] == [kept.task_id]
    for task in gone:
        await assert_expired(store, raw, task.task_id)
        assert (await record_of(store, task.task_id)).attempts == 0


async def test_due_tasks_that_have_expired_are_not_made_ready(store: RegionStore, raw: Any) -> None:
    for promote in (claim_batch, sweep):
        task = await perishable(store, delay_ms=60_000)
        raw.zadd(KEYS.due_normal, {task.task_id: 1})
        let_expire(raw, task.task_id)
        await promote(store)
        await assert_expired(store, raw, task.task_id)
        assert tickets(raw) == []


async def test_a_sweep_ends_every_kind_of_waiting_task(store: RegionStore, raw: Any) -> None:
    failed = await claimed(store, await perishable(store))
    await store.retry([RetryAt(failed, 60_000, FAILURE)])
    parked = await perishable(store, name="x")
    await claim_batch(store)
    delayed = await perishable(store, delay_ms=60_000)
    ready = [await perishable(store, priority=priority) for priority in Priority]
    kept = await perishable(store, queue="other")
    ids = [failed.task_id, parked.task_id, delayed.task_id, *(task.task_id for task in ready)]
    for task_id in ids:
        let_expire(raw, task_id)
    assert (await sweep(store)).expired == len(ids)
    for task_id in ids:
        await assert_expired(store, raw, task_id)
    assert raw.zrange(KEYS.expiry, 0, -1) == [kept.task_id]
    for priority in Priority:
        assert not raw.exists(KEYS.ready("mail", priority))
    await sweep(store)
    assert not raw.exists(f"{KEYS.prefix}parked:mail x")
    record = await record_of(store, failed.task_id)
    assert record.failure is not None
    assert record.failure.message == FAILURE.message


async def test_one_sweep_ends_a_bounded_number(store: RegionStore, raw: Any) -> None:
    tasks = [a_task(expires_ms=LATER_MS) for _ in range(70)]
    await store.enqueue(tasks, timeout_s=5)
    for task in tasks:
        let_expire(raw, task.task_id)
    assert [(await sweep(store)).expired for _ in range(3)] == [64, 6, 0]
    assert (await sweep(store)).depth == 0


async def test_an_entry_without_a_waiting_task_is_dropped(store: RegionStore, raw: Any) -> None:
    raw.zadd(KEYS.expiry, {an_id(): 1})
    assert (await sweep(store)).expired == 0
    assert not raw.exists(KEYS.expiry)


# --- a task that runs


async def test_one_that_runs_is_left_alone_and_may_finish(store: RegionStore, raw: Any) -> None:
    task = await perishable(store)
    claim = await claimed(store, task)
    assert not raw.exists(KEYS.expiry)
    let_expire(raw, task.task_id)
    before = snapshot(raw)
    await sweep(store)
    assert snapshot(raw) == before
    assert await store.finish([Finish(claim, b"r", "", DAY_MS)]) == [
        Settled(task.task_id, lost=False)
    ]
    assert (await record_of(store, task.task_id)).state is State.COMPLETED


async def test_a_retry_after_the_expiry_ends_it_however_often_it_is_said(
    store: RegionStore, raw: Any
) -> None:
    task = await perishable(store)
    claim = await claimed(store, task)
    let_expire(raw, task.task_id)
    answer = [Settled(task.task_id, lost=False, state="EXPIRED")]
    assert await store.retry([RetryAt(claim, 0, FAILURE)]) == answer
    await assert_expired(store, raw, task.task_id)
    before = snapshot(raw)
    assert await store.retry([RetryAt(claim, 0, FAILURE)]) == answer
    assert snapshot(raw) == before


async def test_whatever_makes_it_wait_again_lets_it_expire_again(
    store: RegionStore, raw: Any
) -> None:
    task = await perishable(store)
    await store.retry([RetryAt(await claimed(store, task), 0, FAILURE)])
    assert raw.zscore(KEYS.expiry, task.task_id) == LATER_MS
    await store.release([Release(await claimed(store, task))])
    assert raw.zscore(KEYS.expiry, task.task_id) == LATER_MS
    await claimed(store, task, lease_ms=0)
    assert await store.reap(PLACE, limit=1) == [Reaped(task.task_id, "w1", State.PENDING, "mail")]
    assert raw.zscore(KEYS.expiry, task.task_id) == LATER_MS
    let_expire(raw, task.task_id)
    assert (await claim_batch(store, suspects=1)).claims == ()
    await assert_expired(store, raw, task.task_id)


async def test_a_dead_task_stays_dead(store: RegionStore, raw: Any) -> None:
    task = await perishable(store)
    claim = await claimed(store, task)
    let_expire(raw, task.task_id)
    assert await store.bury([a_bury(claim)]) == [Settled(task.task_id, lost=False)]
    assert (await sweep(store)).expired == 0
    record = await record_of(store, task.task_id)
    assert (record.state, record.expires_ms) == (State.DEAD_LETTER, 1)


async def test_a_dead_task_that_is_redriven_past_its_expiry_does_not_start(
    store: RegionStore, raw: Any
) -> None:
    record = await dead(store, await perishable(store))
    let_expire(raw, record.task_id)
    assert await store.redrive(record.task_id, record.epoch)
    assert (await claim_batch(store)).claims == ()
    await assert_expired(store, raw, record.task_id)


# --- copies and moves


async def test_a_copy_that_expired_gets_no_result(store: RegionStore, raw: Any) -> None:
    first = await claimed(store, await stored(store, a_task(done_key=b"f" * 32)))
    await store.finish([Finish(first, b"42", "", DAY_MS)])
    copy = await perishable(store, done_key=b"f" * 32)
    other = await perishable(store, done_key=b"f" * 32)
    let_expire(raw, copy.task_id)
    assert (await claim_batch(store)).claims == ()
    await assert_expired(store, raw, copy.task_id)
    record = await record_of(store, other.task_id)
    assert (record.state, record.result) == (State.COMPLETED, b"42")
    assert not raw.exists(KEYS.expiry)


@pytest.mark.parametrize("late", [False, True])
async def test_a_move_carries_the_expiry(store: RegionStore, raw: Any, *, late: bool) -> None:
    task = await perishable(store)
    exported = await exporting(store, task)
    assert exported.record.expires_ms == LATER_MS
    if late:
        let_expire(raw, task.task_id)
        exported = (await store.moving(PLACE, limit=1))[0]
    # It comes to the same Redis, once that has let it go: regions share nothing.
    await store.ack_export(task.task_id, 2, "us-east", keep_ms=DAY_MS)
    raw.delete(KEYS.task(task.task_id))
    assert await store.import_task(exported, hops=b"h", timeout_s=5) == "imported"
    assert await store.import_task(exported, hops=b"h", timeout_s=5) == "known"
    if late:
        await assert_expired(store, raw, task.task_id)
        assert (await claim_batch(store)).claims == ()
    else:
        assert raw.zscore(KEYS.expiry, task.task_id) == LATER_MS
        assert (await claimed(store, task)).hops == b"h"
