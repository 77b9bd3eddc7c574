"""Vitals on Redis: what probes and workers leave behind."""

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.test_vitals import BEAT
from tests.redis_keys import connected
from tests.scripts.world import keys_at
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
