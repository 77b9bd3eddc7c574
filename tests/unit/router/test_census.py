import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from router.census import Census
from tradewind import wire
from tradewind.clock import ManualClock
from tradewind.errors import IdentityMismatch, StoreError, StoreFull, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet, Health, RedisTarget, Region
from tradewind.metrics import REGION_STATE, REGION_STATES, REGION_WORKERS, REGISTRY
from tradewind.policy.decide import decide
from tradewind.policy.defaults import UNSEEN_RTT_MS
from tradewind.policy.filters import EVICTS, conditions
from tradewind.policy.scores import wait_s
from tradewind.task import Draft, Heartbeat, LiveWorker, Probe
from tradewind.v1 import task_pb2

HERE = RedisTarget("standalone", ("127.0.0.1:1",))
GONE = StoreUnavailable("x", "connection refused", sent=False)


class Pulse:
    """A region whose signs of life a test dictates."""

    def __init__(self, region: str, rtt_ms: float) -> None:
        self.region, self.rtt_ms = region, rtt_ms
        self.failure: StoreError | None = None
        self.found = Probe(rtt_ms)
        self.crew: Sequence[LiveWorker] = ()
        self.probes = 0

    async def probe(self) -> Probe:
        self.probes += 1
        if self.failure is not None:
            raise self.failure
        rtt_ms = 500.0 if self.probes == 1 else self.rtt_ms  # the first one has to connect
        return replace(self.found, rtt_ms=rtt_ms)

    def now_ms(self) -> int | None:
        return None

    async def workers(self) -> list[LiveWorker]:
        if self.failure is not None:
            raise self.failure
        return list(self.crew)


class Watched:
    """A census that looks as often as it can, and a way to wait for its looks."""

    def __init__(self, **rtts_ms: float) -> None:
        self.fleet = Fleet(
            regions={name: Region(name, HERE) for name in rtts_ms},
            rtt_ms={("us", "eu"): 89.0, ("us", "ap"): 214.0, ("eu", "us"): 88.0},
            health=Health(interval_ms=0, down_after=3, up_after=2),
        )
        self.pulses = {name: Pulse(name, rtt_ms) for name, rtt_ms in rtts_ms.items()}
        self.clock = ManualClock()
        self._passes: dict[tuple[str, str], asyncio.Semaphore] = {}
        self.census = Census(self.fleet, "eu", self.pulses, self.clock, on_pass=self._passed)

    def _passed(self, region: str, what: str) -> None:
        self._passes.setdefault((region, what), asyncio.Semaphore(0)).release()

    async def looks(self, region: str, what: str, times: int) -> None:
        semaphore = self._passes.setdefault((region, what), asyncio.Semaphore(0))
        while not semaphore.locked():
            await semaphore.acquire()
        for _ in range(times):
            await semaphore.acquire()


@pytest.fixture
def watched() -> Watched:
    return Watched(eu=2.0, us=80.0, ap=150.0)


def rtts(census: Census, origin: str | None = None) -> dict[str, float]:
    return {view.name: view.rtt_ms for view in census.views(origin)}


async def test_before_the_first_look_priors_hold_and_nothing_is_known(watched: Watched) -> None:
    assert rtts(watched.census) == {"eu": 1.0, "us": 88.0, "ap": UNSEEN_RTT_MS}
    assert watched.census.silent() == ["eu", "us", "ap"]


async def test_after_it_round_trips_are_measured_without_the_one_that_connects(
    watched: Watched,
) -> None:
    looking = asyncio.create_task(watched.census.run())
    await watched.census.first_look(5)
    looking.cancel()

    assert rtts(watched.census) == {"eu": 2.0, "us": 80.0, "ap": 150.0}
    assert watched.census.silent() == []


async def test_a_caller_elsewhere_has_the_round_trips_of_its_region(watched: Watched) -> None:
    looking = asyncio.create_task(watched.census.run())
    await watched.census.first_look(5)
    looking.cancel()

    assert rtts(watched.census, "us") == {"eu": 89.0, "us": 1.0, "ap": 214.0}
    # ap gives no priors: what this router measured is the best guess
    assert rtts(watched.census, "ap") == {"eu": 2.0, "us": 80.0, "ap": 1.0}


async def test_the_callers_own_region_is_nearest_unless_clearly_not() -> None:
    noise = Watched(eu=2.0, us=0.5)
    looking = asyncio.create_task(noise.census.run())
    await noise.census.first_look(5)
    looking.cancel()
    assert rtts(noise.census)["eu"] < 0.5

    slow = Watched(eu=400.0, us=80.0)
    looking = asyncio.create_task(slow.census.run())
    await slow.census.first_look(5)
    looking.cancel()
    assert rtts(slow.census)["eu"] == 400.0


