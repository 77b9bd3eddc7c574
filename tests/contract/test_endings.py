"""The ports Cancels, DeadLetters and Notices: ends from outside, and what becomes of the dead."""

from dataclasses import replace

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_bury,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    outcome,
    record_of,
    stored,
)
from tradewind.limits import TOMBSTONE_MS
from tradewind.state import State
from tradewind.task import (
    Cancelled,
    CancelRequested,
    Finish,
    Progress,
    RetryAt,
    Stored,
    TooLateToCancel,
)


async def test_what_waits_or_is_dead_ends_at_once(store: AnyStore) -> None:
    ready = await stored(store)
    delayed = await stored(store, a_task(delay_ms=60_000))
    failed = await claimed(store, await stored(store, a_task(queue="f")))
    await store.retry([RetryAt(failed, 60_000, FAILURE)])
    buried = await dead(store, await stored(store, a_task(queue="d")))
    for task_id in (ready.task_id, delayed.task_id, failed.task_id, buried.task_id):
        assert await store.cancel(task_id, retention_ms=DAY_MS) == Cancelled(task_id)
        record = await record_of(store, task_id)
        assert (record.state, record.settled, record.death) == (State.CANCELLED, True, "")
        assert await store.cancel(task_id, retention_ms=DAY_MS) == Cancelled(task_id)
    assert (await claim_batch(store)).claims == ()
    assert await store.counts() == {}
    assert await store.dead_total() == 0


async def test_what_runs_is_asked_for_until_its_holder_confirms(store: AnyStore) -> None:
    claim = await claimed(store)
    for _ in range(2):
        answer = await store.cancel(claim.task_id, retention_ms=DAY_MS)
        assert answer == CancelRequested(claim.task_id)
    record = await record_of(store, claim.task_id)
    assert (record.state, record.cancel_requested) == (State.PROCESSING, True)


async def test_what_has_ended_or_moves_is_too_late(store: AnyStore) -> None:
    claim = await claimed(store)
    await store.finish([Finish(claim, b"", "", DAY_MS)])
    answer = await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert answer == TooLateToCancel(claim.task_id, State.COMPLETED)
    moving = (await exporting(store)).record.task_id
    answer = await store.cancel(moving, retention_ms=DAY_MS)
    assert answer == TooLateToCancel(moving, State.MOVING)
    assert await store.cancel(an_id(), retention_ms=DAY_MS) is None


async def test_a_tombstone_answers_a_cancel_as_it_answers_a_read(store: AnyStore) -> None:
    task_id = an_id()
    await store.refuse(task_id, 3)
    assert await store.cancel(task_id, retention_ms=DAY_MS) == await store.read(task_id)


async def test_a_cancelled_task_is_forgotten_after_its_retention(world: World) -> None:
    task = await stored(world.store)
    await world.store.cancel(task.task_id, retention_ms=5_000)
    await world.advance(5_000)
    assert await world.store.read(task.task_id) is None


# --- dead letters


async def test_a_redriven_task_starts_afresh_with_its_history(world: World) -> None:
    store = world.store
    claim = await claimed(store)
    await store.progress([Progress(claim, 0.5, "half")])
    await store.bury([a_bury(claim)])
    assert not await store.redrive(claim.task_id, 2), "another epoch than was read"
    assert await store.redrive(claim.task_id, 1)
    assert not await store.redrive(claim.task_id, 1)
    record = await record_of(store, claim.task_id)
    assert (record.state, record.attempts, record.crashes) == (State.PENDING, 0, 0)
    assert (record.death, record.failover, record.settled) == ("", "", False)
    assert (record.failure, record.progress) == (FAILURE, 0)
    assert (await store.outbox(PLACE, limit=5), await store.dead_total()) == ([], 0)
    (again,) = (await claim_batch(store)).claims
    assert (again.attempt, again.hop_count) == (1, 0)


async def test_a_purged_task_is_gone(store: AnyStore) -> None:
    record = await dead(store)
    assert not await store.purge(record.task_id, 2)
    assert await store.purge(record.task_id, 1)
    assert not await store.purge(record.task_id, 1)
    assert await store.read(record.task_id) is None
    assert await store.watch(record.task_id) is None
    assert await store.cancel(record.task_id, retention_ms=DAY_MS) is None
    assert not await store.redrive(record.task_id, 1)
    assert await store.outbox(PLACE, limit=5) == []


