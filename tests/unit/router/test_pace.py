"""Where tasks went decides how fast others follow: slew, dwell, guests, panic, trials."""

import math
from dataclasses import replace

import pytest

from router.pace import Pace
from tests.unit.policy.worlds import busy, fleet, region, view
from tradewind.fleet import Fleet, RegionLimits
from tradewind.policy.choose import Choice, Memory, Option
from tradewind.policy.decide import survey
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import RegionView

KIND = ("eu", ())
PLAIN = fleet()
EU, US, AP = view("eu", 1.0), view("us", 90.0), view("ap", 200.0)
HOME = Choice({"eu": 1.0}, {"eu": "home"}, "eu", home="eu")
AWAY = Choice({"eu": 0.2, "us": 0.8}, {}, "us", home="eu", leaves=True)


def options(*views: RegionView, world: Fleet = PLAIN) -> list[Option]:
    return survey(Draft("a"), views, world, resolved=resolve(Draft("a"), world))


POOL = options(EU, US, AP)


def home_for_long() -> Pace:
    pace = Pace()
    pace.keep(KIND, HOME, HOME.shares, 0.0)
    return pace


SLEWS = {
    "nothing at the same moment": (0.0, 0.0),
    "a point in a tenth of a second": (100.0, 0.01),
    "ten points in a second": (1_000.0, 0.10),
    "all of it once there was time": (8_000.0, 0.80),
    "and no more": (60_000.0, 0.80),
}


@pytest.mark.parametrize(("after_ms", "abroad"), SLEWS.values(), ids=SLEWS)
def test_a_share_abroad_grows_ten_points_a_second(after_ms: float, abroad: float) -> None:
    eased = home_for_long().eased(KIND, AWAY, POOL, after_ms)
    assert eased.get("us", 0.0) == pytest.approx(abroad)
    assert sum(eased.values()) == pytest.approx(1.0)


def test_it_grows_at_once_where_tasks_wait_long_at_home() -> None:
    pool = options(busy("eu", 0.5), US, AP)
    assert home_for_long().eased(KIND, AWAY, pool, 100.0) == AWAY.shares


def test_it_grows_at_once_where_home_is_out() -> None:
    alone = Choice({"us": 0.5, "ap": 0.5}, {}, "us", home="us", leaves=True)
    assert home_for_long().eased(KIND, alone, POOL[1:], 100.0) == alone.shares


def test_it_returns_home_at_once() -> None:
    pace = home_for_long()
    pace.keep(KIND, AWAY, AWAY.shares, 10.0)
    assert pace.eased(KIND, HOME, POOL, 20.0) == HOME.shares


def test_home_takes_more_of_what_leaves_at_once() -> None:
    pace = home_for_long()
    most = {"eu": 0.1, "us": 0.9}
    pace.keep(KIND, AWAY, most, 10.0)
    less = Choice({"eu": 0.8, "us": 0.2}, {}, "eu", home="eu", leaves=True)
    assert pace.eased(KIND, less, POOL, 20.0) == pytest.approx(less.shares)


BACK = {
    "at once what it was a moment ago": (0.0, 0.50),
    "and ten points a second more": (1_000.0, 0.60),
    "what is usual fades in ten seconds to a third": (10_000.0, 0.5 * math.exp(-1)),
}


@pytest.mark.parametrize(("home_ms", "abroad"), BACK.values(), ids=BACK)
def test_after_a_time_at_home_a_share_rises_to(home_ms: float, abroad: float) -> None:
    pace = home_for_long()
    pace.keep(KIND, AWAY, {"eu": 0.5, "us": 0.5}, 10.0)
    steps = int(home_ms / 1_000) if home_ms > 1_000 else 0
    for step in range(steps):  # decisions for home, each second
        pace.keep(KIND, HOME, HOME.shares, 1_010.0 + step * 1_000)
    assert pace.eased(KIND, AWAY, POOL, 10.0 + home_ms)["us"] == pytest.approx(abroad)


def test_each_share_abroad_rises_by_itself_and_home_has_the_rest() -> None:
    pace = home_for_long()
    pace.keep(KIND, AWAY, {"eu": 0.6, "us": 0.4}, 10.0)
    wanted = Choice({"eu": 0.2, "us": 0.4, "ap": 0.4}, {}, "us", home="eu", leaves=True)
    eased = pace.eased(KIND, wanted, POOL, 10.0)
    assert eased == pytest.approx({"eu": 0.6, "us": 0.4})


