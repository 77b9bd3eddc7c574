"""What a new file changes, whatever is submitted."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.unit.policy.worlds import fleet, region
from tradewind.admission.identity import homes
from tradewind.fleet import Fleet, RedisTarget, Rule
from tradewind.regions.changes import addresses, fences, steps
from tradewind.regions.targets import stand_in

PARTS: dict[str, dict[str, Any] | None] = {
    "absent": None,
    "new": {"new": True},
    "weightless": {"weight": 0},
    "whole": {},
}
# Of 200 keys and 4 regions, each of the 24 orders has its share.
KEYS = [number.to_bytes(2, "big") for number in range(200)]


def of(*parts: str) -> Fleet:
    """Regions a, b and c by what they are; z is always whole."""
    given = ((name, PARTS[part]) for name, part in zip("abc", parts, strict=False))
    named = [region(name, "all", **changes) for name, changes in given if changes is not None]
    return fleet(*named, region("z", "all"))


def test_a_step_is_named_exactly_if_it_leaves_some_key_without_a_common_home() -> None:
    fleets = {parts: of(*parts) for parts in product(PARTS, repeat=3)}
    kept = {parts: [set(homes(key, (), it)) for key in KEYS] for parts, it in fleets.items()}
    wrong = [
        (before, after)
        for before, after in product(fleets, repeat=2)
        if bool(steps(fleets[before], fleets[after]))
        != any(one.isdisjoint(other) for one, other in zip(kept[before], kept[after], strict=True))
    ]
    assert wrong == []


LASTS = "a weight, and no `new`, for one window (24h)"
UNLESS = ", unless it is lost for good"
LEAVES = "a leaves with a weight: first give it 0 for one window (24h)"
STEPS: dict[str, tuple[Fleet, Fleet, list[str]]] = {
    "a region that is there at once": (
        of("absent"),
        of("whole"),
        ["a is new: first mark it `new: true` for one window (24h)"],
    ),
    "a region that is gone at once": (
        of("whole"),
        of("absent"),
        [f"{LEAVES}{UNLESS}"],
    ),
    "one comes and another loses its weight": (
        of("absent", "whole"),
        of("new", "weightless"),
        ["a and b change at once: take one after the other, a window apart"],
    ),
    "a second guest where nobody lasts": (
        fleet(region("a", "all", new=True)),
        fleet(region("a", "all", new=True), region("b", "all", new=True)),
        [f"b is new, and no region there lasts: first give one {LASTS}"],
    ),
    "a guest less where nobody lasts": (
        fleet(region("a", "all", new=True), region("b", "all", new=True)),
        fleet(region("b", "all", new=True)),
        [f"a leaves, and no region there lasts: first give one that stays {LASTS}{UNLESS}"],
    ),
    "announced": (of("absent"), of("new"), []),
    "kept": (of("new"), of("whole"), []),
    "relieved": (of("whole"), of("weightless"), []),
    "removed": (of("weightless"), of("absent"), []),
    "a region that changes its group": (
        fleet(region("a", "eu"), region("b", "eu"), region("c", "us"), region("d", "us")),
        fleet(region("a", "eu"), region("b", "us"), region("c", "us"), region("d", "us")),
        [
            "b leaves [eu] with a weight: first give it 0 for one window (24h)",
            "b enters [us]: first mark it `new: true` for one window (24h)",
        ],
    ),
    "a group that nobody had": (
        fleet(region("a", "eu"), region("b", "eu")),
        fleet(region("a", "eu", "new"), region("b", "eu")),
        [],
    ),
}


@pytest.mark.parametrize(("old", "new", "said"), STEPS.values(), ids=STEPS)
def test_a_step_is(old: Fleet, new: Fleet, said: list[str]) -> None:
    assert steps(old, new) == said


def ruled(*rules: Rule, **groups: str) -> Fleet:
    named = (region(name, *each.split("+")) for name, each in groups.items())
    return fleet(*named, rules=rules)


EU, US = Rule("f", residency=("eu",)), Rule("f", residency=("us",))
FENCES: dict[str, tuple[Fleet, Fleet, list[str]]] = {
    "a group more": (
        ruled(EU, a="eu", b="us"),
        ruled(Rule("f", residency=("eu", "us")), a="eu", b="us"),
        ["rule f [eu] -> [eu, us]: now lets in b"],
    ),
    "another group": (
        ruled(EU, a="eu", b="us"),
        ruled(US, a="eu", b="us"),
        ["rule f [eu] -> [us]: now lets in b, now shuts out a"],
    ),
    "a region that joins the group": (
        ruled(EU, a="eu", b="us"),
        ruled(EU, a="eu", b="eu+us"),
        ["rule f [eu]: now lets in b"],
    ),
    "a new region in the group": (
        ruled(EU, a="eu"),
        ruled(EU, a="eu", b="eu"),
        ["rule f [eu]: now lets in b"],
    ),
    "a fence that is gone": (
        ruled(EU, a="eu", b="us"),
        ruled(Rule("f"), a="eu", b="us"),
        ["rule f [eu] -> without a fence: now lets in b"],
    ),
    "a rule that is gone with its fence": (
        ruled(EU, a="eu", b="us"),
        ruled(a="eu", b="us"),
        ["rule f [eu] -> (not there): now lets in b"],
    ),
    "a new fence": (
        ruled(a="eu", b="us"),
        ruled(EU, a="eu", b="us"),
        ["rule f (not there) -> [eu]: now shuts out b"],
    ),
    "a region that is gone": (ruled(EU, a="eu", b="eu"), ruled(EU, a="eu"), []),
    "rules without fences": (ruled(Rule("f"), a="eu"), ruled(Rule("g"), a="eu", b="us"), []),
}


@pytest.mark.parametrize(("old", "new", "said"), FENCES.values(), ids=FENCES)
def test_the_fences_change_by(old: Fleet, new: Fleet, said: list[str]) -> None:
    assert [change.sentence for change in fences(old, new)] == said


def at(*nodes: str, **changes: Any) -> Fleet:
    kind: Any = "cluster" if len(nodes) > 1 else "standalone"
    redis = RedisTarget(kind, nodes, **changes)
    return fleet(replace(region("a", "eu"), redis=redis))


def test_another_redis_is_named_and_another_node_of_the_same_is_not() -> None:
    said = ["a has another Redis: tasks that the old one holds are not in the new one"]
    assert addresses(at("h:1"), at("h:2")) == said
    assert addresses(at("h:1"), at("h:1", database=1)) == said
    assert addresses(at("h:1"), at("h:1", username="u")) == []
    assert addresses(at("h:1", "h:2"), at("h:2", "h:3")) == []


def test_an_address_that_is_not_known_here_is_no_other_one() -> None:
    assert addresses(at("h:1"), at(*stand_in("a").nodes)) == []
