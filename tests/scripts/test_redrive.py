"""redrive and purge: what an operator does with a dead task."""

from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_bury,
    a_task,
    an_id,
    claimed,
    dead,
    exporting,
    keys_at,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.limits import TOMBSTONE_MS
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Priority

KEYS = keys_at()


@pytest.mark.parametrize("may_move", [True, False])
async def test_a_redriven_task_starts_afresh_with_its_history(
    store: RegionStore, raw: Any, *, may_move: bool
) -> None:
    task = await stored(store, a_task(priority=Priority.LOW))
    raw.hset(KEYS.task(task.task_id), mapping={"hp": "hops", "hc": 1})
    record = await dead(store, task, may_move=may_move)
    raw.hset(KEYS.task(task.task_id), "cr", 2)
    raw.delete(KEYS.wake("mail"))
    assert await store.redrive(task.task_id, 1)
    again = await record_of(store, task.task_id)
    assert (again.state, again.attempts, again.crashes) == (State.PENDING, 0, 0)
    assert (again.settled, again.failover, again.death, again.finished_ms) == (False, "", "", 0)
    assert (again.token, again.hops, again.epoch) == (record.token, b"hops", 1)
    assert again.failure == record.failure
    for zset in (KEYS.dead, KEYS.dead_until, KEYS.outbox):
        assert not raw.exists(zset)
    assert tickets(raw, priority=2) == [task.task_id]
    assert raw.llen(KEYS.wake("mail")) == 1
    claim = await claimed(store, task)
    assert (claim.attempt, claim.crashes, claim.hop_count) == (1, 0, 0)
    assert claim.token > record.token
    assert raw.pttl(KEYS.task(task.task_id)) == -1


async def test_a_redriven_task_may_die_and_be_redriven_again(store: RegionStore) -> None:
    task = await stored(store)
    for _ in range(2):
        claim = await claimed(store, task)
        await store.bury([a_bury(claim, may_move=False)])
        assert (await record_of(store, task.task_id)).settled
        assert await store.redrive(task.task_id, 1)


@pytest.mark.parametrize("act", ["redrive", "purge"])
async def test_what_is_not_dead_at_that_epoch_is_left_alone(
    store: RegionStore, raw: Any, act: str
) -> None:
    dead_id = (await dead(store)).task_id
    moving = (await exporting(store)).record.task_id
    left = (await exporting(store)).record.task_id
    await store.ack_export(left, 2, "us-east", keep_ms=DAY_MS)
    running = (await claimed(store)).task_id
    waiting = (await stored(store)).task_id
    before = snapshot(raw)
    others = ((dead_id, 0), (dead_id, 2), (an_id(), 1))
    for task_id, epoch in (*others, (moving, 2), (left, 2), (running, 1), (waiting, 1)):
        assert not await getattr(store, act)(task_id, epoch)
    assert snapshot(raw) == before


async def test_a_second_redrive_makes_no_second_ticket(store: RegionStore, raw: Any) -> None:
    record = await dead(store)
    assert await store.redrive(record.task_id, 1)
    assert not await store.redrive(record.task_id, 1)
    assert tickets(raw) == [record.task_id]


async def test_a_courier_that_read_it_dead_does_not_move_what_was_redriven(
    store: RegionStore,
) -> None:
    record = await dead(store)
    assert await store.redrive(record.task_id, record.epoch)
    assert await store.begin_export(record, "us-east", groups=["eu"]) is None
    assert not await store.keep(record, reason="late", retry_after_ms=0)
    assert await store.outbox(PLACE, limit=10) == []


@pytest.mark.parametrize("may_move", [True, False])
async def test_a_purged_task_is_gone_with_every_entry(
    store: RegionStore, raw: Any, *, may_move: bool
) -> None:
    kept = await dead(store)
    record = await dead(store, may_move=may_move)
    assert await store.purge(record.task_id, 1)
    assert await store.read(record.task_id) is None
    key = KEYS.task(record.task_id)
    assert raw.hgetall(key) == {"s": "G", "rv": str(record.revision + 1)}
    assert 0 < raw.pttl(key) <= TOMBSTONE_MS
    assert record.task_id not in repr({k: v for k, v in snapshot(raw).items() if k != key})
    assert not await store.purge(record.task_id, 1)
    assert await store.dead_total() == 1
    assert raw.zrange(KEYS.outbox, 0, -1) == [kept.task_id]