def test_tasks_of_another_kind_have_a_pace_of_their_own() -> None:
    assert home_for_long().eased(("us", ()), AWAY, POOL, 100.0) == AWAY.shares


def recalled(pace: Pace, now_ms: float, live: float | None = 1.0) -> Memory:
    return pace.memory(KIND, POOL, live, now_ms)


def test_tasks_that_left_return_within_half_the_band() -> None:
    pace = home_for_long()
    assert recalled(pace, 1.0).bands == {}
    pace.keep(KIND, AWAY, AWAY.shares, 1_000.0)
    assert recalled(pace, 1_001.0).bands == {"eu": 0.5}
    assert recalled(pace, 60_000.0).bands == {"eu": 0.5}


def test_tasks_that_returned_are_settled_for_a_dwell() -> None:
    pace = home_for_long()
    assert not recalled(pace, 1.0).settled
    pace.keep(KIND, AWAY, AWAY.shares, 1_000.0)
    pace.keep(KIND, HOME, HOME.shares, 2_000.0)
    assert list(recalled(pace, 11_999.0).settled) == ["eu"]
    assert not recalled(pace, 12_000.0).settled
    assert recalled(pace, 2_000.0).bands == {}


def test_the_dwell_holds_the_regime_whatever_the_draws() -> None:
    """A decision where distance had no part, a pin or a key, changes nothing."""
    pace = home_for_long()
    pace.keep(KIND, Choice({"us": 1.0}, {"us": "pin"}, "us"), {"us": 1.0}, 5.0)
    assert recalled(pace, 6.0).home == "eu"
    assert recalled(pace, 6.0).bands == {}


# ten slots, a second a task: 10 tasks/s, of which 30 % for 10 s are 30
LIMITS: dict[str, tuple[RegionView, float, int]] = {
    "30 % of what it can complete in ten seconds": (US, 0.30, 30),
    "by its measured rate where that is higher": (replace(US, rate=20.0), 0.30, 60),
    "an equal part for each router, where their number is known": (
        replace(US, routers=3),
        0.30,
        10,
    ),
    "one at least": (replace(US, slots=1, service_s=60.0), 0.30, 1),
}


@pytest.mark.parametrize(("us", "share", "limit"), LIMITS.values(), ids=LIMITS)
def test_a_region_has_its_share_of_guests_at(us: RegionView, share: float, limit: int) -> None:
    limits = RegionLimits(max_spill_in=share)
    world = fleet(region("eu"), region("us", limits=limits))
    pace, seen = Pace(), options(EU, us, world=world)
    for index in range(limit):
        assert not pace.memory(KIND, seen, 1.0, 1_000.0).filled
        pace.guest("us", 1_000.0 + index)
    assert pace.memory(KIND, seen, 1.0, 1_500.0).filled == {"us"}
    assert not pace.memory(KIND, seen, 1.0, 11_500.0).filled


def test_guests_older_than_the_window_are_forgotten() -> None:
    pace = Pace()
    for second in range(100):
        pace.guest("us", second * 1_000.0)
    assert pace.guests("us", 99_000.0) == 10


def test_of_a_region_whose_workers_are_not_known_there_is_no_share() -> None:
    pace, seen = Pace(), options(EU, RegionView("us", 90.0))
    for _ in range(100):
        pace.guest("us", 1.0)
    assert not pace.memory(KIND, seen, 1.0, 2.0).filled


def test_panic_begins_below_half_and_ends_after_half_a_minute_at_six_tenths() -> None:
    pace = Pace()
    steps = (
        (0.0, 0.50, False),
        (1.0, 0.49, True),
        (2.0, 0.59, True),
        (3.0, 0.60, True),
        (20.0, 0.55, True),  # not calm for half a minute: it counts anew
        (21.0, 0.70, True),
        (50.9, 0.70, True),
        (51.0, 0.70, False),
        (52.0, 0.55, False),
    )
    for at_s, live, panics in steps:
        assert recalled(pace, at_s * 1_000, live).panics == panics, at_s


def test_what_one_task_was_refused_by_is_no_panic() -> None:
    pace = Pace()
    assert recalled(pace, 0.0, None).panics is False
    assert recalled(pace, 1.0, 0.3).panics is True
    assert recalled(pace, 2.0, None).panics is True


def test_trial_tasks_are_apart() -> None:
    pace = Pace()
    assert pace.may_try("eu", 0.0)
    pace.tried("eu", 0.0)
    assert [pace.may_try("eu", ms) for ms in (0.0, 49.0, 50.0)] == [False, False, True]
    assert pace.may_try("us", 0.0)
