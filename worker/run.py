"""Attempts in this process: from a job to a verdict."""

import asyncio
import functools
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tradewind.attempts import outcome
from tradewind.attempts.describe import name_of, where
from tradewind.attempts.job import Job, context_of
from tradewind.attempts.settle import CalledOff, HandedBack, TimedOut, Verdict
from tradewind.attempts.threads import Threads
from tradewind.clock import Clock
from tradewind.handlers import Signals
from tradewind.task import Failure
from worker.deadlines import Deadlines
from worker.slot import Halt

# Frames before the app's.
_OURS: Final = frozenset({__file__, Threads.run.__code__.co_filename, outcome.__file__})
_CANCEL_GRACE_S: Final = 0.5  # for `finally` blocks of a cancelled coroutine
# After its limit, then a handler is stuck: one that looks at ctx.cancelled does so every second.
_STUCK_AFTER_S: Final = 2.0
_FIRST: Final = asyncio.FIRST_COMPLETED
Key = TypeVar("Key", bound=Hashable)


class Ran(NamedTuple):
    """How an attempt ended. A tuple, since it is made for every task."""

    verdict: Verdict
    leftover: "asyncio.Future[Any] | None" = None  # a handler that could not be stopped
    error: str = ""  # the class of what the handler raised, for the log
    where: str = ""  # FILE:LINE where that was
    late: bool = False  # it returned after its time limit


class Attempts(Generic[Key]):
    """Runs handlers of one event loop: coroutines in it, plain functions in threads.

    A handler is all that runs of an attempt: a task of the loop or a thread, whose end is the end
    of the attempt. Only one that is interrupted, or goes on past its limit, gets a task beside it.
    """

    def __init__(
        self,
        threads: Threads,
        clock: Clock,
        on_end: Callable[[Key, Ran | BaseException], None],
        on_stuck: Callable[[Key], None],
    ) -> None:
        """`on_end(key, ran)` is called on the event loop, once an attempt; an error is one of ours.

        `on_stuck(key)`: it goes on although its limit has passed, and is waited for.
        """
        self.threads, self.clock, self.on_end, self.on_stuck = threads, clock, on_end, on_stuck
        self.loop = asyncio.get_running_loop()  # asking for it is a system call
        self.deadlines = Deadlines()
        self.interrupted: set[asyncio.Task[None]] = set()

    def begin(self, key: Key, job: Job, halt: Halt) -> None:
        """Run the handler within its time limit, or until `halt` is over: then it is handed back.

        `halt.call_off` has it stopped and waits for its end, which counts: what completes all the
        same has completed. A coroutine is cancelled, a thread can only be told. One that goes on
        past its limit is waited for: another attempt beside it would do the same work at the same
        time. If it returns after all, it has succeeded late. `halt.end` ends that wait, too; the
        caller keeps the slot taken until `leftover` is done. Never raises what a handler raises.
        """
        try:
            context = context_of(job, self.clock.now_ms())
            call = job.handler.call(context, job.payload, job.content_type)
        except Exception as error:  # noqa: BLE001 - hints and payloads are not ours; we live
            self.on_end(key, _raised(error))
            return
        if halt.is_called_off:
            self.on_end(key, Ran(CalledOff()))
            return
        running: asyncio.Future[Any]
        if job.handler.is_async:
            running = self.loop.create_task(outcome.awaited(call))
        else:
            running = self.threads.run(functools.partial(outcome.called, call))
        _Attempt(self, key, job, halt, running)


