"""What loads, and is warned of."""

from pathlib import Path

import pytest

from tests.unit.regions.files import FILES, ROOT, TWO
from tradewind.regions import load, loads, warnings


def said(text: str) -> str:
    return "\n".join(warnings(loads(text, env={})))


FOUR_EVEN = "version: 1\nregions:\n" + "".join(
    f"  r{i}: {{redis: redis://h{i}, residency: [all]}}\n" for i in range(4)
)


def test_an_even_fleet_needs_no_warning() -> None:
    assert said(FOUR_EVEN) == ""


def test_a_fence_around_one_region_is_warned_of() -> None:
    assert "one region alone is inside [eu], [us]: tasks fenced so have no failover" in said(TWO)


def test_a_region_that_the_others_could_not_replace_is_warned_of() -> None:
    assert "if eu is lost, the other regions of the fleet get 2.0 times their normal" in said(TWO)


# The others do 1 / 1.4 = 71 % more than before, which is Envoy's overprovisioning factor.
LOSSES = {"71 % more": ([100, 70, 70], False), "72 % more": ([100, 69, 69], True)}


@pytest.mark.parametrize(("weights", "warned"), LOSSES.values(), ids=LOSSES)
def test_without_the_largest_region_the_others_may_do(weights: list[int], warned: bool) -> None:
    regions = "".join(
        f"  r{index}: {{redis: redis://h{index}, residency: [all], weight: {weight}}}\n"
        for index, weight in enumerate(weights)
    )
    assert ("if r0 is lost" in said(f"version: 1\nregions:\n{regions}")) is warned


def test_rules_that_lead_to_weight_0_are_warned_of() -> None:
    text = FOUR_EVEN + "  spare: {redis: redis://s, residency: [cold], weight: 0}\n"
    text += "rules: [{name: b, match: {names: [b]}, residency: [cold]}, {name: a, prefer: [spare]}]"
    assert "rule a prefers spare, whose weight is 0" in said(text)
    assert "rule b fences to regions of weight 0" in said(text)


def test_groups_that_differ_by_the_order_of_their_letters_are_warned_of() -> None:
    text = TWO + "  eu-north: {redis: 'redis://h', residency: [ue]}\n"
    assert "groups eu (eu) and ue (eu-north) are two: is one a typing error?" in said(text)


# --- rules

RULES = {
    "a literal name behind its glob": (
        "{name: a, match: {names: ['gpu.*']}}, {name: b, match: {names: [gpu.x]}}",
        "rule b is never reached: a before it has all its tasks",
    ),
    "a narrower glob behind a wider one": (
        "{name: a, match: {names: ['gpu*']}}, {name: b, match: {names: ['gpu.?*', gpu]}}",
        "rule b is never reached: a before it",
    ),
    "a rule with one condition more": (
        "{name: a, match: {queues: [q]}}, {name: b, match: {queues: [q], tenants: [t]}}",
        "rule b is never reached: a before it",
    ),
    "a label behind any value of it": (
        "{name: a, match: {labels: {x: '*'}}}, {name: b, match: {labels: {x: y, z: w}}}",
        "rule b is never reached: a before it",
    ),
    "a fence that never holds": (
        "{name: a, match: {names: ['*.x']}}, {name: b, match: {names: [g.x]}, residency: [eu]}",
        "a before it has all its tasks, and its fence [eu] never holds",
    ),
    "a fence behind a rule without one": (
        "{name: a, match: {queues: [q]}}, {name: b, match: {names: [n]}, residency: [eu]}",
        "the fence [eu] of rule b does not hold for tasks that a before it takes: put fences first",
    ),
    "a fence behind a wider one": (
        (
            "{name: a, match: {queues: [q]}, residency: [eu, us]}, "
            "{name: b, match: {tenants: [t]}, residency: [eu]}"
        ),
        "tasks that a before it takes: put b first, its fence is the narrower one",
    ),
    "fences with nothing in common": (
        (
            "{name: a, match: {queues: [q]}, residency: [us]}, "
            "{name: b, match: {tenants: [t]}, residency: [eu]}"
        ),
        "no region is inside both fences: change a match so that no task is in both",
    ),
    "a bracket that is not closed": (
        "{name: a, match: {names: ['job[1']}}",
        "rule a has the glob job[1: its [ is not closed, so it stands for itself",
    ),
    "a set without a member": (
        "{name: a, match: {labels: {x: '[9-0]'}}}",
        "rule a has the glob [9-0]: [9-0] matches nothing",
    ),
}


@pytest.mark.parametrize(("rules", "warning"), RULES.values(), ids=RULES)
def test_rules_are_warned_of(rules: str, warning: str) -> None:
    assert warning in said(TWO + f"rules: [{rules}]")


