"""Recovery, trials, standby, panic and spill limits, a row a sentence (docs/routing.md)."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.errors import NoRegionReachable
from tradewind.fleet import Affinity, FailoverPlan, Fleet, RegionLimits, Rule
from tradewind.policy import affinity, filters
from tradewind.policy.choose import Memory
from tradewind.policy.decide import decide, live_share, refusal, survey
from tradewind.policy.rules import resolve
from tradewind.statuses import retry_after_ms
from tradewind.task import Draft
from tradewind.view import Decision, RegionView

EU, US, AP = view("eu", 1.0), view("us", 90.0), view("ap", 200.0)
PLAIN = fleet()
TASK = Draft("a")


def shares(decision: Decision) -> dict[str, float]:
    return {each.region: each.share for each in decision.candidates if each.share}


def recovering(seen: RegionView, ramp: float) -> RegionView:
    return replace(seen, health="RECOVERING", ramp=ramp)


RAMPS = {
    "at the foot of the ramp a tenth": (0.1, 0.1),
    "never less than a tenth": (0.0, 0.1),
    "half way up a half": (0.5, 0.5),
    "near the top nearly all": (0.9, 0.9),
    "and at the top all": (1.0, 1.0),
}


@pytest.mark.parametrize(("ramp", "share"), RAMPS.values(), ids=RAMPS)
def test_a_home_that_recovers_takes_its_ramps_share(ramp: float, share: float) -> None:
    decision = decide(TASK, [recovering(EU, ramp), US, AP], PLAIN, draw=0.0)
    found = shares(decision)
    assert found["eu"] == pytest.approx(share)
    assert sum(found.values()) == pytest.approx(1.0)
    assert decision.reason == "home"


def test_a_region_that_recovers_alone_takes_all() -> None:
    decision = decide(TASK, [recovering(EU, 0.1), replace(US, health="DOWN")], PLAIN, draw=0.9)
    assert shares(decision) == {"eu": 1.0}


def test_a_guest_region_that_recovers_gets_less_of_what_spills() -> None:
    def of_us(ramp: float) -> float:
        views = [busy("eu", 5.0), recovering(US, ramp), AP]
        return shares(decide(TASK, views, PLAIN, draw=0.0))["us"]

    assert of_us(0.1) < of_us(0.5) < of_us(1.0)


def test_a_ramp_counts_as_weight_where_the_score_says_little() -> None:
    views = [busy("eu", 5.0), recovering(view("us", 2.0), 0.1), view("ap", 3.0)]
    assert shares(decide(TASK, views, PLAIN, draw=0.0, own_region="eu"))["us"] < 0.1


def test_keys_return_to_their_region_one_by_one() -> None:
    weights = [(name, 100.0) for name in PLAIN.regions]
    keys = [f"key-{index}" for index in range(600)]
    at_home = [key for key in keys if affinity.rank(key.encode(), weights)[0] == "us"]

    def back(ramp: float) -> set[str]:
        views = [EU, recovering(US, ramp), AP]
        drafts = [Draft("a", affinity_key=key) for key in at_home]
        return {d.affinity_key for d in drafts if decide(d, views, PLAIN, draw=0).region == "us"}

    few, half, all_ = back(0.1), back(0.5), back(1.0)
    assert few < half < all_ == set(at_home)
    assert len(half) / len(at_home) == pytest.approx(0.5, abs=0.1)


HALF_OPEN = replace(EU, health="DOWN", trial=True)
KEYED = fleet(rules=(Rule("r", affinity=Affinity(mode="required")),))
US_ONLY = fleet(rules=(Rule("r", prefer=("us",)),))
AT_EU = next(
    f"k{i}"
    for i in range(99)
    if affinity.rank(b"k%d" % i, [(n, 100.0) for n in PLAIN.regions])[0] == "eu"
)
US_FIRST = fleet(rules=(Rule("r", prefer=("us", "eu")),))
EU_FIRST = fleet(rules=(Rule("r", prefer=("eu", "us")),))
TRIALS: dict[str, tuple[Draft, RegionView, Fleet, tuple[str, str]]] = {
    "a task that lives there is the trial": (TASK, HALF_OPEN, PLAIN, ("eu", "trial")),
    "one that lives elsewhere is none": (
        TASK,
        replace(HALF_OPEN, rtt_ms=150.0),
        PLAIN,
        ("us", "home"),
    ),
    "one whose rule names it first is one": (TASK, HALF_OPEN, EU_FIRST, ("eu", "trial")),
    "one whose rule names another first is none": (TASK, HALF_OPEN, US_FIRST, ("us", "prefer")),
    "without leave there is none": (TASK, replace(EU, health="DOWN"), PLAIN, ("us", "detour")),
    "a fence holds": (Draft("a", residency=("us",)), HALF_OPEN, PLAIN, ("us", "home")),
    "a pin to it is one": (Draft("a", pin_region="eu"), HALF_OPEN, PLAIN, ("eu", "trial")),
    "whatever its rule prefers": (
        Draft("a", pin_region="eu"),
        HALF_OPEN,
        US_ONLY,
        ("eu", "trial"),
    ),
    "a pin elsewhere holds": (Draft("a", pin_region="ap"), HALF_OPEN, PLAIN, ("ap", "pin")),
    "what else is wrong holds": (
        TASK,
        replace(HALF_OPEN, state="DRAINING"),
        PLAIN,
        ("us", "detour"),
    ),
    "a rule's preference holds": (TASK, HALF_OPEN, US_ONLY, ("us", "prefer")),
    "a required key has no other region": (
        Draft("a", affinity_key=AT_EU),
        HALF_OPEN,
        KEYED,
        ("eu", "trial"),
    ),
}


@pytest.mark.parametrize(("draft", "eu", "world", "expected"), TRIALS.values(), ids=TRIALS)
def test_a_half_open_region_is_tried(
    draft: Draft, eu: RegionView, world: Fleet, expected: tuple[str, str]
) -> None:
    decision = decide(draft, [eu, US, AP], world, draw=0.5)
    assert (decision.region, decision.reason) == expected


ELSEWHERE: dict[str, tuple[RegionView, tuple[str, str]]] = {
    "a queue at home": (busy("us", 20.0), ("us", "home")),
    "one over its limit": (busy("us", 600.0), ("us", "panic")),
    "home, out as well": (replace(US, health="DOWN"), ("eu", "trial")),
    "home, full": (replace(US, full=True), ("eu", "trial")),
    "home, half-open as well": (replace(US, health="DOWN", trial=True), ("us", "trial")),
}


@pytest.mark.parametrize(("home", "expected"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_to_a_half_open_region_guests_are_sent_as_a_trial_only_if_home_is_out_not_for(
    home: RegionView, expected: tuple[str, str]
) -> None:
    away = replace(HALF_OPEN, rtt_ms=150.0)
    decision = decide(TASK, [away, home, replace(AP, health="DOWN")], PLAIN, draw=0.5)
    assert (decision.region, decision.reason) == expected


def test_a_preferred_key_is_no_trial() -> None:
    decision = decide(Draft("a", affinity_key=AT_EU), [HALF_OPEN, US, AP], PLAIN, draw=0.5)
    assert decision.reason == "affinity"
    assert decision.region != "eu"


SPARE = {"eu": ("ap", "us"), "us": ("eu",)}
STANDBY = fleet(
    region("eu", "eu"),
    region("us", "us", weight=0),
    region("ap", "apac", weight=0),
    failover=FailoverPlan(order=SPARE),
)
GONE = replace(EU, health="DOWN")
STANDBYS: dict[str, tuple[Draft, list[RegionView], tuple[str, str]]] = {
    "not while home is in": (TASK, [EU, US, AP], ("eu", "home")),
    "the first that the order names": (TASK, [GONE, US, AP], ("ap", "failover")),
    "the next if that is out": (TASK, [GONE, US, replace(AP, full=True)], ("us", "failover")),
    "before panic": (TASK, [unserved("eu"), US, AP], ("ap", "failover")),
    "none outside the fence": (Draft("a", residency=("eu",)), [GONE, US, AP], ("", "")),
    "none for a pinned task": (Draft("a", pin_region="eu"), [GONE, US, AP], ("", "")),
}


@pytest.mark.parametrize(("draft", "views", "expected"), STANDBYS.values(), ids=STANDBYS)
def test_a_standby_takes_over(
    draft: Draft, views: list[RegionView], expected: tuple[str, str]
) -> None:
    decision = decide(draft, views, STANDBY, draw=0.5)
    assert decision.region == expected[0]
    assert not expected[0] or decision.reason == expected[1]


def test_a_region_of_weight_0_that_no_order_names_takes_nothing() -> None:
    unnamed = replace(STANDBY, failover=FailoverPlan(order={"eu": ("us",)}))
    views = [GONE, replace(US, health="DOWN"), AP]
    assert decide(TASK, views, unnamed, draw=0.5).region == ""


SILENT = view("ap", 200.0, age_s=31.0)
PANICS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "two of three are down": ({"health": "DOWN"}, {"live_share": 0.3}, True),
    "few slots live anywhere": ({"live_share": 0.2}, {"live_share": 0.1}, True),
    "one of three is down": ({"health": "DOWN"}, {}, False),
    "half of the slots live": ({"live_share": 0.25}, {"live_share": 0.25}, False),
    "an operator took one out": ({"state": "DRAINING"}, {}, False),
}


@pytest.mark.parametrize(("eu", "us", "panics"), PANICS.values(), ids=PANICS)
def test_it_is_panic_when_less_than_half_of_the_slots_live(
    eu: dict[str, Any], us: dict[str, Any], panics: bool
) -> None:
    views = [replace(EU, **eu), replace(US, **us), SILENT]
    decision = decide(TASK, views, PLAIN, draw=0.5)
    told = {each.region: each for each in decision.candidates}
    assert told["ap"].eligible == panics
    assert (decision.reason == "panic") == panics
    assert told["ap"].excluded_by == filters.UNKNOWN
    assert not any(each.eligible for each in decision.candidates if each.excluded_by == "down")
    rejecting = decide(TASK, views, replace(PLAIN, panic_mode="reject"), draw=0.5)
    assert {each.region for each in rejecting.candidates if each.eligible} <= {"eu", "us"}


def test_panic_goes_on_as_long_as_the_router_says() -> None:
    decision = decide(TASK, [EU, US, SILENT], PLAIN, draw=0.0, memory=Memory(panics=True))
    assert (decision.reason, decision.candidates[2].eligible) == ("panic", True)
    low = [GONE, replace(US, live_share=0.3), SILENT]
    calm = decide(TASK, low, PLAIN, draw=0.0, memory=Memory(panics=False))
    assert (calm.reason, calm.candidates[2].eligible) == ("detour", False)


def test_panic_shares_by_the_slots_last_known() -> None:
    views = [GONE, replace(US, live_share=0.2, slots=30), replace(SILENT, slots=10)]
    assert shares(decide(TASK, views, PLAIN, draw=0.0)) == pytest.approx({"us": 0.75, "ap": 0.25})


def test_a_region_that_is_down_has_no_live_slots() -> None:
    options = survey(TASK, [GONE, US, AP], PLAIN, resolved=resolve(TASK, PLAIN))
    assert live_share(options) == pytest.approx(2 / 3)


REJECTING = replace(PLAIN, panic_mode="reject")


@pytest.mark.parametrize(("draw", "after_ms"), [(0.0, 1_000), (0.5, 3_000), (0.999, 4_996)])
def test_who_is_rejected_in_panic_asks_again_after_one_to_five_seconds(
    draw: float, after_ms: int
) -> None:
    views = [replace(each, health="UNKNOWN") for each in (EU, US, AP)]
    error = refusal(decide(TASK, views, REJECTING, draw=0.5), REJECTING, draw=draw)
    assert isinstance(error, NoRegionReachable)
    assert retry_after_ms(error) == after_ms


BUSY = busy("eu", 0.6)
GUESTS: dict[str, tuple[RegionView, bool]] = {
    "none more where home can take the task": (BUSY, False),
    "more where home is down": (GONE, True),
    "more where home recovers": (recovering(EU, 0.3), True),
    "more where home keeps tasks waiting": (busy("eu", 5.5), True),
}


@pytest.mark.parametrize(("eu", "welcome"), GUESTS.values(), ids=GUESTS)
def test_a_region_that_had_its_guests_takes(eu: RegionView, welcome: bool) -> None:
    decision = decide(TASK, [eu, US, AP], PLAIN, draw=0.5, memory=Memory(filled={"us"}))
    us = decision.candidates[1]
    assert (us.share > 0, us.excluded_by == filters.GUESTS) == (welcome, not welcome)
    assert shares(decision) != {}


@pytest.mark.parametrize(("eu", "welcome"), GUESTS.values(), ids=GUESTS)
def test_a_region_whose_share_of_guests_is_nothing_takes(eu: RegionView, welcome: bool) -> None:
    alone = fleet(region("eu"), region("us", limits=RegionLimits(max_spill_in=0.0)), region("ap"))
    decision = decide(TASK, [eu, US, AP], alone, draw=0.5)  # not even the first
    us = decision.candidates[1]
    assert (us.share > 0, us.excluded_by == filters.GUESTS) == (welcome, not welcome)
    assert shares(decision) != {}


def test_a_home_to_which_tasks_returned_a_moment_ago_keeps_them_unless_they_wait() -> None:
    settled = Memory(settled={"eu"})
    near = view("us", 11.0)  # the band is 50 ms: up to 61 ms tasks stay, whatever was before

    def kept(wait_s: float, memory: Memory) -> bool:
        eu = replace(BUSY, rate=1_000.0, depth=round(1_000 * wait_s) - 1)
        return shares(decide(TASK, [eu, near, AP], PLAIN, draw=0.5, memory=memory)) == {"eu": 1.0}

    waits_s = (0.05, 0.08, 0.12, 0.13)
    assert [kept(wait_s, Memory()) for wait_s in waits_s] == [True, False, False, False]
    assert [kept(wait_s, settled) for wait_s in waits_s] == [True, True, True, False]
