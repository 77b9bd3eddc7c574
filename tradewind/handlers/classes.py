"""Checks that make an instance of an app's class out of a JSON value.

Enum members by their value, dataclasses, TypedDicts and pydantic models from an object.
"""

import dataclasses
import enum
import typing
import uuid
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, NotRequired, Required, cast, get_args, get_origin, is_typeddict

from tradewind.handlers.scalars import Check, Mismatch, mismatch

Compile = Callable[[Any], Check]


def class_check(hint: Any, compile_hint: Compile) -> Check | None:
    """The check of values of the class `hint`; None if it is no class that can be made so."""
    if is_typeddict(hint):
        checks, required = typed_dict_members(hint, compile_hint)
        return _members(checks, required, dict)
    if not isinstance(hint, type):
        return None
    if issubclass(hint, enum.Enum):
        return _enum(hint)
    if dataclasses.is_dataclass(cast("Any", hint)):
        return _dataclass(hint, compile_hint)
    if callable(
        validate := getattr(cast("Any", hint), "model_validate", None)
    ):  # pydantic, not imported here
        return _model(cast("Callable[[Any], Any]", validate))
    return None


def typed_dict_members(
    hint: Any, compile_hint: Compile
) -> tuple[dict[str, Check], tuple[str, ...]]:
    """Checks of the members of a TypedDict, and the names of those that must be there, in order."""
    hints = typing.get_type_hints(hint, include_extras=True)
    checks = {name: compile_hint(_unmarked(each)) for name, each in hints.items()}
    return checks, tuple(name for name in hints if name in hint.__required_keys__)


def _unmarked(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in {Required, NotRequired} else hint


def _enum(hint: type[enum.Enum]) -> Check:
    choices = [member.value for member in hint]

    def check(value: Any, path: str) -> Any:
        for member in hint:
            if type(member.value) is type(value) and member.value == value:  # True is not 1
                return member
        raise Mismatch(f"{path}: expected one of {', '.join(map(repr, choices))}")

    return check


def _dataclass(hint: Any, compile_hint: Compile) -> Check:
    hints = typing.get_type_hints(hint, include_extras=True)
    fields = [field for field in dataclasses.fields(hint) if field.init]
    required = tuple(
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    checks = {field.name: compile_hint(hints[field.name]) for field in fields}
    return _members(checks, required, hint)


def _members(
    checks: Mapping[str, Check], required: tuple[str, ...], make: Callable[..., Any]
) -> Check:
    known = ", ".join(checks) or "none"

    def check(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise mismatch(path, "dict", value)
        members = cast("dict[str, Any]", value)
        for name in required:
            if name not in members:
                raise Mismatch(f"{path}.{name} is missing")
        if not checks.keys() >= members.keys():  # its name stays out: it is part of the payload
            raise Mismatch(f"{path} has an unexpected member; known: {known}")
        checked = {name: checks[name](each, f"{path}.{name}") for name, each in members.items()}
        return _made(make, checked, path)

    return check


def _made(make: Callable[..., Any], checked: dict[str, Any], path: str) -> Any:
    try:
        return make(**checked)
    except ValueError as error:  # what a __post_init__ says may quote a value
        raise Mismatch(f"{path}: refused by its class ({type(error).__name__})") from None


def _model(validate: Callable[[Any], Any]) -> Check:
    def check(value: Any, path: str) -> Any:
        try:
            return validate(value)
        except ValueError as error:
            raise Mismatch(f"{path}{_first_problem(error)}") from None

    return check


def _first_problem(error: ValueError) -> str:
    """Where in a model, and of what kind: pydantic's own sentences may quote the value."""
    told = getattr(error, "errors", None)
    problems = cast("list[dict[str, Any]]", told()) if callable(told) else []
    if not problems:
        return f": refused by its class ({type(error).__name__})"
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in problems[0]["loc"]
    )
    return f"{place}: refused by its class ({problems[0]['type']})"


def as_json(value: Any) -> Any:  # noqa: PLR0911 - a table
    """`value` as the JSON that its own class, as a hint, reads back.

    Raises TypeError for what JSON cannot say.
    """
    match value:
        case date() | time():  # a datetime is a date, too
            return value.isoformat()
        case uuid.UUID() | Decimal():
            return str(value)
        case timedelta():
            return value.total_seconds()
        case set() | frozenset():
            return list(cast("set[Any]", value))
        case enum.Enum():
            return value.value
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        case _ if callable(dump := getattr(value, "model_dump", None)):
            return dump(mode="json")
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON")
