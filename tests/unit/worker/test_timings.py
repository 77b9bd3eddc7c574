"""What a heartbeat tells of how long tasks take."""

import math
import random
from collections.abc import Sequence

import pytest

from tradewind.clock import ManualClock
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.limits import MAX_TIMINGS
from worker.pool import Pace, Pool


class Bench:
    """A worker of ten slots, its pace, and what runs in it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        pool = Pool("w", "eu", ("default",), 10, Fleet(regions={}), App(), "1", 0)
        self.running: list[tuple[str, float]] = []
        self.pace = Pace(pool, self.clock, running=lambda: self.running)

    def begin(self, name: str, count: int = 1) -> None:
        self.running += [(name, self.clock.monotonic_ms())] * count

    def end(self, name: str, count: int = 1) -> None:
        """Those that began first end now."""
        now_ms = self.clock.monotonic_ms()
        ended = [run for run in self.running if run[0] == name][:count]
        for run in ended:
            self.running.remove(run)
        self.pace.ended([(name, (now_ms - began_ms) / 1_000) for _, began_ms in ended])

    def runs(self, name: str, took_ms: int, count: int = 1) -> None:
        """One after the other."""
        for _ in range(count):
            self.begin(name)
            self.clock.advance(took_ms)
            self.end(name)

    def mean_s(self, name: str) -> float:
        return self.pace.beat().timings[name].mean_s


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_worker_that_ran_nothing_knows_nothing(bench: Bench) -> None:
    beat = bench.pace.beat()
    assert (beat.service_s, beat.rate, beat.timings) == (0.0, 0.0, {})


def test_of_one_name_about_the_last_ten_that_ended_count(bench: Bench) -> None:
    bench.runs("a", 100, 50)
    assert bench.mean_s("a") == bench.pace.beat().service_s == pytest.approx(0.1)
    bench.runs("a", 1_100, 10)
    assert bench.mean_s("a") == pytest.approx(1.1 - 0.9**10)


def test_ten_tasks_of_three_seconds_after_one_of_a_millisecond_show_in_the_next_heartbeat(
    bench: Bench,
) -> None:
    bench.runs("quick", 1)
    bench.begin("slow", 10)
    bench.clock.advance(100)  # nobody knows yet, so a second is what is taken for it
    assert bench.pace.beat().service_s == pytest.approx(10 / 11, rel=0.01)
    bench.clock.advance(1_900)
    beat = bench.pace.beat()
    assert beat.timings["slow"].mean_s == 2.0
    assert beat.timings["quick"].mean_s == 0.001
    assert beat.service_s == pytest.approx(2 * 10 / 11, rel=0.01)


def test_a_handler_that_has_become_slow_shows_before_any_of_its_tasks_ends(bench: Bench) -> None:
    bench.runs("a", 1, 2_000)
    bench.begin("a", 10)
    bench.clock.advance(1_000)
    beat = bench.pace.beat()
    assert beat.timings["a"].mean_s == beat.service_s == 1.0
    assert beat.rate < 20, "what it completed before says nothing of that"
    bench.clock.advance(2_000)
    bench.end("a", 10)
    beat = bench.pace.beat()
    assert beat.service_s == pytest.approx(3 * (1 - 0.9**10), rel=0.01)
    assert beat.rate * beat.service_s < 10, "that is all its slots"


def test_one_task_that_takes_long_is_no_proof_that_all_do(bench: Bench) -> None:
    bench.runs("a", 1_000, 20)
    bench.begin("a")
    bench.clock.advance(2_500)
    assert bench.mean_s("a") == pytest.approx(1.0)
    bench.clock.advance(7_500)  # but after ten seconds it is one that they take longer than before
    assert bench.mean_s("a") == pytest.approx(10 / math.log(100))


def test_slots_that_long_tasks_hold_make_others_no_slower(bench: Bench) -> None:
    bench.begin("report", 9)
    for _ in range(60):
        bench.runs("mail", 10, 100)
    beat = bench.pace.beat()
    assert beat.timings["mail"].mean_s == pytest.approx(0.01)
    assert beat.timings["report"].mean_s == 60.0
    assert beat.timings["mail"].lately == pytest.approx(1_000, rel=0.01)
    assert beat.timings["report"].lately < 0.03
    assert beat.service_s < 0.02
    assert beat.rate == pytest.approx(100, rel=0.01)
    bench.end("report", 9)
    assert bench.pace.beat().timings["report"].lately < 0.03, "they began a minute ago"
    assert bench.pace.beat().service_s < 0.02


def test_a_name_that_runs_for_the_first_time_is_not_known_for_a_second(bench: Bench) -> None:
    bench.begin("new")
    bench.clock.advance(900)
    beat = bench.pace.beat()
    assert (beat.service_s, beat.timings["new"].mean_s) == (0.0, 0.0)
    assert beat.timings["new"].lately == pytest.approx(0.91, abs=0.01)


def test_what_is_known_is_known_after_hours_without_a_task(bench: Bench) -> None:
    bench.runs("a", 10, 20)
    bench.runs("b", 30, 20)
    before = bench.pace.beat()
    bench.clock.advance(9_000_000)
    beat = bench.pace.beat()
    assert beat.service_s == pytest.approx(before.service_s)
    assert beat.timings["a"].mean_s == before.timings["a"].mean_s
    assert beat.timings["a"].lately == beat.rate == 0.0


def test_tasks_that_take_hours_are_known_too(bench: Bench) -> None:
    bench.runs("a", 36_000_000, 2)
    assert bench.pace.beat().service_s == 36_000
    bench.clock.advance(36_000_000)
    assert bench.pace.beat().service_s == pytest.approx(36_000)


def test_the_names_that_run_and_then_those_that_ended_last_are_told(bench: Bench) -> None:
    bench.runs("first", 1)
    bench.begin("first")
    for nth in range(1_000):
        bench.runs(f"n{nth}", 1)
    told = bench.pace.beat().timings
    assert list(told) == ["first", *(f"n{nth}" for nth in range(999, 1_000 - MAX_TIMINGS, -1))]
    assert len(bench.pace._timings._known) <= 4 * MAX_TIMINGS  # pyright: ignore[reportPrivateUsage]


def steady(seed: int, times_s: Sequence[float]) -> tuple[float, float]:
    """Ten slots, all taken: the mean of what the heartbeats of ten minutes tell, twice.

    Of them with what runs, and without.
    """
    chance, bench = random.Random(seed), Bench()
    begins = [(0, nth) for nth in range(10)]
    ends_ms = {nth: round(1_000 * chance.choice(times_s)) for nth in range(10)}
    with_it, without = list[float](), list[float]()
    for ms in range(0, 600_000, 10):
        bench.clock.advance(10)
        over = [nth for nth, end_ms in ends_ms.items() if end_ms <= ms]
        now_ms = bench.clock.monotonic_ms()
        if over:
            bench.pace.ended([("a", (now_ms - begins[nth][0]) / 1_000) for nth in over])
        for nth in over:
            begins[nth] = (round(now_ms), nth)
            ends_ms[nth] = ms + round(1_000 * chance.choice(times_s))
        if ms % 1_000 == 0 and ms > 20_000:
            bench.running = []
            without.append(bench.pace.beat().service_s)
            bench.running = [("a", began_ms) for began_ms, _ in begins]
            with_it.append(bench.pace.beat().service_s)
    return sum(with_it) / len(with_it), sum(without) / len(without)


EVEN = (0.5,)
CHANCE = tuple(random.Random(1).expovariate(2.0) for _ in range(5_000))
TWO_KINDS = (0.1,) * 9 + (4.1,)


STEADY = {"even": (EVEN, 0.0), "by chance": (CHANCE, 0.01), "of two kinds": (TWO_KINDS, 0.2)}


@pytest.mark.parametrize(("times_s", "more"), STEADY.values(), ids=STEADY)
def test_what_runs_makes_little_difference_while_all_is_as_it_was(
    times_s: Sequence[float], more: float
) -> None:
    with_it, without = steady(1, times_s)
    assert without <= with_it <= without * (1 + more)
