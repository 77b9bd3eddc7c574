"""A region that has come back: whose tasks it takes, and how fast it fills."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.policy.worlds import busy, fleet, region, view
from tradewind.policy import filters
from tradewind.policy.decide import decide
from tradewind.task import Draft
from tradewind.view import RegionView

WORLD = fleet(region("eu", "eu"), region("us", "us"), region("ap", "apac"))
AP_GONE = view("ap", 200.0, health="DOWN")
TASK = Draft("a")
LONG = busy("eu", 100.0)  # home: tasks wait for more than max_wait

# us has been back for 310 seconds: guests may wait 0.25 + 310 * 0.02 s there
ROWS: dict[str, tuple[Draft, RegionView, dict[str, Any], str]] = {
    "guests come while they hardly wait": (TASK, LONG, {"depth": 20}, "us"),
    "and no more once its queue is longer than it may be by now": (TASK, LONG, {"depth": 80}, "eu"),
    "some seconds of waiting at home are no reason before": (
        TASK,
        busy("eu", 4.9),
        {"free_slots": 9, "back_for_s": 299.0},
        "eu",
    ),
    "a long queue at home is": (TASK, LONG, {"free_slots": 9, "back_for_s": 299.0}, "us"),
    "but not to a queue": (TASK, LONG, {"depth": 80, "back_for_s": 299.0}, "eu"),
    "some minutes later it may be": (TASK, LONG, {"depth": 80, "back_for_s": 450.0}, "us"),
    "one that was never out takes all": (TASK, LONG, {"depth": 80, "back_for_s": 1e9}, "us"),
    "they come if home is out": (TASK, replace(LONG, health="DOWN"), {"depth": 50}, "us"),
    "the tasks whose home it is always come": (
        Draft("a", origin_region="us"),
        replace(LONG, rtt_ms=90.0),
        {"depth": 80, "rtt_ms": 1.0},
        "us",
    ),
    "a pin holds": (Draft("a", pin_region="us"), LONG, {"depth": 50}, "us"),
}


@pytest.mark.parametrize(("task", "eu", "us", "region"), ROWS.values(), ids=ROWS)
def test_five_minutes_after_its_return(
    task: Draft, eu: RegionView, us: dict[str, Any], region: str
) -> None:
    back = replace(view("us", 90.0, free_slots=0, back_for_s=310.0), **us)
    decision = decide(task, [eu, back, AP_GONE], WORLD, draw=0.5)
    assert decision.region == region
    us_told = decision.candidates[1]
    assert (us_told.excluded_by == filters.FILLING) is (region == "eu")


BACK = view("us", 90.0, back_for_s=900.0)
AP_LONG = busy("ap", 100.0, 200.0)

# What goes to us of the tasks of eu, where a task waits for 100 s
SHARES: dict[str, tuple[Draft, list[RegionView], float]] = {
    "two homes that wait long share out one region's worth": (TASK, [LONG, BACK, AP_LONG], 0.5),
    "also while home is below max_wait": (TASK, [busy("eu", 20.0), BACK, AP_LONG], 0.5),
    "also one that itself fills up": (
        TASK,
        [LONG, BACK, busy("ap", 20.0, 200.0, back_for_s=310.0)],
        0.5,
    ),
    "to a smaller region go fewer": (
        TASK,
        [LONG, replace(BACK, slots=5, free_slots=5), AP_LONG],
        0.25,
    ),
    "the only home that waits sends all": (TASK, [LONG, BACK, view("ap", 200.0)], 1.0),
    "one that waits no longer than five seconds more does not count": (
        TASK,
        [LONG, BACK, busy("ap", 4.9, 200.0)],
        1.0,
    ),
    "one that waits longer does": (TASK, [LONG, BACK, busy("ap", 5.2, 200.0)], 0.5),
    "one that is out does not": (TASK, [LONG, BACK, replace(AP_LONG, health="DOWN")], 1.0),
    "a region that was never out takes all": (TASK, [LONG, view("us", 90.0), AP_LONG], 1.0),
    "a pin holds": (Draft("a", pin_region="us"), [LONG, BACK, AP_LONG], 1.0),
}


@pytest.mark.parametrize(("task", "views", "share"), SHARES.values(), ids=SHARES)
def test_a_region_that_came_back_is_not_sent_what_all_others_have(
    task: Draft, views: list[RegionView], share: float
) -> None:
    told = decide(task, views, WORLD, draw=0.999)
    shares = {each.region: each.share for each in told.candidates}
    assert shares["us"] == pytest.approx(share, abs=0.001)
    assert shares["eu"] == pytest.approx(1 - share, abs=0.001)


def test_beside_it_one_that_was_never_out_takes_all() -> None:
    world = fleet(*WORLD.regions.values(), region("sa", "sa"))
    views = [LONG, replace(BACK, rtt_ms=200.0), view("ap", 90.0), busy("sa", 100.0, 300.0)]
    told = decide(TASK, views, world, draw=0.999)
    assert (told.region, told.reason) == ("ap", "detour")


def test_tasks_that_stay_are_at_home_though_it_is_full_and_the_others_spill_over() -> None:
    views = [LONG, BACK, AP_LONG]
    told = [decide(TASK, views, WORLD, draw=draw) for draw in (0.0, 0.999)]
    assert {(each.region, each.reason) for each in told} == {("us", "spill"), ("eu", "home")}
    assert {(each.home, each.spills, each.bypassed) for each in told} == {("eu", True, "")}


def test_of_regions_of_which_nothing_is_known_the_nearest_is_home_all_the_same() -> None:
    silent = [
        view(name, rtt_ms, health="UNKNOWN", slots=0, free_slots=0, back_for_s=9.0)
        for name, rtt_ms in (("eu", 1.0), ("us", 90.0), ("ap", 200.0))
    ]
    told = decide(TASK, silent, WORLD, draw=0.5)
    assert (told.region, told.reason) == ("eu", "panic")


def test_in_mode_reject_a_home_over_its_limit_is_none_so_guests_come() -> None:
    back = replace(view("us", 90.0, free_slots=0, back_for_s=310.0), depth=80)
    rejecting = replace(WORLD, panic_mode="reject")
    assert decide(TASK, [LONG, back, AP_GONE], rejecting, draw=0.5).region == "us"


def test_where_all_queues_are_too_long_tasks_go_home_or_to_a_shorter_one() -> None:
    rest = [busy("us", 101.0, 90.0), AP_GONE]
    assert decide(TASK, [LONG, *rest], WORLD, draw=0.99).region == "eu"
    told = decide(TASK, [busy("eu", 180.0), *rest], WORLD, draw=0.99)
    shares = {each.region: each.share for each in told.candidates}
    assert (told.region, told.reason) == ("us", "panic")
    # Apart by 79 s, at a temperature of 0.3 * (101 - 5) s.
    assert shares["eu"] == pytest.approx(0.063, abs=0.01)
