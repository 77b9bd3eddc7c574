"""`explain` and `submit` agree, for any fleet, rules, task and state of the regions."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.route import Routes
from tests.unit.policy.test_fence_property import drafts, fleets, permitted, region_views
from tests.unit.policy.worlds import SERVED, busy, region, view
from tradewind.errors import NoRegionPermitted, TradewindError
from tradewind.fleet import Fleet
from tradewind.policy import filters
from tradewind.policy.choose import NOWHERE
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import Candidate, RegionView

_FOR_GOOD = filters.BY_POLICY | {filters.NOT_AFFINITY}


class Seen:
    """What a census says, at times that the test sets."""

    region = "a"

    def __init__(self, views: Sequence[RegionView]) -> None:
        self.all, self.news, self.at_ms = list(views), 0, 0.0

    def views(self, _origin: str | None = None) -> list[RegionView]:
        return self.all

    def takes_s(self, _region: str, _name: str) -> float:
        return 1.0

    def now_ms(self) -> float:
        return self.at_ms

    def send_unserved(self, region: str) -> None: ...


def submitted(routes: Routes, draft: Draft, fleet: Fleet) -> tuple[str, str, str]:
    try:
        found = routes.choose(draft, resolve(draft, fleet), "a", {})
    except TradewindError:
        return ("", "", "")
    return (found.region, found.rule, found.reason)


lives = st.tuples(
    fleets(),
    st.lists(region_views(), min_size=1, max_size=3),
    drafts,
    st.sampled_from(("", "a", "b")),
    st.lists(st.sampled_from((0.0, 3.0, 200.0, 15_000.0)), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
Life = tuple[Fleet, list[list[RegionView]], Draft, str, list[float], int]


@settings(max_examples=200)
@given(lives)
def test_explain_tells_what_a_submit_does(life: Life) -> None:
    list(agree(life))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_explain_tells_what_a_submit_does_in_thousands_of_worlds() -> None:
    reached: Counter[str] = Counter()

    @settings(max_examples=6_000, deadline=None)
    @given(lives)
    def live(life: Life) -> None:
        reached.update(agree(life))

    live()
    assert set(reached) >= STEPS


STEPS = {
    *("pin", "affinity", "prefer", "ledger", "home", "spill", "failover", "trial", "panic"),
    *("detour", "unserved", NOWHERE),
}


def agree(life: Life) -> Iterator[str]:
    """Ask and submit at several moments of a router's life; gives the steps that decided."""
    fleet, worlds, draft, ledger_home, pauses_ms, seed = life
    census: Any = Seen(worlds[0])
    routes = Routes(fleet, census, random.Random(seed))
    for index, pause_ms in enumerate(pauses_ms):
        census.at_ms += pause_ms
        if pause_ms >= 200.0:
            census.all, census.news = worlds[index % len(worlds)], census.news + 1
        task = draft._replace(request_id=f"r-{seed}-{index}")
        try:
            resolved = resolve(task, fleet)
        except NoRegionPermitted:
            assert routes.decide(task, None, "").region == ""
            return
        told = routes.decide(task, resolved, ledger_home)
        assert routes.decide(task, resolved, ledger_home) == told
        if not told.region:
            with pytest.raises(TradewindError) as refused:
                routes.choose(task, resolved, ledger_home)
            # Where waiting helps, only those are named that it may help with.
            hoped = [each for each in told.candidates if each.excluded_by not in _FOR_GOOD]
            assert all(each.region in str(refused.value) for each in hoped or told.candidates)
        else:
            # All of it is equal: candidates, reasons, parts, home and shares.
            assert routes.choose(task, resolved, ledger_home, explained=True) == told
            assert abs(sum(each.share for each in told.candidates) - 1) < 1e-9
            allowed = permitted(task, fleet)
            assert {each.region for each in told.candidates if each.eligible} <= allowed
            assert told.region in allowed
        for each in told.candidates:
            adds_up(each)
        yield told.reason


def adds_up(candidate: Candidate) -> None:
    parts = candidate.parts
    assert parts is not None
    seconds = parts.rtt_s + parts.wait_s + parts.cost_s
    score_s = seconds / parts.success_rate / parts.ramp * parts.health_factor
    assert score_s == pytest.approx(candidate.score_s)
    assert candidate.excluded_by == (candidate.reasons[0] if candidate.reasons else "")
    assert candidate.eligible or candidate.reasons or candidate.share == 0


def test_a_repeat_with_the_same_request_id_goes_the_same_way() -> None:
    views = [
        RegionView(name, rtt, slots=10, service_s=1.0, depth=depth, served=SERVED)
        for name, rtt, depth in (("a", 1.0, 8), ("b", 5.0, 5), ("c", 9.0, 5))
    ]
    fleet = Fleet({name: region(name) for name in "abc"}, version="v1")
    census: Any = Seen(views)
    routes = Routes(fleet, census, random.Random(1))
    tasks = [Draft("h", request_id=f"r{index}") for index in range(200)]
    first = [submitted(routes, task, fleet)[0] for task in tasks]
    again = Routes(fleet, census, random.Random(2))
    assert [submitted(again, task, fleet)[0] for task in tasks] == first
    assert len(set(first)) > 1  # so chance had a part in it
    other = replace(fleet, version="v2")
    moved = Routes(other, census, random.Random(1))
    assert [submitted(moved, task, other)[0] for task in tasks] != first


def test_a_half_open_region_gets_one_task_until_it_is_time_for_another() -> None:
    fleet = Fleet({name: region(name) for name in "ab"})
    tried = RegionView("a", 1.0, health="DOWN", trial=True, slots=1, free_slots=1)
    census: Any = Seen([tried, RegionView("b", 9.0, slots=1, free_slots=1)])
    routes = Routes(fleet, census, random.Random(1))
    assert [submitted(routes, Draft("h"), fleet)[0] for _ in range(4)] == ["a", "b", "b", "b"]
    census.at_ms += 60.0
    assert submitted(routes, Draft("h"), fleet) == ("a", "default", "trial")
    census.all, census.at_ms = [replace(tried, in_flight=1), census.all[1]], 200.0
    assert submitted(routes, Draft("h"), fleet)[0] == "b"


def paced(census: Any, routes: Routes, fleet: Fleet, at_ms: float) -> dict[str, float]:
    census.at_ms, census.news = at_ms, census.news + 1
    told = routes.decide(Draft("h"), resolve(Draft("h"), fleet), "")
    return {each.region: each.share for each in told.candidates if each.share}


def test_a_router_moves_ten_points_a_second_and_counts_its_guests() -> None:
    fleet = Fleet({name: region(name) for name in "ab"})
    idle = [view("a", 1.0), view("b", 40.0)]
    waits = [busy("a", 0.2), idle[1]]
    census: Any = Seen(idle)
    routes = Routes(fleet, census, random.Random(1))
    assert paced(census, routes, fleet, 0.0) == {"a": 1.0}
    census.all = waits
    assert paced(census, routes, fleet, 1_000.0)["b"] == pytest.approx(0.1)
    assert paced(census, routes, fleet, 2_000.0)["b"] == pytest.approx(0.2)
    for _ in range(200):
        routes.choose(Draft("h"), resolve(Draft("h"), fleet), "", {})
    # 10 tasks/s there, 30 % of them for 10 s: 30 guests, and those of the last look
    assert paced(census, routes, fleet, 3_000.0) == {"a": 1.0}
    census.all = idle
    assert paced(census, routes, fleet, 4_000.0) == {"a": 1.0}
    census.all = waits
    assert paced(census, routes, fleet, 15_000.0)["b"] > 0.1