class _Attempt(Generic[Key]):
    """A handler that runs, until its end is known."""

    __slots__ = ("_attempts", "_halt", "_job", "_key", "_limit_s", "_running")

    def __init__(
        self,
        attempts: Attempts[Key],
        key: Key,
        job: Job,
        halt: Halt,
        running: "asyncio.Future[Any]",
    ) -> None:
        self._attempts, self._key, self._job = attempts, key, job
        self._halt, self._running = halt, running
        self._limit_s = job.terms.timeout_ms / 1000
        attempts.deadlines.set(self, self._limit_s)
        running.add_done_callback(self._returned)
        halt.heard = self._halted
        if halt.is_over:
            self._halted()

    def past_limit(self) -> None:
        """See Deadlines."""
        self._interrupt(0.0)

    def _halted(self) -> None:
        self._interrupt(self._attempts.deadlines.lift(self, self._limit_s))

    def _returned(self, _: "asyncio.Future[Any]") -> None:
        """The handler has ended by itself, or just before anything could stop it."""
        self._halt.heard = None
        self._attempts.deadlines.drop(self, self._limit_s)
        try:
            ran = self._judged()
        except BaseException as error:  # noqa: BLE001 - a fault of ours
            self._attempts.on_end(self._key, error)
        else:
            self._attempts.on_end(self._key, ran)

    def _judged(self) -> Ran:
        if self._halt.is_called_off:
            return _called_off(self._running, self._job.signals)
        # A coroutine that blocked its loop, but looked: a child hears of its limit all the same.
        knew = self._job.signals.has_noticed and not self._halt.is_over
        return Ran(too_long(self._job)) if knew else _ended(self._running)

    # --- what is interrupted, or too long

    def _interrupt(self, left_s: float) -> None:
        """Tell the handler to stop, and see to its end, for `left_s` of its time at first."""
        if self._running.done():  # `_returned` is about to be called
            return
        self._halt.heard = None
        self._running.remove_done_callback(self._returned)
        self._stop()
        seeing = asyncio.get_running_loop().create_task(self._see_to_it(left_s))
        self._attempts.interrupted.add(seeing)
        seeing.add_done_callback(self._attempts.interrupted.discard)

    async def _see_to_it(self, left_s: float) -> None:
        try:
            ran = await self._stopped(left_s)
        except BaseException as error:
            if is_being_cancelled():
                raise
            self._attempts.on_end(self._key, error)
        else:
            self._attempts.on_end(self._key, ran)

    async def _stopped(self, left_s: float) -> Ran:
        """How it ends now that it was told to stop."""
        halt, running = self._halt, self._running
        if halt.is_called_off and not halt.is_over and left_s:
            await asyncio.wait({running, halt.stop}, timeout=left_s, return_when=_FIRST)
            if running.done():
                return self._judged()
            self._stop()
        if not halt.is_over:
            return await self._overdue()
        if self._job.handler.is_async:
            await asyncio.wait({running}, timeout=_CANCEL_GRACE_S)
        return _left(HandedBack(), running)

    async def _overdue(self) -> Ran:
        """Past its limit and told to stop: how it ends, or that it is left as it is."""
        halt, running = self._halt, self._running
        await asyncio.wait({running, halt.stop}, timeout=_STUCK_AFTER_S, return_when=_FIRST)
        if not running.done() and not halt.is_over:
            self._attempts.on_stuck(self._key)
            await asyncio.wait({running, halt.stop}, return_when=_FIRST)
        if not running.done():
            return _left(too_long(self._job), running)
        ran = _called_off(running, self._job.signals)
        if not isinstance(ran.verdict, CalledOff):
            return ran._replace(late=True)
        return ran if halt.is_called_off else Ran(too_long(self._job))

    def _stop(self) -> None:
        """Tell the handler to stop."""
        self._job.signals.cancelled.set()
        if self._job.handler.is_async:
            self._running.cancel()


async def attempt(
    job: Job,
    threads: Threads,
    halt: Halt,
    clock: Clock,
    on_stuck: Callable[[], None] = lambda: None,
) -> Ran:
    """Make one attempt and await its end; see Attempts.begin. Raises what is a fault of ours."""
    ended: asyncio.Future[Ran] = asyncio.get_running_loop().create_future()

    def on_end(_key: None, ran: Ran | BaseException) -> None:
        if isinstance(ran, BaseException):
            ended.set_exception(ran)
        else:
            ended.set_result(ran)

    attempts = Attempts[None](threads, clock, on_end, lambda _key: on_stuck())
    attempts.begin(None, job, halt)
    return await ended


def is_being_cancelled() -> bool:
    """Whether a CancelledError is meant for our own task, and is not one that an app raised."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def too_long(job: Job) -> TimedOut:
    """The verdict on an attempt that did not end within its limit."""
    limit_s = job.terms.timeout_ms / 1000
    return TimedOut(Failure("timeout", f"the attempt ran longer than {limit_s:g} s"))


def _left(verdict: Verdict, running: "asyncio.Future[Any]") -> Ran:
    """Whatever it ends with has been reported already."""
    running.add_done_callback(_seen)
    return Ran(verdict, leftover=None if running.done() else running)


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
    if running.cancelled() or running.exception() is not None or signals.has_noticed:
        return Ran(CalledOff())
    return _ended(running)


def _raised(error: BaseException) -> Ran:
    verdict, cause = outcome.raised(error, ours=_OURS), outcome.cause_of(error)
    return Ran(verdict, error=name_of(cause), where=where(cause, ours=_OURS))
