import math
from dataclasses import replace

import pytest

from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.errors import NoRegionPermitted, NoRegionReachable, RegionsFull, TradewindError
from tradewind.fleet import Affinity, Fleet, Match, RegionLimits, Rule
from tradewind.policy import affinity, filters
from tradewind.policy.choose import Memory
from tradewind.policy.decide import decide, refusal
from tradewind.policy.rules import resolve
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

EU, US, AP = view("eu", 1.0), view("us", 90.0), view("ap", 200.0)
PLAIN = fleet()
HEAVY = fleet(region("eu", "eu"), region("us", "us", weight=300), region("ap", "apac"))


def key_for(home: str, world: Fleet = PLAIN) -> str:
    pairs = [(r.name, float(r.weight)) for r in world.regions.values()]
    keys = (f"key-{i}" for i in range(1000))
    return next(key for key in keys if affinity.rank(key.encode(), pairs)[0] == home)


CASES = {
    "the nearest region wins": (Draft("a"), [EU, US, AP], "eu", "home"),
    "order of views does not matter": (Draft("a"), [AP, US, EU], "eu", "home"),
    "a wait inside the band keeps it home": (
        Draft("a"),
        [busy("eu", 0.1), US, AP],
        "eu",
        "home",
    ),
    "a pin goes far": (Draft("a", pin_region="ap"), [EU, US, AP], "ap", "pin"),
    "a pin outweighs a key": (
        Draft("a", pin_region="ap", affinity_key=key_for("us")),
        [EU, US, AP],
        "ap",
        "pin",
    ),
    "a key goes to its home": (
        Draft("a", affinity_key=key_for("us")),
        [EU, US, AP],
        "us",
        "affinity",
    ),
    "the task's fence holds": (Draft("a", residency=("apac",)), [EU, US, AP], "ap", "home"),
    "a region that is down is left out": (
        Draft("a"),
        [view("eu", 1.0, health="DOWN"), US, AP],
        "us",
        "detour",
    ),
    "a region nobody works in is left out": (Draft("a"), [unserved("eu"), US, AP], "us", "detour"),
    "a region without the handler is left out": (
        Draft("a"),
        [view("eu", 1.0, served={"default": frozenset({"b"})}), US, AP],
        "us",
        "home",
    ),
    "a region without a view is unknown": (Draft("a"), [US, AP], "us", "home"),
}


@pytest.mark.parametrize(("draft", "views", "expected", "reason"), CASES.values(), ids=CASES)
def test_decide(draft: Draft, views: list[RegionView], expected: str, reason: str) -> None:
    decision = decide(draft, views, PLAIN, draw=0.5)
    assert (decision.region, decision.reason) == (expected, reason)
    assert decision.rule == "default"
    assert decision.policy_version == "v1"


def test_the_decision_explains_every_region_in_file_order() -> None:
    views = [busy("eu", 0.1, 2.0), view("us", 90.0, state="DRAINING")]
    decision = decide(Draft("a"), views, PLAIN, draw=0.0, ledger_home="us")
    eu, us, ap = decision.candidates
    assert (eu.region, eu.eligible, eu.excluded_by, eu.share) == ("eu", True, "", 1.0)
    assert (eu.rtt_ms, eu.expected_wait_s) == (2.0, pytest.approx(0.1))
    assert eu.score_s == pytest.approx(0.102)
    assert (us.region, us.eligible, us.excluded_by, us.share) == ("us", False, "draining", 0.0)
    assert (ap.region, ap.eligible, ap.excluded_by) == ("ap", False, "unknown")
    assert decision.ledger_home == "us"


# --- home, band and softmin (docs/routing.md, By hand)


def test_beyond_the_band_the_scores_share_the_tasks_by_weight() -> None:
    # 0.601 s at home against 0.09 s: band 50 ms. exp(-0.511/0.1) = 0.006 : 3 : exp(-1.1)/... of ap
    views = [busy("eu", 0.6), US, AP]
    decision = decide(Draft("a"), views, HEAVY, draw=0.0)
    shares = {c.region: c.share for c in decision.candidates}
    assert sum(shares.values()) == pytest.approx(1.0)
    parts = {"eu": 100 * 2.71828 ** (-5.11), "us": 300, "ap": 100 * 2.71828 ** (-1.1)}
    assert shares == pytest.approx({k: v / sum(parts.values()) for k, v in parts.items()}, rel=1e-3)


def test_the_draw_walks_along_the_shares() -> None:
    views = [busy("eu", 0.6), US, AP]
    picks = [decide(Draft("a"), views, PLAIN, draw=i / 1000) for i in range(1000)]
    for candidate in picks[0].candidates:
        taken = sum(pick.region == candidate.region for pick in picks) / 1000
        assert taken == pytest.approx(candidate.share, abs=0.002)
    assert {(p.region, p.reason) for p in picks} == {
        ("eu", "home"),
        ("us", "spill"),
        ("ap", "spill"),
    }


