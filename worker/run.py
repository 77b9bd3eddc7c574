"""One attempt: from a claim to a verdict."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tradewind import codec
from tradewind.clock import Clock
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import (
    App,
    Context,
    Handler,
    Reject,
    ResultTooLarge,
    Retry,
    Signals,
    encode_result,
)
from tradewind.limits import MAX_TIMEOUT_MS
from tradewind.task import Claim, Failure
from tradewind.v1.task_pb2 import TaskSpec
from worker.describe import describe, name_of, said, where
from worker.settle import (
    CalledOff,
    Failed,
    HandedBack,
    Rejected,
    RetryAsked,
    Success,
    Terms,
    TimedOut,
    Unkeepable,
    Unreadable,
    Verdict,
)
from worker.slot import Halt
from worker.threads import Threads

_OURS: Final = frozenset({__file__, Threads.run.__code__.co_filename})  # frames before the app's
_HAS_RUN: Final = "the handler has run and is not run again"
_CANCEL_GRACE_S: Final = 0.5  # for `finally` blocks of a cancelled coroutine


@dataclass(frozen=True, slots=True)
class Job:
    """A claim that can be run: handler, arguments and terms are known."""

    claim: Claim
    policy: QueuePolicy
    terms: Terms
    handler: Handler
    spec: TaskSpec
    fingerprint: str
    signals: Signals


def prepare(
    claim: Claim, app: App, fleet: Fleet, signals: Signals
) -> Job | Unreadable | HandedBack:
    """Read what is stored. HandedBack: this worker does not have the handler after all."""
    policy = fleet.queue(claim.queue)
    handler = app.handlers.get(claim.name)
    if handler is None:
        return HandedBack()
    try:
        stored = codec.unpack(claim.packed)
    except codec.DamagedRecord as error:
        return Unreadable(Failure("damaged", str(error)))
    spec = stored.spec
    terms = Terms(
        attempts=spec.max_attempts or handler.attempts or policy.attempts,
        timeout_ms=_timeout_ms(spec) or handler.timeout_ms or policy.timeout_ms,
        pinned_to=spec.pin_region,
        deduplicated=stored.deduplicated,
        move_after_ms=fleet.failover.dead_after_ms,
    )
    return Job(claim, policy, terms, handler, spec, stored.fingerprint.hex(), signals)


def context_of(job: Job, now_ms: int) -> Context:
    """What the handler is told. `now_ms` is this host's time: the deadline is for display."""
    claim = job.claim
    return Context(
        task_id=claim.task_id,
        attempt=claim.attempt,
        region=claim.region,
        fingerprint=job.fingerprint,
        fencing_token=claim.token,
        deadline=datetime.fromtimestamp((now_ms + job.terms.timeout_ms) / 1000, UTC),
        labels=dict(job.spec.labels),
        tenant=job.spec.tenant,
        signals=job.signals,
    )


@dataclass(frozen=True, slots=True)
class Ran:
    """How an attempt ended."""

    verdict: Verdict
    leftover: "asyncio.Future[Any] | None" = None  # a handler that outlived its time limit
    error: str = ""  # the class of what the handler raised, for the log
    where: str = ""  # FILE:LINE where that was


async def attempt(job: Job, threads: Threads, halt: Halt, clock: Clock) -> Ran:
    """Run the handler within its time limit, or until `halt.stop`: then it is handed back.

    `halt.cancel` has it stopped and waits for its end, which counts: what completes all the same
    has completed. A coroutine is cancelled. A thread cannot be: past its limit the attempt is
    reported all the same, and the caller keeps its slot taken until `leftover` is done. Never
    raises what a handler raises.
    """
    try:
        context = context_of(job, clock.now_ms())
        call = job.handler.call(context, job.spec.payload, job.spec.content_type)
    except Reject as refused:
        return _raised(Rejected(Failure("rejected", said(refused.reason))), refused)
    except Exception as error:  # noqa: BLE001 - hints and payloads are not ours; the worker lives
        return _raised(Failed(describe(error, ours=_OURS)), error)
    if halt.cancel.done():
        return Ran(CalledOff())
    if job.handler.is_async:
        running = asyncio.ensure_future(_guarded(call))
    else:
        running = threads.run(functools.partial(_plain, call))
    limit_s = job.terms.timeout_ms / 1000
    await _until(running, halt, limit_s, stop=functools.partial(_stop, job, running))
    if running.done():
        return _called_off(running, job.signals) if halt.cancel.done() else _ended(running)
    message = f"the attempt ran longer than {limit_s:g} s"
    verdict = HandedBack() if halt.stop.done() else TimedOut(Failure("timeout", message))
    running.add_done_callback(_seen)
    _stop(job, running)
    if job.handler.is_async:
        # A coroutine that refuses to end keeps its slot as a thread does.
        await asyncio.wait({running}, timeout=_CANCEL_GRACE_S)
    return Ran(verdict, leftover=None if running.done() else running)


async def _until(
    running: "asyncio.Future[Any]", halt: Halt, limit_s: float, *, stop: Callable[[], None]
) -> None:
    """Return when it has ended, is to be handed back, or has run for `limit_s`."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    first = asyncio.FIRST_COMPLETED
    await asyncio.wait({running, halt.stop, halt.cancel}, timeout=limit_s, return_when=first)
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
    """Whatever it ended with has been reported already."""
    _ = running.cancelled() or running.exception()


class _Stopped(Exception):
    """SystemExit or the like, raised by a handler: a failure of the task, not of the worker."""


async def _guarded(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    except (SystemExit, KeyboardInterrupt, StopIteration, StopAsyncIteration) as raised:
        raise _Stopped from raised


def _plain(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError) as raised:
        raise _Stopped from raised


def _ended(running: "asyncio.Future[Any]") -> Ran:
    if running.cancelled():  # by the handler itself: we did not ask for it
        return Ran(
            Failed(Failure("error", "CancelledError: the handler was cancelled from inside"))
        )
    error = running.exception()
    if isinstance(error, _Stopped):
        error = error.__cause__
    match error:
        case None:
            return Ran(_success(running.result()))
        case Retry():
            return _raised(RetryAsked(error.after_ms, said(error.reason)), error)
        case Reject():
            reason = said(error.reason) or name_of(error)
            return _raised(Rejected(Failure("rejected", reason)), error)
        case _:
            return _raised(Failed(describe(error, ours=_OURS)), error)


def _called_off(running: "asyncio.Future[Any]", signals: Signals) -> Ran:
    """How an attempt ended after its cancel was asked for.

    Returning counts as completion, unless the handler knew: that is how a plain function stops.
    """
    if running.cancelled() or running.exception() is not None or signals.noticed.is_set():
        return Ran(CalledOff())
    return _ended(running)


def _raised(verdict: Verdict, error: BaseException) -> Ran:
    return Ran(verdict, error=name_of(error), where=where(error, ours=_OURS))


def _success(value: Any) -> Verdict:
    try:
        result = encode_result(value)
    except ResultTooLarge as error:
        return Unkeepable(Failure("result-too-large", f"{_HAS_RUN}: {error}"))
    except BaseException as error:  # noqa: BLE001 - a value of the app: reading it may do anything
        # The type only: what json says of a value may quote it.
        message = f"{_HAS_RUN}: the result cannot be stored as JSON ({name_of(error)})"
        return Unkeepable(Failure("rejected", f"{message}; return JSON values or bytes"))
    return Success(result.data, result.content_type)


def _timeout_ms(spec: TaskSpec) -> int:
    if not spec.HasField("timeout"):
        return 0
    return min(max(spec.timeout.ToMilliseconds(), 1), MAX_TIMEOUT_MS)
