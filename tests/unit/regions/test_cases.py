"""Cases: what is refused and where, and what a case gives to the policy."""

from typing import Any

import pytest

from tests.unit.regions.files import TWO, all_of
from tradewind.errors import ConfigError
from tradewind.policy.scores import wait_s
from tradewind.regions import cases, loads
from tradewind.regions.trial import tried
from tradewind.regions.units import duration_ms
from tradewind.view import RegionView

FLEET = loads(TWO + "rtt: {eu: {us: 90ms}}\nrules: [{name: f, match: {queues: [f]}, "
              "residency: [eu]}]\n", env={})  # fmt: skip


def file(case: str, above: str = "origin: eu\n") -> str:
    return f"version: 1\n{above}cases:\n  - {case}\n"


REFUSALS = {
    "an unknown key": (
        file("{name: a, tusk: {name: t}, task: {name: t}, expect: {region: eu}}"),
        "4:15: cases[0].tusk: unknown key (did you mean task?)",
    ),
    "an unknown key of a state": (
        file("{name: a, regions: {eu: {helth: down}}, task: {name: t}, expect: {region: eu}}"),
        "4:30: cases[0].regions.eu.helth: unknown key (did you mean health?)",
    ),
    "no cases": ("version: 1\norigin: eu\ncases: []\n", "cases: must have at least 1 entry"),
    "another version": (
        file("{name: a, task: {name: t}, expect: {region: eu}}").replace("1", "2", 1),
        "1:10: version: must be 1",
    ),
    "a key twice": (
        file("{name: a, name: b, task: {name: t}, expect: {region: eu}}"),
        "4:15: cases[0].name: duplicate key",
    ),
    "a word for a state that there is not": (
        file("{name: a, regions: {eu: {health: dead}}, task: {name: t}, expect: {region: eu}}"),
        "cases[0].regions.eu.health: must be 'healthy', 'degraded', 'down', 'kept-out',",
    ),
    "a duration without a unit": (
        file("{name: a, regions: {eu: {wait: 3}}, task: {name: t}, expect: {region: eu}}"),
        "cases[0].regions.eu.wait: a duration needs a unit: write 3s or 3ms",
    ),
    "a region that the file does not have": (
        file("{name: a, regions: {eux: {full: true}}, task: {name: t}, expect: {region: eu}}"),
        "4:25: cases[0].regions.eux: there is no region eux (did you mean eu?)",
    ),
    "a region that no task can go to": (
        file("{name: a, task: {name: t}, expect: {any_of: [eu, mars]}}"),
        "4:54: cases[0].expect.any_of[1]: there is no region mars",
    ),
    "a share of a region that there is not": (
        file("{name: a, task: {name: t}, expect: {share: {mars: 10%}}}"),
        "4:49: cases[0].expect.share.mars: there is no region mars",
    ),
    "a share that is none": (
        file("{name: a, task: {name: t}, expect: {share: {eu: most}}}"),
        "must be a share such as 30%, '>= 70%' or '< 5%'",
    ),
    "an origin that there is not": (
        file("{name: a, task: {name: t}, expect: {region: eu}}", "origin: eux\n"),
        "2:9: origin: there is no region eux (did you mean eu?)",
    ),
    "a task from nowhere": (
        file("{name: a, task: {name: t}, expect: {region: eu}}", ""),
        "3:21: cases[0].task: comes from nowhere: give it an origin, or the whole file one",
    ),
    "a pin to nowhere": (
        file("{name: a, task: {name: t, pin: mars}, expect: {region: eu}}"),
        "cases[0].task.pin: there is no region mars",
    ),
    "a group that there is not": (
        file("{name: a, task: {name: t, residency: [eux]}, expect: {region: eu}}"),
        "cases[0].task.residency[0]: no region is in group eux (did you mean eu?)",
    ),
    "nothing to expect": (
        file("{name: a, task: {name: t}, expect: {}}"),
        "cases[0].expect: says nothing; give one of region, any_of, rule, excluded, share, refused",
    ),
    "nothing to expect in so many words": (
        file("{name: a, task: {name: t}, expect: {region: '', excluded: {}, share: {}}}"),
        "cases[0].expect: says nothing; give one of",
    ),
    "a rule without a name": (
        file("{name: a, task: {name: t}, expect: {rule: ''}}"),
        "cases[0].expect.rule: must not be empty",
    ),
    "a region and a refusal": (
        file("{name: a, task: {name: t}, expect: {region: eu, refused: UNAVAILABLE}}"),
        "4:53: cases[0].expect.refused: region is given, too; keep one",
    ),
    "a refusal without that code": (
        file("{name: a, task: {name: t}, expect: {refused: INTERNAL}}"),
        "cases[0].expect.refused: must be 'UNAVAILABLE', 'RESOURCE_EXHAUSTED' or",
    ),
    "a wait and what it stands for": (
        file("{name: a, regions: {eu: {wait: 3s, depth: 4}}, task: {name: t}, "
             "expect: {region: eu}}"),
        "cases[0].regions.eu.wait: stands for depth; keep one of them",
    ),
    "a wait for nobody": (
        file("{name: a, regions: {eu: {wait: 3s, slots: 0}}, task: {name: t}, "
             "expect: {region: eu}}"),
        "nobody waits where there are no slots",
    ),
    "more free slots than there are": (
        file("{name: a, regions: {eu: {free: 11}}, task: {name: t}, expect: {region: eu}}"),
        "cases[0].regions.eu.free: is more than the 10 slots there are",
    ),
    "a name twice": (
        file("{name: a, task: {name: t}, expect: {region: eu}}\n"
             "  - {name: a, task: {name: t}, expect: {region: eu}}"),
        "5:12: cases[1].name: another case has this name; choose another",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_file_of_cases_is_refused_for(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cases.loads(text, FLEET)
    assert message in str(caught.value)
    assert str(caught.value).startswith("cases.yaml:")


def test_all_mistakes_are_shown_at_once_in_their_order() -> None:
    text = file("{name: a, task: {name: t, pin: x}, expect: {region: y}}", "origin: z\n")
    with pytest.raises(ConfigError) as caught:
        cases.loads(text, FLEET)
    keys = [error.key for error in all_of(caught.value)]
    assert keys == ["origin", "cases[0].task.pin", "cases[0].expect.region"]


def views(state: str, above: str = "origin: eu\n") -> dict[str, RegionView]:
    text = file(f"{{name: a, regions: {{us: {state}}}, task: {{name: t}}, expect: {{rule: r}}}}",
                above)  # fmt: skip
    (case,) = cases.loads(text, FLEET)
    return {view.name: view for view in case.views}


def test_a_region_that_nothing_is_said_of_is_healthy_idle_and_as_far_as_the_file_says() -> None:
    seen = views("{}")
    assert (seen["eu"].rtt_ms, seen["us"].rtt_ms) == (1.0, 90.0)
    for view in seen.values():
        assert (view.health, view.state, view.ok, view.ramp) == ("HEALTHY", "ACTIVE", 1.0, 1.0)
        assert (view.slots, view.free_slots, view.depth) == (10, 10, 0)
        assert wait_s(view) == 0.0


STATES: dict[str, tuple[str, dict[str, Any]]] = {
    "health and state": (
        "{health: degraded, state: draining}",
        {"health": "DEGRADED", "state": "DRAINING"},
    ),
    "a trial": ("{health: half-open}", {"health": "DOWN", "trial": True}),
    "all slots taken": ("{free: 0, depth: 7}", {"free_slots": 0, "depth": 7, "slots": 10}),
    "fewer slots, all free": ("{slots: 3}", {"slots": 3, "free_slots": 3}),
    "no workers, for a year": ("{slots: 0}", {"slots": 0, "served": {}, "unserved_for_s": 31536e3}),
    "no workers, for a moment": ("{slots: 0, unserved_for: 2s}", {"unserved_for_s": 2.0}),
    "handlers": ("{served: {q: [h]}}", {"served": {"q": frozenset({"h"})}}),
    "percentages": ("{ok: 70%, ramp: 10%, live: 50%}", {"ok": 0.7, "ramp": 0.1, "live_share": 0.5}),
    "times": ("{rtt: 5ms, age: 3s, service: 2s}", {"rtt_ms": 5, "age_s": 3, "service_s": 2}),
    "memory": ("{full: true, evicts: true}", {"full": True, "evicts": True}),
    "durability": ("{lacks: [replica]}", {"lacks": {"replica": "so says the case"}}),
}


@pytest.mark.parametrize(("state", "fields"), STATES.values(), ids=STATES)
def test_a_state_says(state: str, fields: dict[str, Any]) -> None:
    view = views(state)["us"]
    assert {name: getattr(view, name) for name in fields} == fields


@pytest.mark.parametrize("wait", ["40ms", "2.5s", "10m"])
def test_a_wait_is_what_the_policy_makes_of_it(wait: str) -> None:
    view = views(f"{{wait: {wait}, slots: 4, age: 2s}}")["us"]
    assert wait_s(view) == pytest.approx(duration_ms(wait) / 1000)


def test_what_the_whole_file_says_of_a_region_holds_key_by_key() -> None:
    above = "origin: eu\nregions: {us: {slots: 4, wait: 3s}}\n"
    assert wait_s(views("{health: degraded}", above)["us"]) == pytest.approx(3)
    seen = views("{depth: 5, free: 0}", above)["us"]
    assert (seen.slots, seen.depth, seen.free_slots, seen.service_s) == (4, 5, 0, 1.0)
    above = "origin: eu\nregions: {us: {depth: 5, free: 0}}\n"
    assert wait_s(views("{wait: 7s}", above)["us"]) == pytest.approx(7)


def outcome(case: str) -> tuple[dict[str, float], str, str]:
    (read,) = cases.loads(file(case), FLEET)
    found = tried(read, FLEET)
    return dict(found.shares), found.decision.reason, type(found.refusal).__name__


def test_a_trial_gives_the_shares_of_a_task_that_may_go_both_ways() -> None:
    shares, reason, refusal = outcome(
        "{name: a, regions: {eu: {wait: 500ms}, us: {wait: 250ms}}, task: {name: t}, "
        "expect: {rule: spill}}"
    )
    assert set(shares) == {"eu", "us"}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["us"] > shares["eu"] > 0.05
    assert (reason, refusal) == ("spill", "NoneType")


def test_a_trial_leaves_out_what_fewer_than_one_task_in_a_thousand_does() -> None:
    task = "task: {name: t}, expect: {rule: spill}"
    shares, reason, _ = outcome(f"{{name: a, regions: {{eu: {{wait: 20s}}}}, {task}}}")
    assert list(shares) == ["us"]
    assert reason == "spill"


def test_a_trial_of_a_fence_without_a_region_is_refused() -> None:
    down = "regions: {eu: {health: down}}"
    task = "task: {name: t, queue: f}, expect: {rule: f}"
    assert outcome(f"{{name: a, {down}, {task}}}")[0::2] == ({}, "NoRegionReachable")
    task = "task: {name: t, queue: f, residency: [us]}, expect: {rule: f}"
    assert outcome(f"{{name: a, {task}}}")[0::2] == ({}, "NoRegionPermitted")


BOUNDS = {
    ">= 70%": (0.7, 0.699),
    "<= 5%": (0.05, 0.051),
    "< 5%": (0.049, 0.05),
    ">5%": (0.051, 0.05),
    "33%": (0.3333, 0.345),
}


@pytest.mark.parametrize(("text", "ends"), BOUNDS.items(), ids=BOUNDS)
def test_a_bound_holds_for_the_first_and_not_for_the_second(
    text: str, ends: tuple[float, float]
) -> None:
    (case,) = cases.loads(
        file(f"{{name: a, task: {{name: t}}, expect: {{share: {{eu: '{text}'}}}}}}"), FLEET
    )
    bound = case.expected.share["eu"]
    assert [bound.holds(share) for share in ends] == [True, False]
    assert bound.text == text


@pytest.mark.parametrize(("lacks", "region"), [("fsync", "us"), ("replica", "eu")])
def test_a_queue_goes_where_its_durability_is_to_be_had(lacks: str, region: str) -> None:
    fleet = loads(TWO + "queues: {orders: {durability: fsync}}\n", env={})
    text = file(
        f"{{name: a, regions: {{eu: {{lacks: [{lacks}]}}}}, "
        f"task: {{name: t, queue: orders}}, expect: {{region: {region}}}}}"
    )
    (case,) = cases.loads(text, fleet)
    assert dict(tried(case, fleet).shares) == {region: 1.0}