def test_the_older_the_report_the_flatter_the_choice() -> None:
    def share_of_best(age_s: float) -> float:
        views = [busy("eu", 3.0), replace(US, age_s=age_s), AP]
        return decide(Draft("a"), views, PLAIN, draw=0.0).candidates[1].share

    assert share_of_best(0.0) > share_of_best(2.0) > share_of_best(9.0) > 1 / 3


def test_a_task_returns_home_only_when_home_is_clearly_within_the_band() -> None:
    views = [busy("eu", 0.1, 30.0), US, AP]  # 40 ms above the best: band 50 ms, half of it 25 ms
    assert decide(Draft("a"), views, PLAIN, draw=0.5, memory=Memory("eu")).reason == "home"
    assert decide(Draft("a"), views, PLAIN, draw=0.5, memory=Memory()).reason == "home"
    left = Memory("eu", bands={"eu": 0.5})
    abroad = decide(Draft("a"), views, PLAIN, draw=0.5, memory=left)
    assert max(candidate.share for candidate in abroad.candidates) < 1


def test_of_equally_near_regions_the_hinted_is_home() -> None:
    views = [view("eu", 0.3), view("us", 0.2), view("ap", 40.0)]
    assert decide(Draft("a"), views, PLAIN, draw=0.5).region == "us"
    assert decide(Draft("a"), views, PLAIN, draw=0.5, memory=Memory("eu")).region == "eu"
    assert decide(Draft("a"), views, PLAIN, draw=0.5, memory=Memory("ap")).region == "us"


def test_of_equally_near_regions_the_origin_is_home_whatever_the_hint() -> None:
    views = [view("eu", 0.3), view("us", 0.2), view("ap", 40.0)]
    own = decide(Draft("a"), views, PLAIN, draw=0.5, memory=Memory("us"), own_region="eu")
    assert own.region == "eu"
    sent = Draft("a", origin_region="us")
    assert decide(sent, views, PLAIN, draw=0.5, own_region="eu").region == "us"
    far = decide(Draft("a", origin_region="ap"), views, PLAIN, draw=0.5)
    assert far.region == "us"


def test_the_ledger_home_is_taken_inside_the_band_only() -> None:
    near = [view("eu", 1.0), view("us", 30.0), AP]
    taken = decide(Draft("a"), near, PLAIN, draw=0.5, ledger_home="us")
    assert (taken.region, taken.reason) == ("us", "ledger")
    far = decide(Draft("a"), near, PLAIN, draw=0.5, ledger_home="ap")
    assert (far.region, far.reason) == ("eu", "home")


def test_the_surplus_of_a_small_nearest_region_spills_and_comes_back() -> None:
    # C49 (a), (c): eu has 2 slots, us 50; each task takes a second and is seen at once.
    counts = {"eu": 0, "us": 0}
    slots = {"eu": 2, "us": 50}
    world = fleet(region("eu", "eu", weight=4), region("us", "us"))
    for index in range(500):
        views = [
            view(
                name,
                rtt,
                slots=slots[name],
                free_slots=max(0, slots[name] - counts[name]),
                depth=max(0, counts[name] - slots[name]),
            )
            for name, rtt in (("eu", 1.0), ("us", 90.0))
        ]
        counts[decide(Draft("a"), views, world, draw=index / 500).region] += 1
    longest_s = max(counts[name] / slots[name] for name in counts)
    assert longest_s < 2 * 500 / 52
    idle = [view("eu", 1.0, slots=2, free_slots=2), view("us", 90.0, slots=50, free_slots=50)]
    assert (
        decide(Draft("a"), idle, world, draw=0.9, memory=Memory("eu", bands={"eu": 0.5})).region
        == "eu"
    )


# --- preference and affinity


PREFER = fleet(rules=(Rule("gpu", prefer=("us", "ap")),))
PREFERENCES = {
    "the first preferred, though far": ([EU, US, AP], "us", "prefer"),
    "the next when the first is down": ([EU, replace(US, health="DOWN"), AP], "ap", "prefer"),
    "the next when tasks queue up at the first": ([EU, busy("us", 20.0), AP], "ap", "spill"),
    "anywhere when no preferred region is left": (
        [EU, replace(US, health="DOWN"), replace(AP, state="DRAINING")],
        "eu",
        "home",
    ),
}


