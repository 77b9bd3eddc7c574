"""The ports Vitals and Upkeep: probes, heartbeats and how they age."""

from dataclasses import replace
from typing import Any

from tests.redis_keys import connected
from tests.scripts.world import keys_at
from tradewind.store.region_store import RegionStore
from tradewind.task import Heartbeat

BEAT = Heartbeat(
    worker_id="w1",
    region="eu-west",
    queues=("mail", "reports"),
    handlers=("send",),
    slots=8,
    busy=3,
    rate=1.5,
    service_s=0.25,
    started_ms=1_700_000_000_000,
    version="0.1.0",
    depths={3: (7, 1_700_000_000_000)},
)
WORKERS = keys_at(0).workers


async def test_a_probe_says_how_long_the_slowest_primary_took(store: RegionStore) -> None:
    assert await store.probe() > 0


async def test_a_probe_leaves_nothing(store: RegionStore, store_ports: list[int]) -> None:
    await store.probe()
    assert [key for port in store_ports for key in connected(port).keys("*:probe")] == []


async def test_a_heartbeat_is_read_as_it_was_sent(store: RegionStore) -> None:
    await store.heartbeat(BEAT)
    (live,) = await store.workers()
    assert live.heartbeat == BEAT
    assert 0 <= live.age_ms < 10_000


async def test_the_last_heartbeat_of_a_worker_counts(store: RegionStore) -> None:
    await store.heartbeat(BEAT)
    await store.heartbeat(replace(BEAT, busy=8))
    assert [live.heartbeat.busy for live in await store.workers()] == [8]


async def test_a_worker_that_said_farewell_is_gone(store: RegionStore, raw: Any) -> None:
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
