import pytest

from tests.unit.policy.worlds import busy, fleet, region, view
from tradewind.fleet import Fleet, Steering
from tradewind.policy.scores import queue_length, score_s, wait_s
from tradewind.view import RegionView

QUEUES = {
    "the depth as reported": (view("eu", depth=7), 7),
    "what this router sent counts once a router": (view("eu", depth=7, in_flight=2, routers=3), 13),
    "a view is of now, however old the report": (view("eu", depth=7, rate=2.0, age_s=3.0), 7),
}


@pytest.mark.parametrize(("seen", "expected"), QUEUES.values(), ids=QUEUES)
def test_the_queue_is(seen: RegionView, expected: float) -> None:
    assert queue_length(seen) == pytest.approx(expected)


WAITS = {
    "nothing while a slot is free": (view("eu", depth=9), 0),
    "one place behind the last free slot": (view("eu", depth=10), 0.1),
    "by the measured rate where it is higher": (view("eu", depth=29, rate=40.0), 0.5),
    "by slots and service time where no rate is known": (
        view("eu", slots=4, free_slots=0, depth=7, service_s=2.0),
        4,
    ),
    "by a second a task where nothing was measured": (
        view("eu", slots=4, free_slots=0, depth=7, service_s=0.0),
        2,
    ),
    "a second each where nothing is known": (RegionView("eu", 1.0, depth=4), 5),
    "a slow region is not taken for fast": (
        view("eu", slots=1, free_slots=0, service_s=60.0),
        60,
    ),
}


@pytest.mark.parametrize(("seen", "expected"), WAITS.values(), ids=WAITS)
def test_a_task_waits(seen: RegionView, expected: float) -> None:
    assert wait_s(seen) == pytest.approx(expected)


PLAIN = fleet()
COSTLY = fleet(region("eu", cost=2.0), steering=Steering(cost_weight_s=0.5))
WEIGHTED = fleet(steering=Steering(rtt_weight=2.0, wait_weight=0.5))
SCORES = {
    "the round trip": (view("eu", 80.0), PLAIN, 0.08),
    "and the wait": (busy("eu", 2.0, 80.0), PLAIN, 2.08),
    "each with its weight": (busy("eu", 2.0, 80.0), WEIGHTED, 1.16),
    "and the cost": (view("eu", 80.0), COSTLY, 1.08),
    "over the success rate": (view("eu", 80.0, ok=0.5), PLAIN, 0.16),
    "which counts as a twentieth at least": (view("eu", 80.0, ok=0.0), PLAIN, 1.6),
    "half more when degraded": (view("eu", 80.0, health="DEGRADED"), PLAIN, 0.12),
    "half more when the report is old": (view("eu", 80.0, age_s=11.0), PLAIN, 0.12),
    "over its ramp while it recovers": (
        view("eu", 80.0, health="RECOVERING", ramp=0.5),
        PLAIN,
        0.16,
    ),
    "ten times at the foot of the ramp, and no more": (
        view("eu", 80.0, health="RECOVERING", ramp=0.0),
        PLAIN,
        0.8,
    ),
}


@pytest.mark.parametrize(("seen", "world", "expected"), SCORES.values(), ids=SCORES)
def test_the_score_is(seen: RegionView, world: Fleet, expected: float) -> None:
    assert score_s(seen, world.regions["eu"], world, wait_s(seen)) == pytest.approx(expected)
