"""One attempt: from a claim to a verdict."""

import asyncio
import functools
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
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
from tradewind.limits import KIB, MAX_ERROR_BYTES, MAX_TIMEOUT_MS
from tradewind.task import Claim, Failure
from tradewind.v1.task_pb2 import TaskSpec
from worker.settle import (
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
from worker.threads import Threads

_MESSAGE_BYTES: Final = 4 * KIB  # of MAX_ERROR_BYTES; the traceback gets the rest
_FRAMES: Final = 20  # of a traceback; the innermost tell what failed
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


async def attempt(job: Job, threads: Threads, stop: "asyncio.Future[None]", clock: Clock) -> Ran:
    """Run the handler within its time limit, or until `stop` is set: then it is handed back.

    A coroutine is cancelled. A thread cannot be: the attempt is reported all the same, and the
    caller keeps its slot taken until `leftover` is done. Never raises what a handler raises.
    """
    try:
        context = context_of(job, clock.now_ms())
        call = job.handler.call(context, job.spec.payload, job.spec.content_type)
    except Reject as refused:
        return _raised(Rejected(Failure("rejected", _said(refused.reason))), refused)
    except Exception as error:  # noqa: BLE001 - hints and payloads are not ours; the worker lives
        return _raised(Failed(describe(error)), error)
    limit_s = job.terms.timeout_ms / 1000
    if job.handler.is_async:
        running = asyncio.ensure_future(_guarded(call))
    else:
        running = threads.run(functools.partial(_plain, call))
    await asyncio.wait({running, stop}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        return _ended(running)
    message = f"the attempt ran longer than {limit_s:g} s"
    verdict = HandedBack() if stop.done() else TimedOut(Failure("timeout", message))
    job.signals.cancelled.set()
    running.add_done_callback(_seen)
    if job.handler.is_async:
        running.cancel()
        # A coroutine that refuses to end keeps its slot as a thread does.
        await asyncio.wait({running}, timeout=_CANCEL_GRACE_S)
    return Ran(verdict, leftover=None if running.done() else running)


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
            return _raised(RetryAsked(error.after_ms, _said(error.reason)), error)
        case Reject():
            return _raised(Rejected(Failure("rejected", _said(error.reason))), error)
        case _:
            return _raised(Failed(describe(error)), error)


def _raised(verdict: Verdict, error: BaseException) -> Ran:
    return Ran(verdict, error=type(error).__name__, where=where(error))


def _success(value: Any) -> Verdict:
    try:
        result = encode_result(value)
    except ResultTooLarge as error:
        return Unkeepable(Failure("result-too-large", f"{_HAS_RUN}: {error}"))
    except (TypeError, ValueError, RecursionError) as error:
        # The type only: what json says of a value may quote it.
        message = f"{_HAS_RUN}: the result cannot be stored as JSON ({type(error).__name__})"
        return Unkeepable(Failure("rejected", f"{message}; return JSON values or bytes"))
    return Success(result.data, result.content_type)


def describe(error: BaseException) -> Failure:
    """The error as stored with the task: class, message, innermost frames; no local variables."""
    text = _text(error)
    name = type(error).__name__
    message = _cut(f"{name}: {text}" if text else name, _MESSAGE_BYTES)
    frames = traceback.format_tb(_below_ours(error.__traceback__), limit=-_FRAMES)
    chain = "".join(frames)
    rest = MAX_ERROR_BYTES - len(message.encode())
    return Failure("error", message, _cut_head(chain, rest))


def where(error: BaseException) -> str:
    """FILE:LINE of the innermost frame of the app, for the log."""
    frames = traceback.extract_tb(_below_ours(error.__traceback__), limit=-1)
    return f"{frames[0].filename}:{frames[0].lineno}" if frames else ""


def _below_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the app's first frame on."""
    ours = {__file__, encode_result.__code__.co_filename}
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace


def _said(reason: object) -> str:
    """What an app gave as a reason; no hint keeps it from being something else than text."""
    return _cut(_text(reason), _MESSAGE_BYTES)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a class of the app: its __str__ may do anything
        return "(its message cannot be read)"


def _cut(text: str, limit: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def _cut_head(text: str, limit: int) -> str:
    """Drop from the front: the innermost frame stands last."""
    data = text.encode("utf-8", "backslashreplace")
    return text if len(data) <= limit else data[-limit:].decode("utf-8", "ignore")


def _timeout_ms(spec: TaskSpec) -> int:
    if not spec.HasField("timeout"):
        return 0
    return min(max(spec.timeout.ToMilliseconds(), 1), MAX_TIMEOUT_MS)
