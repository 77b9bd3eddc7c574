"""How long a region is out, and what that takes, in the seconds of the defaults."""

import pytest

from router.breaker import Breaker, Standing
from tradewind.fleet import Health

MINUTE_S = 60.0
CHANCE = 0.5  # of a draw: neither longer nor shorter


class Region:
    """A breaker with the rules of a file that says nothing, and a clock in seconds."""

    def __init__(self, draw: float = CHANCE) -> None:
        self.now_s = 0.0
        self._breaker = Breaker(Health(), lambda: draw)
        self.probe()

    @property
    def standing(self) -> Standing:
        return self._breaker.at(self.now_s * 1000)

    def probe(self, *, ok: bool = True) -> None:
        self._breaker.probed(self.now_s * 1000, ok=ok)

    def call(self, *, ok: bool, times: int = 1) -> None:
        for _ in range(times):
            self._breaker.called(self.now_s * 1000, ok=ok, is_task=True)

    def wait(self, seconds: float) -> None:
        """Let time pass, with a good probe each 5 s."""
        until_s = self.now_s + seconds
        while self.now_s + 5 <= until_s:
            self.now_s += 5
            self.probe()
        self.now_s = until_s

    def out_s(self) -> float:
        """Wait until it is half-open; returns how long that took, to a second."""
        for _ in range(3):
            self.probe()
        began_s = self.now_s
        while not self.standing.trial:
            assert self.standing.health == "DOWN"
            self.now_s += 1
        return self.now_s - began_s

    def fall(self) -> None:
        self.call(ok=False, times=5)
        assert self.standing.health == "DOWN"

    def come_back(self) -> None:
        self.out_s()
        self.call(ok=True, times=19)
        assert self.standing.health == "RECOVERING"


PROBES = {"one": (1, "HEALTHY"), "two": (2, "DEGRADED"), "three": (3, "DOWN")}


@pytest.mark.parametrize(("bad", "health"), PROBES.values(), ids=PROBES)
def test_by_bad_probes_in_a_row(bad: int, health: str) -> None:
    region = Region()
    for _ in range(bad):
        region.probe(ok=False)
    assert region.standing.health == health


# good and bad calls of ten seconds, turn by turn as far as they go
CALLS = {
    "five bad ones in a row": (0, 5, "DOWN"),
    "four bad ones in a row": (0, 4, "HEALTHY"),
    "half of fifty": (25, 25, "DOWN"),
    "half of forty-eight": (24, 24, "DEGRADED"),
    "less than half of fifty-one": (26, 25, "DEGRADED"),
    "a tenth of twenty": (18, 2, "DEGRADED"),
    "a tenth of ten": (9, 1, "HEALTHY"),
    "less than a tenth of twenty-one": (19, 2, "HEALTHY"),
}


@pytest.mark.parametrize(("good", "bad", "health"), CALLS.values(), ids=CALLS)
def test_by_bad_calls(good: int, bad: int, health: str) -> None:
    region = Region()
    region.call(ok=True, times=max(0, good - bad))
    for _ in range(bad):
        region.call(ok=True, times=min(1, good))
        region.call(ok=False)
    assert region.standing.health == health


DRAWS = {"a fifth less": (0.0, 24.0), "as said": (0.5, 30.0), "a fifth more": (0.9999, 36.0)}


@pytest.mark.parametrize(("draw", "seconds"), DRAWS.values(), ids=DRAWS)
def test_the_first_time_out_is_thirty_seconds_or(draw: float, seconds: float) -> None:
    region = Region(draw)
    region.fall()
    assert region.out_s() == pytest.approx(seconds, abs=1)


def test_each_failed_trial_adds_thirty_seconds_up_to_five_minutes() -> None:
    region = Region()
    region.fall()
    times_s = [region.out_s()]
    for _ in range(11):
        region.call(ok=False, times=2)
        times_s.append(region.out_s())
    expected = [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]
    assert times_s == pytest.approx(expected, abs=1)


# minutes in which it was in before each fall after the first -> how long it is out then, seconds
FALLS: dict[str, tuple[list[float], list[float]]] = {
    "again after six minutes, once more": ([6.0], [60.0]),
    "a third time: half an hour and up to a fifth more": ([6.0, 6.0], [60.0, 1.1 * 1800]),
    "a fourth time: an hour": ([6.0, 6.0, 6.0], [60.0, 1.1 * 1800, 1.1 * 3600]),
    "within five minutes of its return it counts twice": ([2.0], [1.1 * 1800]),
    "on the ramp it counts twice, too": ([0.5], [1.1 * 1800]),
    "after an hour without, it starts anew": ([6.0, 62.0], [60.0, 30.0]),
}


@pytest.mark.parametrize(("minutes", "seconds"), FALLS.values(), ids=FALLS)
def test_a_region_that_falls(minutes: list[float], seconds: list[float]) -> None:
    region, times_s = Region(), list[float]()
    region.fall()
    for each in minutes:
        region.come_back()
        region.wait(each * MINUTE_S)
        region.fall()
        times_s.append(region.out_s())
    assert times_s == pytest.approx(seconds, abs=1)


TRIALS = {
    "nineteen good ones": (19, 0, "RECOVERING"),
    "nineteen good ones and a bad one": (19, 1, "RECOVERING"),
    "eight good ones": (8, 0, "DOWN"),
    "eight good ones and two bad ones": (8, 2, "DOWN"),
}


@pytest.mark.parametrize(("good", "bad", "health"), TRIALS.values(), ids=TRIALS)
def test_of_twenty_trial_tasks(good: int, bad: int, health: str) -> None:
    region = Region()
    region.fall()
    region.out_s()
    region.call(ok=False, times=bad)
    region.call(ok=True, times=good)
    assert region.standing.health == health
    assert region.standing.trial is (health == "DOWN" and bad < 2)


RAMP = {"at once": (0, 0.1), "after 20 s": (20, 0.4), "after 40 s": (40, 0.7), "60 s": (60, 1.0)}


@pytest.mark.parametrize(("seconds", "ramp"), RAMP.values(), ids=RAMP)
def test_the_share_of_one_that_came_back_is(seconds: float, ramp: float) -> None:
    region = Region()
    region.fall()
    region.come_back()
    region.wait(seconds)
    assert region.standing.ramp == pytest.approx(ramp)
    assert (region.standing.health == "HEALTHY") is (ramp == 1.0)
