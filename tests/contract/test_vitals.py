"""The ports Vitals and Upkeep: probes, heartbeats and how they age."""

from dataclasses import replace

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tradewind.task import Heartbeat, Timing

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
    timings={"send": Timing(0.25, 15.0)},
)


async def test_a_probe_says_how_long_the_slowest_primary_took(store: AnyStore) -> None:
    assert (await store.probe()).rtt_ms >= 0


async def test_a_heartbeat_is_read_as_it_was_sent(store: AnyStore) -> None:
    await store.heartbeat(BEAT)
    (live,) = await store.workers()
    assert live.heartbeat == BEAT
    assert 0 <= live.age_ms < 10_000


async def test_the_last_heartbeat_of_a_worker_counts(store: AnyStore) -> None:
    await store.heartbeat(BEAT)
    await store.heartbeat(replace(BEAT, busy=8))
    assert [live.heartbeat.busy for live in await store.workers()] == [8]


async def test_a_worker_that_said_farewell_is_gone(store: AnyStore) -> None:
    await store.heartbeat(BEAT)
    await store.heartbeat(replace(BEAT, worker_id="w2"))
    await store.farewell("w1")
    assert [live.heartbeat.worker_id for live in await store.workers()] == ["w2"]
    await store.farewell("w2")
    await store.farewell("w2")
    assert await store.workers() == []


async def test_a_silent_worker_ages_by_the_stores_clock(world: World) -> None:
    await world.store.heartbeat(BEAT)
    await world.advance(9_999)
    assert [live.age_ms for live in await world.store.workers()] == [9_999]
    await world.advance(1)
    assert await world.store.workers() == []
    told_ms = world.store.now_ms()
    assert told_ms is not None
    assert abs(told_ms - world.now_ms()) < 60_000, "an estimate"
