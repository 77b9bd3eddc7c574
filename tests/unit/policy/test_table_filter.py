"""What keeps a task out of a region: the order of reasons, and limits nobody has changed."""

from dataclasses import replace

import pytest

from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.fleet import Durability, QueuePolicy
from tradewind.policy import filters
from tradewind.policy.decide import decide
from tradewind.task import Draft
from tradewind.view import RegionView

WORLD = fleet(region("eu", "eu"), region("idle", "eu", weight=0), region("us", "us"))
US = view("us", 90.0)
# Everything is wrong with eu; each row puts in order what the row before told.
RUIN = unserved("eu", state="DRAINING", health="DOWN", full=True, depth=100_000, rate=1.0)
STAFFED = replace(RUIN, slots=10, unserved_for_s=0.0, served={"mail": frozenset({"*"})})
SERVING = replace(STAFFED, served=US.served)
FENCED, PINNED = Draft("a", residency=("us",)), Draft("a", pin_region="us")
ORDER: dict[str, tuple[Draft, RegionView, str]] = {
    "first the fence": (FENCED._replace(pin_region="us"), RUIN, filters.OUTSIDE_FENCE),
    "then a pin": (PINNED, RUIN, filters.NOT_PINNED),
    "then that nobody works there": (Draft("a"), RUIN, filters.NO_WORKER),
    "or nobody who can run it": (Draft("a"), STAFFED, filters.NO_HANDLER),
    "then an operator's word": (Draft("a"), SERVING, filters.DRAINING),
    "then its health": (Draft("a"), replace(SERVING, state="ACTIVE"), filters.DOWN),
    "then its memory": (
        Draft("a"),
        replace(SERVING, state="ACTIVE", health="HEALTHY"),
        filters.FULL,
    ),
    "then its backlog": (
        Draft("a"),
        replace(SERVING, state="ACTIVE", health="HEALTHY", full=False),
        filters.BACKLOG,
    ),
    "and last the wait": (
        Draft("a"),
        replace(SERVING, state="ACTIVE", health="HEALTHY", full=False, depth=99_999),
        filters.WAIT,
    ),
}


@pytest.mark.parametrize(("draft", "eu", "reason"), ORDER.values(), ids=ORDER)
def test_of_several_reasons_the_one_told_is(draft: Draft, eu: RegionView, reason: str) -> None:
    told = {each.region: each for each in decide(draft, [eu, US], WORLD, draw=0.5).candidates}
    assert (told["eu"].excluded_by, told["eu"].eligible) == (reason, False)


def test_a_region_of_weight_0_is_out_by_that_before_all_but_fence_and_pin() -> None:
    down = view("idle", health="DOWN")
    told = {each.region: each for each in decide(Draft("a"), [down], WORLD, draw=0.5).candidates}
    assert told["idle"].excluded_by == filters.WEIGHT_ZERO


LACKING = view("eu", lacks={"replica": "no replica is connected"})
ASKED: dict[str, tuple[Durability, bool]] = {
    "what it has": ("fsync", True),
    "what it lacks": ("replica", False),
    "no more than memory": ("memory", True),
}


@pytest.mark.parametrize(("durability", "goes"), ASKED.values(), ids=ASKED)
def test_a_queue_goes_to_a_region_that_lacks_a_durability_if_it_asks_for(
    durability: Durability, goes: bool
) -> None:
    """Panic does not change that: a task is kept as its queue asks, or it is not accepted."""
    world = replace(WORLD, default_queue=QueuePolicy(durability=durability))
    decision = decide(Draft("a", residency=("eu",)), [LACKING], world, draw=0.5)
    told = {each.region: each.excluded_by for each in decision.candidates}
    assert (decision.region, told["eu"]) == (("eu", "") if goes else ("", filters.DURABILITY))


TEN_A_SECOND = busy("eu", 0.0, rate=10.0)
BOUNDS: dict[str, tuple[RegionView, str]] = {
    "a backlog of 99,999": (replace(TEN_A_SECOND, depth=99_999, rate=1e6), ""),
    "a backlog of 100,000": (replace(TEN_A_SECOND, depth=100_000, rate=1e6), filters.BACKLOG),
    "a wait of 30 s": (replace(TEN_A_SECOND, depth=299), ""),
    "a wait of 30.1 s": (replace(TEN_A_SECOND, depth=300), filters.WAIT),
    "no worker for 14.9 s": (unserved("eu", unserved_for_s=14.9), ""),
    "no worker for 15 s": (unserved("eu", unserved_for_s=15.0), filters.NO_WORKER),
    "a report of 30 s ago": (view("eu", age_s=30.0), ""),
    "a report of 30.1 s ago": (view("eu", age_s=30.1), filters.UNKNOWN),
}


@pytest.mark.parametrize(("eu", "reason"), BOUNDS.values(), ids=BOUNDS)
def test_unless_the_file_says_otherwise_a_region_is_in_or_out_with(
    eu: RegionView, reason: str
) -> None:
    told = {each.region: each for each in decide(Draft("a"), [eu, US], WORLD, draw=0.5).candidates}
    assert told["eu"].excluded_by == reason
    assert told["eu"].eligible == (not reason)


IN: dict[str, RegionView] = {
    "a healthy region": view("eu"),
    "a degraded one": view("eu", health="DEGRADED"),
    "one that recovers": view("eu", health="RECOVERING", ramp=0.5),
}


@pytest.mark.parametrize("eu", IN.values(), ids=IN)
def test_new_work_goes_to(eu: RegionView) -> None:
    told = {each.region: each for each in decide(Draft("a"), [eu, US], WORLD, draw=0.0).candidates}
    assert told["eu"].eligible
    assert told["eu"].share > 0