def test_fences_that_overlap_want_a_rule_for_what_is_in_both() -> None:
    text = TWO + (
        "  both: {redis: 'redis://h', residency: [eu, us]}\n"
        "rules: [{name: a, match: {queues: [q]}, residency: [us]}, "
        "{name: b, match: {tenants: [t]}, residency: [eu]}]"
    )
    assert "fenced to a group of both alone" in said(text)


QUIET = {
    "globs that only overlap": (
        "{name: a, match: {names: ['*.x']}}, {name: b, match: {names: ['g.*']}}"
    ),
    "the narrow rule first": (
        "{name: a, match: {names: [gpu.x]}}, {name: b, match: {names: ['gpu.*']}}"
    ),
    "one condition less": (
        "{name: a, match: {queues: [q], tenants: [t]}}, {name: b, match: {queues: [q]}}"
    ),
    "another label": "{name: a, match: {labels: {x: y}}}, {name: b, match: {labels: {z: y}}}",
    "a rule before a fence that shares no task with it": (
        "{name: a, match: {names: ['gpu.*']}}, "
        "{name: b, match: {names: ['mail.*']}, residency: [eu]}"
    ),
    "a narrower fence before a wider one": (
        "{name: a, match: {names: [x]}, residency: [eu]}, "
        "{name: b, match: {queues: [q]}, residency: [eu, us]}"
    ),
    "a set with members": "{name: a, match: {names: ['job[0-9]', 'x[]]', 'y[!a]']}}",
}


@pytest.mark.parametrize("rules", QUIET.values(), ids=QUIET)
def test_rules_need_no_warning(rules: str) -> None:
    assert "rule" not in said(TWO + f"rules: [{rules}]")


# --- regions and numbers

FENCED = "rules: [{name: f, match: {names: [f]}, residency: [all]}]\n"


def test_a_failover_order_that_leaves_its_fence_is_warned_of() -> None:
    text = FOUR_EVEN + "  out: {redis: redis://out}\n" + FENCED
    order = "failover: {order: {r0: [out], r1: [out, r0], r2: [r3]}}\n"
    (warning,) = (line for line in said(text + order).splitlines() if "failover" in line)
    assert warning == (
        "failover.order of r0 names no region inside [all]: tasks fenced so that it cannot finish "
        "go nowhere else"
    )


def test_a_region_in_no_group_is_warned_of_where_rules_fence() -> None:
    out = "  out: {redis: redis://out}\n"
    assert "region out is in no residency group" in said(FOUR_EVEN + out + FENCED)
    assert "residency group" not in said(FOUR_EVEN + out)


def test_a_gap_in_the_round_trips_is_warned_of_and_none_at_all_is_not() -> None:
    rtt = "rtt: {r0: {r1: 9ms, r2: 9ms, r3: 9ms}, r2: {r1: 9ms}}\n"
    expected = "rtt says nothing of r1 and r3, of r2 and r3: taken for 100ms until it is measured"
    assert said(FOUR_EVEN + rtt) == expected
    assert "rtt" not in said(FOUR_EVEN)


def test_of_many_gaps_the_first_are_named() -> None:
    regions = "".join(f"  r{i}: {{redis: redis://h{i}, residency: [all]}}\n" for i in range(6))
    text = said(f"version: 1\nregions:\n{regions}rtt: {{r0: {{r1: 9ms}}}}\n")
    assert text.startswith("rtt says nothing of r0 and r2, of r0 and r3, of r0 and r4, and 11 more")


def test_numbers_that_work_against_each_other_are_warned_of() -> None:
    assert "health.stale_after (10s) is shorter than health.interval (1m)" in said(
        TWO + "health: {interval: 1m}"
    )
    assert "limits.max_wait of us (20ms) is shorter than steering.band_min (50ms)" in said(
        TWO.replace("[us]", "[us], limits: {max_wait: 20ms}")
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_repositorys_own_files_give_no_alarm_but_their_size(path: Path) -> None:
    """Each has one region a group, and the first is as strong as the others together."""
    for warning in warnings(load(path, {})):
        assert warning.startswith(("one region alone is inside", "if us-east is lost"))


def test_a_durability_is_warned_of_since_no_file_says_how_a_redis_is_run() -> None:
    text = "queues: {mail: {durability: fsync}, pay: {durability: replica}, a: {durability: fsync}}"
    found = said(FOUR_EVEN + text)
    assert "durability fsync of queues mail, a needs an append-only file" in found
    assert "durability replica of queue pay needs a replica of each primary" in found
    assert "default" not in found
