"""reap and sweep: what no worker settles, and what time does to a partition."""

from dataclasses import replace
from typing import Any

import pytest

from tests.scripts.world import (
    PLACE,
    a_bury,
    a_task,
    an_id,
    claim_batch,
    claimed,
    client_of,
    dead,
    exporting,
    keys_at,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.fleet import QueueFailover, QueuePolicy
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Failure, Priority, Reaped, Renewed, Swept

KEYS = keys_at()


async def sweep(
    store: RegionStore, worker_id: str = "w1", *queues: str, courier: bool = False
) -> Swept:
    return await store.sweep(
        PLACE, worker_id=worker_id, queues=queues or ("mail",), courier=courier
    )


# --- reap


async def test_a_lease_that_ended_is_taken_back_without_using_an_attempt(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store, lease_ms=0)
    assert await store.reap(PLACE, limit=10) == [Reaped(claim.task_id, "w1", State.PENDING, "mail")]
    record = await record_of(store, claim.task_id)
    assert (record.attempts, record.crashes) == (0, 1)
    assert record.failure is not None
    assert record.failure.kind == "worker-lost"
    assert "w1" in record.failure.message
    assert tickets(raw, suspect=True) == [claim.task_id]
    assert raw.llen(KEYS.suspects("mail")) == 1


async def test_a_lease_that_runs_is_left(store: RegionStore, raw: Any) -> None:
    await claimed(store)
    before = snapshot(raw)
    assert await store.reap(PLACE, limit=10) == []
    assert snapshot(raw) == before


async def test_what_was_taken_back_keeps_its_token_and_its_holder_is_late(
    store: RegionStore,
) -> None:
    claim = await claimed(store, lease_ms=0)
    await store.reap(PLACE, limit=10)
    renewed = await store.renew([claim], {"mail": 1_000})
    assert renewed == [Renewed(claim.task_id, claim.token, lost=True)]
    (again,) = (await claim_batch(store, suspects=1)).claims
    assert again.token > claim.token


async def test_leases_are_taken_back_oldest_first_up_to_the_limit(
    store: RegionStore, raw: Any
) -> None:
    ids = [(await stored(store)).task_id for _ in range(3)]
    await claim_batch(store)
    raw.zadd(KEYS.leases, {ids[2]: 1, ids[0]: 2, ids[1]: 3})
    assert [r.task_id for r in await store.reap(PLACE, limit=2)] == [ids[2], ids[0]]


@pytest.mark.parametrize("max_crashes", [1, 3, 5])
async def test_too_many_crashes_are_a_death_of_their_own(
    store: RegionStore, raw: Any, max_crashes: int
) -> None:
    task = await stored(store, a_task(max_crashes=max_crashes))
    for crash in range(1, max_crashes + 1):
        claim = await claimed(store, task, lease_ms=0)
        booked = crash if crash > 1 else 0
        assert (claim.attempt, claim.crashes, claim.suspect) == (1, booked, crash > 1)
        (reaped,) = await store.reap(PLACE, limit=1)
        assert reaped.state is (State.DEAD_LETTER if crash == max_crashes else State.PENDING)
    record = await record_of(store, task.task_id)
    assert (record.death, record.crashes, record.attempts) == ("crashed", max_crashes, 0)
    # Deaths of this kind are not in failover.on of the queue: it is settled here.
    assert record.settled
    assert "not moved" in record.failover
    assert raw.zscore(KEYS.dead_until, task.task_id) == record.finished_ms + 14 * 86_400_000


async def test_crashed_tasks_of_a_queue_that_moves_them_are_put_before_the_courier(
    store: RegionStore, raw: Any
) -> None:
    fleet = client_of(store).fleet
    moves = QueuePolicy(failover=QueueFailover(on=("crashed",)))
    client_of(store).fleet = replace(
        fleet, queues={"mail": moves}, failover=replace(fleet.failover, dead_after_ms=4_000)
    )
    await claimed(store, await stored(store, a_task(max_crashes=1)), lease_ms=0)
    (reaped,) = await store.reap(PLACE, limit=1)
    record = await record_of(store, reaped.task_id)
    assert not record.settled
    assert raw.zscore(KEYS.outbox, reaped.task_id) == record.finished_ms + 4_000


async def test_a_lease_without_a_running_task_is_dropped(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    raw.zadd(KEYS.leases, {task.task_id: 1, an_id(): 1})
    assert await store.reap(PLACE, limit=10) == []
    assert raw.zcard(KEYS.leases) == 0


# --- sweep


async def test_a_sweep_of_nothing_reports_nothing(store: RegionStore) -> None:
    swept = await sweep(store)
    assert swept == Swept(0, 0, 0, -1, 0, 0, 0, courier=False, now_ms=swept.now_ms)


async def test_a_sweep_promotes_what_is_due_and_says_when_the_next_is(
    store: RegionStore, raw: Any
) -> None:
    due, later = (
        await stored(store, a_task(delay_ms=60_000)),
        await stored(store, a_task(delay_ms=60_000, priority=Priority.LOW)),
    )
    raw.zadd(KEYS.due_normal, {due.task_id: 1})
    swept = await sweep(store)
    assert (swept.promoted, swept.depth) == (1, 1)
    assert 0 < swept.next_due_ms <= 60_000
    assert tickets(raw) == [due.task_id]
    assert (await record_of(store, later.task_id)).state is State.SCHEDULED


async def test_a_sweep_counts_what_waits_for_others(store: RegionStore) -> None:
    await claimed(store, lease_ms=0)
    await dead(store)
    await exporting(store)
    swept = await sweep(store)
    assert (swept.expired_leases, swept.outbox, swept.moving) == (1, 1, 1)


async def test_a_sweep_sets_hints_anew_for_ready_and_parked_work_only(
    store: RegionStore, raw: Any
) -> None:
    await stored(store, a_task(queue="a"))
    await stored(store, a_task(queue="b", name="x"))
    await claim_batch(store, queues=["b"])
    raw.delete(KEYS.wake("a"), KEYS.wake("b"), KEYS.others("b"))
    await sweep(store, "w1", "a", "b", "c")
    assert [raw.llen(KEYS.wake(queue)) for queue in "abc"] == [1, 0, 0]
    assert [raw.llen(KEYS.others(queue)) for queue in "abc"] == [0, 1, 0]


async def test_dead_tasks_are_purged_once_their_retention_has_passed(
    store: RegionStore, raw: Any
) -> None:
    gone = [(await dead(store, retention_ms=0)).task_id for _ in range(3)]
    settled = (await dead(store, may_move=False, retention_ms=0)).task_id
    kept = await dead(store)
    swept = await sweep(store)
    assert swept.outbox == 1
    for task_id in (*gone, settled):
        assert await store.read(task_id) is None
    assert await store.dead_total() == 1
    assert raw.zrange(KEYS.dead, 0, -1) == raw.zrange(KEYS.outbox, 0, -1) == [kept.task_id]
    assert raw.zrange(KEYS.dead_until, 0, -1) == [kept.task_id]


async def test_one_sweep_purges_a_bounded_number(store: RegionStore, raw: Any) -> None:
    raw.zadd(KEYS.dead_until, {an_id(): 1 for _ in range(100)})
    await sweep(store)
    assert raw.zcard(KEYS.dead_until) == 36
    await sweep(store)
    assert raw.zcard(KEYS.dead_until) == 0


async def test_the_courier_lease_is_held_by_one_until_it_ends(store: RegionStore, raw: Any) -> None:
    assert (await sweep(store, "w1", courier=True)).courier
    assert not (await sweep(store, "w2", courier=True)).courier
    assert not (await sweep(store, "w1")).courier
    assert (await sweep(store, "w1", courier=True)).courier
    assert 0 < raw.pttl(KEYS.courier) <= 30_000
    raw.pexpire(KEYS.courier, 1)
    while raw.exists(KEYS.courier):
        pass
    assert (await sweep(store, "w2", courier=True)).courier


async def test_no_failure_text_survives_a_purge(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    claim = await claimed(store, task)
    failure = Failure("error", "secret", "secret")
    await store.bury([replace(a_bury(claim, retention_ms=0), failure=failure)])
    await sweep(store)
    assert "secret" not in repr(snapshot(raw))
