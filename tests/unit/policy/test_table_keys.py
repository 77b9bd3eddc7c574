"""Where a key goes: its own region, unless that has over 1.25 times its share of all tasks."""

import pytest

from tests.unit.policy.worlds import fleet, region, view
from tradewind.fleet import Affinity, Fleet, Rule
from tradewind.policy import affinity
from tradewind.policy.choose import Memory
from tradewind.policy.decide import decide
from tradewind.task import Draft

EVEN = fleet()
HEAVY = fleet(region("eu", "eu", weight=200), region("us", "us"), region("ap", "apac"))


def key_of(world: Fleet, home: str) -> str:
    weights = [(name, float(each.weight)) for name, each in world.regions.items()]
    keys = (f"key-{index}" for index in range(999))
    return next(key for key in keys if affinity.rank(key.encode(), weights)[0] == home)


# tasks, ready or running, of eu, us and ap, ten slots each; then those sent since the report
LOADS: dict[str, tuple[Fleet, tuple[int, int, int], int, bool]] = {
    "its slots are busy, as everywhere": (EVEN, (10, 10, 10), 0, True),
    # (35 + 1) / 3 * 1.25 = 15
    "it comes to 1.25 times the average": (EVEN, (14, 10, 11), 0, True),
    "it comes to one task more": (EVEN, (15, 10, 10), 0, False),
    "the others hold as many": (EVEN, (15, 15, 15), 0, True),
    "a task sent a moment ago is the one too many": (EVEN, (14, 10, 10), 1, False),
    # (47 + 1) * 200 / 400 * 1.25 = 30
    "twice the weight holds twice as many": (HEAVY, (29, 9, 9), 0, True),
    "and one more is too many": (HEAVY, (30, 9, 8), 0, False),
    "a slot is free, whatever the average": (EVEN, (9, 0, 0), 0, True),
}


@pytest.mark.parametrize(("world", "loads", "since", "stays"), LOADS.values(), ids=LOADS)
def test_a_key_stays_in_its_region_if(
    world: Fleet, loads: tuple[int, int, int], since: int, stays: bool
) -> None:
    views = [
        view(name, free_slots=max(0, 10 - load), depth=max(0, load - 10))
        for name, load in zip(world.regions, loads, strict=True)
    ]
    draft = Draft("a", affinity_key=key_of(world, "eu"))
    decision = decide(draft, views, world, draw=0.0, memory=Memory(since={"eu": since}))
    assert decision.reason == "affinity"
    assert (decision.region == "eu") is stays


REQUIRED = fleet(rules=(Rule("r", affinity=Affinity(mode="required")),))
PREFERRED = fleet(rules=(Rule("r", affinity=Affinity(mode="preferred")),))
UNKEYED = fleet(rules=(Rule("r", affinity=Affinity("tenant")),))
KEY = key_of(EVEN, "us")
SECOND = affinity.rank(KEY.encode(), [(name, 100.0) for name in EVEN.regions])[1]
MODES: dict[str, tuple[Fleet, str, str]] = {
    "required: there all the same": (REQUIRED, "us", "affinity"),
    "preferred: to the next of its order": (PREFERRED, SECOND, "affinity"),
    "of another kind than the rule asks for: home": (UNKEYED, "ap", "home"),
}


@pytest.mark.parametrize(("world", "target", "reason"), MODES.values(), ids=MODES)
def test_a_key_whose_region_is_overloaded_goes(world: Fleet, target: str, reason: str) -> None:
    views = [view("eu", 5.0), view("us", 9.0, free_slots=0, depth=50), view("ap", 1.0)]
    draft = Draft("a", affinity_key=KEY)
    decision = decide(draft, views, world, draw=0.0, own_region="ap")
    assert (decision.region, decision.reason) == (target, reason)