async def test_a_region_goes_down_after_three_failed_probes_and_comes_back_after_two(
    watched: Watched,
) -> None:
    looking = asyncio.create_task(watched.census.run())
    await watched.census.first_look(5)

    watched.pulses["us"].failure = GONE
    await watched.looks("us", "probe", 3)
    assert watched.census.view("us").health == "DOWN"
    assert watched.census.silent() == ["us"]

    watched.pulses["us"].failure = None
    await watched.looks("us", "probe", 2)
    assert watched.census.view("us").health == "HEALTHY"
    looking.cancel()


async def look(census: Census) -> None:
    """One probe of us."""
    await census._probe("us")  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_region_whose_redis_evicts_takes_nothing_new_unless_that_is_allowed(
    watched: Watched, caplog: pytest.LogCaptureFixture, allowed: bool
) -> None:
    vitals = watched.pulses
    census = Census(watched.fleet, "eu", vitals, watched.clock, allow_eviction=allowed)
    vitals["us"].found = Probe(2.0, evicts="allkeys-lru")
    await look(census)
    view = census.view("us")
    reasons = conditions(view, watched.fleet.regions["us"], watched.fleet, "default", "x", 0.0)
    assert (view.health, EVICTS in reasons) == ("HEALTHY", not allowed)
    (said,) = caplog.records
    assert (vars(said)["of"], vars(said)["policy"]) == ("us", "allkeys-lru")
    assert ("used all the same" in said.message) == allowed
    vitals["us"].found = Probe(2.0)
    await look(census)
    assert not census.view("us").evicts


async def test_a_full_redis_answers_and_takes_nothing_until_a_probe_finds_room(
    watched: Watched,
) -> None:
    def shown(name: str) -> float | None:
        return REGISTRY.get_sample_value(f"tradewind_region_{name}", {"region": "us"})

    us = watched.pulses["us"]
    us.found = Probe(2.0, memory=1.02, full=True)
    for _ in range(5):
        await look(watched.census)
    watched.clock.advance(60_000)
    assert watched.census.view("us").full
    assert "us" not in watched.census.silent()
    assert (shown("full"), shown("memory_ratio")) == (1.0, 1.02)
    us.found = Probe(2.0, memory=0.5)
    await look(watched.census)
    assert not watched.census.view("us").full
    assert (shown("full"), shown("memory_ratio")) == (0.0, 0.5)


SAID: dict[str, tuple[str, bool, list[str], bool]] = {
    # after what, by each second of an interval of 1 s: health, on trial, reasons, silent
    "well": ("HEALTHY", False, [], False),
    "out": ("DOWN", False, ["down"], True),
    "out, and answering again": ("DOWN", False, ["down"], False),
    "half-open": ("DOWN", True, ["half-open"], False),
    "recovering": ("RECOVERING", False, [], False),
}


def test_regions_and_explain_tell_the_same_story_at_every_step_of_a_return() -> None:
    rules = Health(interval_ms=1_000, down_after=3, up_after=2)
    fleet = Fleet({name: Region(name, HERE) for name in ("eu", "us")}, health=rules)
    clock = ManualClock()
    vitals = {name: Pulse(name, 2.0) for name in fleet.regions}
    census = Census(fleet, "eu", vitals, clock, draw=lambda: 0.5)
    beat = Heartbeat("w", "us", ("default",), ("x",), 4, 1, 2.0, 0.5, 0, "1", {})
    for name in fleet.regions:
        census.probed(name, 2.0)
        census.mustered(name, [LiveWorker(beat, 0)])

    def probe(times: int, rtt_ms: float | None = 2.0) -> None:
        for _ in range(times):
            clock.advance(1_000)
            census.probed("us", rtt_ms, None if rtt_ms else GONE)

    def told() -> tuple[str, bool, list[str], bool]:
        view, region = census.view("us"), fleet.regions["us"]
        reasons = list(conditions(view, region, fleet, "default", "x", wait_s(view)))
        shown = wire.region(view, expected_wait_s=0, workers=1, reasons=reasons)
        found = decide(Draft("x", pin_region="us"), census.views(), fleet, draw=0.0)
        explained = wire.decision(found, partition=0).candidates[1]
        assert (shown.health, shown.trial) == (explained.health, explained.trial)
        assert (shown.reasons, shown.age) == (explained.reasons, explained.age)
        health = task_pb2.Health.Name(shown.health).removeprefix("HEALTH_")
        return health, shown.trial, list(shown.reasons), census.silent() == ["us"]

    found = [told()]
    for times, rtt_ms in ((3, None), (2, 2.0), (4, 2.0), (6, 2.0)):
        probe(times, rtt_ms)
        census.mustered("us", [LiveWorker(beat, 0)])
        found.append(told())
    assert dict(zip(SAID, found, strict=True)) == SAID


