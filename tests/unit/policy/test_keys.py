"""Keys, by whole decisions: a lost region moves its own, and no region is crowded."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy.test_fence_property import NAMES, region_views
from tests.unit.policy.worlds import fleet, region, view
from tradewind.fleet import Affinity, Fleet, Rule
from tradewind.policy import defaults
from tradewind.policy.affinity import rank
from tradewind.policy.decide import decide
from tradewind.task import Draft
from tradewind.view import RegionView

WEIGHTS = {"a": 300, "b": 200, "c": 200, "d": 100, "e": 100}
WORLD = fleet(*(region(name, weight=weight) for name, weight in WEIGHTS.items()))
KEYS = [f"user-{index}" for index in range(3_000)]


def idle() -> list[RegionView]:
    return [view(name, 10.0 * index) for index, name in enumerate(WEIGHTS)]


def homes(views: list[RegionView], world: Fleet, keys: list[str]) -> list[str]:
    drafts = (Draft("t", affinity_key=key) for key in keys)
    return [decide(draft, views, world, draw=0.5).region for draft in drafts]


def test_a_region_that_fails_moves_its_own_keys_and_no_other() -> None:
    before = homes(idle(), WORLD, KEYS)
    failed = [replace(each, health="DOWN") if each.name == "b" else each for each in idle()]
    after = homes(failed, WORLD, KEYS)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {old for old, _ in moved} == {"b"}
    assert len(moved) == before.count("b")
    assert {new for _, new in moved} == {"a", "c", "d", "e"}


@given(
    st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=40),
    st.sampled_from(tuple(WEIGHTS)),
    st.lists(st.integers(1, 1_000), min_size=5, max_size=5),
)
def test_removing_a_region_from_the_file_moves_only_its_own_keys(
    keys: list[str], removed: str, weights: list[int]
) -> None:
    made = [region(n, weight=w) for n, w in zip(WEIGHTS, weights, strict=True)]
    before = homes(idle(), fleet(*made), keys)
    after = homes(idle(), fleet(*(each for each in made if each.name != removed)), keys)
    for old, new in zip(before, after, strict=True):
        assert old in {new, removed}


@given(
    region_views(),
    st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=10),
    st.sampled_from(NAMES),
    st.lists(st.integers(1, 1_000), min_size=len(NAMES), max_size=len(NAMES)),
    st.sampled_from((("all",), ("even",))),
)
def test_a_key_that_must_stay_at_home_stays_whatever_becomes_of_other_regions(
    views: list[RegionView],
    keys: list[str],
    removed: str,
    weights: list[int],
    fence: tuple[str, ...],
) -> None:
    rule = Rule("r", residency=fence, affinity=Affinity(mode="required"))
    made = [
        region(name, "all", *(("even",) if index % 2 == 0 else ()), weight=weight)
        for index, (name, weight) in enumerate(zip(NAMES, weights, strict=True))
    ]
    left = [each for each in made if each.name != removed]
    inside = [(each.name, each.weight) for each in made if fence[0] in each.residency]
    before = homes(views, fleet(*made, rules=(rule,)), keys)
    after = homes(views, fleet(*left, rules=(rule,)), keys)
    for key, old, new in zip(keys, before, after, strict=True):
        home, *others = rank(key.encode(), inside)
        assert old in {home, ""}  # or refused, where home is out
        assert new in ({others[0], ""} if home == removed else {old})


def test_many_tasks_of_few_keys_crowd_no_region() -> None:
    """Zipf keys, all sent and none done: every load stays within the bound."""
    chance, sent = random.Random(3), Counter[str]()
    popularity = [1 / (rank + 1) for rank in range(200)]
    for key in chance.choices(KEYS[:200], popularity, k=600):
        views = [replace(each, free_slots=0, depth=sent[each.name]) for each in idle()]
        sent[decide(Draft("t", affinity_key=key), views, WORLD, draw=0.5).region] += 1
    total, slots = sent.total(), 10
    for name, weight in WEIGHTS.items():
        share = (total + slots * len(WEIGHTS)) * weight / sum(WEIGHTS.values())
        assert sent[name] + slots <= defaults.BOUNDED_LOAD * share + 1, name
    assert max(sent[name] / weight for name, weight in WEIGHTS.items()) > 1.1 * total / 900