@pytest.mark.parametrize(("views", "expected", "reason"), PREFERENCES.values(), ids=PREFERENCES)
def test_a_rule_prefers(views: list[RegionView], expected: str, reason: str) -> None:
    decision = decide(Draft("a"), views, PREFER, draw=0.5)
    assert (decision.region, decision.reason, decision.rule) == (expected, reason, "gpu")


REQUIRED = fleet(rules=(Rule("r", affinity=Affinity(mode="required")),))


def test_a_required_key_never_leaves_its_region() -> None:
    draft = Draft("a", affinity_key=key_for("us"))
    kept = decide(draft, [EU, busy("us", 20.0, 90.0), AP], REQUIRED, draw=0.5)
    assert (kept.region, kept.reason) == ("us", "affinity")
    assert [c.excluded_by for c in kept.candidates] == [
        filters.NOT_AFFINITY,
        "",
        filters.NOT_AFFINITY,
    ]
    lost = decide(draft, [EU, replace(US, health="DOWN"), AP], REQUIRED, draw=0.5)
    assert (lost.region, lost.candidates[1].excluded_by) == ("", filters.DOWN)
    assert isinstance(refusal(lost, REQUIRED), NoRegionReachable)


def test_a_required_key_stays_inside_the_preferred_regions() -> None:
    world = fleet(rules=(Rule("r", prefer=("ap",), affinity=Affinity(mode="required")),))
    decision = decide(Draft("a", affinity_key=key_for("us")), [EU, US, AP], world, draw=0.5)
    assert decision.region == "ap"


def test_a_preferred_key_walks_on_from_a_region_that_is_overloaded_or_gone() -> None:
    draft = Draft("a", affinity_key=key_for("us"))
    pairs = [(r.name, float(r.weight)) for r in PLAIN.regions.values()]
    second = affinity.rank(draft.affinity_key.encode(), pairs)[1]
    for us in (busy("us", 20.0, 90.0), replace(US, state="CORDONED")):
        decision = decide(draft, [EU, us, AP], PLAIN, draw=0.5)
        assert (decision.region, decision.reason) == (second, "affinity")


def test_a_preferred_key_stays_while_its_region_starts_tasks_at_once() -> None:
    draft = Draft("a", affinity_key=key_for("us"))
    decision = decide(draft, [EU, replace(US, free_slots=1), AP], PLAIN, draw=0.5)
    assert decision.region == "us"


def test_a_preferred_key_stays_when_all_regions_are_equally_loaded() -> None:
    draft = Draft("a", affinity_key=key_for("us"))
    views = [busy(name, 20.0) for name in ("eu", "us", "ap")]
    assert decide(draft, views, PLAIN, draw=0.5).region == "us"


# --- nowhere, and panic


LIMITS = RegionLimits(max_backlog=100, max_wait_ms=2_000)
SMALL = fleet(region("eu", "eu", limits=LIMITS), region("us", "us", limits=LIMITS))
REJECTING = replace(SMALL, panic_mode="reject")
PANICS: dict[str, tuple[list[RegionView], str]] = {
    "over the wait limit": ([busy("eu", 3.0), view("us", 90.0, health="DOWN")], "eu"),
    "no worker in one, doubts about the other": (
        [unserved("eu", 90.0), view("us", 1.0, age_s=60.0)],
        "us",
    ),
    "nothing known of any": ([], "eu"),
    "an old report": ([view("eu", 1.0, age_s=60.0), view("us", 90.0, state="DRAINING")], "eu"),
}


@pytest.mark.parametrize(("views", "expected"), PANICS.values(), ids=PANICS)
def test_panic_sends_to_doubtful_regions_unless_told_to_reject(
    views: list[RegionView], expected: str
) -> None:
    decision = decide(Draft("a"), views, SMALL, draw=0.0)
    assert (decision.region, decision.reason) == (expected, "panic")
    assert sum(c.share for c in decision.candidates if c.eligible) == pytest.approx(1.0)
    assert decide(Draft("a"), views, REJECTING, draw=0.0).region == ""


NO_HANDLER = view("us", 90.0, served={"default": frozenset({"b"})})
UNSERVED = {
    "no worker anywhere": [unserved("eu"), unserved("us", 90.0)],
    "no worker in one, not the handler in the other": [unserved("eu"), NO_HANDLER],
    "the others are down": [unserved("eu"), view("us", 90.0, health="DOWN")],
}


@pytest.mark.parametrize("views", UNSERVED.values(), ids=UNSERVED)
def test_a_task_that_nobody_runs_is_kept_and_says_so(views: list[RegionView]) -> None:
    decision = decide(Draft("a"), views, SMALL, draw=0.0)
    assert (decision.region, decision.reason) == ("eu", "unserved")
    assert decide(Draft("a"), views, REJECTING, draw=0.0).region == ""


