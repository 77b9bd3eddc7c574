"""What becomes ready when: due tasks and retries of all priorities, and who is told of them."""

from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_mark,
    a_task,
    claim_batch,
    claimed,
    keys_at,
    now_ms,
    record_of,
    stored,
    tickets,
)
from tradewind.limits import MAX_PROMOTE
from tradewind.state import State
from tradewind.store.claims import PROMOTE_PER_CLAIM
from tradewind.store.region_store import RegionStore
from tradewind.task import Priority, Release, RetryAt, Swept

H, N, L = Priority.HIGH, Priority.NORMAL, Priority.LOW
KEYS = keys_at()
DUE = {H: KEYS.due_high, N: KEYS.due_normal, L: KEYS.due_low}
SOON_MS, LATER_MS = 60_000, 3_600_000


async def due(
    store: RegionStore, raw: Any, priority: Priority = N, *, for_ms: int = 1_000, count: int = 1
) -> list[str]:
    """Tasks that came due so long ago, the first one ms before the next."""
    at_ms = await now_ms(store) - for_ms
    tasks = [a_task(priority=priority, delay_ms=LATER_MS) for _ in range(count)]
    await store.enqueue(tasks, timeout_s=10)
    ids = [task.task_id for task in tasks]
    raw.zadd(DUE[priority], {task_id: at_ms + n for n, task_id in enumerate(ids)})
    return ids


async def sweep(store: RegionStore) -> Swept:
    return await store.sweep(PLACE, worker_id="w1", queues=["mail"], courier=False)


def hint(raw: Any) -> bool:
    """Whether there was a hint; it is gone then."""
    return raw.delete(KEYS.wake("mail")) == 1


# --- which ones


@pytest.mark.parametrize("limit", [1, PROMOTE_PER_CLAIM, 2 * PROMOTE_PER_CLAIM])
async def test_of_what_came_due_at_once_high_starts_first(
    store: RegionStore, raw: Any, limit: int
) -> None:
    many = 2 * PROMOTE_PER_CLAIM
    low = await due(store, raw, L, for_ms=9_000, count=many)
    normal = await due(store, raw, N, for_ms=8_000, count=many)
    high = await due(store, raw, H, for_ms=1_000, count=many)
    started: list[str] = []
    while batch := (await claim_batch(store, limit=limit)).claims:
        started += [claim.task_id for claim in batch]
    assert started == [*high, *normal, *low]


async def test_those_that_come_due_all_the_time_do_not_hide_the_others(
    store: RegionStore, raw: Any
) -> None:
    (low,) = await due(store, raw, L, for_ms=1)
    await due(store, raw, H, for_ms=9_000, count=MAX_PROMOTE + 1)
    await sweep(store)
    assert tickets(raw, priority=L) == [low]
    assert raw.zcard(DUE[H]) == 1


async def test_a_sweep_makes_so_many_of_each_priority_ready_and_says_that_more_are_due(
    store: RegionStore, raw: Any
) -> None:
    for priority in Priority:
        await due(store, raw, priority, count=MAX_PROMOTE + 2)
    swept = await sweep(store)
    assert (swept.promoted, swept.next_due_ms) == (3 * MAX_PROMOTE, 0)
    swept = await sweep(store)
    assert (swept.promoted, swept.next_due_ms) == (6, -1)
    assert [len(tickets(raw, priority=priority)) for priority in Priority] == [MAX_PROMOTE + 2] * 3


async def test_far_future_tasks_hide_nothing_that_is_due(store: RegionStore, raw: Any) -> None:
    await store.enqueue([a_task(delay_ms=DAY_MS) for _ in range(500)], timeout_s=10)
    ids = await due(store, raw, count=3)
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == ids
    assert LATER_MS < batch.next_due_ms <= DAY_MS


async def test_the_next_due_time_is_the_earliest_of_all_priorities(
    store: RegionStore, raw: Any
) -> None:
    for priority, delay_ms in ((H, 3 * SOON_MS), (N, SOON_MS), (L, 2 * SOON_MS)):
        await stored(store, a_task(priority=priority, delay_ms=delay_ms))
    assert SOON_MS - 5_000 < (await sweep(store)).next_due_ms <= SOON_MS
    await due(store, raw, L, count=MAX_PROMOTE + 1)
    assert (await sweep(store)).next_due_ms == 0


@pytest.mark.parametrize("priority", Priority)
async def test_a_retry_is_due_among_those_of_its_priority(
    store: RegionStore, raw: Any, priority: Priority
) -> None:
    claim = await claimed(store, await stored(store, a_task(priority=priority)))
    await store.retry([RetryAt(claim, SOON_MS, FAILURE)])
    assert {p: raw.zcard(key) for p, key in DUE.items()} == {
        p: int(p is priority) for p in Priority
    }
    raw.zadd(DUE[priority], {claim.task_id: 1})
    (again,) = (await claim_batch(store)).claims
    assert (again.task_id, again.attempt) == (claim.task_id, 2)


