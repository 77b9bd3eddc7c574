"""What is said of two globs holds for every text."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind.fleet import Match
from tradewind.regions import globs

PARTS = st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "[", "]", "!"])
GLOBS = st.lists(PARTS, max_size=5).map("".join)
TEXTS = st.text("ab.]![", max_size=6)


@given(GLOBS, GLOBS, st.lists(TEXTS, max_size=20))
def test_what_covers_another_matches_all_that_that_one_does(
    wide: str, narrow: str, texts: list[str]
) -> None:
    if globs.covers(wide, narrow):
        for text in texts:
            assert fnmatchcase(text, wide) or not fnmatchcase(text, narrow)


@given(GLOBS, GLOBS, st.lists(TEXTS, max_size=20))
def test_globs_that_cannot_meet_share_no_text(one: str, other: str, texts: list[str]) -> None:
    if not globs.may_meet(one, other):
        assert not any(fnmatchcase(text, one) and fnmatchcase(text, other) for text in texts)


COVERS = {
    "everything": ("*", "[x]?*", True),
    "itself": ("[!x]a*", "[!x]a*", True),
    "a text that it matches": ("a[0-9]", "a5", True),
    "a longer head": ("gpu.*", "gpu.a*", True),
    "a longer tail": ("*.x", "a?.x", True),
    "a character for a character": ("a?c", "a?c", True),
    "a set for a character": ("a?c", "a[bB]c", True),
    "many for one": ("a?c", "a*c", False),
    "a shorter head": ("gpu.*", "gpu*", False),
    "nothing": ("", "*", False),
    "a set's last bracket": ("*]", "[ab]", False),
}


@pytest.mark.parametrize(("wide", "narrow", "expected"), COVERS.values(), ids=COVERS)
def test_a_glob_covers(wide: str, narrow: str, *, expected: bool) -> None:
    assert globs.covers(wide, narrow) is expected


MEET = {
    "heads that part": ("gpu.*", "mail.*", False),
    "tails that part": ("*.a", "*.b", False),
    "head and tail": ("gpu.*", "*.b", True),
    "a text and its glob": ("gpu.x", "gpu.*", True),
    "two texts": ("a", "b", False),
}


@pytest.mark.parametrize(("one", "other", "expected"), MEET.values(), ids=MEET)
def test_globs_may_meet(one: str, other: str, *, expected: bool) -> None:
    assert globs.may_meet(one, other) is expected
    assert globs.may_meet(other, one) is expected


def test_a_condition_that_is_not_given_covers_any_and_is_covered_by_none() -> None:
    assert globs.match_covers(Match(), Match(names=("a",)))
    assert not globs.match_covers(Match(names=("a",)), Match())
    assert globs.match_covers(Match(names=("a", "b*")), Match(names=("bc", "a")))
    assert not globs.match_covers(Match(names=("a", "b*")), Match(names=("bc", "c")))
