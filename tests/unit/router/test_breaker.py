import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.breaker import BAD_CALLS, GOOD_TRIALS, Breaker, Standing
from tradewind.fleet import Health
from tradewind.policy.defaults import GUESTS_AFTER_S

T = 5_000  # ms, an interval
MINUTE, HOUR = 60_000, 3_600_000
HOURS = 4  # that a story goes on
RULES = Health(interval_ms=T, down_after=3, up_after=3, stale_after_ms=10_000)


class Region:
    """A region, a breaker that watches it, and a clock."""

    def __init__(self, draw: float = 0.5) -> None:
        self.breaker, self.now_ms = Breaker(RULES, lambda: draw), 0.0

    def probes(self, ok: bool, times: int = 1) -> "Region":
        for _ in range(times):
            self.breaker.probed(self.now_ms, ok=ok)
            self.now_ms += T
        return self

    def calls(self, ok: bool, times: int = 1, every_ms: float = 10) -> "Region":
        for _ in range(times):
            self.breaker.called(self.now_ms, ok=ok, is_task=True)
            self.now_ms += every_ms
        return self

    def fails(self) -> "Region":
        return self.calls(False, BAD_CALLS)

    def waits(self, ms: float) -> "Region":
        self.now_ms += ms
        return self

    @property
    def standing(self) -> Standing:
        return self.breaker.at(self.now_ms)

    @property
    def health(self) -> str:
        return self.standing.health

    def until_trial(self) -> float:
        """Probe well until half-open; returns after how many ms."""
        began_ms = self.now_ms
        while not self.standing.trial:
            self.probes(True)
            assert self.now_ms - began_ms < 9 * HOUR
        return self.now_ms - began_ms


def well() -> Region:
    return Region().probes(True)


VERDICTS: dict[str, tuple[Region, str]] = {
    "nothing seen": (Region(), "UNKNOWN"),
    "one good probe": (Region().probes(True), "HEALTHY"),
    "one good call": (Region().calls(True), "HEALTHY"),
    "one bad probe at first": (Region().probes(False), "UNKNOWN"),
    "one bad probe after a good one": (well().probes(False), "HEALTHY"),
    "two bad probes": (well().probes(False, 2), "DEGRADED"),
    "three bad probes": (well().probes(False, 3), "DOWN"),
    "two bad probes and a good one": (well().probes(False, 2).probes(True), "HEALTHY"),
    "four bad calls": (well().calls(False, BAD_CALLS - 1), "HEALTHY"),
    "five bad calls in a row": (well().fails(), "DOWN"),
    "bad calls with a good one between": (
        well().calls(False, BAD_CALLS - 1).calls(True).calls(False, BAD_CALLS - 1),
        "HEALTHY",
    ),
    "two bad calls of twenty": (well().calls(True, 18).calls(False, 2), "DEGRADED"),
    "one bad call of thirty": (well().calls(True, 29).calls(False), "HEALTHY"),
    "bad calls long ago": (
        well().calls(True, 18).calls(False, 2).waits(9_900).probes(True),
        "HEALTHY",
    ),
    "nothing good for longer than stale_after": (Region().probes(True).waits(5_001), "DEGRADED"),
    "good calls when it is down": (well().fails().calls(True, 50), "DOWN"),
}  # fmt: skip


@pytest.mark.parametrize(("region", "health"), VERDICTS.values(), ids=VERDICTS)
def test_after(region: Region, health: str) -> None:
    assert region.health == health


def test_half_of_fifty_calls_open_by_soft_evidence_and_of_forty_nine_do_not() -> None:
    region = well()
    for _ in range(24):
        region.calls(True).calls(False)
    assert region.health == "DEGRADED"
    assert region.calls(True).calls(False).health == "DOWN"
    assert region.standing.is_soft


def test_probes_that_fail_as_well_make_the_evidence_hard() -> None:
    region = well()
    for _ in range(25):
        region.calls(True).calls(False)
    assert region.probes(False, 2).standing.is_soft
    assert not region.probes(False).standing.is_soft


def test_it_stays_out_for_six_intervals_at_least_and_until_probes_are_good() -> None:
    region = well().fails()
    assert region.until_trial() == pytest.approx(6 * T, abs=T)
    region = well().probes(False, 20)
    assert region.until_trial() == 3 * T


@pytest.mark.parametrize(("draw", "out_ms"), [(0.0, 24_000), (0.999, 36_000)])
def test_the_time_out_is_drawn_by_a_fifth_either_way(draw: float, out_ms: float) -> None:
    region = Region(draw).probes(True).fails()
    began_ms = region.now_ms
    region.probes(True, 3)
    region.now_ms = began_ms + out_ms - 100
    assert not region.standing.trial
    region.now_ms = began_ms + out_ms + 100
    assert region.standing.trial


