"""Type hints as checks of JSON values.

A check takes a decoded JSON value and a path such as `items[2].name`, and returns the value as the
handler is to see it, or raises Mismatch. Messages name types and paths, never values: they end in
logs and error texts. Hints are compiled once, when a handler is registered.
"""

import enum
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, Union, cast, get_args, get_origin

from tradewind.handlers.classes import class_check
from tradewind.handlers.fits import DICTS, LISTS, SETS, is_hashable, is_json, reads_text
from tradewind.handlers.scalars import SCALARS, Check, Mismatch, a_str, anything, mismatch


class UnknownHint(TypeError):
    """The hint cannot describe a JSON value, so no task could ever match it."""

    def __init__(self, hint: Any) -> None:
        """`hint` as written."""
        super().__init__(
            f"hint {_name(hint)} says nothing about JSON; use bool, int, float, str, None, list, "
            "dict, Literal, Enum, a dataclass, TypedDict or pydantic model, datetime, UUID, "
            "Decimal, a union of these, or Any",
        )


class ImpossibleHint(TypeError):
    """No JSON value can match the hint where it stands, or only an empty one."""

    def __init__(self, hint: Any, why: str) -> None:
        """`hint` as written; `why` names what to use instead."""
        super().__init__(f"hint {_name(hint)} can never be met: {why}")


def compile_hint(hint: Any) -> Check:
    """The check that `hint` asks for. Raises UnknownHint, ImpossibleHint."""
    return _Compiler().check_of(hint)


class _Compiler:
    """Compiles one hint and those inside it. A class may contain itself."""

    def __init__(self) -> None:
        self._classes: dict[Any, Check | None] = {}

    def check_of(self, hint: Any) -> Check:  # noqa: PLR0911 - a table
        origin, args = get_origin(hint), get_args(hint)
        if origin is None and (scalar := _scalar(hint)) is not None:
            return scalar
        if origin is Annotated:
            return self.check_of(args[0])
        if isinstance(hint, NewType):
            return self.check_of(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":  # `type X = ...`, Python 3.12
            return self.check_of(hint.__value__)
        if origin is Literal:
            return _literal(hint, args)
        if origin in {Union, types.UnionType}:
            return _union([self.check_of(arg) for arg in args], " or ".join(map(_name, args)))
        return self._container(hint, origin or hint, args) or self._class(hint)

    def _container(self, hint: Any, kind: Any, args: tuple[Any, ...]) -> Check | None:
        if kind in LISTS:
            return _array(self.check_of(args[0]) if args else anything)
        if kind in SETS:
            return self._set(hint, SETS[kind], args[0] if args else Any)
        if kind is tuple:
            return self._tuple(args)
        if kind in DICTS:
            key, member = args or (str, Any)
            return _object(self._key(hint, key), self.check_of(member))
        return None

    def _tuple(self, args: tuple[Any, ...]) -> Check:
        if not args or (len(args) == 2 and args[1] is ...):
            items = _array(self.check_of(args[0]) if args else anything)
            return lambda value, path: tuple(items(value, path))
        return _row([self.check_of(arg) for arg in args])

    def _set(self, hint: Any, make: Callable[[list[Any]], Any], element: Any) -> Check:
        check = _set(self.check_of(element), make)
        if not is_hashable(element):
            raise ImpossibleHint(
                hint,
                f"{_name(element)} cannot be in a set; use a list of them, or tuples, frozensets "
                "or frozen dataclasses in it",
            )
        return check

    def _key(self, hint: Any, key: Any) -> Check:
        """JSON has texts as keys only; a key hint must be one that reads a text."""
        check = self.check_of(key)
        if not reads_text(key) or not is_hashable(key):
            raise ImpossibleHint(
                hint,
                f"JSON has texts as keys, and {_name(key)} does not take one as a key; use str, "
                "or what is read from a text: Literal, Enum, UUID, datetime, Decimal",
            )
        return check

    def _class(self, hint: Any) -> Check:
        if hint not in self._classes:
            self._classes[hint] = None
            if isinstance(hint, enum.EnumMeta) and not any(map(is_json, hint)):
                raise ImpossibleHint(hint, "JSON can say none of its members' values")
            self._classes[hint] = class_check(hint, self.check_of)
            if self._classes[hint] is None:
                raise UnknownHint(hint)
        known = self._classes[hint]
        if known is not None:
            return known

        def later(value: Any, path: str) -> Any:  # inside itself, while it is being compiled
            return cast("Check", self._classes[hint])(value, path)

        return later


def _scalar(hint: Any) -> Check | None:
    try:
        return SCALARS.get(hint)
    except TypeError:  # unhashable: no hint at all
        raise UnknownHint(hint) from None


def _array(item: Check) -> Callable[[Any, str], list[Any]]:
    def check(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise mismatch(path, "list", value)
        items = cast("list[Any]", value)
        return [item(element, f"{path}[{index}]") for index, element in enumerate(items)]

    return check


def _set(item: Check, make: Callable[[list[Any]], Any]) -> Check:
    items = _array(item)

    def check(value: Any, path: str) -> Any:
        try:
            return make(items(value, path))
        except TypeError:
            raise Mismatch(f"{path}: lists and objects cannot be in a set") from None

    return check


def _row(items: list[Check]) -> Check:
    def check(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise mismatch(path, "list", value)
        elements = cast("list[Any]", value)
        if len(elements) != len(items):
            raise Mismatch(f"{path}: expected {len(items)} elements, got {len(elements)}")
        pairs = enumerate(zip(items, elements, strict=True))
        return tuple(item(element, f"{path}[{index}]") for index, (item, element) in pairs)

    return check


def _object(key: Check, item: Check) -> Check:
    keys = None if key in {a_str, anything} else key

    def check(value: Any, path: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise mismatch(path, "dict", value)
        members = cast("dict[str, Any]", value)
        # The key stays out of the path: it is part of the payload.
        inside = f"{path}[...]"
        if keys is None:
            return {name: item(member, inside) for name, member in members.items()}
        named = f"a key of {path}"
        return {keys(name, named): item(member, inside) for name, member in members.items()}

    return check


def _literal(hint: Any, choices: tuple[Any, ...]) -> Check:
    if not any(map(is_json, choices)):
        raise ImpossibleHint(hint, "JSON can say none of its values")
    pairs = [(c.value if isinstance(c, enum.Enum) else c, c) for c in choices]
    known = ", ".join(repr(plain) for plain, _ in pairs)

    def check(value: Any, path: str) -> Any:
        for plain, choice in pairs:
            if type(value) is type(plain) and value == plain:  # True is not 1
                return choice
        raise Mismatch(f"{path}: expected one of {known}")

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
        raise mismatch(path, expected, value)

    return check


def _name(hint: Any) -> str:
    if hint is type(None):
        return "None"
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved hints of `function`'s parameters. Raises NameError for one that does not exist."""
    target = function if hasattr(function, "__annotations__") else type(function).__call__
    return typing.get_type_hints(target, include_extras=True)
