"""The registry of an app's handlers, and how a payload becomes a call."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from tradewind.handlers.context import Context
from tradewind.handlers.hints import Check, Mismatch, compile_hint, hints_of
from tradewind.handlers.outcomes import Reject, ResultTooLarge, milliseconds
from tradewind.limits import MAX_ATTEMPTS, MAX_NAME_BYTES, MAX_RESULT_BYTES, MAX_TIMEOUT_MS

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
_NAME: Final = re.compile(rf"[A-Za-z0-9._:/-]{{1,{MAX_NAME_BYTES}}}")
_Parameter = inspect.Parameter
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Result:
    """What a handler returned, as it is stored."""

    data: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function. `timeout_ms` and `attempts` are None where the queue decides."""

    name: str
    function: Callable[..., Any]
    timeout_ms: int | None
    attempts: int | None
    _shape: "list[_Shape]" = field(default_factory=list["_Shape"], repr=False, compare=False)

    @property
    def is_async(self) -> bool:
        """Whether calling the function gives a coroutine."""
        call: Any = getattr(self.function, "__call__", None)  # noqa: B004 - an object with its own async __call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    @property
    def shape(self) -> "_Shape":
        """The parameters, read once: late, so that hints may name what is defined further down.

        Raises TypeError if a parameter can never be filled from a payload.
        """
        if not self._shape:
            self._shape.append(_shape_of(self.function))
        return self._shape[0]

    def call(self, context: Context, payload: bytes, content_type: str) -> Callable[[], Any]:
        """The function with its arguments filled in. Raises Reject, naming a wrong argument."""
        shape = self.shape
        arguments = shape.arguments(payload, content_type)
        if shape.takes_context:
            return lambda: self.function(context, **arguments)
        return lambda: self.function(**arguments)


class App:
    """The handlers of one application.

        app = App()

        @app.task("email.send", timeout=30, attempts=8)
        async def send(ctx: Context, to: str, subject: str = "") -> dict: ...

    A JSON object becomes keyword arguments, checked against the hints. With any other content type,
    or if its only parameter is hinted `bytes`, the handler gets the payload as it came. A plain
    `def` runs in a thread, off the event loop.
    """

    def __init__(self) -> None:
        """An app without handlers."""
        self._handlers: dict[str, Handler] = {}

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Handlers by task name."""
        return MappingProxyType(self._handlers)

    def task(
        self,
        name: str,
        *,
        timeout: float | timedelta | None = None,
        attempts: int | None = None,
    ) -> Callable[[_F], _F]:
        """Register a function under `name`; it stays callable as it was.

        `timeout` (seconds) limits one attempt and `attempts` counts the first; a task's own values
        win over these, these over the queue's. Raises ValueError for a bad or taken name or a
        number outside its limits, TypeError for a function that cannot be a handler.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - @app.task
            raise TypeError('a task needs a name: write @app.task("name")')
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no task name; use 1 to {MAX_NAME_BYTES} letters, digits and ._:-/"
            )
        timeout_ms = None if timeout is None else milliseconds(timeout)
        if timeout_ms is not None and not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
            raise ValueError(f"{name}: timeout must be over 0 s and at most 12 h, not {timeout}")
        if attempts is not None and not 1 <= attempts <= MAX_ATTEMPTS:
            raise ValueError(f"{name}: attempts must be 1 to {MAX_ATTEMPTS}, not {attempts}")

        def register(function: _F) -> _F:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(f"{name}: a generator cannot be a handler; return the result")
            if (first := self._handlers.get(name)) is not None:
                raise ValueError(
                    f"task {name!r} has two handlers, the first at {_place(first.function)}; "
                    "names must be unique in an app"
                )
            self._handlers[name] = Handler(name, function, timeout_ms, attempts)
            return function

        return register

    def check(self) -> None:
        """Read every handler's hints. Raises TypeError, naming handler and parameter."""
        for handler in self._handlers.values():
            try:
                _ = handler.shape
            except (TypeError, NameError) as error:
                raise TypeError(f"task {handler.name!r}: {error}") from error


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def encode_result(value: Any) -> Result:
    """`value` as stored: bytes as they are, anything else as JSON.

    Raises ResultTooLarge, TypeError or ValueError for what JSON cannot say, or whatever a class of
    the app raises when it is read.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        result = Result(memoryview(cast("bytes", value)).tobytes(), BYTES)  # exactly bytes
    else:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        result = Result(text.encode(), JSON)  # a lone surrogate is a UnicodeEncodeError: ValueError
    if len(result.data) > MAX_RESULT_BYTES:
        raise ResultTooLarge(len(result.data))
    return result


@dataclass(frozen=True, slots=True)
class _Shape:
    """A handler's parameters as checks."""

    takes_context: bool
    checks: Mapping[str, Check]
    required: frozenset[str]
    extra: Check | None  # **kwargs
    raw: str | None  # the parameter that takes a payload as it came, if there can be one
    always_raw: bool  # ... and it takes JSON that way, too

    def arguments(self, payload: bytes, content_type: str) -> dict[str, Any]:
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
        return {name: self._checked(name, value) for name, value in members.items()}

    def _checked(self, name: str, value: Any) -> Any:
        check = self.checks.get(name, self.extra)
        if check is None:
            known = ", ".join(self.checks) or "none"
            raise Reject(f"argument {name[:MAX_NAME_BYTES]} is unexpected; known: {known}")
        try:
            return check(value, f"argument {name}")
        except Mismatch as error:
            raise Reject(str(error)) from None


def _is_json(content_type: str) -> bool:
    media = content_type.partition(";")[0].strip().lower()
    return media in {"", JSON} or media.endswith("+json")


def _object(payload: bytes) -> dict[str, Any]:
    if not payload:
        return {}
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):  # admission checks it, but not everything comes by gRPC
        raise Reject("the payload is not valid JSON") from None
    if not isinstance(value, dict):
        raise Reject("the payload must be a JSON object: its members are the handler's arguments")
    return cast("dict[str, Any]", value)


def _shape_of(function: Callable[..., Any]) -> _Shape:
    parameters = list(inspect.signature(function).parameters.values())
    hints = hints_of(function)
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    checks: dict[str, Check] = {}
    required: set[str] = set()
    extra: Check | None = None
    rest = parameters[1:] if takes_context else parameters
    raw = _raw(rest, hints)
    for parameter in rest:
        name = parameter.name
        if parameter.kind in {_Parameter.POSITIONAL_ONLY, _Parameter.VAR_POSITIONAL}:
            raise TypeError(f"parameter {name} cannot be filled by name; drop the / or the *")
        check = _check(parameter, hints) if hints.get(name) is not bytes else None
        if parameter.kind is _Parameter.VAR_KEYWORD:
            extra = check
        elif check is not None:
            checks[name] = check
            if parameter.default is _Parameter.empty:
                required.add(name)
        elif name != raw:
            raise TypeError(f"parameter {name}: bytes can only be the single parameter")
    always_raw = raw is not None and hints.get(raw) is bytes
    return _Shape(takes_context, checks, frozenset(required), extra, raw, always_raw)


def _check(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Check:
    try:
        return compile_hint(hints.get(parameter.name, Any))
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