def test_nineteen_good_trials_let_it_recover_and_two_bad_ones_put_it_out_for_longer() -> None:
    region = well().fails()
    region.until_trial()
    assert region.calls(True, 18).calls(False).standing.trial
    assert region.calls(True).health == "RECOVERING"

    region = well().fails()
    region.until_trial()
    assert region.calls(True, 8).calls(False, 2).health == "DOWN"
    assert not region.standing.trial
    assert region.until_trial() == pytest.approx(12 * T, abs=T)


def test_calls_that_carry_no_task_are_no_trials_unless_they_fail() -> None:
    region = well().fails()
    region.until_trial()
    for _ in range(50):
        region.breaker.called(region.now_ms, ok=True)
    assert region.standing.trial
    for _ in range(2):
        region.breaker.called(region.now_ms, ok=False)
    assert not region.standing.trial


def test_where_nobody_sends_probes_suffice_in_the_end() -> None:
    region = well().fails()
    region.until_trial()
    assert region.probes(True, 6).health == "RECOVERING"


def test_the_way_back_is_a_ramp_from_a_tenth_over_twelve_intervals() -> None:
    region = well().fails()
    region.until_trial()
    region.calls(True, GOOD_TRIALS, every_ms=0)
    began_ms = region.now_ms
    ramps: list[float] = []
    for tenth in range(0, 10, 3):
        region.now_ms = began_ms + tenth * 12 * T / 10
        ramps.append(region.standing.ramp)
    assert ramps == pytest.approx([0.1, 0.37, 0.64, 0.91])
    region.now_ms = began_ms + 12 * T
    region.breaker.probed(region.now_ms, ok=True)
    assert region.standing == Standing("HEALTHY")


def back(region: Region) -> Region:
    """Lead it back in, at the foot of its ramp."""
    region.until_trial()
    return region.calls(True, GOOD_TRIALS)


def test_one_that_a_new_router_first_finds_down_has_not_come_back() -> None:
    region = back(Region().probes(False, 3))
    assert region.health == "RECOVERING"
    assert region.breaker.back_for_ms(region.now_ms + MINUTE) == math.inf


def long_gone(draw: float = 0.5) -> Region:
    """A region that has just come back after ten minutes."""
    return back(Region(draw).probes(True).probes(False, 120))