async def test_workers_are_seen_with_their_slots(watched: Watched) -> None:
    beat = Heartbeat("w", "us", ("default",), ("a",), 4, 1, 2.0, 0.5, 0, "1", {3: (9, 1)})
    watched.pulses["us"].crew = [LiveWorker(beat, 0)]
    looking = asyncio.create_task(watched.census.run())
    await watched.looks("us", "workers", 1)
    looking.cancel()

    view = watched.census.view("us")
    assert (view.slots, view.free_slots, view.depth, view.rate) == (4, 3, 9, 2.0)
    assert view.served == {"default": frozenset("a")}
    assert [worker.heartbeat.worker_id for worker in watched.census.workers("us")] == ["w"]


COUNTED: dict[str, tuple[StoreError | None, str]] = {
    "an answer": (None, "HEALTHY"),
    "no answer": (GONE, "DOWN"),
    "another deployment's Redis": (IdentityMismatch("us", "region", "eu", "us"), "DOWN"),
    "a full store": (StoreFull("us"), "HEALTHY"),
    "a slot that moves": (StoreMoving("us", 1), "HEALTHY"),
}


@pytest.mark.parametrize(("error", "health"), COUNTED.values(), ids=COUNTED)
async def test_five_calls_in_a_row_that_end_in(
    watched: Watched, error: StoreError | None, health: str
) -> None:
    for _ in range(5):
        watched.census.sent("us", {"a": 1})
        watched.census.answered("us", {"a": 1}, {}, error)

    assert watched.census.view("us").health == health
    assert watched.census.view("us").in_flight == 0
    assert watched.census.view("us").full == isinstance(error, StoreFull)


async def test_tasks_under_way_are_in_the_next_view(watched: Watched) -> None:
    watched.census.sent("us", {"a": 3})
    watched.census.dropped("us", {"a": 1})

    assert watched.census.view("us").in_flight == 2


async def test_a_look_that_takes_too_long_does_not_hold_up_the_start(watched: Watched) -> None:
    await watched.census.first_look(0.01)

    assert watched.census.view("eu").health == "UNKNOWN"


async def test_the_metrics_tell_one_state_of_each_region(watched: Watched) -> None:
    def states(region: str) -> list[str]:
        return [s for s in REGION_STATES if REGION_STATE.labels(region, s)._value.get()]  # pyright: ignore[reportPrivateUsage]

    looking = asyncio.create_task(watched.census.run())
    await watched.looks("us", "probe", 1)
    assert states("us") == ["healthy"]
    watched.pulses["us"].failure = GONE
    await watched.looks("us", "probe", 3)
    looking.cancel()
    assert states("us") == ["down"]


async def test_errors_by_share_take_out_no_more_than_half_of_the_regions(watched: Watched) -> None:
    looking = asyncio.create_task(watched.census.run())
    await watched.census.first_look(5)
    looking.cancel()

    for region in ("us", "ap", "eu"):
        for _ in range(25):
            for error in (None, GONE, GONE):
                watched.census.sent(region, {"a": 1})
                watched.census.answered(region, {"a": 1}, {}, error)

    health = {view.name: view.health for view in watched.census.views()}
    assert health == {"us": "DOWN", "ap": "DEGRADED", "eu": "DEGRADED"}
    assert watched.census.view("ap").health == "DEGRADED"


async def test_a_metric_says_how_many_work_in_a_region_and_that_nobody_does(
    watched: Watched,
) -> None:
    def shown(region: str) -> float:
        (family,) = REGION_WORKERS.collect()
        return sum(each.value for each in family.samples if each.labels["region"] == region)

    beat = Heartbeat("w", "us", ("default",), ("a",), 4, 1, 2.0, 0.5, 0, "1", {})
    watched.pulses["us"].crew = [LiveWorker(beat, 0)]
    looking = asyncio.create_task(watched.census.run())
    await watched.looks("us", "workers", 1)
    await watched.looks("ap", "workers", 1)
    assert (shown("us"), shown("ap")) == (1, 0)
    watched.pulses["us"].crew = []
    await watched.looks("us", "workers", 2)
    assert shown("us") == 0
    looking.cancel()


async def test_workers_that_cannot_be_added_up_hide_no_order(watched: Watched) -> None:
    heard: list[str] = []
    watched.census.listen(heard.append)
    beat = Heartbeat("w", "us", ("default",), ("a",), 4, 1, 2.0, 0.5, 0, "1", {})
    watched.pulses["us"].crew = [LiveWorker(replace(beat, slots="4"), 0)]
    await watched.census.muster("us")
    assert heard == ["us"]
    assert watched.census.workers("us") == ()
    watched.pulses["us"].crew = [LiveWorker(beat, 0)]
    await watched.census.muster("us")
    assert len(watched.census.workers("us")) == 1
