"""When a task stays at home, when it comes back, and how the others share: with the numbers."""

import math
from dataclasses import replace

import pytest

from tests.unit.policy.worlds import fleet, region, view
from tradewind.fleet import Fleet, Steering
from tradewind.policy.choose import Memory
from tradewind.policy.decide import decide
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

TASK = Draft("a")
PLAIN = fleet(region("eu"), region("us"))
NARROW = fleet(region("eu"), region("us"), steering=Steering(band=0.5, band_min_ms=10))
LEFT = Memory("eu", bands={"eu": 0.5})  # tasks of eu leave: the return threshold holds
BACK = Memory("eu", settled={"eu"})  # tasks of eu have just returned


def after(name: str, rtt_ms: float, start_s: float, **changes: object) -> RegionView:
    """Show a region where a task starts after `start_s` in all: round trip, and wait."""
    tasks = round((start_s - rtt_ms / 1000) * 1000)  # it completes 1,000 a second
    full = {"free_slots": 0, "rate": 1000.0, "depth": tasks - 1}
    return view(name, rtt_ms, **((full if tasks > 0 else {}) | changes))


def shares(decision: Decision) -> dict[str, float]:
    return {each.region: each.share for each in decision.candidates}


# home, best: seconds until a task starts there
BANDS: dict[str, tuple[float, float, Memory, Fleet, bool]] = {
    "50 ms longer than in the best": (0.149, 0.100, Memory(), PLAIN, True),
    "more than 50 ms longer": (0.151, 0.100, Memory(), PLAIN, False),
    "a fifth longer than a second": (1.199, 1.000, Memory(), PLAIN, True),
    "more than a fifth longer": (1.201, 1.000, Memory(), PLAIN, False),
    "25 ms longer, once tasks leave": (0.124, 0.100, LEFT, PLAIN, True),
    "more than 25 ms longer, once tasks leave": (0.126, 0.100, LEFT, PLAIN, False),
    "a tenth longer than a second, once tasks leave": (1.099, 1.000, LEFT, PLAIN, True),
    "more than a tenth longer, once tasks leave": (1.101, 1.000, LEFT, PLAIN, False),
    "with a wait of 0.12 s, when they have just returned": (0.121, 0.009, BACK, PLAIN, True),
    "with a longer one, when they have just returned": (0.122, 0.009, BACK, PLAIN, False),
    "as long as the file's band": (1.499, 1.000, Memory(), NARROW, True),
    "longer than the file's band": (1.501, 1.000, Memory(), NARROW, False),
    "as long as the file's least band": (0.019, 0.010, Memory(), NARROW, True),
    "longer than the file's least band": (0.021, 0.010, Memory(), NARROW, False),
}


@pytest.mark.parametrize(
    ("home_s", "best_s", "memory", "world", "stays"), BANDS.values(), ids=BANDS
)
def test_a_task_stays_at_home_that_starts_there(
    home_s: float, best_s: float, memory: Memory, world: Fleet, stays: bool
) -> None:
    views = [after("eu", 1.0, home_s), after("us", 9.0, best_s)]
    decision = decide(TASK, views, world, draw=0.0, memory=memory)
    found = {each.region: each.score_s for each in decision.candidates}
    assert found == pytest.approx({"eu": home_s, "us": best_s})
    assert (shares(decision) == {"eu": 1.0, "us": 0.0}) is stays


# by the age of the best region's report, and by how long a task waits there
TEMPERATURES = {
    "0.1 s over a report of now": (0.0, 0.491, 0.1),
    "0.1 s over one of a third of a second": (1 / 3, 0.491, 0.1),
    "0.3 s over one of a second": (1.0, 0.491, 0.3),
    "1.5 s over one of five seconds": (5.0, 0.491, 1.5),
    "3 s over one of ten seconds": (10.0, 0.491, 3.0),
    "0.1 s where tasks wait 5 s in the best": (0.0, 5.0, 0.1),
    "0.3 s where they wait 6 s": (0.0, 6.0, 0.3),
    "3 s where they wait 15 s": (0.0, 15.0, 3.0),
    "1.5 s where they wait 6 s, by a report of five seconds": (5.0, 6.0, 1.5),
}


@pytest.mark.parametrize(
    ("age_s", "wait_s", "temperature_s"), TEMPERATURES.values(), ids=TEMPERATURES
)
def test_where_tasks_leave_shares_fall_by_e_with_each(
    age_s: float, wait_s: float, temperature_s: float
) -> None:
    best_s = 0.009 + wait_s
    more_s = max(0.5, 0.25 * best_s)  # than the band
    views = [after("eu", 1.0, best_s + more_s, age_s=7.0), after("us", 9.0, best_s, age_s=age_s)]
    found = shares(decide(TASK, views, PLAIN, draw=0.0))
    expected = math.exp(-more_s / temperature_s)
    assert found["eu"] / found["us"] == pytest.approx(expected, rel=0.02)


def test_equal_scores_share_by_weight() -> None:
    world = fleet(region("eu"), region("us", weight=200), region("ap", weight=50))
    views = [after("eu", 1.0, 9.0), after("us", 9.0, 0.5), after("ap", 20.0, 0.5)]
    found = shares(decide(TASK, views, world, draw=0.0))
    assert found["us"] / found["ap"] == pytest.approx(4.0)


NEARS: dict[str, tuple[RegionView, str]] = {
    "the origin, though another is 5 ms nearer": (view("eu", 14.0), "eu"),
    "the nearer one, if that is more than 5 ms": (view("eu", 14.1), "us"),
    "the nearer one, whatever the queue there": (
        replace(view("eu", 14.1), free_slots=0, depth=10),
        "us",
    ),
}


@pytest.mark.parametrize(("eu", "home"), NEARS.values(), ids=NEARS)
def test_home_is(eu: RegionView, home: str) -> None:
    decision = decide(TASK, [eu, view("us", 9.0)], PLAIN, draw=0.0, own_region="eu")
    assert (decision.region, decision.reason) == (home, "home")
