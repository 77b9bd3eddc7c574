"""Word of tasks that are dead for good: noted with the death, kept until it was passed on."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_task,
    an_id,
    claimed,
    client_of,
    dead,
    exporting,
    keys_at,
    now_ms,
    snapshot,
    stored,
)
from tradewind.fleet import DeadTaskHandler, QueueFailover, QueuePolicy
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Notice, RetryAt

KEYS = keys_at()
HOLD_MS = 60_000
TOLD = QueuePolicy(on_dead=DeadTaskHandler("tell"), failover=QueueFailover(on=()))


def hook(store: RegionStore, **queues: QueuePolicy) -> None:
    """As if regions.yaml said so."""
    client = client_of(store)
    client.fleet = replace(client.fleet, queues=queues or {"mail": TOLD})


@pytest.fixture
def hooked(store: RegionStore) -> RegionStore:
    hook(store)
    return store


def noted(raw: Any) -> list[str]:
    return raw.zrange(KEYS.hooks, 0, -1)


async def due(store: RegionStore) -> int:
    """What a sweep says."""
    return (await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)).hooks


async def taken(store: RegionStore, *, limit: int = 10) -> list[Notice]:
    return await store.notices(PLACE, limit=limit, hold_ms=HOLD_MS)


# --- noted in the moment in which nothing can move the task on any more


async def buried(store: RegionStore) -> str:
    return (await dead(store, may_move=False)).task_id


async def lost_once_too_often(store: RegionStore) -> str:
    claim = await claimed(store, await stored(store, a_task(max_crashes=1)), lease_ms=0)
    (reaped,) = await store.reap(PLACE, limit=10)
    assert reaped.state is State.DEAD_LETTER
    return claim.task_id


async def kept_for_good(store: RegionStore) -> str:
    record = await dead(store)
    assert await store.keep(record, reason="pinned", retry_after_ms=None)
    return record.task_id


async def turned_back_for_good(store: RegionStore) -> str:
    moving = await exporting(store)
    task_id = moving.record.task_id
    assert await store.abort_export(task_id, 2, "us-east", reason="r", retry_after_ms=None)
    return task_id


ENDS = [buried, lost_once_too_often, kept_for_good, turned_back_for_good]
End = Callable[[RegionStore], Awaitable[str]]


@pytest.mark.parametrize("end", ENDS)
async def test_every_death_for_good_is_noted_with_the_death(
    hooked: RegionStore, raw: Any, end: End
) -> None:
    task_id = await end(hooked)
    assert noted(raw) == [task_id]
    assert await due(hooked) == 1
    (notice,) = await taken(hooked)
    assert notice.record == await hooked.read(task_id)
    assert notice.record.settled
    assert (notice.queue, notice.name, notice.tries) == ("mail", "send", 0)
    assert abs(notice.now_ms - await now_ms(hooked)) < HOLD_MS


@pytest.mark.parametrize("end", ENDS)
async def test_a_queue_without_on_dead_costs_nothing(
    store: RegionStore, raw: Any, end: End
) -> None:
    hook(store, mail=replace(TOLD, on_dead=None), other=TOLD)
    await end(store)
    assert not raw.exists(KEYS.hooks)
    assert await due(store) == 0


async def test_a_queue_that_the_file_does_not_name_inherits_it(
    store: RegionStore, raw: Any
) -> None:
    client = client_of(store)
    client.fleet = replace(client.fleet, default_queue=TOLD)
    task_id = await buried(store)
    assert noted(raw) == [task_id]


async def test_nobody_is_told_of_a_death_that_may_still_be_moved(
    hooked: RegionStore, raw: Any
) -> None:
    record = await dead(hooked)
    await hooked.keep(record, reason="us-east: full", retry_after_ms=0)
    assert noted(raw) == []
    moving = await hooked.begin_export(record, "us-east", groups=[])
    assert moving is not None
    await hooked.abort_export(record.task_id, 2, "us-east", reason="r", retry_after_ms=0)
    assert noted(raw) == []


async def test_nobody_is_told_of_a_failed_attempt(hooked: RegionStore, raw: Any) -> None:
    claim = await claimed(hooked)
    await hooked.retry([RetryAt(claim, 0, FAILURE)])
    assert noted(raw) == []


# --- passed on


async def test_what_was_taken_is_left_to_its_taker_for_a_while(
    hooked: RegionStore, raw: Any
) -> None:
    task_id = await buried(hooked)
    assert len(await taken(hooked)) == 1
    assert await taken(hooked) == []
    assert await due(hooked) == 0
    (until_ms,) = raw.zmscore(KEYS.hooks, [task_id])
    assert abs(until_ms - await now_ms(hooked) - HOLD_MS) < HOLD_MS / 2
    raw.zadd(KEYS.hooks, {task_id: 1})  # the while has passed: its taker was killed
    (again,) = await taken(hooked)
    assert (again.record.task_id, again.tries) == (task_id, 0)


async def test_the_longest_waiting_come_first_and_no_more_than_asked_for(
    hooked: RegionStore, raw: Any
) -> None:
    ids = [await buried(hooked) for _ in range(3)]
    raw.zadd(KEYS.hooks, {ids[0]: 2, ids[1]: 1, ids[2]: 9e15})
    assert [n.record.task_id for n in await taken(hooked, limit=1)] == [ids[1]]
    assert [n.record.task_id for n in await taken(hooked)] == [ids[0]]


async def test_what_has_been_told_is_over(hooked: RegionStore, raw: Any) -> None:
    await buried(hooked)
    (notice,) = await taken(hooked)
    assert await hooked.noticed(notice, retry_after_ms=None)
    assert not raw.exists(KEYS.hooks)
    assert not await hooked.noticed(notice, retry_after_ms=None)
    assert not await hooked.noticed(notice, retry_after_ms=0)
    assert not raw.exists(KEYS.hooks)


async def test_a_failed_try_is_counted_and_repeated_in_time(hooked: RegionStore, raw: Any) -> None:
    task_id = await buried(hooked)
    for tries in range(3):
        (notice,) = await taken(hooked)
        assert notice.tries == tries
        assert await hooked.noticed(notice, retry_after_ms=0)
    (notice,) = await taken(hooked)
    assert await hooked.noticed(notice, retry_after_ms=HOLD_MS)
    assert await taken(hooked) == []
    raw.zadd(KEYS.hooks, {task_id: 1})
    (notice,) = await taken(hooked)
    assert await hooked.noticed(notice, retry_after_ms=None)
    assert not raw.hexists(KEYS.task(task_id), "ht")


# --- not any more


ENDINGS: dict[str, Callable[[RegionStore, Notice], Awaitable[Any]]] = {
    "redriven": lambda store, n: store.redrive(n.record.task_id, n.record.epoch),
    "cancelled": lambda store, n: store.cancel(n.record.task_id, retention_ms=DAY_MS),
    "purged": lambda store, n: store.purge(n.record.task_id, n.record.epoch),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_nobody_is_told_of_a_task_that_is_not_dead_any_more(
    hooked: RegionStore, raw: Any, ending: Callable[[RegionStore, Notice], Awaitable[Any]]
) -> None:
    task_id = await buried(hooked)
    (notice,) = await taken(hooked)
    await hooked.noticed(notice, retry_after_ms=0)
    assert await ending(hooked, notice)
    assert not raw.exists(KEYS.hooks)
    assert not raw.hexists(KEYS.task(task_id), "ht")
    before = snapshot(raw)
    assert not await hooked.noticed(notice, retry_after_ms=0)
    assert snapshot(raw) == before


async def test_a_late_word_of_an_earlier_death_ends_no_later_one(
    hooked: RegionStore, raw: Any
) -> None:
    task = await stored(hooked)
    await dead(hooked, task, may_move=False)
    (first,) = await taken(hooked)
    assert await hooked.redrive(task.task_id, 1)
    await dead(hooked, task, may_move=False)
    assert not await hooked.noticed(first, retry_after_ms=None)
    (second,) = await taken(hooked)
    assert second.record.token > first.record.token
    assert second.tries == 0


async def test_word_of_a_task_past_its_retention_goes_with_it(
    hooked: RegionStore, raw: Any
) -> None:
    await dead(hooked, may_move=False, retention_ms=0)
    assert await due(hooked) == 0
    assert not raw.exists(KEYS.hooks)


async def test_what_an_older_worker_revived_is_dropped(hooked: RegionStore, raw: Any) -> None:
    task = await stored(hooked, a_task(an_id()))
    raw.zadd(KEYS.hooks, {task.task_id: 1, an_id(): 1})
    assert await taken(hooked) == []
    assert not raw.exists(KEYS.hooks)
