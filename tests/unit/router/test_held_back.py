"""Tasks that may not start, or that nobody in a region runs, make nobody else wait."""

import random
from collections.abc import Mapping

import pytest

from router.census import Census
from router.held_back import HeldBack, held_back
from router.route import Routes
from tests.unit.policy.worlds import fleet, region, view
from tradewind.clock import ManualClock
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.policy import filters
from tradewind.policy.rules import resolve
from tradewind.policy.scores import wait_s
from tradewind.task import Draft, Heartbeat, LiveWorker, QueueCounts, Timing
from tradewind.view import RegionView

MAIL = {"mail": frozenset({"send"})}


class Counts:
    """A region with so many ready tasks by queue; none: it does not answer."""

    def __init__(self, **ready: int) -> None:
        self.ready, self.looks = ready, 0

    async def counts(self) -> Mapping[str, QueueCounts]:
        self.looks += 1
        if not self.ready:
            raise StoreUnavailable("eu", "gone", sent=False)
        return {
            queue: QueueCounts(pending=(1, count - 1, 0)) for queue, count in self.ready.items()
        }

    async def parked(self) -> Mapping[tuple[str, str], int]:
        return {}


class Seen:
    """What was told of regions, all of which but `down` answer."""

    def __init__(self, views: Mapping[str, RegionView] | None = None) -> None:
        self.told: dict[str, int] = {}
        self.views, self.at_ms = dict(views or {}), 0.0

    def now_ms(self) -> float:
        return self.at_ms

    def answers(self, region: str) -> bool:
        return region != "down"

    def view(self, region: str) -> RegionView:
        found = self.views.setdefault(region, RegionView(region, 1.0))
        found.held_back = self.told.get(region, 0)
        return found

    def hold_back(self, region: str, tasks: int) -> None:
        self.told[region] = tasks


async def test_ready_tasks_of_paused_queues_are_counted_until_they_are_resumed() -> None:
    stores = {"eu": Counts(mail=5, reports=7), "us": Counts(mail=3), "down": Counts(mail=9)}
    census, paused = Seen(), set[str]()
    held = HeldBack(stores, census, lambda: paused)

    async def look() -> None:
        census.at_ms += 5_000
        await held.look()

    await look()
    assert census.told == {}, "nothing is asked while nothing is paused, and nothing waits"
    paused.add("mail")
    await look()
    assert census.told == {"eu": 5, "us": 3}
    eu, stores["eu"].ready = stores["eu"].ready, {}
    await look()
    assert census.told == {"eu": 5, "us": 3}, "the last number of one that does not answer"
    paused.clear()
    stores["eu"].ready = eu
    await look()
    assert census.told == {"eu": 0, "us": 0}


async def test_a_region_is_asked_more_often_while_tasks_lie_beside_free_slots() -> None:
    busy = RegionView("busy", 1.0, depth=9, slots=10, served=MAIL)
    beside = RegionView("beside", 1.0, depth=9, slots=10, free_slots=10, served=MAIL)
    known = RegionView("known", 1.0, depth=9, slots=10, free_slots=10, served=MAIL)
    idle = RegionView("idle", 1.0, slots=10, free_slots=10, served=MAIL)
    stores = {
        "busy": Counts(mail=9),
        "beside": Counts(mail=9),
        "known": Counts(typo=9),
        "idle": Counts(mail=1),
    }
    census = Seen({each.name: each for each in (busy, beside, known, idle)})
    held = HeldBack(stores, census, frozenset)
    for _ in range(11):
        await held.look()
        census.at_ms += 1_000
    looks = {name: store.looks for name, store in stores.items()}
    assert looks == {"busy": 3, "beside": 11, "known": 3, "idle": 0}
    assert census.told == {"busy": 0, "beside": 0, "known": 9}


SERVED, NOBODY = view("eu", served=MAIL), view("eu", served={}, slots=0)
ANY = view("eu", served={"mail": frozenset({"*"})})

