"""Vitals on Redis: what probes and workers leave behind."""

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.test_vitals import BEAT
from tests.redis_keys import connected
from tests.scripts.world import client_of, keys_at
from tradewind.control import Control, Order, Stamp
from tradewind.store.region_store import RegionStore

WORKERS = keys_at(0).workers


@pytest.fixture
def store(redis_store: RegionStore) -> RegionStore:
    """On Redis only: what is looked at, or done to it, no other store has."""
    return redis_store


async def test_a_probe_leaves_nothing(store: RegionStore, store_ports: list[int]) -> None:
    await store.probe()
    assert [key for port in store_ports for key in connected(port).keys("*:probe")] == []


async def test_the_last_worker_that_leaves_takes_the_hash_along(
    store: RegionStore, raw: Any
) -> None:
    await store.heartbeat(BEAT)
    await store.heartbeat(replace(BEAT, worker_id="w2"))
    await store.farewell("w1")
    assert [live.heartbeat.worker_id for live in await store.workers()] == ["w2"]
    await store.farewell("w2")
    await store.farewell("w2")
    assert not raw.exists(WORKERS)


async def test_a_silent_worker_ages_by_the_servers_clock_and_is_forgotten(
    store: RegionStore, raw: Any
) -> None:
    await store.heartbeat(BEAT)
    await store.heartbeat(replace(BEAT, worker_id="w2"))
    at_ms, _, report = raw.hget(WORKERS, "w1").partition(" ")
    raw.hset(WORKERS, "w1", f"{int(at_ms) - 9_000} {report}")
    ages = {live.heartbeat.worker_id: live.age_ms for live in await store.workers()}
    assert 9_000 <= ages.get("w1", 10_000) <= 10_000
    raw.hset(WORKERS, "w1", f"{int(at_ms) - 10_001} {report}")
    assert [live.heartbeat.worker_id for live in await store.workers()] == ["w2"]
    assert raw.hexists(WORKERS, "w1")
    raw.hset(WORKERS, "w1", f"{int(at_ms) - 400_000} {report}")
    await store.heartbeat(replace(BEAT, worker_id="w2"))
    assert not raw.hexists(WORKERS, "w1")
    assert 0 < raw.ttl(WORKERS) <= 3_600


async def test_what_cannot_be_read_hides_neither_workers_nor_the_control_document(
    store: RegionStore, raw: Any
) -> None:
    await store.heartbeat(BEAT)
    at_ms = raw.hget(WORKERS, "w1").partition(" ")[0]
    raw.hset(WORKERS, mapping={"a": f"{at_ms} {{}}", "b": "", "z": "x", b"\xff": b"\xff"})
    control = Control(Stamp(1, "c"), regions={"eu-west": Order("DRAINING")})
    await store.control_accept(control, timeout_s=5.0)
    reader = RegionStore(client_of(store).region, client_of(store).fleet)
    try:
        assert [live.heartbeat for live in await reader.workers()] == [BEAT]
        assert reader.held() == control
    finally:
        await reader.close()


async def test_workers_live_on_beside_what_cannot_be_read_and_have_it_forgotten(
    store: RegionStore, raw: Any
) -> None:
    await store.heartbeat(BEAT)
    at_ms = int(raw.hget(WORKERS, "w1").partition(" ")[0])
    raw.hset(WORKERS, mapping={"a": "x", "b": f"{at_ms + 400_000} {{}}", "c": f"{at_ms} x"})
    await store.heartbeat(BEAT)
    assert sorted(raw.hkeys(WORKERS)) == ["c", "w1"]