async def test_a_purged_task_is_not_stored_again_by_a_repeat_under_way(world: World) -> None:
    store, task = world.store, a_task()
    await dead(store, await stored(store, task))
    assert await store.purge(task.task_id, 1)
    was_here = Stored(task.task_id, State.DEAD_LETTER, created=False)
    for epoch in (1, 2):
        assert await outcome(store, task._replace(epoch=epoch)) == was_here
        assert await store.refuse(task.task_id, epoch) == was_here, "so it is stored nowhere else"
    assert (await claim_batch(store)).claims == ()
    assert await store.counts() == {}
    await world.advance(TOMBSTONE_MS)
    assert await outcome(store, task) == was_here._replace(state=State.PENDING, created=True)


async def test_what_is_not_dead_is_neither_redriven_nor_purged(store: AnyStore) -> None:
    moving = (await exporting(store)).record
    waiting = await stored(store)
    for task_id, epoch in ((waiting.task_id, 1), (moving.task_id, 2), (an_id(), 1)):
        assert not await store.redrive(task_id, epoch)
        assert not await store.purge(task_id, epoch)
    assert (await record_of(store, waiting.task_id)).state is State.PENDING


async def test_a_redriven_task_may_still_expire(world: World) -> None:
    store = world.store
    task = await stored(store, a_task(expires_ms=world.now_ms() + 5_000))
    await dead(store, task)
    await world.advance(5_000)
    assert await store.redrive(task.task_id, 1)
    assert (await claim_batch(store)).claims == ()
    assert (await record_of(store, task.task_id)).state is State.EXPIRED


@pytest.mark.parametrize("limit", [1, 2, 7, 64])
async def test_pages_hold_every_dead_task_once_oldest_first(world: World, limit: int) -> None:
    ids: list[str] = []
    for number in range(20):
        await world.advance(1 if number % 5 == 0 else 0)
        ids.append((await dead(world.store)).task_id)
    found: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        records, cursor = await world.store.dead_page(PLACE, after=cursor, limit=limit)
        found += [record.task_id for record in records]
        pages += 1
    assert (found, pages) == (ids, -(-20 // limit))


# --- who hears of them


async def test_a_settled_death_is_heard_of_until_somebody_says_it_is_over(
    loud_world: World,
) -> None:
    store = loud_world.store
    record = await dead(store, may_move=False)
    (notice,) = await store.notices(PLACE, limit=5, hold_ms=8_000)
    assert (notice.record, notice.queue, notice.name) == (record, "mail", "send")
    assert (notice.tries, notice.now_ms) == (0, loud_world.now_ms())
    assert await store.notices(PLACE, limit=5, hold_ms=8_000) == [], "it is held"
    assert await store.noticed(notice, retry_after_ms=3_000)
    await loud_world.advance(3_000)
    (again,) = await store.notices(PLACE, limit=5, hold_ms=8_000)
    assert again.tries == 1
    await loud_world.advance(8_000)
    (lost,) = await store.notices(PLACE, limit=5, hold_ms=8_000)
    assert lost.tries == 1, "who took it said nothing, so it is due again"
    assert await store.noticed(lost, retry_after_ms=None)
    assert not await store.noticed(lost, retry_after_ms=None)
    await loud_world.advance(DAY_MS // 2)
    assert await store.notices(PLACE, limit=5, hold_ms=8_000) == []


async def test_nobody_hears_of_a_task_that_may_still_move(loud_world: World) -> None:
    store = loud_world.store
    record = await dead(store)
    assert await store.notices(PLACE, limit=5, hold_ms=8_000) == []
    await store.keep(record, reason="r", retry_after_ms=None)
    assert len(await store.notices(PLACE, limit=5, hold_ms=8_000)) == 1


async def test_a_notice_of_a_revived_task_is_over(loud_world: World) -> None:
    store = loud_world.store
    record = await dead(store, may_move=False)
    (notice,) = await store.notices(PLACE, limit=5, hold_ms=0)
    await store.redrive(record.task_id, 1)
    assert not await store.noticed(notice, retry_after_ms=None)
    (claim,) = (await claim_batch(store)).claims
    await store.bury([a_bury(claim, may_move=False)])
    assert not await store.noticed(notice, retry_after_ms=None), "that was another death"
    (newer,) = await store.notices(PLACE, limit=5, hold_ms=0)
    assert newer.record.token > notice.record.token


async def test_a_queue_without_on_dead_tells_nobody(world: World) -> None:
    await dead(world.store, may_move=False)
    assert await world.store.notices(PLACE, limit=5, hold_ms=0) == []


async def test_a_copy_with_other_facts_is_no_other_task(store: AnyStore) -> None:
    record = await dead(store)
    stale = replace(record, epoch=0)
    assert not await store.keep(stale, reason="r", retry_after_ms=None)
    assert not (await record_of(store, record.task_id)).settled
