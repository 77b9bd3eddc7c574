"""Type hints as checks of JSON values.

A check takes a decoded JSON value and a path such as `items[2].name`, and returns the value as the
handler is to see it, or raises Mismatch. Messages name types and paths, never values: they end in
logs and error texts. Hints are compiled once, when the app is loaded.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NewType, Union, cast, get_args, get_origin

Check = Callable[[Any, str], Any]


class Mismatch(ValueError):
    """The value does not have the type that the hint asks for."""


class UnknownHint(TypeError):
    """The hint cannot describe a JSON value, so no task could ever match it."""

    def __init__(self, hint: Any) -> None:
        """`hint` as written."""
        super().__init__(
            f"hint {_name(hint)} says nothing about JSON; use bool, int, float, str, None, list, "
            "dict, Literal, a union of these, or Any",
        )


def compile_hint(hint: Any) -> Check:
    """The check that `hint` asks for. Raises UnknownHint."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin is Annotated:
        return compile_hint(args[0])
    if isinstance(hint, NewType):
        return compile_hint(hint.__supertype__)
    if origin is Literal:
        return _literal(args)
    if origin in {Union, types.UnionType}:
        return _union([compile_hint(arg) for arg in args], " or ".join(map(_name, args)))
    return _container(hint, origin or hint, args)


def _container(hint: Any, kind: Any, args: tuple[Any, ...]) -> Check:
    if kind in {list, Sequence, Iterable}:
        return _array(compile_hint(args[0]) if args else _anything)
    if kind is tuple and len(args) == 2 and args[1] is ...:
        items = _array(compile_hint(args[0]))
        return lambda value, path: tuple(items(value, path))
    if kind in {dict, Mapping}:
        if args and args[0] not in {str, Any}:  # JSON has no other keys
            raise UnknownHint(hint)
        return _object(compile_hint(args[1]) if args else _anything)
    raise UnknownHint(hint)


def _anything(value: Any, path: str) -> Any:  # noqa: ARG001 - a Check
    return value


def _null(value: Any, path: str) -> None:
    if value is not None:
        raise _mismatch(path, "null", value)


def _bool(value: Any, path: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _mismatch(path, "bool", value)


def _int(value: Any, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # 1 and 1.0 are one JSON number, and one fingerprint.
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise Mismatch(f"{path}: expected int, got a float with a fraction")
    raise _mismatch(path, "int", value)


def _float(value: Any, path: str) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Mismatch(f"{path}: the number is too large for a float") from None
    raise _mismatch(path, "float", value)


def _str(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    raise _mismatch(path, "str", value)


def _array(item: Check) -> Check:
    def check(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise _mismatch(path, "list", value)
        items = cast("list[Any]", value)
        return [item(element, f"{path}[{index}]") for index, element in enumerate(items)]

    return check


def _object(item: Check) -> Check:
    def check(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _mismatch(path, "dict", value)
        members = cast("dict[str, Any]", value)
        # The key stays out of the path: it is part of the payload.
        return {key: item(member, f"{path}[...]") for key, member in members.items()}

    return check


def _literal(choices: tuple[Any, ...]) -> Check:
    def check(value: Any, path: str) -> Any:
        for choice in choices:
            if type(value) is type(choice) and value == choice:  # True is not 1
                return value
        raise Mismatch(f"{path}: expected one of {', '.join(map(repr, choices))}")

    return check


def _union(checks: list[Check], expected: str) -> Check:
    def check(value: Any, path: str) -> Any:
        for each in checks:
            try:
                checked = each(value, path)
            except Mismatch:
                continue
            if type(checked) is type(value):
                return checked
        for each in checks:  # no exact match: 1 for `float | None` is 1.0
            try:
                return each(value, path)
            except Mismatch:
                continue
        raise _mismatch(path, expected, value)

    return check


_SCALARS: Final[dict[Any, Check]] = {
    Any: _anything,
    object: _anything,
    None: _null,
    type(None): _null,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
}
_JSON_NAMES: Final = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "dict",
}


def _mismatch(path: str, expected: str, value: Any) -> Mismatch:
    return Mismatch(f"{path}: expected {expected}, got {_JSON_NAMES[type(value)]}")


def _name(hint: Any) -> str:
    if hint is type(None):
        return "None"
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved hints of `function`'s parameters. Raises NameError for one that does not exist."""
    target = function if hasattr(function, "__annotations__") else type(function).__call__
    return typing.get_type_hints(target, include_extras=True)