# Region, tasks by queue, put aside by (queue, name), paused queues -> held back
HELD: Mapping[str, tuple[RegionView, dict[str, int], dict[tuple[str, str], int], set[str], int]] = {
    "nothing that is run": (SERVED, {"mail": 5}, {}, set(), 0),
    "a queue that no worker takes from": (SERVED, {"mail": 5, "typo": 7}, {}, set(), 7),
    "a handler that no worker runs": (SERVED, {"mail": 5}, {("mail", "typo"): 3}, set(), 3),
    "not what another worker runs": (SERVED, {"mail": 5}, {("mail", "send"): 3}, set(), 0),
    "not where any handler is run": (ANY, {"mail": 5}, {("mail", "typo"): 3}, set(), 0),
    "a paused queue": (SERVED, {"mail": 5}, {}, {"mail"}, 5),
    "what is paused, once": (SERVED, {"mail": 5}, {("mail", "typo"): 3}, {"mail"}, 5),
    "nothing where nobody works for now": (NOBODY, {"mail": 5}, {("mail", "typo"): 3}, set(), 0),
}


@pytest.mark.parametrize(("where", "queues", "parked", "paused", "held"), HELD.values(), ids=HELD)
def test_it_is_held_back(
    where: RegionView,
    queues: dict[str, int],
    parked: dict[tuple[str, str], int],
    paused: set[str],
    held: int,
) -> None:
    counts = {queue: QueueCounts(pending=(0, tasks, 0)) for queue, tasks in queues.items()}
    assert held_back(counts, parked, paused, where) == held


def test_nobody_waits_behind_what_is_held_back_and_it_counts_as_backlog() -> None:
    full = RegionView("eu", 1.0, depth=600, slots=10, rate=10.0, service_s=1.0)
    paused = RegionView("eu", 1.0, depth=600, slots=10, rate=10.0, service_s=1.0, held_back=590)
    many = RegionView("eu", 1.0, depth=100_000, slots=10, rate=10.0, held_back=100_000)

    def reasons(view: RegionView) -> tuple[str, ...]:
        where, of = region("eu", "eu"), fleet(region("eu", "eu"))
        return filters.conditions(view, where, of, "mail", "send", wait_s(view))

    assert filters.WAIT in reasons(full)
    assert reasons(paused) == ()
    assert wait_s(paused) < 2
    assert reasons(many) == (filters.BACKLOG,)
    stale = RegionView("eu", 1.0, depth=5, slots=10, free_slots=10, held_back=9)
    assert wait_s(stale) == 0


@pytest.mark.parametrize("draft", [Draft("send", queue="typo"), Draft("typo", queue="mail")])
def test_tasks_sent_where_nobody_runs_them_leave_an_idle_region_idle(draft: Draft) -> None:
    clock, of = ManualClock(), Fleet({"eu": region("eu")})
    census = Census(of, "eu", {}, clock)
    routes = Routes(of, census, random.Random(1))
    depths = {0: (0, 0)}

    def beat() -> None:
        now_ms = int(clock.monotonic_ms())
        depths[0] = (depths[0][0], now_ms)
        beat = Heartbeat(
            *("w", "eu", ("mail",), ("send",)),
            slots=10,
            busy=0,
            started_ms=0,
            version="1",
            service_s=0.01,
            rate=1.0,
            timings={"send": Timing(0.01, 10)},
            depths=depths.copy(),
        )
        census.probed("eu", 1.0)
        census.mustered("eu", [LiveWorker(beat, 0)])

    def service_s() -> float:
        assert wait_s(census.view("eu")) == 0
        return census.view("eu").service_s

    beat()
    before_s = service_s()
    for _ in range(170):
        assert routes.choose(draft, resolve(draft, of), "").reason == "unserved"
        census.sent("eu", {draft.name: 1})
        census.answered("eu", {draft.name: 1}, {depths[0][0] % 64: 0}, None)
        assert wait_s(census.view("eu")) == 0
        depths[0] = (depths[0][0] + 1, 0)
    for _ in range(60):
        clock.advance(1_000)
        beat()
        assert service_s() == pytest.approx(before_s)
        assert census.view("eu").depth == pytest.approx(170, abs=40)
