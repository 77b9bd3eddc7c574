"""One attempt of the test client: the same ends as in a worker, by a clock that a test moves.

See worker.run and worker.apart, which decide the same with real limits and processes.
"""

import asyncio
import contextvars
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tradewind.attempts import outcome, threads
from tradewind.attempts.job import Job, context_of
from tradewind.attempts.settle import CalledOff, TimedOut, Verdict
from tradewind.attempts.threads import Threads
from tradewind.handlers import Signals
from tradewind.task import Claim, Failure
from tradewind.testing.clock import TestClock

_OURS: Final = frozenset({__file__, threads.__file__, outcome.__file__})
# Real time after the limit, as in a worker: see worker.run and, for `isolate`, worker.apart.
_STUCK_AFTER_S: Final = 2.0
_KILLED_AFTER_S: Final = 1.0
_CLOSE_S: Final = 0.5  # for what still runs when the test is over, and is told to stop
_FIRST: Final = asyncio.FIRST_COMPLETED

#: Ids of the tasks inside whose handlers the caller runs.
inside: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "inside", default=frozenset()
)


def _future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class Run:
    """One attempt under way."""

    claim: Claim
    signals: Signals = field(default_factory=Signals)
    limit: "asyncio.Future[None]" = field(default_factory=_future)  # its time is over
    cancel: "asyncio.Future[None]" = field(default_factory=_future)  # its cancel was asked for
    until_ms: float = float("inf")  # when it times out, by the test's clock
    is_ending: bool = False  # it has a moment of real time left, whatever the clock does

    def check_limit(self, now_ms: float) -> None:
        """Time has moved on."""
        if now_ms >= self.until_ms and not self.limit.done():
            self.is_ending = True
            self.limit.set_result(None)

    def call_off(self) -> None:
        """Somebody asked for the task's cancel."""
        if not self.cancel.done():
            self.cancel.set_result(None)


class Attempts:
    """Makes attempts: coroutines in the event loop, plain functions in threads."""

    def __init__(self, clock: TestClock) -> None:
        """`clock` tells when attempts time out."""
        self._clock = clock
        self._threads = Threads()

    async def make(self, job: Job, run: Run) -> Verdict:
        """Run the handler until it ends, its limit has passed, or its cancel has stopped it."""
        run.until_ms = self._clock.now_ms() + job.terms.timeout_ms
        try:
            context = context_of(job, self._clock.now_ms())
            call = job.handler.call(context, job.payload, job.content_type)
        except Exception as error:  # noqa: BLE001 - hints and payloads are the app's
            return outcome.raised(error, ours=_OURS)
        running = self._started(job, call)
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await _verdict(job, run, running)
        except asyncio.CancelledError:  # the test is over
            _stop(job, running)
            await asyncio.wait({running}, timeout=_CLOSE_S)
            raise

    def close(self) -> int:
        """End the threads. How many go on, which nothing can stop."""
        return self._threads.close(_CLOSE_S)

    def _started(self, job: Job, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        token = inside.set(inside.get() | {job.claim.task_id})
        try:
            if job.handler.is_async:
                return asyncio.ensure_future(outcome.awaited(call))
            return self._threads.run(functools.partial(outcome.called, call))
        finally:
            inside.reset(token)


async def _verdict(job: Job, run: Run, running: "asyncio.Future[Any]") -> Verdict:
    await asyncio.wait({running, run.limit, run.cancel}, return_when=_FIRST)
    if run.cancel.done() and not running.done() and not run.limit.done():
        _stop(job, running)
        if job.handler.isolate:  # it would be killed
            run.is_ending = True
            await asyncio.wait({running, run.limit}, timeout=_KILLED_AFTER_S, return_when=_FIRST)
            return _called_off(running, run.signals) if running.done() else CalledOff()
        await asyncio.wait({running, run.limit}, return_when=_FIRST)
    if running.done():
        return _called_off(running, run.signals) if run.cancel.done() else _ended(running)
    return await _overdue(job, run, running)


async def _overdue(job: Job, run: Run, running: "asyncio.Future[Any]") -> Verdict:
    """Past its limit and told to stop. What returns all the same, not knowing, has completed.

    A worker waits for one that goes on until the worker is replaced, and then it has timed out:
    here that is at once.
    """
    _stop(job, running)
    grace_s = _KILLED_AFTER_S if job.handler.isolate else _STUCK_AFTER_S
    await asyncio.wait({running}, timeout=grace_s)
    verdict = _called_off(running, run.signals) if running.done() else CalledOff()
    if not isinstance(verdict, CalledOff) or (running.done() and run.cancel.done()):
        return verdict
    message = f"the attempt ran longer than {job.terms.timeout_ms / 1000:g} s"
    return TimedOut(Failure("timeout", message))


def _stop(job: Job, running: "asyncio.Future[Any]") -> None:
    """Tell the handler to stop."""
    job.signals.cancelled.set()
    if job.handler.is_async:
        running.cancel()


def _called_off(running: "asyncio.Future[Any]", signals: Signals) -> Verdict:
    """How an attempt ended that was told to stop: CalledOff if that is why."""
    if running.cancelled() or running.exception() is not None or signals.noticed.is_set():
        return CalledOff()
    return _ended(running)


def _ended(running: "asyncio.Future[Any]") -> Verdict:
    if running.cancelled():
        return outcome.CANCELLED_FROM_INSIDE
    error = running.exception()
    if error is None:
        return outcome.returned(running.result())
    return outcome.raised(error, ours=_OURS)
