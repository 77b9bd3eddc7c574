"""renew and settlements: fenced by token and epoch, harmless when repeated."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LEASE_MS,
    a_bury,
    a_task,
    claimed,
    keys_at,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.errors import StoreError
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    Claim,
    Failure,
    Finish,
    Priority,
    Release,
    Renewed,
    RetryAt,
    Settled,
)

KEYS = keys_at()
Settle = Callable[[RegionStore, Claim], Awaitable[list[Settled | StoreError]]]
SETTLE: dict[str, tuple[Settle, State]] = {
    "finish": (
        lambda store, claim: store.finish([Finish(claim, b"ok", "text/plain", DAY_MS)]),
        State.COMPLETED,
    ),
    "retry": (lambda store, claim: store.retry([RetryAt(claim, 5_000, FAILURE)]), State.FAILED),
    "bury": (lambda store, claim: store.bury([a_bury(claim)]), State.DEAD_LETTER),
    "release": (lambda store, claim: store.release([Release(claim)]), State.PENDING),
    "confirm_cancel": (
        lambda store, claim: store.confirm_cancel([Cancel(claim, DAY_MS)]),
        State.CANCELLED,
    ),
}
each_way = pytest.mark.parametrize(("settle", "state"), SETTLE.values(), ids=SETTLE)


@each_way
async def test_the_holder_settles_and_the_lease_ends(
    store: RegionStore, raw: Any, settle: Settle, state: State
) -> None:
    claim = await claimed(store)
    assert await settle(store, claim) == [Settled(claim.task_id, lost=False)]
    assert (await record_of(store, claim.task_id)).state is state
    assert raw.zcard(KEYS.leases) == 0
    assert not raw.hget(KEYS.task(claim.task_id), "wk")


@each_way
async def test_saying_it_twice_is_answered_alike_and_changes_nothing(
    store: RegionStore, raw: Any, settle: Settle, state: State
) -> None:
    claim = await claimed(store)
    first = await settle(store, claim)
    before = snapshot(raw)
    assert await settle(store, claim) == first
    assert snapshot(raw) == before


@each_way
async def test_an_old_token_is_refused_and_changes_nothing(
    store: RegionStore, raw: Any, settle: Settle, state: State
) -> None:
    task = await stored(store)
    old = await claimed(store, task)
    await store.release([Release(old)])
    newer = await claimed(store, task)
    before = snapshot(raw)
    assert await settle(store, old) == [Settled(task.task_id, lost=True, state="PROCESSING")]
    assert snapshot(raw) == before
    renewed = await store.renew([newer], {"mail": LEASE_MS})
    assert renewed == [Renewed(task.task_id, newer.token, lost=False)]


@each_way
async def test_another_epoch_is_refused(
    store: RegionStore, raw: Any, settle: Settle, state: State
) -> None:
    claim = await claimed(store)
    before = snapshot(raw)
    assert await settle(store, claim._replace(epoch=2)) == [
        Settled(claim.task_id, lost=True, state="PROCESSING")
    ]
    assert snapshot(raw) == before


@each_way
async def test_a_task_that_is_gone_is_lost(
    store: RegionStore, raw: Any, settle: Settle, state: State
) -> None:
    claim = await claimed(store)
    raw.delete(KEYS.task(claim.task_id), KEYS.leases, KEYS.counts)
    assert await settle(store, claim) == [Settled(claim.task_id, lost=True)]


@each_way
async def test_after_any_end_the_holder_cannot_settle_otherwise(
    store: RegionStore, settle: Settle, state: State
) -> None:
    claim = await claimed(store)
    await settle(store, claim)
    # Each of these ends a task CANCELLED if that was asked for: the answer to a repeat says so.
    lost = state is not State.CANCELLED
    for other, end in SETTLE.values():
        if end is not state:
            refused = lost or end is State.COMPLETED
            answer = Settled(claim.task_id, lost=refused, state=state)
            assert await other(store, claim) == [answer]
            assert (await record_of(store, claim.task_id)).state is state


async def test_a_batch_is_settled_item_by_item_across_partitions(store: RegionStore) -> None:
    tasks = [await stored(store, a_task()) for _ in range(3)]
    batch = await store.claim(
        3, worker_id="w", lease_ms={"mail": LEASE_MS}, handlers=["send"], limit=3
    )
    stale = batch.claims[1]._replace(token=1)
    items = [Finish(c, b"", "", DAY_MS) for c in (batch.claims[0], stale, batch.claims[2])]
    assert await store.finish(items) == [
        Settled(tasks[0].task_id, lost=False),
        Settled(tasks[1].task_id, lost=True, state="PROCESSING"),
        Settled(tasks[2].task_id, lost=False),
    ]


# --- finish


async def test_a_finished_record_keeps_its_result_and_the_last_failure_without_traceback(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store)
    await store.retry([RetryAt(await claimed(store, task), 0, FAILURE)])
    await store.finish([Finish(await claimed(store, task), b"\x00r", "image/png", 90_000)])
    record = await record_of(store, task.task_id)
    assert (record.result, record.result_content_type) == (b"\x00r", "image/png")
    assert record.failure == Failure(FAILURE.kind, FAILURE.message)
    assert (record.attempts, record.settled) == (2, True)
    assert record.finished_ms >= record.started_ms
    assert 0 < raw.pttl(KEYS.task(task.task_id)) <= 90_000


async def test_a_deduplicated_task_leaves_a_done_mark_as_long_as_its_record(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store, a_task(done_key=b"f" * 32))
    await store.finish([Finish(await claimed(store, task), b"", "", 90_000)])
    mark = f"{KEYS.prefix}done:{(b'f' * 32).hex()}"
    assert raw.get(mark) == task.task_id
    assert 0 < raw.pttl(mark) <= 90_000


async def test_a_retention_of_nothing_forgets_at_once(store: RegionStore, raw: Any) -> None:
    task = await stored(store, a_task(done_key=b"f" * 32))
    claim = await claimed(store, task)
    assert await store.finish([Finish(claim, b"", "", 0)]) == [Settled(task.task_id, lost=False)]
    assert raw.pttl(KEYS.task(task.task_id)) <= 1


# --- retry


async def test_a_failed_attempt_waits_until_it_is_due(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store)
    await store.retry([RetryAt(claim, 5_000, Failure("timeout", "slow", "at x"))])
    record = await record_of(store, claim.task_id)
    assert record.failure == Failure("timeout", "slow", "at x")
    assert record.next_attempt_ms == raw.zscore(KEYS.due_normal, claim.task_id)
    assert record.attempts == 1


# --- bury


async def test_a_buried_task_that_may_move_is_put_before_the_courier(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store)
    await store.bury([replace(a_bury(claim), move_after_ms=7_000)])
    record = await record_of(store, claim.task_id)
    assert (record.death, record.failure, record.settled) == ("exhausted", FAILURE, False)
    died_ms = record.finished_ms
    assert raw.zscore(KEYS.dead, claim.task_id) == died_ms
    assert raw.zscore(KEYS.dead_until, claim.task_id) == died_ms + DAY_MS
    assert raw.zscore(KEYS.outbox, claim.task_id) == died_ms + 7_000


async def test_a_buried_task_that_may_not_move_is_settled_and_says_why(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store)
    await store.bury([a_bury(claim, may_move=False)])
    record = await record_of(store, claim.task_id)
    assert (record.settled, record.failover) == (True, "no")
    assert raw.zcard(KEYS.outbox) == 0


# --- release


async def test_a_released_task_uses_no_attempt_and_returns_to_the_head(
    store: RegionStore, raw: Any
) -> None:
    first = await stored(store, a_task(priority=Priority.LOW))
    claim = await claimed(store, first)
    second = await stored(store, a_task(priority=Priority.LOW))
    raw.delete(KEYS.wake("mail"))
    await store.release([Release(claim)])
    assert (await record_of(store, first.task_id)).attempts == 0
    assert tickets(raw, priority=2) == [first.task_id, second.task_id]
    assert raw.llen(KEYS.wake("mail")) == 1


# --- renew


async def test_a_renewal_counts_from_the_servers_now(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store, lease_ms=1_000)
    renewed = await store.renew([claim], {"mail": 80_000})
    assert renewed == [Renewed(claim.task_id, claim.token, lost=False)]
    assert raw.zscore(KEYS.leases, claim.task_id) >= claim.claimed_ms + 80_000


async def test_a_lease_that_ended_but_was_not_taken_back_can_be_renewed(
    store: RegionStore,
) -> None:
    claim = await claimed(store, lease_ms=0)
    renewed = await store.renew([claim], {"mail": LEASE_MS})
    assert renewed == [Renewed(claim.task_id, claim.token, lost=False)]
    assert await store.reap(3, limit=10) == []


@each_way
async def test_a_settled_task_cannot_be_renewed(
    store: RegionStore, raw: Any, settle: Settle, state: State
) -> None:
    claim = await claimed(store)
    await settle(store, claim)
    before = snapshot(raw)
    renewed = await store.renew([claim], {"mail": LEASE_MS})
    assert renewed == [Renewed(claim.task_id, claim.token, lost=True)]
    assert snapshot(raw) == before
