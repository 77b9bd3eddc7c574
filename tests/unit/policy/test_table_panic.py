"""What panic overlooks and what it never does, and when regions take guests all the same."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.policy import affinity
from tradewind.policy.choose import Memory
from tradewind.policy.decide import decide
from tradewind.task import Draft
from tradewind.view import RegionView

WORLD = fleet(region("eu", "eu"), region("us", "us"), region("idle", "eu", weight=0))
REJECTING = replace(WORLD, panic_mode="reject")
EU, US, GONE = view("eu", 1.0), view("us", 90.0), view("us", 90.0, health="DOWN")
PREFERS_EU = next(
    f"k{i}"
    for i in range(99)
    if affinity.rank(b"k%d" % i, [("eu", 100.0), ("us", 100.0)])[0] == "eu"
)

# eu is the only region that is not down
OVERLOOKED: dict[str, tuple[Draft, RegionView, str]] = {
    "that nobody works there": (Draft("a"), unserved("eu"), "unserved"),
    "that nobody there can run it": (
        Draft("a"),
        replace(EU, served={"x": frozenset("b")}),
        "unserved",
    ),
    "that nothing is known of it": (Draft("a"), replace(EU, health="UNKNOWN"), "panic"),
    "that its report is old": (Draft("a"), replace(EU, age_s=31.0), "panic"),
    "that tasks wait too long": (Draft("a"), busy("eu", 31.0), "panic"),
    "that it is kept out, though it answers": (
        Draft("a"),
        replace(EU, health="DOWN", kept_out=True),
        "panic",
    ),
    "that it is tried already": (
        Draft("a", affinity_key=PREFERS_EU),
        replace(EU, health="DOWN", trial=True),
        "panic",
    ),
}


@pytest.mark.parametrize(("draft", "eu", "step"), OVERLOOKED.values(), ids=OVERLOOKED)
def test_panic_overlooks(draft: Draft, eu: RegionView, step: str) -> None:
    views = [eu, GONE, replace(GONE, name="idle")]
    decision = decide(draft, views, WORLD, draw=0.5)
    assert (decision.region, decision.reason) == ("eu", step)
    assert decide(draft, views, REJECTING, draw=0.5).region == ""


HELD: dict[str, tuple[Draft, RegionView]] = {
    "a fence": (Draft("a", residency=("us",)), EU),
    "a pin": (Draft("a", pin_region="us"), EU),
    "that it is down": (Draft("a"), replace(EU, health="DOWN")),
    "that it is drained": (Draft("a"), replace(EU, state="DRAINING")),
    "that it is cordoned": (Draft("a"), replace(EU, state="CORDONED")),
    "that its memory is full": (Draft("a"), replace(EU, full=True)),
    "that its backlog is at its limit": (Draft("a"), replace(EU, depth=100_000, rate=1e6)),
}


@pytest.mark.parametrize(("draft", "eu"), HELD.values(), ids=HELD)
def test_panic_never_overlooks(draft: Draft, eu: RegionView) -> None:
    assert decide(draft, [eu, GONE], WORLD, draw=0.5).region == ""


def test_a_slow_start_counts_for_nothing_in_panic() -> None:
    known = replace(EU, health="RECOVERING", ramp=0.1, slots=30, live_share=0.2)
    silent = view("us", 90.0, age_s=31.0, slots=10, live_share=0.2)
    decision = decide(Draft("a"), [known, silent], WORLD, draw=0.0)
    found = {each.region: each.share for each in decision.candidates if each.share}
    assert (decision.reason, found) == ("panic", pytest.approx({"eu": 0.75, "us": 0.25}))


LIVE: dict[str, tuple[dict[str, Any], bool]] = {
    "49 % of the slots live": ({"live_share": 0.48}, True),
    "half of them live": ({"live_share": 0.5}, False),
}


@pytest.mark.parametrize(("eu", "panics"), LIVE.values(), ids=LIVE)
def test_it_is_panic_if(eu: dict[str, Any], panics: bool) -> None:
    silent = view("us", 90.0, age_s=31.0, live_share=0.5)
    decision = decide(Draft("a"), [replace(EU, **eu), silent], WORLD, draw=0.0)
    assert (decision.reason == "panic") is panics


GUESTS: dict[str, tuple[RegionView, bool]] = {
    "tasks would wait 5 s longer at home": (busy("eu", 5.0), False),
    "tasks would wait longer than that": (busy("eu", 5.1), True),
    "home is half-way up its ramp": (replace(EU, health="RECOVERING", ramp=0.5), True),
    "home is nearly up": (replace(EU, health="RECOVERING", ramp=0.99), True),
    "home has no worker": (unserved("eu"), True),
}


@pytest.mark.parametrize(("eu", "welcome"), GUESTS.values(), ids=GUESTS)
def test_a_region_that_had_its_guests_takes_more_if(eu: RegionView, welcome: bool) -> None:
    decision = decide(Draft("a"), [eu, US], WORLD, draw=0.5, memory=Memory(filled={"us"}))
    told = {each.region: each for each in decision.candidates}
    assert (told["us"].share > 0) is welcome
    assert (told["us"].excluded_by == "guests over limit") is not welcome
