"""A Redis without memory: it refuses new work whole, and still empties itself."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

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
    record_of,
    snapshot,
    stored,
)
from tradewind import codec, wire
from tradewind.client.views import task_of
from tradewind.errors import StoreFull
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    Cancelled,
    CancelRequested,
    Crash,
    Finish,
    Progress,
    Record,
    Release,
    Renewed,
    RetryAt,
    Settled,
)
from tradewind.v1 import record_pb2, task_pb2
from tradewind.v1.task_pb2 import TaskSpec


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


def limit(raw: Any, share: float) -> None:
    """So much of the memory is used from now on."""
    raw.config_set("maxmemory", int(raw.info("memory")["used_memory"] / share))


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
    probe = await store.probe()
    assert (probe.full, probe.memory > 1) == (True, True)
    assert snapshot(raw) == before
    raw.config_set("maxmemory", "0")
    assert not (await store.probe()).full
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


async def finished(
    store: RegionStore, raw: Any, spec: TaskSpec, result: bytes, *, share: float = 0.95
) -> Record:
    """A task of that spec, run while so much memory is used, as this process knows by then."""
    stored_spec = record_pb2.StoredSpec(spec=spec, deduplicated=bool(spec.idempotency_key))
    packed = stored_spec.SerializeToString()
    raw.config_set("maxmemory", "0")
    held = await claimed(store, await stored(store, a_task(packed=packed)))
    limit(raw, share)
    await heard(store)
    await store.finish([Finish(held, result, "application/json", DAY_MS)])
    return await record_of(store, held.task_id)


async def heard(store: RegionStore) -> None:
    """What is known of the server's memory is what holds now."""
    tightness = cast("Any", store)._tightness
    tightness._asked_s.clear()
    tightness.at(PLACE)
    await asyncio.gather(*tightness._asking)


SPECS = {
    "with nothing but a payload": TaskSpec(queue="mail", name="send", payload=b"p" * 1000),
    "as admission fills it in": TaskSpec(
        queue="mail",
        name="send",
        payload=b"p" * 1000,
        content_type="application/json",
        priority=task_pb2.PRIORITY_NORMAL,
    ),
    "with more behind the payload": TaskSpec(
        queue="mail",
        name="send",
        payload=b"p" * 1000,
        content_type="application/json",
        priority=task_pb2.PRIORITY_NORMAL,
        tenant="acme",
        affinity_key="user-42",
    ),
    "of another kind": TaskSpec(
        queue="mail", name="send", payload=b"p" * 1000, content_type="text/plain", tenant="acme"
    ),
    "with something behind it": TaskSpec(
        queue="mail",
        name="send",
        payload=b"p" * 1000,
        content_type="application/json",
        idempotency_key="order-7",
    ),
    "in the default queue": TaskSpec(name="send", payload=b"p" * 1000),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_where_memory_is_tight_finishing_takes_no_more_than_it_frees(
    store: RegionStore, raw: Any, spec: TaskSpec
) -> None:
    for size, omitted in ((60, False), (900, False), (1100, True)):
        done = await finished(store, raw, spec, b"7" * size)
        assert (done.result, done.result_omitted) == (b"" if omitted else b"7" * size, omitted)
        left = codec.unpack(done.packed)
        assert (left.spec.payload, done.payload_omitted) == (b"", True)
        left.spec.payload = spec.payload
        assert left.spec == spec, "and nothing else is lost"
        shown = wire.task(done, whole=True)
        assert bool(shown.fingerprint) == bool(spec.idempotency_key), "none, not a wrong one"
        view = task_of(shown)
        assert (view.payload_omitted, view.result_omitted) == (True, omitted)
        assert (view.result is None) == omitted


async def test_where_memory_is_tight_no_traceback_is_kept(store: RegionStore, raw: Any) -> None:
    for share, expected in ((0.5, FAILURE.traceback), (0.95, "")):
        raw.config_set("maxmemory", "0")
        again, last = await claimed(store), await claimed(store)
        limit(raw, share)
        await heard(store)
        await store.retry([RetryAt(again, 600_000, FAILURE)])
        await store.bury([a_bury(last)])
        for claim in (again, last):
            failure = (await record_of(store, claim.task_id)).failure
            assert failure == replace(FAILURE, traceback=expected)


async def test_what_frees_nothing_keeps_no_long_result(store: RegionStore, raw: Any) -> None:
    short = TaskSpec(queue="mail", name="send", payload=b"p" * 10)
    assert (await finished(store, raw, short, b"r" * 64)).result == b"r" * 64
    omitted = await finished(store, raw, short, b"r" * 65)
    assert (omitted.result, omitted.result_omitted, omitted.payload_omitted) == (b"", True, False)
    assert codec.unpack(omitted.packed).spec == short


async def test_where_there_is_room_payload_and_result_stay(store: RegionStore, raw: Any) -> None:
    alone = SPECS["with nothing but a payload"]
    done = await finished(store, raw, alone, b"r" * 5000, share=0.8)
    assert (done.result, done.result_omitted, done.payload_omitted) == (b"r" * 5000, False, False)
    assert len(codec.unpack(done.packed).spec.payload) == 1000


async def test_a_copy_of_what_was_done_says_that_its_result_is_gone(
    store: RegionStore, raw: Any
) -> None:
    key = b"f" * 32
    first = await claimed(store, await stored(store, a_task(done_key=key)))
    copy = await stored(store, a_task(done_key=key))
    limit(raw, 0.95)
    await heard(store)
    await store.finish([Finish(first, b"r" * 500, "application/json", DAY_MS)])
    await claim_batch(store)
    ended = await record_of(store, copy.task_id)
    assert (ended.state, ended.result, ended.result_omitted) == (State.COMPLETED, b"", True)
