"""Which version is in force, as tables of what a reader sees."""

from collections.abc import Mapping

import pytest

from tradewind.control import (
    EMPTY,
    UNKNOWN,
    Control,
    Order,
    Pause,
    Stamp,
    Standing,
    built_on,
    in_force,
    laggards,
    next_version,
    obeyed,
    overruled,
    undecided,
)

THREE, TWO = ("a", "b", "c"), ("a", "b")


def at(epoch: int, change_id: str = "x", *, forced: bool = False) -> Control:
    return Control(Stamp(epoch, change_id), forced=forced)


def sure(epoch: int, *, forced: bool = False) -> Standing:
    return Standing(at(epoch, forced=forced), sure=True)


Case = tuple[Mapping[str, Control], tuple[str, ...], Standing, Standing]
CASES: Mapping[str, Case] = {
    "before anything was heard nothing is ordered": ({}, THREE, UNKNOWN, UNKNOWN),
    "before the first change a majority holds nothing": (
        *({"a": EMPTY, "b": EMPTY}, THREE, UNKNOWN),
        Standing(EMPTY, sure=True),
    ),
    "what a majority holds": ({"a": at(2), "b": at(2), "c": at(1)}, THREE, sure(1), sure(2)),
    "not what a minority holds": ({"a": at(2), "b": at(1), "c": at(1)}, THREE, sure(1), sure(1)),
    "without a majority the last one goes on": ({"a": at(2), "b": at(1)}, THREE, sure(1), sure(1)),
    "half is no majority": ({"a": at(2), "b": at(1)}, TWO, sure(1), sure(1)),
    "two of one epoch are two": (
        *({"a": at(2, "x"), "b": at(2, "y"), "c": at(1)}, THREE),
        *(sure(1), sure(1)),
    ),
    "a region that has left the file has no vote": (
        *({"a": at(1), "d": at(2), "e": at(2)}, THREE),
        *(sure(1), sure(1)),
    ),
    "at the start without a majority the highest that is seen": (
        *({"a": at(2), "b": at(1)}, THREE, UNKNOWN),
        Standing(at(2), sure=False),
    ),
    "which gives way to a majority, also of an older one": (
        *({"a": at(2), "b": at(1), "c": at(1)}, THREE),
        *(Standing(at(2), sure=False), sure(1)),
    ),
    "but what a majority held once goes on when two have lost it": (
        *({"a": at(2), "b": at(1), "c": at(1)}, THREE, sure(2)),
        sure(2),
    ),
    "a forced one needs no majority": (
        *({"a": at(3, forced=True), "b": at(1), "c": at(1)}, THREE, sure(1)),
        sure(3, forced=True),
    ),
    "nor does it stand against a higher one of a majority": (
        *({"a": at(3, forced=True), "b": at(4), "c": at(4)}, THREE, sure(3, forced=True)),
        sure(4),
    ),
    "a reader that missed a forced one acts on the higher one": (
        *({"a": at(3, forced=True), "b": at(4), "c": at(4)}, THREE, UNKNOWN),
        sure(4),
    ),
}


@pytest.mark.parametrize(("seen", "configured", "last", "expected"), CASES.values(), ids=CASES)
def test_in_force(
    seen: Mapping[str, Control],
    configured: tuple[str, ...],
    last: Standing,
    expected: Standing,
) -> None:
    assert in_force(seen, configured, last) == expected


def test_a_change_is_built_on_the_highest_version_that_was_promised_on() -> None:
    assert built_on([at(1), at(3), at(2)], UNKNOWN) == at(3)
    assert built_on([], UNKNOWN) == EMPTY
    assert built_on([at(1), at(1)], Standing(at(2), sure=False)) == at(1)
    assert built_on([at(1), at(1)], sure(2)) == at(2), "a majority has lost what was in force"


def test_a_version_remembers_the_changes_that_led_to_it_but_not_all() -> None:
    version = EMPTY
    for epoch in range(1, 100):
        version = next_version(version, version, Stamp(epoch, f"c{epoch}"))
    assert version.stamp == Stamp(99, "c99")
    assert version.recent[-2:] == ("c98", "c99")
    assert len(version.recent) == 32


def test_who_holds_an_older_version_lags_behind_and_who_was_not_heard_is_not_known() -> None:
    seen = {"a": at(2), "b": at(1), "d": at(1)}
    assert laggards(seen, THREE, sure(2)) == ["b"]


def test_a_version_above_the_one_in_force_is_undecided() -> None:
    assert undecided({"a": at(2), "b": at(1)}, THREE, sure(1))
    assert not undecided({"a": at(2), "b": at(1)}, THREE, sure(2))
    assert undecided({"a": at(2), "b": at(1)}, THREE, Standing(at(2), sure=False))
    assert not undecided({}, THREE, UNKNOWN)


OLD = Control(
    Stamp(1, "x"), regions={"a": Order("CORDONED"), "b": Order("DRAINING")}, pauses={"q": Pause()}
)
NEW = Control(Stamp(2, "y"), regions={"a": Order("DRAINING")}, pauses={"r": Pause()})


def test_a_worker_obeys_the_stricter_part_of_a_newer_version_in_its_own_redis() -> None:
    kept = obeyed(Standing(OLD, sure=True), NEW)
    assert [kept.state(name) for name in THREE] == ["DRAINING", "DRAINING", "ACTIVE"]
    assert kept.is_paused("q")
    assert kept.is_paused("r")
    assert kept.stamp == NEW.stamp


def test_a_worker_passes_over_an_older_version_in_its_own_redis() -> None:
    assert obeyed(Standing(NEW, sure=True), OLD) == NEW
    assert obeyed(Standing(NEW, sure=True), None) == NEW


BASE = next_version(at(4), at(4), Stamp(8, "h"))
NEXT = next_version(BASE, BASE, Stamp(9, "i"))
OVERRULED: Mapping[str, tuple[Mapping[str, Control], Standing, Control | None]] = {
    "a majority changed after it was set back": (
        *({"a": at(5, "x"), "b": at(5, "x"), "c": NEXT}, Standing(NEXT, sure=True)),
        at(5, "x"),
    ),
    "a minority is no version that was answered": (
        *({"a": at(5, "x"), "b": NEXT, "c": NEXT}, Standing(NEXT, sure=True)),
        None,
    ),
    "a majority that lost the last change holds what that was made from": (
        *({"a": BASE, "b": BASE}, Standing(NEXT, sure=True)),
        None,
    ),
    "a majority that lost everything holds nothing": (
        *({"a": EMPTY, "b": EMPTY}, Standing(NEXT, sure=True)),
        None,
    ),
    "who is not sure overrules nobody": (
        *({"a": at(5, "x"), "b": at(5, "x")}, Standing(NEXT, sure=False)),
        None,
    ),
}


@pytest.mark.parametrize(("seen", "now", "expected"), OVERRULED.values(), ids=OVERRULED)
def test_a_version_is_overruled_if(
    seen: Mapping[str, Control], now: Standing, expected: Control | None
) -> None:
    assert overruled(seen, THREE, now) == expected
