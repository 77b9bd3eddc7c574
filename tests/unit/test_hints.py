"""Hints beyond JSON's own types: what an app's classes become, and what is refused by name."""

import enum
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict, Unpack

import pydantic
import pytest

from tradewind import App, Context, Reject
from tradewind.handlers import encode_result

JSON = "application/json"
CTX = Context(task_id="t1")
UserId = NewType("UserId", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Size(enum.StrEnum):
    SMALL = "s"


class Options(TypedDict):
    quality: int
    format: NotRequired[Literal["png", "jpeg"]]


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"secret {self.x}")


@dataclass
class Node:
    name: str
    children: "list[Node]" = field(default_factory=list["Node"])


class Address(pydantic.BaseModel):
    street: str
    zip_code: int


def checked(hint: Any, value: Any) -> Any:
    """`value` as a handler whose argument has the hint would see it."""
    app = App()

    def handler(a: Any) -> Any:
        return a

    handler.__annotations__["a"] = hint
    app.task("t")(handler)
    payload = json.dumps({"a": value}).encode()
    return app.handlers["t"].call(CTX, payload, JSON)()


ACCEPTED: dict[str, tuple[Any, Any, Any]] = {
    "an enum by its value": (Colour, "red", Colour.RED),
    "an enum of numbers": (Colour, 2, Colour.BLUE),
    "a text enum": (Size | None, "s", Size.SMALL),
    "a literal enum member": (Literal[Colour.RED, "x"], "red", Colour.RED),
    "a typed dict": (Options, {"quality": 3, "format": "png"}, {"quality": 3, "format": "png"}),
    "what a typed dict does not require": (Options, {"quality": 3.0}, {"quality": 3}),
    "a dataclass": (Point, {"x": 1, "y": 2}, Point(1, 2.0)),
    "a default of a dataclass": (Point, {"x": 1}, Point(1)),
    "a dataclass inside others": (
        dict[str, list[Point]],
        {"k": [{"x": 1}]},
        {"k": [Point(1)]},
    ),
    "a dataclass inside itself": (
        Node,
        {"name": "a", "children": [{"name": "b"}]},
        Node("a", [Node("b")]),
    ),
    "a pydantic model": (
        Address,
        {"street": "s", "zip_code": "12"},
        Address(street="s", zip_code=12),
    ),
    "a time": (datetime, "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    "a date": (date, "2026-01-31", date(2026, 1, 31)),
    "a time of day": (time, "12:30:00", time(12, 30)),
    "seconds": (timedelta, 1.5, timedelta(seconds=1.5)),
    "a UUID": (uuid.UUID, "0" * 32, uuid.UUID(int=0)),
    "a decimal": (Decimal, "1.50", Decimal("1.50")),
    "a decimal from a number": (Decimal, 0.1, Decimal("0.1")),
    "a fixed tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "a bare tuple": (tuple, [1, "a"], (1, "a")),
    "a set": (set[int], [1, 2, 1], {1, 2}),
    "a frozen set": (frozenset[str], ["a"], frozenset({"a"})),
    "a set of tuples": (set[tuple[int, str]], [[1, "a"]], {(1, "a")}),
    "a set of frozen sets": (set[frozenset[int]], [[1], [2]], {frozenset({1}), frozenset({2})}),
    "a set of frozen dataclasses": (frozenset[Point], [{"x": 1}], frozenset({Point(1)})),
    "a set of anything": (set[Any], [1, "a"], {1, "a"}),
    "a set of a union": (set[int | None], [1, None], {1, None}),
    "keys that are days": (dict[date, int], {"2026-01-31": 1}, {date(2026, 1, 31): 1}),
    "keys that are literals": (dict[Literal["a", 1], int], {"a": 1}, {"a": 1}),
    "keys of a union": (dict[int | str, int], {"a": 1}, {"a": 1}),
    "keys of any kind": (dict[Any, int], {"a": 1}, {"a": 1}),
    "a sequence": (Sequence[int], [1], [1]),
    "keys of a kind": (dict[UserId, int], {"u": 1}, {"u": 1}),
    "keys that are enum members": (dict[Size, int], {"s": 1}, {Size.SMALL: 1}),
    "a new type": (UserId, "u", "u"),
    "an annotated hint": (Annotated[int, "positive"], 1, 1),
    "a union takes what fits exactly": (int | str | None, "1", "1"),
    "a union keeps what needs no change": (float | int, 1, 1),
    "a union of classes": (Point | Address, {"street": "s", "zip_code": 1}, Address),
}


@pytest.mark.parametrize(("hint", "value", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_values_that_fit(hint: Any, value: Any, expected: Any) -> None:
    got = checked(hint, value)
    if isinstance(expected, type):
        assert isinstance(got, expected)
    else:
        assert (got, type(got)) == (expected, type(expected))


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "no member of the enum": (Colour, "green", "argument a: expected one of 'red', 2"),
    "a missing member": (Options, {}, "argument a.quality is missing"),
    "a member too many": (
        Options,
        {"quality": 1, "secret": 2},
        "argument a has an unexpected member; known: quality, format",
    ),
    "a member of a wrong type": (
        list[Point],
        [{"x": 1}, {"x": "y"}],
        "argument a[1].x: expected int, got str",
    ),
    "no object": (Point, [1], "argument a: expected dict, got list"),
    "what the class itself refuses": (
        Point,
        {"x": -1},
        "argument a: refused by its class (ValueError)",
    ),
    "what a model refuses": (
        Address,
        {"street": "s", "zip_code": "secret"},
        "argument a.zip_code: refused by its class (int_parsing)",
    ),
    "deep inside": (
        Node,
        {"name": "a", "children": [{"name": 1}]},
        "argument a.children[0].name: expected str, got int",
    ),
    "no time": (
        datetime,
        "yesterday",
        "argument a: expected a time such as '2026-01-31T12:00:00Z'",
    ),
    "a number for a time": (datetime, 5, "argument a: expected str, got int"),
    "no UUID": (uuid.UUID, "secret", "argument a: expected a UUID"),
    "no decimal": (Decimal, "secret", "argument a: expected a decimal number such as '1.50'"),
    "an endless decimal": (Decimal, "NaN", "argument a: expected a finite number"),
    "too many seconds": (timedelta, 1e300, "argument a: too many seconds for a timedelta"),
    "a tuple of another length": (
        tuple[int, str],
        [1],
        "argument a: expected 2 elements, got 1",
    ),
    "a set of lists": (
        set[Any],
        [[1]],
        "argument a: lists and objects cannot be in a set",
    ),
    "a key of another kind": (
        dict[Size, int],
        {"secret": 1},
        "a key of argument a: expected one of 's'",
    ),
}


@pytest.mark.parametrize(("hint", "value", "reason"), REFUSED.values(), ids=REFUSED)
def test_values_that_do_not_fit(hint: Any, value: Any, reason: str) -> None:
    with pytest.raises(Reject) as refused:
        checked(hint, value)
    assert refused.value.reason == reason
    assert "secret" not in refused.value.reason


class Plain:
    pass


@dataclass
class Holds:
    plain: Plain


@dataclass(frozen=True)
class Frozen:
    n: int


@dataclass
class HoldsSet:
    tags: set[list[str]]


class Numbers(enum.Enum):
    ONE = 1


class Pairs(enum.Enum):
    ONE = (1, 1)


UNKNOWN: dict[str, tuple[Any, str]] = {
    "a class of no kind": (Plain, "hint Plain says nothing about JSON"),
    "bytes inside": (list[bytes], "hint bytes says nothing about JSON"),
    "a callable": (Callable[[], int], "says nothing about JSON"),
    "a field of a dataclass": (Holds, "hint Plain says nothing about JSON"),
    "a part of a union": (int | Plain, "hint Plain says nothing about JSON"),
    "a complex number": (complex, "hint complex says nothing about JSON"),
}


@pytest.mark.parametrize(("hint", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_hints_fail_when_the_handler_is_registered(hint: Any, message: str) -> None:
    def handler(a: Any) -> None: ...

    handler.__annotations__["a"] = hint
    with pytest.raises(TypeError, match=f"task 't': parameter a: .*{message}"):
        App().task("t")(handler)


IMPOSSIBLE: dict[str, tuple[Any, str]] = {
    "keys that are numbers": (
        dict[int, str],
        r"hint dict\[int, str\] can never be met",
    ),
    "keys that are numbers or nothing": (dict[int | None, str], "JSON has texts as keys"),
    "keys that are seconds": (dict[timedelta, str], "JSON has texts as keys"),
    "keys that are tuples": (dict[tuple[int, int], str], "JSON has texts as keys"),
    "keys that are sets": (Mapping[frozenset[str], int], "JSON has texts as keys"),
    "keys that are objects": (dict[Frozen, int], "and Frozen does not take one as a key"),
    "keys that are literal numbers": (dict[Literal[1, 2], int], "JSON has texts as keys"),
    "keys of an enum of numbers": (dict[Numbers, int], "JSON has texts as keys"),
    "keys of another name": (dict[NewType("Age", int), int], "JSON has texts as keys"),
    "a set of lists": (
        set[list[int]],
        r"hint set\[list\[int\]\] can never be met: list\[int\] cannot be in a set; use a list",
    ),
    "a frozen set of lists": (frozenset[list[int]], "cannot be in a set"),
    "a set of bare lists": (
        set[list],  # pyright: ignore[reportMissingTypeArgument] - as users do
        "cannot be in a set",
    ),
    "a set of sequences": (set[Sequence[int]], "cannot be in a set"),
    "a set of sets": (set[set[int]], "cannot be in a set"),
    "a set of dicts": (AbstractSet[dict[str, int]], "cannot be in a set"),
    "a set of typed dicts": (set[Options], "Options cannot be in a set"),
    "a set of dataclasses that change": (set[Node], "Node cannot be in a set"),
    "a set of models": (set[Address], "Address cannot be in a set"),
    "a set of tuples of lists": (set[tuple[list[int], ...]], "cannot be in a set"),
    "a set of a union with lists": (set[int | list[int]], "cannot be in a set"),
    "a set deep inside": (dict[str, list[set[list[int]]]], r"hint set\[list\[int\]\] can never"),
    "a set in a dataclass": (HoldsSet, "cannot be in a set"),
    "a set of another name": (set[NewType("Tags", list[str])], "cannot be in a set"),
    "literal bytes": (Literal[b"x"], "JSON can say none of its values"),
    "an enum of what JSON has not": (Pairs, "hint Pairs can never be met: JSON can say none"),
}


@pytest.mark.parametrize(("hint", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_hints_that_can_never_be_met_fail_when_registered(hint: Any, message: str) -> None:
    def handler(a: Any) -> None: ...

    handler.__annotations__["a"] = hint
    with pytest.raises(TypeError, match=f"task 't': parameter a: .*{message}"):
        App().task("t")(handler)


def test_keyword_arguments_may_be_a_typed_dict() -> None:
    def handler(**options: Unpack[Options]) -> Any:
        return options

    app = App()
    app.task("t")(handler)
    call = app.handlers["t"].call
    assert call(CTX, b'{"quality": 1}', JSON)() == {"quality": 1}
    for payload, reason in (
        (b'{"quality": "x"}', "argument quality: expected int, got str"),
        (b"{}", "argument quality is missing"),
        (b'{"quality": 1, "x": 1}', "argument x is unexpected; known: quality, format"),
    ):
        with pytest.raises(Reject) as refused:
            call(CTX, payload, JSON)
        assert refused.value.reason == reason


ROUND: dict[str, tuple[Any, Any]] = {
    "a dataclass": (Point, Point(1, 2.0)),
    "a model": (Address, Address(street="s", zip_code=1)),
    "a time": (datetime, datetime(2026, 1, 31, tzinfo=UTC)),
    "a UUID": (uuid.UUID, uuid.UUID(int=5)),
    "a decimal": (Decimal, Decimal("1.50")),
    "a length of time": (timedelta, timedelta(seconds=1.5)),
    "an enum member": (Colour, Colour.BLUE),
    "a set": (set[int], {1}),
    "a tree": (Node, Node("a", [Node("b")])),
}


@pytest.mark.parametrize(("hint", "value"), ROUND.values(), ids=ROUND)
def test_a_result_is_stored_as_the_same_hint_reads_it(hint: Any, value: Any) -> None:
    assert checked(hint, json.loads(encode_result(value).data)) == value
