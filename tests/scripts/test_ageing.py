"""claim with starvation_ms: about that long a lower priority waits behind higher ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.scripts.world import LEASE_MS, PLACE, a_task, keys_at, now_ms, stored, tickets
from tradewind.store.region_store import RegionStore
from tradewind.task import ClaimBatch, Priority, Release

H, N, L = Priority.HIGH, Priority.NORMAL, Priority.LOW
KEYS = keys_at()


async def ready_for(
    store: RegionStore, raw: Any, priority: Priority, age_ms: int, *, queue: str = "mail"
) -> str:
    """A task that has been ready for so long, at the end of its list."""
    task = await stored(store, a_task(queue=queue, priority=priority))
    key = KEYS.ready(queue, priority)
    task_id, revision, _ = raw.lindex(key, -1).split(":")
    raw.lset(key, -1, f"{task_id}:{revision}:{await now_ms(store) - age_ms}")
    return task.task_id


async def claim(
    store: RegionStore,
    limit: int = 10,
    starvation_ms: Mapping[str, int] | None = None,
    queues: Sequence[str] = ("mail",),
) -> ClaimBatch:
    return await store.claim(
        PLACE,
        worker_id="w",
        lease_ms=dict.fromkeys(queues, LEASE_MS),
        handlers=["send"],
        limit=limit,
        starvation_ms=starvation_ms,
    )


def order(batch: ClaimBatch) -> list[str]:
    return [claim.task_id for claim in batch.claims]


# (priority, ready for s) of tasks in the order they were stored, and the order they start in
# where 60 s is the patience.
CASES = {
    "nothing has waited too long: strict order": ([(L, 59), (N, 40), (H, 1)], [2, 1, 0]),
    "a starved low one goes first": ([(L, 61), (N, 40), (H, 1)], [0, 2, 1]),
    "only as far as it is starved": ([(L, 90), (L, 70), (L, 50), (H, 1)], [0, 1, 3, 2]),
    "of two starved lists the older head goes first": (
        [(N, 70), (L, 80), (H, 1), (N, 1)],
        [1, 0, 2, 3],
    ),
    "a high one that waited longer goes before it": ([(H, 90), (L, 70), (H, 1)], [0, 1, 2]),
    "equal ages fall to the priority": ([(L, 600), (N, 600), (H, 600)], [2, 1, 0]),
}


@pytest.mark.parametrize(("ages", "expected"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_the_order_with_patience(
    store: RegionStore,
    raw: Any,
    ages: list[tuple[Priority, int]],
    expected: list[int],
    limit: int,
) -> None:
    if expected == [2, 1, 0] and ages[0][1] == 600:
        ids = await of_one_age(store, raw, [priority for priority, _ in ages])
    else:
        ids = [await ready_for(store, raw, priority, s * 1_000) for priority, s in ages]
    started: list[str] = []
    while batch := order(await claim(store, limit, {"mail": 60_000})):
        started += batch
    assert started == [ids[i] for i in expected]
    assert [tickets(raw, priority=priority) for priority in Priority] == [[], [], []]


async def of_one_age(store: RegionStore, raw: Any, priorities: Sequence[Priority]) -> list[str]:
    ids = [await ready_for(store, raw, priority, 0) for priority in priorities]
    at_ms = await now_ms(store) - 600_000
    for priority in priorities:
        key = KEYS.ready("mail", priority)
        raw.lset(key, 0, ":".join([*raw.lindex(key, 0).split(":")[:2], str(at_ms)]))
    return ids


@pytest.mark.parametrize("starvation_ms", [None, {}, {"other": 1}])
async def test_without_patience_the_order_is_strict(
    store: RegionStore, raw: Any, starvation_ms: Mapping[str, int] | None
) -> None:
    low = await ready_for(store, raw, L, 3_600_000)
    high = await ready_for(store, raw, H, 0)
    assert order(await claim(store, starvation_ms=starvation_ms)) == [high, low]


async def test_each_queue_has_its_own_patience(store: RegionStore, raw: Any) -> None:
    patient = await ready_for(store, raw, L, 70_000, queue="a")
    hasty = await ready_for(store, raw, L, 70_000, queue="b")
    high = await ready_for(store, raw, H, 0, queue="a")
    batch = await claim(store, 10, {"a": 80_000, "b": 60_000}, ["a", "b"])
    assert order(batch) == [hasty, high, patient]


async def test_one_put_back_in_front_does_not_hide_how_long_the_others_wait(
    store: RegionStore, raw: Any
) -> None:
    await ready_for(store, raw, L, 0)
    (held,) = (await claim(store)).claims
    starved = await ready_for(store, raw, L, 61_000)
    high = await ready_for(store, raw, H, 0)
    await store.release([Release(held)])
    batch = await claim(store, 3, {"mail": 60_000})
    assert order(batch) == [held.task_id, starved, high]
    assert batch.now_ms - batch.claims[0].ready_ms < 60_000, "ready since it was put back"


async def test_stale_old_tickets_give_nobody_a_place_in_front(store: RegionStore, raw: Any) -> None:
    stale = await ready_for(store, raw, L, 90_000)
    low = await ready_for(store, raw, L, 1_000)
    high = await ready_for(store, raw, H, 0)
    await store.cancel(stale, retention_ms=60_000)
    assert order(await claim(store, 1, {"mail": 60_000})) == [high]
    assert order(await claim(store, 1, {"mail": 60_000})) == [low]


async def test_work_that_is_left_is_still_hinted_at(store: RegionStore, raw: Any) -> None:
    await ready_for(store, raw, L, 90_000)
    await ready_for(store, raw, L, 1_000)
    raw.delete(KEYS.wake("mail"))
    batch = await claim(store, 1, {"mail": 60_000})
    assert (len(batch.claims), batch.depth, raw.llen(KEYS.wake("mail"))) == (1, 1, 1)
    raw.delete(KEYS.wake("mail"))
    batch = await claim(store, 1, {"mail": 60_000})
    assert (len(batch.claims), batch.depth, raw.llen(KEYS.wake("mail"))) == (1, 0, 0)
