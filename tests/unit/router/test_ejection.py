import pytest

from router.ejection import groups_of, kept

EU = {"eu-1": ["eu"], "eu-2": ["eu"], "eu-3": ["eu"], "eu-4": ["eu"]}
MIXED = {"eu": ["eu"], "us-1": ["us"], "us-2": ["us"], "us-3": ["us"]}

ROWS: dict[str, tuple[dict[str, list[str]], list[str], set[str], set[str]]] = {
    "half of a group may be out": (EU, ["eu-1", "eu-2"], set(), set()),
    "who goes out later stays": (EU, ["eu-3", "eu-1", "eu-2"], set(), {"eu-2"}),
    "what does not answer is out and counts": (EU, ["eu-1"], {"eu-2", "eu-3"}, {"eu-1"}),
    "the only one of a group is never out": (MIXED, ["eu"], set(), {"eu"}),
    "of three only one": (MIXED, ["us-1", "us-2"], set(), {"us-2"}),
    "without groups the fleet is one": ({"a": [], "b": []}, ["a", "b"], set(), {"b"}),
    "a fleet of one": ({"a": []}, ["a"], set(), {"a"}),
    "a region of two groups minds both": (
        {"a": ["x", "y"], "b": ["x"], "c": ["z"], "d": ["z"]},
        ["a"],
        set(),
        {"a"},
    ),
    "hard evidence is not looked at": (MIXED, [], {"eu", "us-1", "us-2", "us-3"}, set()),
}


@pytest.mark.parametrize(("residency", "soft", "hard", "stays"), ROWS.values(), ids=ROWS)
def test_by_soft_evidence(
    residency: dict[str, list[str]], soft: list[str], hard: set[str], stays: set[str]
) -> None:
    assert kept(soft, hard, groups_of(residency)) == stays