def test_with_half_the_interval_it_is_back_for_twice_as_long() -> None:
    region = long_gone()
    usual_ms = region.breaker.back_for_ms(region.now_ms + MINUTE)
    region.breaker.follow(replace(RULES, interval_ms=T // 2))
    assert region.breaker.back_for_ms(region.now_ms + MINUTE) == 2 * usual_ms


@pytest.mark.parametrize(("draw", "told"), [(0.0, 0.5), (0.5, 1.0), (0.99, 1.49)])
def test_how_long_it_is_back_is_told_half_more_or_less_by_chance(draw: float, told: float) -> None:
    assert Region(draw).probes(True).breaker.back_for_ms(MINUTE) == math.inf
    region = long_gone(draw)
    began_ms = region.now_ms - 10  # with its last good trial
    assert region.breaker.back_for_ms(began_ms + MINUTE) == pytest.approx(told * MINUTE)


@pytest.mark.parametrize("minutes", [1, 4, 10])
@pytest.mark.parametrize("interval_ms", [T, T // 5])
def test_after_as_long_as_it_was_out_and_sixty_intervals_at_most_it_takes_guests(
    minutes: int, interval_ms: int
) -> None:
    region = well().probes(False, 3)
    went_ms = region.now_ms - T
    back(region.probes(False, minutes * MINUTE // T))
    back_ms = region.now_ms - 10  # with its last good trial
    region.breaker.follow(replace(RULES, interval_ms=interval_ms))
    after_ms = min(back_ms - went_ms, 60 * interval_ms)
    told_ms = region.breaker.back_for_ms(back_ms + after_ms)
    assert told_ms == pytest.approx(GUESTS_AFTER_S * 1_000)


def test_the_third_strike_means_half_an_hour_and_the_next_one_twice_that() -> None:
    region = well().fails()
    back(region).waits(6 * MINUTE).probes(True, 2).fails()
    assert region.until_trial() < 2 * MINUTE
    back(region).waits(6 * MINUTE).probes(True, 2).fails()
    assert 30 * MINUTE <= region.until_trial() <= 37 * MINUTE
    back(region).waits(MINUTE).probes(True, 2).fails()
    assert 60 * MINUTE <= region.until_trial() <= 73 * MINUTE


@pytest.mark.parametrize(("minutes", "is_long"), [(0, True), (4, True), (5, False)])
def test_a_strike_within_five_minutes_of_coming_back_counts_twice(
    minutes: int, is_long: bool
) -> None:
    region = back(well().fails()).waits(minutes * MINUTE).fails()
    assert (region.until_trial() >= 30 * MINUTE) is is_long


def flapped() -> Region:
    """A region that has just gone out for half an hour."""
    return back(well().fails()).fails()


KEPT_OUT: dict[str, tuple[Region, bool]] = {
    "that has just flapped": (flapped(), False),
    "that flapped, and has answered for less than six intervals": (
        flapped().probes(True, 5),
        False,
    ),
    "that flapped, and has answered for six": (flapped().probes(True, 6), True),
    "that flapped, answered, and does not now": (
        flapped().probes(True, 9).probes(False),
        False,
    ),
    "that flapped, and has answered twice": (flapped().probes(False, 6).probes(True, 2), False),
    "that failed once": (well().fails().probes(True, 5), False),
    "that is in": (well(), False),
}


@pytest.mark.parametrize(("region", "kept_out"), KEPT_OUT.values(), ids=KEPT_OUT)
def test_tasks_that_may_go_nowhere_else_are_sent_to_a_region(
    region: Region, kept_out: bool
) -> None:
    assert region.breaker.is_kept_out(region.now_ms) is kept_out


ANSWERS: dict[str, tuple[Region, bool]] = {
    "nobody has asked yet": (Region(), True),
    "it is in": (well(), True),
    "it is in doubt": (well().probes(False, 2), True),
    "it has just gone out": (well().fails(), False),
    "it is out and has answered twice": (well().fails().probes(True, 2), False),
    "it is out and has answered three times": (well().fails().probes(True, 3), True),
    "it is out for long and answers": (flapped().probes(True, 3), True),
    "it answered and does no more": (well().fails().probes(True, 3).probes(False), False),
}


@pytest.mark.parametrize(("region", "answers"), ANSWERS.values(), ids=ANSWERS)
def test_a_call_is_worth_while_if(region: Region, answers: bool) -> None:
    assert region.breaker.answers is answers


def test_failed_trials_are_no_strikes() -> None:
    region = well().fails()
    for _ in range(4):
        region.until_trial()
        region.calls(False, 2)
    assert region.until_trial() <= 5 * MINUTE + T


def test_an_hour_without_a_strike_forgets_them() -> None:
    region = well().fails()
    back(region).waits(MINUTE).probes(True, 2).fails()
    back(region).waits(MINUTE).probes(True, HOUR // T + 1).fails()
    assert region.until_trial() <= MINUTE


def eligible_changes(
    up: "list[bool]", draw: float, calls_fail: float, seed: int
) -> tuple[list[float], float]:
    """Times at which the region went out or came in, and of the first long time out.

    `up` by seconds, over and over.
    """
    chance, region, long_ms = random.Random(seed), Region(draw), math.inf
    times, was_in = list[float](), True
    for second in range(HOURS * 3_600):
        is_up, now_ms = up[second % len(up)], second * 1_000.0
        if second % 5 == 0:
            region.breaker.probed(now_ms, ok=is_up)
        standing = region.breaker.at(now_ms)
        if standing.health != "DOWN" or standing.trial:
            ok = is_up and chance.random() >= calls_fail
            region.breaker.called(now_ms, ok=ok, is_task=True)
        if region.breaker._longs:  # pyright: ignore[reportPrivateUsage]
            long_ms = min(long_ms, now_ms)
        is_in = region.breaker.at(now_ms).health not in {"DOWN", "UNKNOWN"}
        if is_in != was_in:
            times.append(now_ms)
        was_in = is_in
    return (times[2:] if times and times[0] == 0 else times), long_ms


def bounds_hold(times: list[float], long_ms: float) -> bool:
    """At most 3 changes up to the first long time out, at most 2 in any hour from then on."""
    later = [at for at in times if at > long_ms]
    few = all(sum(at <= t < at + HOUR for t in later) <= 2 for at in later)
    return few and len(times) - len(later) <= 3


FLAPS = {
    "25 s down, 45 s up": [False] * 25 + [True] * 45,
    "3 s turns": [False] * 3 + [True] * 3,
    "a minute each": [False] * 60 + [True] * 60,
    "down for 15 s every 3 minutes": [False] * 15 + [True] * 165,
    "seconds": [True, False],
}


@pytest.mark.parametrize("up", FLAPS.values(), ids=FLAPS)
@pytest.mark.parametrize("draw", [0.0, 0.99])
def test_a_flapping_region_is_in_and_out_at_most_so_often(up: list[bool], draw: float) -> None:
    assert bounds_hold(*eligible_changes(up, draw, 0.0, 1))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_one_that_fails_by_chance_changes_thrice_an_hour_at_most(share: float) -> None:
    assert len(eligible_changes([True], 0.5, share, 2)[0]) <= 3 * HOURS


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(5, 120), min_size=2, max_size=6), st.integers(0, 99))
def test_however_it_flaps(spans: list[int], percent: int) -> None:
    up = [index % 2 == 0 for index, span in enumerate(spans) for _ in range(span)]
    assert bounds_hold(*eligible_changes(up, percent / 100, 0.0, 1))
