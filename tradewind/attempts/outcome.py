"""From what a handler returned or raised to a verdict."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

from tradewind.attempts.describe import describe, name_of, said
from tradewind.attempts.settle import (
    Failed,
    Rejected,
    RetryAsked,
    Success,
    Unkeepable,
    Verdict,
)
from tradewind.handlers import Reject, ResultTooLarge, Retry, encode_result
from tradewind.handlers.shape import JSON
from tradewind.task import Failure

_HAS_RUN: Final = "the handler has run and is not run again"
#: Of a coroutine that ended as cancelled although nobody had asked for it.
CANCELLED_FROM_INSIDE: Final = Failed(
    Failure("error", "CancelledError: the handler was cancelled from inside")
)


_NOTHING: Final = Success(b"null", JSON)  # what most handlers return


class Stopped(Exception):
    """SystemExit or the like, raised by a handler: a failure of the task, not of its runner."""


async def awaited(call: Callable[[], Awaitable[Any]]) -> Any:
    """Run the call of a coroutine function. Raises Stopped from what would end the event loop."""
    forks = _forks
    try:
        return await call()
    except (SystemExit, KeyboardInterrupt, StopIteration, StopAsyncIteration) as raised_:
        raise Stopped from raised_
    finally:
        if _forks != forks:
            _end_copy()


def called(call: Callable[[], Any]) -> Any:
    """Run the call of a plain function. Raises Stopped from what would end its thread."""
    forks = _forks
    try:
        return call()
    except (SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError) as raised_:
        raise Stopped from raised_
    finally:
        if _forks != forks:
            _end_copy()


_forks = 0  # that lie between the process that first imported this module and this one


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - of the process, as it is itself
    _forks += 1


# Not os.getpid around each call: two system calls, 0.7 us of a task's 45.
os.register_at_fork(after_in_child=_count_fork)


def _end_copy() -> NoReturn:
    """End this process: it is a copy that the handler has forked.

    It has done what it was made for. It would go on as a second runner, with the connections and
    the claims of the first.
    """
    error = sys.exc_info()[1]
    cause = None if error is None else cause_of(error)
    code = cause.code if isinstance(cause, SystemExit) else cause
    os._exit(code if isinstance(code, int) else int(code is not None))


def cause_of(error: BaseException) -> BaseException:
    """What the handler itself raised."""
    return error.__cause__ or error if isinstance(error, Stopped) else error


def raised(error: BaseException, *, ours: frozenset[str] = frozenset()) -> Verdict:
    """The verdict on a handler that raised; frames of the files in `ours` are not shown."""
    match cause_of(error):
        case Retry() as retry:
            return RetryAsked(retry.after_ms, said(retry.reason))
        case Reject() as reject:
            return Rejected(Failure("rejected", said(reject.reason) or name_of(reject)))
        case other:
            return Failed(describe(other, ours=ours))


def returned(value: Any) -> Verdict:
    """The verdict on a handler that returned. Never raises, whatever `value` is."""
    if value is None:
        return _NOTHING
    try:
        result = encode_result(value)
    except ResultTooLarge as error:
        return Unkeepable(Failure("result-too-large", f"{_HAS_RUN}: {error}"))
    except BaseException as error:  # noqa: BLE001 - a value of the app: reading it may do anything
        # The type only: what json says of a value may quote it.
        message = f"{_HAS_RUN}: the result cannot be stored as JSON ({name_of(error)})"
        return Unkeepable(Failure("rejected", f"{message}; return JSON values or bytes"))
    return Success(*result)