def test_what_panic_overlooks_is_still_told() -> None:
    views = [unserved("eu"), view("us", 90.0, state="DRAINING")]
    told = [
        (c.region, c.eligible, c.excluded_by)
        for c in decide(Draft("a"), views, SMALL, draw=0.0).candidates
    ]
    assert told == [("eu", True, filters.NO_WORKER), ("us", False, filters.DRAINING)]


def test_panic_keeps_a_pinned_task_where_it_is_pinned() -> None:
    draft = Draft("a", pin_region="us")
    assert decide(draft, [EU, unserved("us")], SMALL, draw=0.0).region == "us"


FENCED = Draft("a", residency=("eu",))
REFUSALS: dict[str, tuple[Draft, list[RegionView], Fleet, type[TradewindError]]] = {
    "the fenced region is down": (
        FENCED,
        [replace(EU, health="DOWN"), US],
        SMALL,
        NoRegionReachable,
    ),
    "the fenced region is drained": (
        FENCED,
        [replace(EU, state="DRAINING"), US],
        SMALL,
        NoRegionReachable,
    ),
    "unserved and down is still down": (
        FENCED,
        [unserved("eu", health="DOWN"), US],
        SMALL,
        NoRegionReachable,
    ),
    "out of memory": (FENCED, [replace(EU, full=True), US], SMALL, RegionsFull),
    "over the backlog": (FENCED, [replace(EU, depth=100), US], SMALL, RegionsFull),
    "over the wait, when panic is off": (FENCED, [busy("eu", 3.0), US], REJECTING, RegionsFull),
    "one full, one down": (
        Draft("a"),
        [replace(EU, full=True), replace(US, health="DOWN")],
        SMALL,
        NoRegionReachable,
    ),
    "pinned outside the fence": (
        FENCED._replace(pin_region="us"),
        [EU, US],
        SMALL,
        NoRegionPermitted,
    ),
    "pinned to a region that is no more": (
        Draft("a", pin_region="mars"),
        [EU, US],
        SMALL,
        NoRegionPermitted,
    ),
    "only weight 0 inside the fence": (
        FENCED,
        [EU, US],
        fleet(region("eu", "eu", weight=0), region("us", "us")),
        NoRegionPermitted,
    ),
    "the rule's fence excludes the task's": (
        FENCED,
        [EU, US],
        replace(SMALL, rules=(Rule("us-only", Match(), residency=("us",)),)),
        NoRegionPermitted,
    ),
    "an unknown group": (Draft("a", residency=("mars",)), [EU, US], SMALL, NoRegionPermitted),
}


@pytest.mark.parametrize(("draft", "views", "world", "error"), REFUSALS.values(), ids=REFUSALS)
def test_a_task_is_refused(
    draft: Draft, views: list[RegionView], world: Fleet, error: type[TradewindError]
) -> None:
    decision = decide(draft, views, world, draw=0.5)
    assert decision.region == ""
    assert decision.reason
    assert not any(candidate.eligible for candidate in decision.candidates)
    found = refusal(decision, world)
    assert type(found) is error
    for candidate in decision.candidates:
        reason, _, fences = candidate.excluded_by.partition(": ")
        # Where waiting helps, only those count that it may help with.
        is_told = error is NoRegionPermitted or reason not in filters.BY_POLICY
        assert ((fences or f"{candidate.region}: {reason}") in str(found)) == is_told


def test_a_task_with_two_impossible_fences_is_explained_under_its_rules_name() -> None:
    world = fleet(rules=(Rule("us-only", residency=("us",)),))
    decision = decide(FENCED, [EU, US, AP], world, draw=0.5)
    assert (decision.region, decision.rule) == ("", "us-only")
    fences = "[us] by rule us-only and [eu] by the task leave no residency group"
    assert decision.reason.startswith(fences)
    assert {c.excluded_by for c in decision.candidates} == {f"outside the fence: {fences}"}
    assert [c.rtt_ms for c in decision.candidates] == [EU.rtt_ms, US.rtt_ms, AP.rtt_ms]


def test_a_region_that_was_never_seen_has_no_round_trip_to_show() -> None:
    decision = decide(FENCED._replace(residency=("mars",)), [], SMALL, draw=0.5)
    assert {c.rtt_ms for c in decision.candidates} == {math.inf}


def test_rules_resolved_before_are_not_resolved_again() -> None:
    draft = Draft("a", residency=("apac",))
    resolved = resolve(draft, PLAIN)
    given: Decision = decide(draft, [EU, US, AP], PLAIN, draw=0.5, resolved=resolved)
    assert given == decide(draft, [EU, US, AP], PLAIN, draw=0.5)
