"""Invariant 4, whatever the fleet, the rules, the task and the state of the regions."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy.worlds import REDIS
from tradewind.errors import NoRegionPermitted
from tradewind.fleet import Affinity, FailoverPlan, Fleet, QueueFailover, QueuePolicy, Region, Rule
from tradewind.policy.choose import Memory
from tradewind.policy.decide import decide, refusal
from tradewind.policy.relocate import Stranded, relocate
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import RegionView

NAMES = ("a", "b", "c", "d")
GROUPS = ("g1", "g2", "g3")
some_groups = st.lists(st.sampled_from(GROUPS), unique=True, max_size=3).map(tuple)
some_regions = st.lists(st.sampled_from(NAMES), unique=True, min_size=1)
some_names = st.lists(st.sampled_from(NAMES), unique=True, max_size=3).map(tuple)


def mostly(usual: st.SearchStrategy[Any], at_times: st.SearchStrategy[Any]) -> Any:
    """Give `usual` in most cases: where all is broken, all decisions are the same."""
    # Not an end of the range: those are what Hypothesis likes best.
    return st.integers(0, 15).flatmap(lambda number: at_times if number == 7 else usual)


fences = st.just(()) | some_groups
weights = st.sampled_from((1, 0, 100, 100))


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    regions = {
        name: Region(name, REDIS, draw(some_groups), draw(weights))
        for name in draw(mostly(st.just(NAMES), some_regions))
    }
    affinity = draw(
        st.sampled_from((None, None, Affinity(mode="required"), Affinity(), Affinity("tenant")))
    )
    rule = Rule("r", residency=draw(fences), prefer=draw(some_names), affinity=affinity)
    order = draw(st.dictionaries(st.sampled_from(NAMES), some_names))
    known = {s: tuple(n for n in names if n in regions) for s, names in order.items()}
    return Fleet(
        regions,
        rules=draw(st.sampled_from(((), (rule,)))),
        default_queue=QueuePolicy(failover=QueueFailover(max_hops=3)),
        failover=FailoverPlan(order=known),
        panic_mode=draw(st.sampled_from(("best_effort", "reject"))),
    )


HEALTHS = ("DEGRADED", "DOWN", "RECOVERING", "UNKNOWN")
NO_WORKER: dict[str, frozenset[str]] = {}
OTHER_WORKERS = (NO_WORKER, {"default": frozenset({"x"})}, {"x": frozenset({"h"})})
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "rtt_ms": mostly(st.floats(0, 300), st.floats(0, 1e4)),
    "ok": mostly(st.just(1.0), st.floats(0, 1)),
    "health": mostly(st.just("HEALTHY"), st.sampled_from(HEALTHS)),
    "state": mostly(st.just("ACTIVE"), st.sampled_from(("CORDONED", "DRAINING"))),
    "depth": mostly(st.integers(0, 40), st.integers(0, 200_000)),
    "in_flight": mostly(st.integers(0, 5), st.integers(0, 1_000)),
    "slots": mostly(st.integers(1, 40), st.integers(0, 1_000)),
    "free_slots": mostly(st.integers(0, 20), st.integers(0, 1_000)),
    "rate": mostly(st.floats(0, 100), st.floats(0, 1e4)),
    "service_s": mostly(st.floats(0, 2), st.floats(0, 1e4)),
    "age_s": mostly(st.floats(0, 5), st.floats(0, 120)),
    "full": mostly(st.just(value=False), st.just(value=True)),
    "served": mostly(st.just({"default": frozenset({"*"})}), st.sampled_from(OTHER_WORKERS)),
    "unserved_for_s": mostly(st.just(0.0), st.floats(0, 60)),
    "ramp": mostly(st.just(1.0), st.floats(0, 1)),
    "trial": mostly(st.just(value=False), st.just(value=True)),
    "back_for_s": st.sampled_from((math.inf, math.inf, math.inf, 1.0, 310.0, 1e4)),
    "live_share": mostly(st.just(1.0), st.floats(0, 1)),
}


@st.composite
def region_views(draw: st.DrawFn) -> list[RegionView]:
    known = mostly(st.permutations(NAMES), st.lists(st.sampled_from(NAMES), unique=True))
    return [RegionView(name, **draw(st.fixed_dictionaries(FIELDS))) for name in draw(known)]


@st.composite
def tasks(draw: st.DrawFn) -> Draft:
    # Not st.builds: it would make up every field that is not given, the queue first of all.
    return Draft(
        "h",
        queue=draw(mostly(st.just("default"), st.just("x"))),
        residency=draw(fences),
        pin_region=draw(mostly(st.just(""), st.sampled_from(NAMES))),
        affinity_key=draw(st.sampled_from(("", "", "k1", "k2"))),
        tenant=draw(st.sampled_from(("", "t"))),
    )


drafts = tasks()
draws = st.floats(0, 1, exclude_max=True)


def permitted(draft: Draft, fleet: Fleet) -> set[str]:
    """Say by plain set arithmetic where the task may go at all."""
    rule = fleet.rules[0].residency if fleet.rules else ()
    return {
        name
        for name, region in fleet.regions.items()
        for fence in [set(region.residency)]
        if (not rule or fence & set(rule)) and (not draft.residency or fence & set(draft.residency))
    }


memories = st.builds(
    Memory,
    home=st.sampled_from((None, *NAMES)),
    bands=st.dictionaries(st.sampled_from(NAMES), st.sampled_from((0.0, 0.5))),
    settled=some_names,
    filled=some_names,
    panics=st.sampled_from((None, False, True)),
    since=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 64)),
)


@given(fleets(), region_views(), drafts, draws, memories)
def test_no_decision_crosses_the_fence(
    fleet: Fleet, views: list[RegionView], draft: Draft, draw: float, memory: Memory
) -> None:
    home = memory.home or ""
    decision = decide(draft, views, fleet, draw=draw, memory=memory, ledger_home=home)
    allowed = permitted(draft, fleet)
    if draft.pin_region:
        allowed &= {draft.pin_region}
    by_name = {view.name: view for view in views}
    for candidate in decision.candidates:
        assert candidate.eligible or candidate.share == 0
        if candidate.eligible:
            assert candidate.region in allowed
            seen = by_name.get(candidate.region)
            is_away = seen is not None and seen.health == "DOWN" and not seen.trial
            assert seen is None or (seen.state == "ACTIVE" and not is_away)
    if decision.region:
        assert decision.region in allowed
        assert set(fleet.inside(decision.fence)) <= permitted(draft, fleet)
        assert abs(sum(candidate.share for candidate in decision.candidates) - 1) < 1e-9
    else:
        assert str(refusal(decision, fleet))


@given(fleets(), region_views(), drafts, draws)
def test_equal_arguments_give_an_equal_decision(
    fleet: Fleet, views: list[RegionView], draft: Draft, draw: float
) -> None:
    first = decide(draft, views, fleet, draw=draw)
    assert decide(draft, list(reversed(views)), fleet, draw=draw) == first


@given(fleets(), fleets(), region_views(), drafts, some_names)
def test_no_move_crosses_the_fence_even_after_a_reload(
    before: Fleet, now: Fleet, views: list[RegionView], draft: Draft, visited: tuple[str, ...]
) -> None:
    try:
        fence, fence_now = resolve(draft, before).fence, resolve(draft, now).fence
    except NoRegionPermitted:
        return
    for source in now.regions:
        task = Stranded(source, "default", "h", fence, fence_now, draft.pin_region, visited)
        moved = relocate(task, views, now)
        assert moved.target not in {source, *visited}
        assert bool(moved.target) != bool(moved.reason)
        if moved.target:
            assert not draft.pin_region
            assert moved.target in now.inside(fence)
            assert moved.target in permitted(draft, now)
