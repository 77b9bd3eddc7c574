"""A Redis without memory: it refuses new work whole, and still empties itself."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import fleet_at
from tests.redis_keys import connected, wrong_counts
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LEASE_MS,
    PLACE,
    a_bury,
    a_mark,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    keys_at,
    outcome,
    snapshot,
    stored,
)
from tradewind.errors import StoreFull
from tradewind.local.scratch import RedisProcess
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    Cancelled,
    CancelRequested,
    Crash,
    Finish,
    Progress,
    Release,
    Renewed,
    RetryAt,
    Settled,
)


@pytest.fixture
async def store(own_redis: RedisProcess) -> AsyncIterator[RegionStore]:
    fleet = fleet_at("standalone", [own_redis.port])
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    yield one
    await one.close()


@pytest.fixture
def raw(own_redis: RedisProcess) -> Any:
    return connected(own_redis.port)


def fill(raw: Any) -> None:
    raw.config_set("maxmemory", "1mb")  # below what an empty server uses


async def test_a_full_redis_refuses_new_work_and_stores_nothing(
    store: RegionStore, raw: Any
) -> None:
    task = await exporting(store)
    died = await dead(store)
    running = await claimed(store)
    fill(raw)
    before = snapshot(raw)
    mark = a_mark(business=False)
    assert isinstance(await outcome(store, a_task()), StoreFull)
    assert isinstance(await outcome(store, a_task(mark=mark)), StoreFull)
    with pytest.raises(StoreFull):
        await store.reserve(mark, an_id(), "us-east", 1)
    with pytest.raises(StoreFull):
        await store.import_task(task, hops=b"", timeout_s=5)
    with pytest.raises(StoreFull):
        await store.redrive(died.task_id, 1)
    (refused,) = await store.progress([Progress(running, 0.5)])
    assert isinstance(refused, StoreFull)
    with pytest.raises(StoreFull):
        await store.probe()
    assert snapshot(raw) == before
    raw.config_set("maxmemory", "0")
    await stored(store, a_task(mark=mark))


async def test_a_full_redis_goes_on_with_the_work_it_has(
    store: RegionStore, raw: Any, own_redis: RedisProcess
) -> None:
    for _ in range(7):
        await stored(store)
    old = await dead(store, await stored(store, a_task(queue="old")))
    leaving = await exporting(store, await stored(store, a_task(queue="leaving")))
    back = await exporting(store, await stored(store, a_task(queue="back")))
    mark, given_up = a_mark(business=False), a_mark(b"x" * 32, business=False)
    first, second = an_id(), an_id()
    await store.reserve(mark, first, "us-east", 1)
    await store.reserve(given_up, second, "us-east", 1)
    fill(raw)

    claims = (await claim_batch(store)).claims
    assert len(claims) == 7
    assert await store.renew(claims, {"mail": LEASE_MS}) == [
        Renewed(claim.task_id, claim.token, lost=False) for claim in claims
    ]
    settled = [
        *await store.finish([Finish(claims[0], b"r" * 1000, "", DAY_MS)]),
        *await store.retry([RetryAt(claims[1], 0, FAILURE)]),
        *await store.bury([a_bury(claims[2])]),
        *await store.release([Release(claims[3])]),
    ]
    assert settled == [Settled(claim.task_id, lost=False) for claim in claims[:4]]
    cancelled = claims[5].task_id
    assert await store.cancel(cancelled, retention_ms=DAY_MS) == CancelRequested(cancelled)
    assert await store.confirm_cancel([Cancel(claims[5], DAY_MS)]) == [
        Settled(cancelled, lost=False)
    ]
    waiting = claims[1].task_id
    raw.config_set("maxmemory", "0")
    raw.zadd(keys_at().leases, {claims[4].task_id: 1})
    fill(raw)
    assert len(await store.reap(PLACE, limit=10)) == 1
    swept = await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=True)
    assert (swept.promoted, swept.courier) == (1, True)
    crash = Crash(claims[6], "the child died", DAY_MS, may_move=False)
    assert await store.crashed([crash]) == [Settled(claims[6].task_id, lost=False)]
    (suspect,) = (await claim_batch(store, limit=0, suspects=1)).claims
    assert suspect.task_id == claims[6].task_id

    assert await store.cancel(waiting, retention_ms=DAY_MS) == Cancelled(waiting)

    assert await store.confirm(mark, first, 1)
    assert await store.forget(mark, first)
    assert await store.unreserve(given_up, second, 1)
    assert await store.refuse(an_id(), 1) is None
    assert await store.watch(old.task_id) is not None
    assert await store.keep(old, reason="full", retry_after_ms=0)
    assert await store.begin_export(old, "us-east", groups=["eu"]) is not None
    assert await store.ack_export(leaving.record.task_id, 2, "us-east", keep_ms=DAY_MS)
    assert await store.abort_export(
        back.record.task_id, 2, "us-east", reason="full", retry_after_ms=0
    )
    assert await store.refuse_import(an_id(), 2) == "fenced"
    assert await store.purge(claims[2].task_id, 1)
    assert await store.oldest() != {}
    assert wrong_counts(own_redis.port) == {}
