"""A handler's parameters, and how a payload fills them."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Unpack, cast, get_args, get_origin

from tradewind.handlers.classes import typed_dict_members
from tradewind.handlers.context import Context
from tradewind.handlers.hints import compile_hint, hints_of
from tradewind.handlers.outcomes import Reject
from tradewind.handlers.scalars import Check, Mismatch
from tradewind.limits import MAX_NAME_BYTES

JSON: Final = "application/json"
_READ: Final = json.JSONDecoder().raw_decode
_Parameter = inspect.Parameter


@dataclass(frozen=True, slots=True)
class Shape:
    """A handler's parameters as checks."""

    takes_context: bool
    checks: Mapping[str, Check]
    required: tuple[str, ...]  # in the order of the signature
    extra: Check | None  # **kwargs
    raw: str | None  # the parameter that takes a payload as it came, if there can be one
    always_raw: bool  # ... and it takes JSON that way, too

    def arguments(self, payload: bytes, content_type: str) -> dict[str, Any]:
        """Keyword arguments for the function. Raises Reject, naming a wrong one."""
        if self.always_raw or not _is_json(content_type):
            if self.raw is None:
                raise Reject(
                    f"the payload is {content_type}, but the handler does not take bytes; "
                    "give it a single parameter hinted bytes, or send JSON"
                )
            return {self.raw: payload}
        members = _object(payload)
        for name in self.required:
            if name not in members:
                raise Reject(f"argument {name} is missing")
        checks, extra = self.checks, self.extra
        try:
            for name, value in members.items():
                check = checks.get(name, extra) or self._unexpected(name)
                members[name] = check(value, f"argument {name}")
        except Mismatch as error:
            raise Reject(str(error)) from None
        return members

    def _unexpected(self, name: str) -> NoReturn:
        known = ", ".join(self.checks) or "none"
        raise Reject(f"argument {name[:MAX_NAME_BYTES]} is unexpected; known: {known}")


def _is_json(content_type: str) -> bool:
    if content_type in {"", JSON}:
        return True
    media = content_type.partition(";")[0].strip().lower()
    return media in {"", JSON} or media.endswith("+json")


def _object(payload: bytes) -> dict[str, Any]:
    if not payload:
        return {}
    try:
        text = payload.decode()
        value, end = _READ(text)
        if end != len(text):
            value = _json(payload)
    except (ValueError, RecursionError):
        value = _json(payload)
    if not isinstance(value, dict):
        raise Reject("the payload must be a JSON object: its members are the handler's arguments")
    return cast("dict[str, Any]", value)


def _json(payload: bytes) -> Any:
    """By json.loads, which looks for other encodings and for white space first."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):  # admission checks it, but not everything comes by gRPC
        raise Reject("the payload is not valid JSON") from None


def shape_of(function: Callable[..., Any]) -> Shape:
    """Read the parameters. Raises TypeError if a payload can never fill one of them."""
    parameters = list(inspect.signature(function).parameters.values())
    hints = hints_of(function)
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    checks: dict[str, Check] = {}
    required: list[str] = []
    extra: Check | None = None
    rest = parameters[1:] if takes_context else parameters
    raw = _raw(rest, hints)
    for parameter in rest:
        name = parameter.name
        if parameter.kind in {_Parameter.POSITIONAL_ONLY, _Parameter.VAR_POSITIONAL}:
            raise TypeError(f"parameter {name} cannot be filled by name; drop the / or the *")
        if parameter.kind is _Parameter.VAR_KEYWORD and get_origin(hints.get(name)) is Unpack:
            members, needed = _unpacked(parameter, hints)
            checks |= members
            required += needed
            continue
        check = _check(parameter, hints) if hints.get(name) is not bytes else None
        if parameter.kind is _Parameter.VAR_KEYWORD:
            extra = check
        elif check is not None:
            checks[name] = check
            if parameter.default is _Parameter.empty:
                required.append(name)
        elif name != raw:
            raise TypeError(f"parameter {name}: bytes can only be the single parameter")
    always_raw = raw is not None and hints.get(raw) is bytes
    return Shape(takes_context, checks, tuple(required), extra, raw, always_raw)


def _check(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Check:
    try:
        return compile_hint(hints.get(parameter.name, Any))
    except TypeError as error:
        raise TypeError(f"parameter {parameter.name}: {error}") from None


def _unpacked(
    parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> tuple[dict[str, Check], tuple[str, ...]]:
    """The members of `**options: Unpack[Options]`, a TypedDict, and those it needs."""
    try:
        return typed_dict_members(get_args(hints[parameter.name])[0], compile_hint)
    except TypeError as error:
        raise TypeError(f"parameter {parameter.name}: {error}") from None


def _is_context(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    return hint is Context or (hint is None and parameter.name in {"ctx", "context"})


def _raw(rest: list[inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    named = [
        p.name
        for p in rest
        if p.kind in {_Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY}
    ]
    if len(named) != 1:
        return None
    return named[0] if hints.get(named[0], Any) in {bytes, Any, object} else None
