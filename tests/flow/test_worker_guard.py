"""The guard against a real store: what it renews, what it doubts, what it gives up."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.flow.lab import Lab
from tests.redis_keys import flush
from tradewind import ids, metrics
from tradewind.clock import SystemClock
from tradewind.fleet import Fleet
from tradewind.handlers import App, Signals
from tradewind.local.scratch import RedisProcess
from tradewind.store.region_store import RegionStore
from tradewind.task import Claim, Finish, Release
from worker.guard import Guard
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.settler import Settler
from worker.slot import Slot

LEASE = {"default": 1_000}


class Told(Slot):
    """What the guard says of a claim, for those who wait."""

    def __init__(
        self, claim: Claim, signals: Signals, lost: threading.Event, cancel: threading.Event
    ) -> None:
        super().__init__(claim, asyncio.get_running_loop())
        self.signals, self.events = signals, (lost, cancel)

    def lost(self) -> None:
        self.events[0].set()

    def called_off(self) -> None:
        self.events[1].set()


def guard_of(fleet: Fleet) -> Guard:
    clock = SystemClock()
    pool = Pool("w1", "eu-west", ("default",), 4, fleet, App(), "1", 0)
    return Guard(
        lambda: RegionStore(fleet.regions["eu-west"], fleet),
        fleet=fleet,
        clock=clock,
        beat=Pace(pool, clock).beat,
        reach=Reach(clock),
    )


@pytest.fixture
async def lab(tmp_path: Path, own_redis: RedisProcess) -> AsyncIterator[Lab]:
    flush(own_redis.port)
    lab = Lab(tmp_path, [own_redis], "{lease: 1s}")
    yield lab
    await lab.close()


@pytest.fixture
async def guard(lab: Lab) -> AsyncIterator[Guard]:
    guard = guard_of(lab.fleet)
    guard.start()
    yield guard
    await asyncio.to_thread(guard.stop)


async def claimed(lab: Lab, task_id: str, worker_id: str = "w1") -> Claim:
    batch = await lab.stores["eu-west"].claim(
        ids.parse(task_id).partition,
        worker_id=worker_id,
        lease_ms=LEASE,
        handlers=["sleep"],
        limit=1,
    )
    return batch.claims[0]


def hold(
    guard: Guard,
    claim: Claim,
    asked_ms: float,
    signals: Signals,
    *,
    lost: threading.Event | None = None,
    cancel: threading.Event | None = None,
) -> None:
    guard.hold(
        [Told(claim, signals, lost or threading.Event(), cancel or threading.Event())], asked_ms
    )


def now_ms() -> float:
    return SystemClock().monotonic_ms()


async def holds(lab: Lab, condition: Callable[[], bool]) -> None:
    async def check() -> bool:
        return condition()

    await lab.until(check)


async def test_a_held_lease_outlives_its_length_while_the_loop_is_blocked(
    lab: Lab, guard: Guard
) -> None:
    asked_ms = now_ms()
    claim = await claimed(lab, await lab.submit("sleep", {"seconds": 0}))
    hold(guard, claim, asked_ms, Signals())
    threading.Event().wait(2 * LEASE["default"] / 1000)  # blocks this event loop, not the guard's
    swept = await lab.stores["eu-west"].sweep(
        claim.partition, worker_id="w1", queues=["default"], courier=False
    )
    assert swept.expired_leases == 0


async def test_a_lease_that_is_somebody_elses_is_given_up(lab: Lab, guard: Guard) -> None:
    lost = threading.Event()
    asked_ms = now_ms()
    task_id = await lab.submit("sleep", {"seconds": 0})
    claim = await claimed(lab, task_id)
    hold(guard, claim, asked_ms, Signals(), lost=lost)
    await lab.stores["eu-west"].release([Release(claim)])
    other = await claimed(lab, task_id, "w2")
    await holds(lab, lost.is_set)
    assert other.token > claim.token


async def test_a_lease_that_cannot_be_renewed_is_doubtful_until_it_is(
    lab: Lab, guard: Guard, own_redis: RedisProcess
) -> None:
    signals, lost = Signals(), threading.Event()
    asked_ms = now_ms()
    claim = await claimed(lab, await lab.submit("sleep", {"seconds": 0}))
    hold(guard, claim, asked_ms, signals, lost=lost)
    own_redis.stop()
    await holds(lab, signals.doubtful.is_set)
    assert not lost.is_set()
    own_redis.start()
    await holds(lab, lambda: not signals.doubtful.is_set())
    assert not lost.is_set()


async def test_a_lease_that_our_own_report_has_ended_is_not_lost(lab: Lab, guard: Guard) -> None:
    lost, asked_ms = threading.Event(), now_ms()
    store = lab.stores["eu-west"]
    claim = await claimed(lab, await lab.submit("sleep", {"seconds": 0}))
    hold(guard, claim, asked_ms, Signals(), lost=lost)
    before = metrics.REGISTRY.get_sample_value("tradewind_lease_lost_total")
    settler = Settler(
        store,
        fleet=lab.fleet,
        guard=guard,
        reach=Reach(SystemClock()),
        on_settled=lambda _settled: None,
    )
    report = Finish(claim, b"", "", 60_000)
    settler.put([report])
    await store.finish([report])  # as the settler would, but for the answer: that is slow
    guard.recheck()
    await holds(lab, lambda: guard.held == 0)
    assert not lost.is_set()
    assert metrics.REGISTRY.get_sample_value("tradewind_lease_lost_total") == before


async def test_a_renewal_tells_that_the_cancel_was_asked_for(lab: Lab, guard: Guard) -> None:
    lost, cancel = threading.Event(), threading.Event()
    asked_ms = now_ms()
    task_id = await lab.submit("sleep", {"seconds": 0})
    hold(guard, await claimed(lab, task_id), asked_ms, Signals(), lost=lost, cancel=cancel)
    await lab.stores["eu-west"].cancel(task_id, retention_ms=60_000)
    guard.recheck()
    await holds(lab, cancel.is_set)
    assert not lost.is_set()


async def test_the_guard_says_that_the_worker_lives_and_that_it_goes(lab: Lab) -> None:
    guard = guard_of(lab.fleet)
    guard.start()

    async def is_seen() -> bool:
        return [w.heartbeat.worker_id for w in await lab.stores["eu-west"].workers()] == ["w1"]

    await lab.until(is_seen)
    await asyncio.to_thread(guard.stop)
    assert await lab.stores["eu-west"].workers() == []
