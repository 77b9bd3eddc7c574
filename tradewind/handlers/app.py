"""The registry of an app's handlers, and how a payload becomes a call."""

import contextlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast

from tradewind.handlers.classes import as_json
from tradewind.handlers.context import Context
from tradewind.handlers.hooks import After, Before, Hooks, OnError
from tradewind.handlers.outcomes import Reject, ResultTooLarge, milliseconds
from tradewind.handlers.shape import JSON, Shape, shape_of
from tradewind.limits import MAX_ATTEMPTS, MAX_NAME_BYTES, MAX_RESULT_BYTES, MAX_TIMEOUT_MS

BYTES: Final = "application/octet-stream"
_NAME: Final = re.compile(rf"[A-Za-z0-9._:/-]{{1,{MAX_NAME_BYTES}}}")
_F = TypeVar("_F", bound=Callable[..., Any])
_B = TypeVar("_B", bound=Before)
_A = TypeVar("_A", bound=After)
_E = TypeVar("_E", bound=OnError)


class Result(NamedTuple):
    """What a handler returned, as it is stored. A tuple, since it is made for nearly every task."""

    data: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function. `timeout_ms` and `attempts` are None where the queue decides."""

    name: str
    function: Callable[..., Any]
    timeout_ms: int | None
    attempts: int | None
    isolate: bool = False  # in a process of its own, which a time limit can kill
    hooks: Hooks = field(default_factory=Hooks, repr=False, compare=False)
    is_async: bool = field(init=False)  # whether calling the function gives a coroutine
    _shape: list[Shape] = field(default_factory=list[Shape], repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look at the function once: its tasks are many."""
        object.__setattr__(self, "is_async", _gives_coroutine(self.function))

    @property
    def shape(self) -> Shape:
        """The parameters, read once: late, so that hints may name what is defined further down.

        Raises TypeError if a parameter can never be filled from a payload.
        """
        if not self._shape:
            self._shape.append(shape_of(self.function))
        return self._shape[0]

    def call(self, context: Context, payload: bytes, content_type: str) -> Callable[[], Any]:
        """The function with its arguments filled in. Raises Reject, naming a wrong argument."""
        shape = self.shape
        if self.hooks.present:
            return self._hooked(shape, context, payload, content_type)
        arguments = shape.arguments(payload, content_type)
        if shape.takes_context:
            return partial(self.function, context, **arguments)
        return partial(self.function, **arguments)

    def _hooked(
        self, shape: Shape, context: Context, payload: bytes, content_type: str
    ) -> Callable[[], Any]:
        """The same with the app's hooks around it, which hear of wrong arguments, too."""
        hooks, is_async = self.hooks, self.is_async
        try:
            arguments = shape.arguments(payload, content_type)
        except Reject as error:
            return partial(hooks.refused if is_async else hooks.refused_plain, context, error)
        first = (context,) if shape.takes_context else ()
        run = partial(self.function, *first, **arguments)
        around = hooks.around if is_async else hooks.around_plain
        return partial(around, context, MappingProxyType(arguments), run)


class App:
    """The handlers of one application.

        app = App()

        @app.task("email.send", timeout=30, attempts=8)
        async def send(ctx: Context, to: str, subject: str = "") -> dict: ...

    A JSON object becomes keyword arguments, checked against the hints. With any other content type,
    or if its only parameter is hinted `bytes`, the handler gets the payload as it came. A plain
    `def` runs in a thread, off the event loop.

    Hooks run around every handler of the app, in its event loop, thread or child and inside its
    time limit: those before it in the order in which they were registered, the others the other
    way round. Any may be `def` or `async def`; an `async def` hook of a plain handler gets an event
    loop of its own. Without hooks nothing is spent on them.
    """

    def __init__(self) -> None:
        """An app without handlers and hooks."""
        self._handlers: dict[str, Handler] = {}
        self._hooks = Hooks()
        self.handlers: Mapping[str, Handler] = MappingProxyType(self._handlers)  # by task name

    def task(
        self,
        name: str,
        *,
        timeout: float | timedelta | None = None,
        attempts: int | None = None,
        isolate: bool = False,
    ) -> Callable[[_F], _F]:
        """Register a function under `name`; it stays callable as it was.

        `timeout` (seconds) limits one attempt and `attempts` counts the first; a task's own values
        win over these, these over the queue's. `isolate` runs it in a child process of the worker:
        past its limit, or cancelled, it is killed whatever it is doing, and its death hurts no
        other task. The child imports the app anew, and is used again.

        Raises ValueError for a bad or taken name or a number outside its limits, TypeError for a
        function that cannot be a handler: hints that say nothing about JSON, among others. Hints
        that name what is defined further down are read when the app is loaded.
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
            handler = Handler(name, function, timeout_ms, attempts, isolate, self._hooks)
            with contextlib.suppress(NameError):  # read again by `check`, once all is defined
                _checked(handler)
            self._handlers[name] = handler
            return function

        return register

    def before(self, hook: _B) -> _B:
        """Register `hook(ctx, arguments)`, to be called before each handler.

        If it raises, the handler is not run, and the attempt fails with what it raised, as if the
        handler had: Retry and Reject mean what they always mean.
        """
        self._hooks.add(self._hooks.before, hook, "arguments")
        return hook

    def after(self, hook: _A) -> _A:
        """Register `hook(ctx, result)`, to be called after each handler that returned.

        The task's work is done: if the hook raises, that is logged and the attempt stays a success.
        """
        self._hooks.add(self._hooks.after, hook, "result")
        return hook

    def on_error(self, hook: _E) -> _E:
        """Register `hook(ctx, error)`, to be called when an attempt fails.

        `error` is what the handler, or a hook before it, raised: Retry, Reject (of wrong arguments,
        too) and the CancelledError of a coroutine that is told to stop included. If the hook
        raises, that is logged; how the attempt ends stays the same. Nothing is called for an
        attempt whose process dies, or for a plain function past its time limit until it returns.
        """
        self._hooks.add(self._hooks.on_error, hook, "error")
        return hook

    def check(self) -> None:
        """Read every handler's hints. Raises TypeError, naming handler and parameter."""
        for handler in self._handlers.values():
            try:
                _checked(handler)
            except NameError as error:
                raise TypeError(f"task {handler.name!r}: {error}") from error


def _gives_coroutine(function: Callable[..., Any]) -> bool:
    call: Any = getattr(function, "__call__", None)  # noqa: B004 - an object with its own async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _checked(handler: Handler) -> None:
    try:
        _ = handler.shape
    except TypeError as error:
        raise TypeError(f"task {handler.name!r}: {error}") from error


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def encode_result(value: Any) -> Result:
    """`value` as stored: bytes as they are, anything else as JSON, see classes.as_json.

    Raises ResultTooLarge, TypeError or ValueError for what JSON cannot say, or whatever a class of
    the app raises when it is read.
    """
    if value is None:
        return _NOTHING
    if isinstance(value, _BINARY):
        result = Result(memoryview(cast("bytes", value)).tobytes(), BYTES)  # exactly bytes
    else:  # a lone surrogate is a UnicodeEncodeError: ValueError
        result = Result(_ENCODER.encode(value).encode(), JSON)
    if len(result.data) > MAX_RESULT_BYTES:
        raise ResultTooLarge(len(result.data))
    return result


_NOTHING: Final = Result(b"null", JSON)
_BINARY: Final = (bytes, bytearray, memoryview)  # a union of them is made anew at every look
# Made once: json.dumps makes one for each call that sets anything.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_json
)
