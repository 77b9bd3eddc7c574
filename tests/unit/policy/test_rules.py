import pytest

from tests.unit.policy.worlds import fleet, region
from tradewind.errors import NoRegionPermitted
from tradewind.fleet import Affinity, Match, Rule
from tradewind.policy.rules import Keyed, Resolved, narrow, resolve
from tradewind.task import Draft

MATCHES = {
    "an empty match takes everything": (Match(), Draft("a.b"), True),
    "a name glob": (Match(names=("gpu.*",)), Draft("gpu.train"), True),
    "a name glob that does not fit": (Match(names=("gpu.*",)), Draft("cpu.gpu.train"), False),
    "any of several globs": (Match(names=("x", "gpu.*")), Draft("gpu.train"), True),
    "globs know case": (Match(names=("GPU.*",)), Draft("gpu.train"), False),
    "a queue": (Match(queues=("carts",)), Draft("a", queue="carts"), True),
    "another queue": (Match(queues=("carts",)), Draft("a"), False),
    "a tenant glob": (Match(tenants=("acme-de", "bank-*")), Draft("a", tenant="bank-7"), True),
    "no tenant": (Match(tenants=("bank-*",)), Draft("a"), False),
    "a label": (Match(labels={"class": "pii-*"}), Draft("a", labels={"class": "pii-eu"}), True),
    "a label with another value": (Match(labels={"c": "x"}), Draft("a", labels={"c": "y"}), False),
    "a label that is not there": (Match(labels={"c": "*"}), Draft("a"), False),
    "every label must fit": (
        Match(labels={"a": "1", "b": "2"}),
        Draft("a", labels={"a": "1", "b": "3"}),
        False,
    ),
    "every part must fit": (
        Match(names=("a",), tenants=("t",)),
        Draft("a", tenant="other"),
        False,
    ),
    "regex characters are plain": (Match(names=("a.b+c",)), Draft("a.b+c"), True),
    "a dot is a dot": (Match(names=("a.b",)), Draft("axb"), False),
    "a glob spans lines": (Match(tenants=("a*z",)), Draft("a", tenant="a\nz"), True),
    "a trailing newline counts": (Match(names=("gpu",)), Draft("gpu\n"), False),
}


@pytest.mark.parametrize(("match", "draft", "expected"), MATCHES.values(), ids=MATCHES)
def test_a_rule_matches(match: Match, draft: Draft, expected: bool) -> None:
    resolved = resolve(draft, fleet(rules=(Rule("r", match),)))
    assert resolved.rule_name == ("r" if expected else "default")


def test_the_first_matching_rule_wins_alone() -> None:
    rules = (
        Rule("other", Match(names=("b",)), residency=("us",)),
        Rule("first", Match(names=("a",)), prefer=("us",)),
        Rule("second", Match(names=("a",)), residency=("eu",)),
    )
    assert resolve(Draft("a"), fleet(rules=rules)) == Resolved((), "first", prefer=("us",))


def test_without_a_rule_the_name_is_default_and_the_task_keeps_its_own_wishes() -> None:
    draft = Draft("a", residency=("us", "eu"), pin_region="us", affinity_key="k")
    expected = Resolved(("eu", "us"), "default", affinity=Keyed(b"k", "preferred"), pin="us")
    assert resolve(draft, fleet()) == expected


AFFINITIES = {
    "the affinity key": (Affinity(), Draft("a", affinity_key="k"), Keyed(b"k", "preferred")),
    "required": (Affinity(mode="required"), Draft("a", affinity_key="k"), Keyed(b"k", "required")),
    "the tenant": (Affinity("tenant"), Draft("a", tenant="t"), Keyed(b"t", "preferred")),
    "a label": (Affinity("label:o"), Draft("a", labels={"o": "7"}), Keyed(b"7", "preferred")),
    "a label that is missing": (Affinity("label:o", "required"), Draft("a"), None),
    "no affinity in the rule": (None, Draft("a", affinity_key="k"), Keyed(b"k", "preferred")),
    "no key at all": (None, Draft("a"), None),
}


@pytest.mark.parametrize(("affinity", "draft", "keyed"), AFFINITIES.values(), ids=AFFINITIES)
def test_the_key_comes_from(affinity: Affinity | None, draft: Draft, keyed: Keyed | None) -> None:
    assert resolve(draft, fleet(rules=(Rule("r", affinity=affinity),))).affinity == keyed


# paris is in eu and fr, berlin in eu and de, zurich in dach and ch, munich in eu, de and dach.
OVERLAPPING = fleet(
    region("paris", "eu", "fr"),
    region("berlin", "eu", "de"),
    region("munich", "eu", "de", "dach"),
    region("zurich", "ch", "dach"),
    region("ohio", "us"),
)
FENCES = {
    "no fence at all": ((), (), ()),
    "the rule's alone": (("eu",), (), ("eu",)),
    "the task's alone": ((), ("us", "eu"), ("eu", "us")),
    "the task cannot widen": (("eu",), ("eu", "us"), ("eu",)),
    "the task narrows to one of several": (("eu", "us"), ("us",), ("us",)),
    "a group inside the rule's": (("eu",), ("fr",), ("fr",)),
    "the rule's group inside the task's": (("de",), ("eu",), ("de",)),
    "groups of both sides": (("eu", "us"), ("de", "us"), ("de", "us")),
    "groups inside one another": (("eu", "ch"), ("dach",), ("ch", "dach")),
    "as much as groups can say": (("de", "fr"), ("dach", "fr"), ("fr",)),
    "repeated groups": (("eu",), ("eu", "eu"), ("eu",)),
}


@pytest.mark.parametrize(("rule", "own", "fence"), FENCES.values(), ids=FENCES)
def test_a_fence_narrows(
    rule: tuple[str, ...], own: tuple[str, ...], fence: tuple[str, ...]
) -> None:
    assert narrow(Rule("r", residency=rule), own, OVERLAPPING) == fence


def test_other_groups_help_out_where_the_named_ones_leave_a_permitted_region_out() -> None:
    world = fleet(region("a", "x", "y", "a-only"), region("b", "x"), region("c", "y"))
    assert narrow(Rule("r", residency=("x",)), ("y",), world) == ("a-only",)


NOWHERE = {
    "fences that exclude each other": (("eu",), ("us",), "[eu] by rule r and [us] by the task"),
    "an intersection that no group covers": (("eu",), ("dach",), "[eu] by rule r and [dach] by"),
    "a group that nobody has is not no fence": (
        (),
        ("mars",),
        "no region is inside [mars], the fence of the task",
    ),
    "a group of the rule that nobody has any more": (
        ("mars",),
        (),
        "no region is inside [mars], the fence of rule r",
    ),
    "a group that nobody has beside a rule": (("eu",), ("mars",), "[eu] by rule r and [mars] by"),
}


@pytest.mark.parametrize(("rule", "own", "message"), NOWHERE.values(), ids=NOWHERE)
def test_no_region_is_permitted_by(
    rule: tuple[str, ...], own: tuple[str, ...], message: str
) -> None:
    with pytest.raises(NoRegionPermitted) as refused:
        narrow(Rule("r", residency=rule), own, OVERLAPPING)
    assert message in str(refused.value)