@pytest.mark.parametrize("priority", Priority)
async def test_a_cancelled_task_is_due_no_more(
    store: RegionStore, raw: Any, priority: Priority
) -> None:
    task = await stored(store, a_task(priority=priority, delay_ms=SOON_MS))
    await store.cancel(task.task_id, retention_ms=DAY_MS)
    assert raw.exists(*DUE.values()) == 0


# --- since when they are ready


async def test_a_task_is_ready_since_it_was_due_however_late_it_is_seen(
    store: RegionStore, raw: Any
) -> None:
    at_ms = await now_ms(store) - SOON_MS
    (task_id,) = await due(store, raw)
    raw.zadd(DUE[N], {task_id: at_ms})
    (claim,) = (await claim_batch(store)).claims
    assert claim.ready_ms == at_ms


async def test_what_came_due_while_no_worker_lived_did_not_wait_behind_others(
    store: RegionStore, raw: Any
) -> None:
    """Or priorities would mean nothing after an outage that is longer than the patience."""
    (low,) = await due(store, raw, L, for_ms=SOON_MS)
    (high,) = await due(store, raw, H, for_ms=SOON_MS // 2)
    await sweep(store)
    batch = await store.claim(
        PLACE,
        worker_id="w",
        lease_ms={"mail": SOON_MS},
        handlers=["send"],
        limit=10,
        starvation_ms={"mail": 1_000},
    )
    assert [claim.task_id for claim in batch.claims] == [high, low]


@pytest.mark.parametrize("made_ready", [False, True])
async def test_the_oldest_age_counts_from_when_a_task_was_due(
    store: RegionStore, raw: Any, made_ready: bool
) -> None:
    await stored(store, a_task(priority=H, delay_ms=SOON_MS))
    for priority in (N, L):
        await due(store, raw, priority, for_ms=SOON_MS, count=3)
    if made_ready:
        await sweep(store)
    ages_ms = await store.oldest()
    assert set(ages_ms) == {("mail", N), ("mail", L)}
    assert all(SOON_MS <= age_ms < LATER_MS for age_ms in ages_ms.values())


async def test_the_oldest_age_is_not_that_of_one_put_back_in_front(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store)
    waiting = await stored(store)
    at_ms = await now_ms(store) - SOON_MS
    revision = (await record_of(store, waiting.task_id)).revision
    raw.lset(KEYS.ready("mail", N), 0, f"{waiting.task_id}:{revision}:{at_ms}")
    await store.release([Release(claim)])
    assert SOON_MS <= (await store.oldest())["mail", N] < LATER_MS


# --- who is told


async def test_a_worker_is_told_of_a_task_that_is_due_before_all_others(
    store: RegionStore, raw: Any
) -> None:
    """An idle worker knows of the earliest due time that it was told of: of none before it."""
    told: list[bool] = []
    for priority, delay_ms in ((N, 50_000), (N, 60_000), (H, 55_000), (L, 40_000), (L, 40_500)):
        await stored(store, a_task(priority=priority, delay_ms=delay_ms))
        told.append(hint(raw))
    assert told == [True, False, False, True, False]


async def test_a_due_task_wakes_a_worker_of_its_queue(store: RegionStore, raw: Any) -> None:
    await due(store, raw)
    hint(raw)
    await store.sweep(PLACE, worker_id="w1", queues=["other"], courier=False)
    assert hint(raw)


# --- an instant


async def test_an_instant_is_due_by_the_clock_of_its_redis(store: RegionStore, raw: Any) -> None:
    at_ms = await now_ms(store) + SOON_MS
    task = await stored(store, a_task(not_before_ms=at_ms))
    record = await record_of(store, task.task_id)
    assert (record.state, record.next_attempt_ms) == (State.SCHEDULED, at_ms)
    assert raw.zscore(DUE[N], task.task_id) == at_ms


async def test_an_instant_that_has_passed_is_now(store: RegionStore, raw: Any) -> None:
    task = await stored(store, a_task(not_before_ms=await now_ms(store) - LATER_MS))
    assert tickets(raw) == [task.task_id]


async def test_the_later_of_delay_and_instant_counts(store: RegionStore, raw: Any) -> None:
    at_ms = await now_ms(store) + SOON_MS
    later = await stored(store, a_task(delay_ms=2 * SOON_MS, not_before_ms=at_ms))
    assert raw.zscore(DUE[N], later.task_id) >= at_ms + SOON_MS - 1_000
    earlier = await stored(store, a_task(delay_ms=1, not_before_ms=at_ms))
    assert raw.zscore(DUE[N], earlier.task_id) == at_ms


@pytest.mark.parametrize("reserved", [False, True])
async def test_the_window_of_a_key_counts_from_the_instant(
    store: RegionStore, raw: Any, reserved: bool
) -> None:
    mark = a_mark(window_ms=SOON_MS, business=False)
    at_ms = await now_ms(store) + LATER_MS
    if reserved:
        mark = a_mark(window_ms=SOON_MS, business=False, not_before_ms=at_ms)
        await store.reserve(mark, a_task().task_id, "us-east", 1)
    else:
        await stored(store, a_task(not_before_ms=at_ms, mark=mark))
    left_ms = raw.pttl(KEYS.entry(mark.key))
    assert LATER_MS + SOON_MS - 5_000 < left_ms <= LATER_MS + SOON_MS
