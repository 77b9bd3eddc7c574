"""Tasks of which only the names are known, on their way through a router's census and routes."""

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from router.census import Census
from router.route import Routes
from tests.unit.policy.worlds import region
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.policy.rules import resolve
from tradewind.task import Draft, LiveWorker
from worker.pool import Pace, Pool

FLEET = Fleet({name: region(name) for name in ("eu", "us")}, rtt_ms={("eu", "us"): 80.0})
HERE = "eu"


class World:
    """A router in eu, and a worker of ten slots in each of two regions."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.census = Census(FLEET, HERE, {}, self.clock)
        self.routes = Routes(FLEET, self.census, random.Random(1))
        self.running: dict[str, list[tuple[str, float]]] = {name: [] for name in FLEET.regions}
        self.waiting: dict[str, list[str]] = {name: [] for name in FLEET.regions}
        self.paces = {
            name: Pace(
                Pool(f"w-{name}", name, ("default",), 10, FLEET, App(), "1", 0),
                self.clock,
                running=lambda name=name: self.running[name],
            )
            for name in FLEET.regions
        }

    def look(self) -> None:
        """Probes and heartbeats, as each second brings them."""
        for name, pace in self.paces.items():
            self.census.probed(name, 1.0 if name == HERE else 80.0)
            pace.busy = len(self.running[name])
            pace.depths[0] = (len(self.waiting[name]), int(self.clock.monotonic_ms()))
            self.census.mustered(name, [LiveWorker(pace.beat(), 0)])

    def submit(self, name: str, count: int) -> Counter[str]:
        """A message of so many tasks, which leaves in groups as in router.submit."""
        sent, groups = Counter[str](), Counter[str]()
        draft = Draft(name)
        resolved = resolve(draft, FLEET)
        for _ in range(count):
            groups[self.routes.choose(draft, resolved, "").region] += 1
            if self.routes.is_spent:
                sent += self._send(name, groups)
        return sent + self._send(name, groups)

    def _send(self, name: str, groups: Counter[str]) -> Counter[str]:
        sent = groups.copy()
        for where, tasks in groups.items():
            self.census.sent(where, {name: tasks})
            self.waiting[where] += [name] * tasks
        groups.clear()
        return sent

    def stored(self, name: str, sent: Mapping[str, int]) -> None:
        for where, tasks in sent.items():
            self.census.answered(where, {name: tasks}, {0: 0}, None)

    def work(self, ms: int, **takes_ms: int) -> None:
        """Let time pass, and tasks be run."""
        for _ in range(ms):
            self.clock.advance(1)
            now_ms = self.clock.monotonic_ms()
            for where, running in self.running.items():
                over = [run for run in running if now_ms - run[1] >= takes_ms[run[0]]]
                if over:
                    self.paces[where].ended([(n, (now_ms - at_ms) / 1_000) for n, at_ms in over])
                    running[:] = [run for run in running if run not in over]
                while self.waiting[where] and len(running) < 10:
                    running.append((self.waiting[where].pop(0), now_ms))


@pytest.fixture
def world() -> World:
    """It has run one task of a millisecond at home, and nothing else."""
    one = World()
    one.clock.advance(1_000)
    one.look()
    one.stored("quick", one.submit("quick", 1))
    one.work(1_000, quick=1)
    one.look()
    assert one.census.view(HERE).service_s == pytest.approx(0.001)
    return one


def test_tasks_of_a_name_that_nobody_has_timed_leave_home_within_their_first_message(
    world: World,
) -> None:
    sent = world.submit("slow", 600)
    assert sent["us"] > 200
    assert world.submit("slow", 64)["us"] > 20


def test_one_look_sends_no_more_of_them_home_than_home_has_slots(world: World) -> None:
    assert world.submit("slow", 64)[HERE] < 20


def test_what_takes_three_seconds_is_known_to_do_so_from_the_next_heartbeats_on(
    world: World,
) -> None:
    world.stored("slow", world.submit("slow", 64))
    for _ in range(4):
        world.work(1_000, slow=3_000)
        world.look()
    assert world.census.view(HERE).service_s == pytest.approx(3.0, rel=0.4)
    world.submit("slow", 150)
    assert abs(len(world.waiting["us"]) - len(world.waiting[HERE])) < 40, "both take as long"


def test_a_quick_handler_is_taken_for_slow_until_the_next_heartbeats_at_most(world: World) -> None:
    first = world.submit("new", 600)
    assert first["us"] > 0
    world.stored("new", first)
    world.work(1_000, new=1)
    world.look()
    assert world.submit("new", 600) == {HERE: 600}


def test_what_one_region_has_timed_is_known_of_all(world: World) -> None:
    world.running["us"] = [("slow", world.clock.monotonic_ms())]
    world.work(20_000, slow=20_000)
    world.look()
    assert world.submit("slow", 30)[HERE] >= 10
    assert world.census.view(HERE).service_s == pytest.approx(20.0, rel=0.05)


def test_a_message_of_quick_tasks_stays_at_home(world: World) -> None:
    assert world.submit("quick", 600) == {HERE: 600}
