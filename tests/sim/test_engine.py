import math
import random

import pytest

from bench.sim.engine import Engine, SimulatedClock
from bench.sim.matrices import Matrix
from bench.sim.model import Settings, Task
from bench.sim.outages import GOOD, Condition
from bench.sim.site import Site


def test_actions_run_in_the_order_of_their_times_and_equal_ones_as_planned() -> None:
    engine, seen = Engine(), list[str]()
    engine.at(2.0, seen.append, "later")
    engine.at(1.0, seen.append, "first")
    engine.at(1.0, seen.append, "second")
    engine.at(9.0, seen.append, "after the end")
    engine.run(5.0)
    assert seen == ["first", "second", "later"]
    assert (engine.now_s, engine.events) == (5.0, 3)


def test_near_and_far_actions_run_as_a_list_sorted_by_time_has_them() -> None:
    chance = random.Random(3)
    times = [chance.choice((0.25, 30.0, chance.random() * 40)) for _ in range(400)]
    engine, seen = Engine(), list[tuple[float, int]]()

    def act(index: int) -> None:
        seen.append((times[index], index))
        times.append(engine.now_s + chance.random() ** 4 * 10)  # mostly within the same moment
        if len(times) < 800:
            engine.at(times[-1], act, len(times) - 1)

    for index, when_s in enumerate(list(times)):
        engine.at(when_s, act, index)
    for until_s in (0.1, 0.25, 7.3, 7.4, 100.0):
        engine.run(until_s)
        assert all(when_s <= until_s for when_s, _ in seen)
    assert seen == sorted(seen)
    assert len(seen) == 799


def test_an_action_planned_for_the_past_runs_now_and_time_never_goes_back() -> None:
    engine, times = Engine(), list[float]()
    clock = SimulatedClock(engine)
    engine.at(3.0, lambda: engine.at(1.0, lambda: times.append(clock.monotonic_ms())))
    engine.run(4.0)
    assert times == [3_000.0]


class Yard:
    """One region under Poisson arrivals, without a network."""

    def __init__(self, slots: int, workers: int = 1) -> None:
        self.settings = Settings(
            Matrix("one", ("here",), {}, {}), (1.0,), slots=slots, workers=workers, service_s=1.0
        )
        self.engine, self.waits_s = Engine(), list[float]()
        self.fleet = self.settings.fleet()
        self.site = Site("here", self.settings, self.fleet, self.engine, self._started)
        self.origin = next(iter(self.settings.origins(self.fleet)))
        self.chance = random.Random(5)

    def _started(self, task: Task, _site: Site) -> None:
        self.waits_s.append(task.started_s - task.at_s)

    def feed(self, rate: float, until_s: float) -> int:
        count, when_s = 0, self.chance.expovariate(rate)
        while when_s < until_s:
            self.engine.at(when_s, self.take, self.chance.expovariate(1.0))
            when_s += self.chance.expovariate(rate)
            count += 1
        return count

    def take(self, service_s: float) -> None:
        at_s = self.engine.now_s
        self.site.store(Task(self.origin, at_s, service_s, self.chance.randrange(64), math.inf))


def erlang_c_wait_s(rate: float, slots: int) -> float:
    """Mean wait of M/M/c with a mean service time of 1 s."""
    blocked = 1.0  # Erlang B by its recursion
    for servers in range(1, slots + 1):
        blocked = rate * blocked / (servers + rate * blocked)
    waits = blocked / (1 - rate / slots * (1 - blocked))
    return waits / (slots - rate)


@pytest.mark.parametrize(("slots", "workers", "load"), [(1, 1, 0.6), (6, 3, 0.8)])
def test_mean_waits_are_those_of_the_erlang_c_formula(
    slots: int, workers: int, load: float
) -> None:
    yard = Yard(slots, workers)
    rate = load * slots
    yard.feed(rate, 40_000 / rate)
    yard.engine.run(45_000 / rate)
    mean_s = sum(yard.waits_s) / len(yard.waits_s)
    assert mean_s == pytest.approx(erlang_c_wait_s(rate, slots), rel=0.08)


def test_no_task_is_lost_or_run_twice_when_store_and_workers_come_and_go() -> None:
    yard = Yard(6, 3)
    count = yard.feed(4.0, 300.0)
    for at_s, condition in (
        (50.0, Condition(reach="refuses")),
        (60.0, GOOD),
        (100.0, Condition(workers=1 / 3)),
        (150.0, GOOD),
    ):
        yard.engine.at(at_s, yard.site.become, condition)
    yard.engine.run(155.0)
    assert yard.site.completed + yard.site.held <= count
    yard.engine.run(600.0)
    assert yard.site.completed == count == len(yard.waits_s)
    assert yard.site.held == 0
    assert yard.site.free_slots == yard.site.slots == 6


def test_tasks_of_killed_workers_start_again_after_their_lease_but_count_once() -> None:
    yard = Yard(2)
    yard.engine.at(1.0, yard.take, 5.0)
    yard.engine.at(2.0, yard.site.become, Condition(workers=0.0))
    yard.engine.at(3.0, yard.site.become, GOOD)
    lease_s = yard.fleet.default_queue.lease_ms / 1000
    yard.engine.run(2.0 + lease_s + 4.9)
    assert (yard.site.completed, len(yard.waits_s)) == (0, 1)
    yard.engine.run(2.0 + lease_s + 5.1)
    assert (yard.site.completed, len(yard.waits_s)) == (1, 1)


def test_a_store_reports_what_was_ready_in_the_partition_as_the_enqueue_script_does() -> None:
    yard = Yard(1)
    reports = [
        yard.site.store(Task(yard.origin, 0.0, 9.0, partition, math.inf))
        for partition in (7, 7, 7, 3)
    ]
    assert reports == [0, 0, 1, 0]  # the first is taken up at once
