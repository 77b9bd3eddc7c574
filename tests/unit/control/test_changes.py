"""What operators may order, and the rules that keep every fence served."""

from collections.abc import Mapping, Sequence

import pytest

from tradewind.control import (
    EMPTY,
    Control,
    Evacuation,
    Order,
    Pause,
    RegionState,
    Stamp,
    changes,
    evacuate,
    pause,
    resume,
    set_state,
)
from tradewind.errors import InvalidTask, LastRegion, RegionTakesWork
from tradewind.fleet import Fleet, RedisTarget, Region, Rule

NOWHERE = RedisTarget("standalone", ("127.0.0.1:1",))
GROUPS = {"eu-1": ("eu",), "eu-2": ("eu",), "us": ("us",), "spare": ("us",)}
RULES = (Rule("pii", residency=("eu",)), Rule("near", prefer=("us",)))


def fleet(rules: Sequence[Rule] = RULES, zero: Sequence[str] = ()) -> Fleet:
    return Fleet(
        regions={
            name: Region(name, NOWHERE, groups, weight=0 if name in zero else 100)
            for name, groups in GROUPS.items()
        },
        rules=tuple(rules),
    )


def standing(**states: RegionState) -> Control:
    orders = {name.replace("_", "-"): Order(state) for name, state in states.items()}
    return Control(Stamp(4, "c"), regions=orders)


Case = tuple[Fleet, Control, str, RegionState, str]
CASES: Mapping[str, Case] = {
    "one of two in a fence may go": (fleet(), EMPTY, "eu-1", "DRAINING", ""),
    "the last of a rule's fence may not": (
        *(fleet(), standing(eu_1="CORDONED"), "eu-2", "DRAINING"),
        "rule pii (eu)",
    ),
    "nor may it be cordoned, which also takes nothing": (
        *(fleet(), standing(eu_1="DRAINING"), "eu-2", "CORDONED"),
        "rule pii (eu)",
    ),
    "one that only takes pinned tasks does not stand in for it": (
        *(fleet(zero=["eu-1"]), EMPTY, "eu-2", "DRAINING"),
        "rule pii (eu)",
    ),
    "a group that no rule names is no fence of the policy": (
        *(fleet(), standing(us="DRAINING"), "spare", "DRAINING"),
        "",
    ),
    "the last region of all may not": (
        *(fleet(rules=()), standing(eu_1="DRAINING", eu_2="DRAINING", us="CORDONED")),
        *("spare", "DRAINING", "tasks that may run anywhere"),
    ),
    "one that takes none as it is may go on to drain": (
        *(fleet(), standing(eu_1="CORDONED", eu_2="CORDONED"), "eu-2", "DRAINING"),
        "",
    ),
    "one of weight 0 may always": (
        *(fleet(zero=["eu-2"]), standing(eu_1="CORDONED"), "eu-2", "DRAINING"),
        "",
    ),
    "activating is always safe": (
        *(fleet(), standing(eu_1="DRAINING", eu_2="DRAINING"), "eu-2", "ACTIVE"),
        "",
    ),
}


@pytest.mark.parametrize(("policy", "control", "region", "state", "of"), CASES.values(), ids=CASES)
def test_no_fence_loses_its_last_region(
    policy: Fleet, control: Control, region: str, state: RegionState, of: str
) -> None:
    if of:
        with pytest.raises(LastRegion) as refused:
            set_state(control, policy, region, state)
        assert (refused.value.region, refused.value.fence) == (region, of)
    else:
        assert set_state(control, policy, region, state).state(region) == state


def test_force_passes_the_rules_and_is_written_down() -> None:
    made = set_state(
        *(standing(eu_1="DRAINING"), fleet(), "eu-2", "DRAINING"),
        reason="fire",
        by="ann",
        at_ms=9,
        force=True,
    )
    assert made.regions["eu-2"] == Order("DRAINING", "fire", "ann", 9, forced=True)
    assert made.regions["eu-1"] == Order("DRAINING")


def test_an_unknown_region_is_refused_by_name() -> None:
    for change in (
        lambda: set_state(EMPTY, fleet(), "mars", "DRAINING", force=True),
        lambda: evacuate(EMPTY, fleet(), "mars"),
    ):
        with pytest.raises(InvalidTask, match=r"mars.*eu-1"):
            change()


def test_a_queue_is_paused_once_and_resumed_once() -> None:
    first = pause(EMPTY, "mail", by="ann", at_ms=1)
    again = pause(first, "mail", by="bob", at_ms=2)
    assert again.pauses == {"mail": Pause("ann", 1)}
    assert again.is_paused("mail")
    assert not resume(again, "mail").is_paused("mail")
    assert resume(EMPTY, "mail") == EMPTY


def test_pauses_are_bounded_since_their_names_come_from_callers() -> None:
    full = Control(Stamp(1, "c"), pauses={f"q{n}": Pause() for n in range(changes.MAX_PAUSES)})
    assert pause(full, "q0") == full
    with pytest.raises(InvalidTask, match="resume some"):
        pause(full, "one-more")


def test_only_a_region_that_takes_nothing_is_emptied() -> None:
    with pytest.raises(RegionTakesWork, match="cordon us"):
        evacuate(EMPTY, fleet(), "us")
    made = evacuate(standing(us="CORDONED"), fleet(), "us", rate_per_s=5, by="ann", at_ms=3)
    assert made.evacuations == {"us": Evacuation(5, "ann", 3)}


def test_the_same_evacuation_ordered_again_stays_as_it_is() -> None:
    made = evacuate(standing(us="DRAINING"), fleet(), "us", rate_per_s=5, by="ann", at_ms=3)
    assert evacuate(made, fleet(), "us", rate_per_s=5, by="bob", at_ms=8) == made
    faster = evacuate(made, fleet(), "us", rate_per_s=9, by="bob", at_ms=8)
    assert faster.evacuations == {"us": Evacuation(9, "bob", 8)}


def test_activating_ends_an_evacuation_and_other_states_do_not() -> None:
    made = evacuate(standing(us="DRAINING"), fleet(), "us")
    assert set_state(made, fleet(), "us", "CORDONED").evacuations
    assert not set_state(made, fleet(), "us", "ACTIVE").evacuations


def test_an_order_that_stands_is_not_dated_anew() -> None:
    made = set_state(
        *(standing(eu_1="DRAINING"), fleet(), "eu-2", "DRAINING"),
        reason="fire",
        by="ann",
        at_ms=9,
        force=True,
    )
    for reason in ("", "fire"):
        again = set_state(made, fleet(), "eu-2", "DRAINING", reason=reason, by="bob", at_ms=12)
        assert again == made
    assert set_state(made, fleet(), "us", "ACTIVE", by="bob", at_ms=12) == made, "as it was anyway"
    spoken = set_state(made, fleet(), "us", "ACTIVE", reason="looked at it", by="bob", at_ms=12)
    assert spoken.regions["us"] == Order("ACTIVE", "looked at it", "bob", 12)
    other = set_state(made, fleet(), "eu-2", "DRAINING", reason="flood", by="bob", at_ms=12)
    assert other.regions["eu-2"] == Order("DRAINING", "flood", "bob", 12, forced=True)
    milder = set_state(made, fleet(), "eu-2", "CORDONED", by="bob", at_ms=12)
    assert milder.regions["eu-2"] == Order("CORDONED", "", "bob", 12)
