"""Checks of JSON values that hold no others. Messages name types and paths, never values."""

import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, LiteralString

Check = Callable[[Any, str], Any]

_JSON_NAMES: Final = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "dict",
}


class Mismatch(ValueError):
    """The value does not have the type that the hint asks for."""


def mismatch(path: str, expected: str, value: Any) -> Mismatch:
    """`value` is something else than `expected`."""
    return Mismatch(f"{path}: expected {expected}, got {_JSON_NAMES[type(value)]}")


def anything(value: Any, path: str) -> Any:  # noqa: ARG001 - a Check
    """Any JSON."""
    return value


def a_null(value: Any, path: str) -> None:
    """Null."""
    if value is not None:
        raise mismatch(path, "null", value)


def a_bool(value: Any, path: str) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise mismatch(path, "bool", value)


def an_int(value: Any, path: str) -> int:
    """A whole number: 1 and 1.0 are one JSON number, and one fingerprint."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise Mismatch(f"{path}: expected int, got a float with a fraction")
    raise mismatch(path, "int", value)


def a_float(value: Any, path: str) -> float:
    """A number."""
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Mismatch(f"{path}: the number is too large for a float") from None
    raise mismatch(path, "float", value)


def a_str(value: Any, path: str) -> str:
    """Text."""
    if isinstance(value, str):
        return value
    raise mismatch(path, "str", value)


def a_decimal(value: Any, path: str) -> Decimal:
    """A number, or text that spells one: a JSON number may have gone through a float on its way."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    text = a_str(value, path)
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise Mismatch(f"{path}: expected a decimal number such as '1.50'") from None
    if not number.is_finite():
        raise Mismatch(f"{path}: expected a finite number")
    return number


def a_timedelta(value: Any, path: str) -> timedelta:
    """Seconds."""
    seconds = a_float(value, path)
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise Mismatch(f"{path}: too many seconds for a timedelta") from None


def _spelt(parse: Callable[[str], Any], what: str) -> Check:
    def check(value: Any, path: str) -> Any:
        text = a_str(value, path)
        try:
            return parse(text)
        except ValueError:
            raise Mismatch(f"{path}: expected {what}") from None

    return check


#: By hint.
SCALARS: Final[dict[Any, Check]] = {
    Any: anything,
    object: anything,
    None: a_null,
    type(None): a_null,
    bool: a_bool,
    int: an_int,
    float: a_float,
    str: a_str,
    LiteralString: a_str,
    Decimal: a_decimal,
    timedelta: a_timedelta,
    datetime: _spelt(datetime.fromisoformat, "a time such as '2026-01-31T12:00:00Z'"),
    date: _spelt(date.fromisoformat, "a date such as '2026-01-31'"),
    time: _spelt(time.fromisoformat, "a time of day such as '12:00:00'"),
    uuid.UUID: _spelt(uuid.UUID, "a UUID"),
}
