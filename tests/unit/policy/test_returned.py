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
