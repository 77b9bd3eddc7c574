"""What an app has called around each of its handlers: before, after, on error.

Shared by everything that runs a handler: the worker's event loop and threads, isolated children
and the test client.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tradewind.handlers.context import Context
from tradewind.handlers.outcomes import Reject, Retry

_log = logging.getLogger("tradewind.task")

Before = Callable[[Context, Mapping[str, Any]], Awaitable[None] | None]
After = Callable[[Context, Any], Awaitable[None] | None]
OnError = Callable[[Context, BaseException], Awaitable[None] | None]
Hook = Callable[[Context, Any], Awaitable[None] | None]
H = TypeVar("H", Before, After, OnError)


class HookFailed(Exception):
    """A hook that comes before the handler raised: the attempt fails, the handler was not run."""

    def __init__(self, hook: Callable[..., Any], error: BaseException) -> None:
        """`hook` raised `error`."""
        super().__init__(f"the before hook {name_of(hook)} failed: {type(error).__name__}: {error}")


@dataclass(slots=True)
class Hooks:
    """The hooks of one app, in the order in which they were registered."""

    before: list[Before] = field(default_factory=list[Before])
    after: list[After] = field(default_factory=list[After])
    on_error: list[OnError] = field(default_factory=list[OnError])
    present: bool = False  # whether there are any: all that is looked at where there are none

    def add(self, hooks: list[H], hook: H, takes: str) -> H:
        """Add `hook` to one of the lists. Raises TypeError unless it takes (ctx, `takes`)."""
        _check(hook, takes)
        hooks.append(hook)
        self.present = True
        return hook

    async def around(
        self,
        context: Context,
        arguments: Mapping[str, Any],
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Await `run()` with the hooks around it."""
        try:
            for hook in self.before:
                try:
                    await _awaited(hook, context, arguments)
                except BaseException as error:
                    if _is_for_us(error):
                        raise
                    raise _before_failed(hook, error) from error
            result = await run()
        except GeneratorExit:  # nothing can be awaited any more
            raise
        except BaseException as error:
            await _told(reversed_(self.on_error), context, error, "error")
            raise
        await _told(reversed_(self.after), context, result, "after")
        return result

    def around_plain(
        self,
        context: Context,
        arguments: Mapping[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """The same for a plain function. A coroutine hook gets an event loop of its own."""
        try:
            for hook in self.before:
                try:
                    _called(hook, context, arguments)
                except BaseException as error:
                    raise _before_failed(hook, error) from error
            result = run()
        except BaseException as error:
            _told_plain(reversed_(self.on_error), context, error, "error")
            raise
        _told_plain(reversed_(self.after), context, result, "after")
        return result

    async def refused(self, context: Context, error: Exception) -> Any:
        """Fail with `error`: the arguments are wrong, and no handler is called."""
        await _told(reversed_(self.on_error), context, error, "error")
        raise error

    def refused_plain(self, context: Context, error: Exception) -> Any:
        """The same for a plain function."""
        _told_plain(reversed_(self.on_error), context, error, "error")
        raise error


def name_of(hook: Callable[..., Any]) -> str:
    """What an app calls its hook."""
    return getattr(hook, "__qualname__", type(hook).__name__)


def _check(hook: Callable[..., Any], takes: str) -> None:
    if not callable(hook):
        raise TypeError(f"{hook!r} cannot be a hook: it is not callable")
    try:
        inspect.signature(hook).bind(None, None)
    except TypeError:
        raise TypeError(f"the hook {name_of(hook)} must take two arguments: ctx, {takes}") from None


def reversed_(hooks: Sequence[Hook]) -> list[Hook]:
    """Who was first to come in is last to go out."""
    return list(reversed(hooks))


def _is_for_us(error: BaseException) -> bool:
    """Whether it ends the coroutine that calls the hook, and is not the hook's own."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def _before_failed(hook: Hook, error: BaseException) -> Exception:
    if isinstance(error, Retry | Reject):
        return error
    return HookFailed(hook, error).with_traceback(error.__traceback__)


async def _awaited(hook: Hook, context: Context, about: Any) -> None:
    answer = hook(context, about)
    if answer is not None and inspect.isawaitable(answer):
        await answer


def _called(hook: Hook, context: Context, about: Any) -> None:
    answer = hook(context, about)
    if answer is not None and inspect.isawaitable(answer):
        asyncio.run(_result_of(answer))


async def _result_of(answer: Awaitable[None]) -> None:
    await answer


async def _told(hooks: Sequence[Hook], context: Context, about: Any, when: str) -> None:
    """Whatever a hook raises, SystemExit too, changes nothing: the attempt has ended."""
    for hook in hooks:
        try:
            await _awaited(hook, context, about)
        except BaseException as error:
            if _is_for_us(error):
                raise
            _tell(hook, context, error, when)


def _told_plain(hooks: Sequence[Hook], context: Context, about: Any, when: str) -> None:
    for hook in hooks:
        try:
            _called(hook, context, about)
        except BaseException as error:  # noqa: BLE001 - the attempt has ended: see App.after
            _tell(hook, context, error, when)


def _tell(hook: Hook, context: Context, error: BaseException, when: str) -> None:
    """One line; no message of the app, which may quote a payload."""
    context.log.error(
        "a hook failed; the attempt ends as it would have without it",
        extra={"hook": name_of(hook), "when": when, "error": type(error).__name__},
    )
