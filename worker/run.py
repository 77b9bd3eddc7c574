"""One attempt: from a claim to a verdict."""

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tradewind.attempts import outcome
from tradewind.attempts.describe import name_of, where
from tradewind.attempts.job import Job, context_of
from tradewind.attempts.settle import CalledOff, HandedBack, TimedOut, Verdict
from tradewind.attempts.threads import Threads
from tradewind.clock import Clock
from tradewind.handlers import Signals
from tradewind.task import Failure
from worker.slot import Halt, first_of

# Frames before the app's.
_OURS: Final = frozenset({__file__, Threads.run.__code__.co_filename, outcome.__file__})
_CANCEL_GRACE_S: Final = 0.5  # for `finally` blocks of a cancelled coroutine
# After its limit, then a handler is stuck: one that looks at ctx.cancelled does so every second.
_STUCK_AFTER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How an attempt ended."""

    verdict: Verdict
    leftover: "asyncio.Future[Any] | None" = None  # a handler that could not be stopped
    error: str = ""  # the class of what the handler raised, for the log
    where: str = ""  # FILE:LINE where that was
    late: bool = False  # it returned after its time limit


async def attempt(
    job: Job,
    threads: Threads,
    halt: Halt,
    clock: Clock,
    on_stuck: Callable[[], None] = lambda: None,
) -> Ran:
    """Run the handler within its time limit, or until `halt.stop`: then it is handed back.

    `halt.cancel` has it stopped and waits for its end, which counts: what completes all the same
    has completed. A coroutine is cancelled, a thread can only be told. One that goes on past its
    limit is waited for, and `on_stuck` is called: another attempt beside it would do the same work
    at the same time. If it returns after all, it has succeeded late. `halt.stop` ends that wait,
    too; the caller keeps the slot taken until `leftover` is done. Never raises what a handler
    raises.
    """
    try:
        context = context_of(job, clock.now_ms())
        call = job.handler.call(context, job.spec.payload, job.spec.content_type)
    except Exception as error:  # noqa: BLE001 - hints and payloads are not ours; the worker lives
        return _raised(error)
    if halt.cancel.done():
        return Ran(CalledOff())
    if job.handler.is_async:
        running = asyncio.ensure_future(outcome.awaited(call))
    else:
        running = threads.run(functools.partial(outcome.called, call))
    stop = functools.partial(_stop, job, running)
    await _until(running, halt, job.terms.timeout_ms / 1000, stop=stop)
    if running.done():
        if halt.cancel.done():
            return _called_off(running, job.signals)
        # A coroutine that blocked its loop, but looked: a child hears of its limit all the same.
        knew = job.signals.noticed.is_set() and not halt.stop.done()
        return Ran(too_long(job)) if knew else _ended(running)
    stop()
    if not halt.stop.done():
        return await _overdue(job, running, halt, on_stuck)
    if job.handler.is_async:
        await asyncio.wait({running}, timeout=_CANCEL_GRACE_S)
    return _left(HandedBack(), running)


def too_long(job: Job) -> TimedOut:
    """The verdict on an attempt that did not end within its limit."""
    limit_s = job.terms.timeout_ms / 1000
    return TimedOut(Failure("timeout", f"the attempt ran longer than {limit_s:g} s"))


async def _overdue(
    job: Job, running: "asyncio.Future[Any]", halt: Halt, on_stuck: Callable[[], None]
) -> Ran:
    """Past its limit and told to stop: how it ends, or that it is left as it is."""
    first = asyncio.FIRST_COMPLETED
    await asyncio.wait({running, halt.stop}, timeout=_STUCK_AFTER_S, return_when=first)
    if not running.done() and not halt.stop.done():
        on_stuck()
        await asyncio.wait({running, halt.stop}, return_when=first)
    if not running.done():
        return _left(too_long(job), running)
    ran = _called_off(running, job.signals)
    if not isinstance(ran.verdict, CalledOff):
        return replace(ran, late=True)
    return ran if halt.cancel.done() else Ran(too_long(job))


def _left(verdict: Verdict, running: "asyncio.Future[Any]") -> Ran:
    """Whatever it ends with has been reported already."""
    running.add_done_callback(_seen)
    return Ran(verdict, leftover=None if running.done() else running)


async def _until(
    running: "asyncio.Future[Any]", halt: Halt, limit_s: float, *, stop: Callable[[], None]
) -> None:
    """Return when it has ended, is to be handed back, or has run for `limit_s`."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    first = asyncio.FIRST_COMPLETED
    await first_of(running, halt.stop, halt.cancel, timeout_s=limit_s)
    if running.done() or halt.stop.done() or not halt.cancel.done():
        return
    stop()
    left_s = max(until_s - loop.time(), 0)
    await asyncio.wait({running, halt.stop}, timeout=left_s, return_when=first)


def _stop(job: Job, running: "asyncio.Future[Any]") -> None:
    """Tell the handler to stop."""
    job.signals.cancelled.set()
    if job.handler.is_async:
        running.cancel()


def _seen(running: "asyncio.Future[Any]") -> None:
    _ = running.cancelled() or running.exception()


def _ended(running: "asyncio.Future[Any]") -> Ran:
    if running.cancelled():  # by the handler itself: we did not ask for it
        return Ran(outcome.CANCELLED_FROM_INSIDE)
    error = running.exception()
    return Ran(outcome.returned(running.result())) if error is None else _raised(error)


def _called_off(running: "asyncio.Future[Any]", signals: Signals) -> Ran:
    """How an attempt ended after it was told to stop: CalledOff if that is why.

    Returning counts as completion, unless the handler knew: that is how a plain function stops.
    """
    if running.cancelled() or running.exception() is not None or signals.noticed.is_set():
        return Ran(CalledOff())
    return _ended(running)


def _raised(error: BaseException) -> Ran:
    verdict, cause = outcome.raised(error, ours=_OURS), outcome.cause_of(error)
    return Ran(verdict, error=name_of(cause), where=where(cause, ours=_OURS))
