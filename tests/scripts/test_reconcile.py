"""The reconcile sweep: damage to any index is found and healed, and nothing else is changed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.redis_keys import wrong_counts
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    PLACE,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    keys_at,
    now_ms,
    record_of,
    snapshot,
    stored,
)
from tradewind import metrics
from tradewind.clock import SystemClock
from tradewind.limits import RECONCILE_LOOK, RECOUNT_MOST
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Crash, Exported, Finish, Priority, Record, RetryAt
from worker.reconcile import Reconciler

KEYS = keys_at()


async def look_over(store: RegionStore) -> int:
    """One pass over the whole region. How much was put in order."""
    reconciler = Reconciler(store, SystemClock(), share=lambda: range(16))
    nodes = await store.together()
    return sum([await reconciler.look_over(node, hurry=True) for node in nodes])


def counted(kind: str) -> float:
    labels = {"region": "eu-west", "kind": kind}
    return metrics.REGISTRY.get_sample_value("tradewind_reconciled_total", labels) or 0.0


async def healed(store: RegionStore, kind: str, number: int = 1) -> None:
    """One pass finds so much damage of that kind, and the next one none."""
    before = counted(kind)
    assert await look_over(store) == number
    assert counted(kind) == before + number
    assert await look_over(store) == 0


async def suspect(store: RegionStore, **fields: Any) -> str:
    claim = await claimed(store, await stored(store, a_task(**fields)))
    await store.crashed([Crash(claim, "died", DAY_MS, may_move=False)])
    return claim.task_id


async def failed(store: RegionStore, **fields: Any) -> str:
    claim = await claimed(store, await stored(store, a_task(**fields)))
    await store.retry([RetryAt(claim, 600_000, FAILURE)])
    return claim.task_id


async def one_of_everything(store: RegionStore) -> None:
    await failed(store, expires_ms=LATER_MS)
    await dead(store)
    await dead(store, may_move=False)
    await exporting(store)
    done = await claimed(store, await stored(store, a_task(done_key=b"f" * 32)))
    await store.finish([Finish(done, b"r", "", DAY_MS)])
    await suspect(store)
    await suspect(store, name="x")
    await stored(store, a_task(name="x"))
    await claimed(store, await stored(store, a_task(expires_ms=LATER_MS)))
    await claim_batch(store, suspects=1)  # parks what it cannot run
    record = Record(an_id(), "us-east", State.MOVING, b"p", 2, 7, 1, 0, 1_700_000_000_000)
    task = Exported(record, "mail", "send", Priority.NORMAL, 2, "eu-west", 0, 3)
    assert await store.import_task(task, hops=b"", timeout_s=5) == "imported"
    await stored(store, a_task(delay_ms=600_000, priority=Priority.LOW))
    await store.cancel((await stored(store)).task_id, retention_ms=DAY_MS)
    for priority in Priority:
        await stored(store, a_task(priority=priority, expires_ms=LATER_MS))
        await stored(store, a_task(an_id(5), queue="other", priority=priority))
    await suspect(store, queue="odd", priority=Priority.HIGH)


async def test_an_undamaged_region_is_not_changed(store: RegionStore, raw: Any) -> None:
    await one_of_everything(store)
    before = [snapshot(raw, place) for place in (PLACE, 5)]
    assert await look_over(store) == 0
    assert [snapshot(raw, place) for place in (PLACE, 5)] == before


async def test_a_region_under_load_is_not_changed(store: RegionStore) -> None:
    """Passes run beside everything that changes tasks; only what they themselves see counts."""
    done = asyncio.Event()
    changes = 0

    async def churn(queue: str) -> None:
        nonlocal changes
        while not done.is_set():
            tasks = [a_task(queue=queue, name=n, delay_ms=d) for n in "xy" for d in (0, 0, 1)]
            await store.enqueue(tasks, timeout_s=5)
            for handlers in (["x"], ["y"]):
                batch = await claim_batch(
                    store, queues=[queue], handlers=handlers, suspects=2, lease_ms=0
                )
                claims = list(batch.claims)
                await store.crashed([Crash(c, "died", 1, may_move=True) for c in claims[:1]])
                await store.retry([RetryAt(c, 0, FAILURE) for c in claims[1:2]])
                await store.finish([Finish(c, b"", "", 1) for c in claims[2:4]])
            await store.reap(PLACE, limit=2)
            await store.sweep(PLACE, worker_id="w", queues=[queue], courier=False)
            changes += 1

    churning = [asyncio.create_task(churn(queue)) for queue in ("mail", "other")]
    try:
        passes = [await look_over(store) for _ in range(15)]
    finally:
        done.set()
        await asyncio.gather(*churning)
    assert (sum(passes), changes > 5) == (0, True)


async def test_a_running_task_without_a_lease_is_reaped(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store)
    raw.zrem(KEYS.leases, claim.task_id)
    assert await store.reap(PLACE, limit=9) == []
    await healed(store, "lease")
    (reaped,) = await store.reap(PLACE, limit=9)
    assert (reaped.task_id, reaped.state) == (claim.task_id, State.PENDING)


@pytest.mark.parametrize("priority", Priority)
async def test_a_waiting_task_that_is_due_nowhere_becomes_ready_when_it_should(
    store: RegionStore, raw: Any, priority: Priority
) -> None:
    delayed = (await stored(store, a_task(delay_ms=60_000, priority=priority))).task_id
    retried = await failed(store, priority=priority)
    due = list(KEYS.due.values())[priority]
    scores = raw.zrange(due, 0, -1, withscores=True)
    assert {task_id for task_id, _ in scores} == {delayed, retried}
    raw.delete(due)
    await healed(store, "due", 2)
    assert raw.zrange(due, 0, -1, withscores=True) == scores


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("priority", Priority)
async def test_a_ready_task_without_a_ticket_gets_one(
    store: RegionStore, raw: Any, priority: Priority, odd: bool
) -> None:
    lost = (
        await suspect(store, priority=priority)
        if odd
        else (await stored(store, a_task(priority=priority))).task_id
    )
    key = KEYS.ready("mail", priority, suspect=odd)
    old = raw.lpop(key)
    raw.delete(KEYS.wake("mail"), KEYS.suspects("mail"))
    await healed(store, "ticket")
    assert raw.llen(KEYS.suspects("mail") if odd else KEYS.wake("mail")) == 1
    raw.rpush(key, old)  # it was not lost after all: nothing comes of it
    batch = await claim_batch(store, suspects=5)
    assert [c.task_id for c in batch.claims] == [lost]


async def test_a_parked_task_without_a_ticket_gets_one(store: RegionStore, raw: Any) -> None:
    lost = await stored(store, a_task(name="x"))
    await claim_batch(store)
    raw.delete(f"{KEYS.prefix}parked:mail x", KEYS.parked)
    await healed(store, "ticket")
    assert [c.task_id for c in (await claim_batch(store, handlers=["x"])).claims] == [lost.task_id]


async def test_tickets_are_not_looked_for_among_too_many(store: RegionStore, raw: Any) -> None:
    lost = await stored(store)
    key = KEYS.ready("mail", 1)
    raw.lpop(key)
    raw.rpush(key, *(f"{an_id()}:1:1" for _ in range(RECONCILE_LOOK + 1)))
    assert await look_over(store) == 0
    raw.rpop(key, 1)
    await healed(store, "ticket")
    assert (await record_of(store, lost.task_id)).state is State.PENDING


async def test_one_long_list_does_not_hide_what_is_lost_elsewhere(
    store: RegionStore, raw: Any
) -> None:
    lost = [await stored(store, a_task(queue=queue)) for queue in ("a", "b", "c")]
    for task in lost:
        raw.lset(KEYS.ready(task.queue, 1), 0, f"{an_id()}:1:1")
        raw.rpush(KEYS.ready(task.queue, 1), *(f"{an_id()}:1:1" for _ in range(2_000)))
    await healed(store, "ticket", 3)


async def test_a_task_that_may_expire_and_is_not_noted_expires(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store, a_task(expires_ms=LATER_MS))
    raw.delete(KEYS.expiry)
    await healed(store, "expiry")
    assert raw.zscore(KEYS.expiry, task.task_id) == LATER_MS


@pytest.mark.parametrize(
    ("index", "kind"), [("dead", "dead"), ("dead_until", "dead"), ("outbox", "outbox")]
)
async def test_a_dead_task_is_listed_kept_and_offered_again(
    store: RegionStore, raw: Any, index: str, kind: str
) -> None:
    died = await dead(store)
    raw.delete(getattr(KEYS, index))
    await healed(store, kind)
    expected = {
        "dead": died.finished_ms,
        "dead_until": died.finished_ms + 14 * DAY_MS,  # as the queue's retention says
    }
    score = raw.zscore(getattr(KEYS, index), died.task_id)
    assert score == expected.get(index, score)
    assert score <= await now_ms(store) + 14 * DAY_MS


async def test_a_settled_dead_task_is_not_offered(store: RegionStore, raw: Any) -> None:
    died = await dead(store, may_move=False)
    raw.zadd(KEYS.outbox, {died.task_id: 1})
    await healed(store, "outbox")
    assert not raw.exists(KEYS.outbox)


async def test_a_move_that_nobody_knows_of_goes_on(store: RegionStore, raw: Any) -> None:
    moving = await exporting(store)
    raw.delete(KEYS.moving)
    await healed(store, "move")
    assert [m.record.task_id for m in await store.moving(PLACE, limit=9)] == [moving.record.task_id]


async def test_an_import_that_nobody_would_settle_is_noted(store: RegionStore, raw: Any) -> None:
    record = Record(an_id(), "us-east", State.MOVING, b"p", 2, 7, 1, 0, 1_700_000_000_000)
    task = Exported(record, "mail", "send", Priority.NORMAL, 2, "eu-west", 0, 3)
    await store.import_task(task, hops=b"", timeout_s=5)
    raw.delete(KEYS.imports)
    await healed(store, "import")
    assert raw.zrange(KEYS.imports, 0, -1) == [record.task_id]


INDEXES = {
    "lease": "leases",
    "expiry": "expiry",
    "outbox": "outbox",
    "hook": "hooks",
    "move": "moving",
    "import": "imports",
}


@pytest.mark.parametrize(("kind", "index"), INDEXES.items())
async def test_what_an_index_names_though_it_is_gone_leaves_it(
    store: RegionStore, raw: Any, kind: str, index: str
) -> None:
    key = getattr(KEYS, index)
    raw.zadd(key, {an_id(): LATER_MS for _ in range(40)})
    await healed(store, kind, 40)
    assert not raw.exists(key)


async def test_what_is_gone_leaves_every_list_of_dead_and_due_tasks(
    store: RegionStore, raw: Any
) -> None:
    for key in (KEYS.dead, KEYS.dead_until):
        raw.zadd(key, {an_id(): LATER_MS})
    await healed(store, "dead", 2)
    for key in KEYS.due.values():
        raw.zadd(key, {an_id(): LATER_MS})
    await healed(store, "due", 3)


Damage = Callable[[Any], object]
WRONG: dict[str, tuple[Damage, int]] = {
    "too many": (lambda raw: raw.hincrby(KEYS.counts, "d:mail", 5), 1),
    "too few": (lambda raw: raw.hincrby(KEYS.counts, "p1:mail", -1), 1),
    "of a queue that has none": (lambda raw: raw.hset(KEYS.counts, "p1:gone", 7), 1),
    "of all that is ready": (lambda raw: raw.hset(KEYS.counts, "P", 99), 1),
    "all lost": (lambda raw: raw.delete(KEYS.counts), 12),
}


@pytest.mark.parametrize(("damage", "fields"), WRONG.values(), ids=WRONG)
async def test_wrong_counts_are_corrected(
    store: RegionStore, raw: Any, store_ports: list[int], damage: Damage, fields: int
) -> None:
    await one_of_everything(store)
    damage(raw)
    assert wrong_counts(*store_ports) != {}
    await healed(store, "count", fields)
    assert wrong_counts(*store_ports) == {}


async def test_a_partition_that_is_too_big_is_not_counted(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    raw.hset(KEYS.counts, "p1:mail", 7)
    raw.rpush(KEYS.ready("mail", 1), *(f"{an_id()}:1:1" for _ in range(RECOUNT_MOST)))
    assert await store.recount(PLACE, []) is None
    assert raw.hget(KEYS.counts, "p1:mail") == "7"
    raw.ltrim(KEYS.ready("mail", 1), 0, 0)
    await healed(store, "count")
    assert (await record_of(store, task.task_id)).state is State.PENDING


async def test_a_big_region_is_looked_over_whole(store: RegionStore, raw: Any) -> None:
    tasks = [a_task(an_id(place)) for place in range(16) for _ in range(60)]
    await store.enqueue(tasks, timeout_s=20)
    lost = [keys_at(place).ready("mail", 1) for place in range(16)]
    for key in lost:
        raw.delete(key)
    await healed(store, "ticket", len(tasks))


async def test_keys_that_are_not_ours_are_left_alone(store: RegionStore, raw: Any) -> None:
    raw.set(f"{KEYS.prefix}imp:UPPER", "x", ex=60)
    assert await look_over(store) == 0
