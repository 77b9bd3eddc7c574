"""Runs claims as a worker does: real handlers, the same verdicts, time that a test moves."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal

from tradewind.attempts import outcome
from tradewind.attempts.job import Job, context_of, prepare
from tradewind.attempts.settle import (
    CalledOff,
    TimedOut,
    Verdict,
    settle,
)
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.handlers import App, Signals
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    Crash,
    Failure,
    Finish,
    Progress,
    Record,
    Release,
    RetryAt,
    Settlement,
)
from tradewind.testing.clock import TestClock
from tradewind.testing.memory import MemoryStore

_OURS: Final = frozenset({__file__, outcome.__file__})
_GRACE_S: Final = 0.5  # for `finally` blocks of a cancelled coroutine, as in a worker
#: Of the retry's backoff: its shortest wait, half of the nominal one, so that a test that moves on
#: by the nominal wait finds the task due.
JITTER: Final = 0.0
ONE_REGION: Final = "a test has one region"

Halted = Literal["timeout", "cancel"]

#: Ids of the tasks inside whose handlers the caller runs.
inside: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "inside", default=frozenset()
)


@dataclass(eq=False, slots=True)
class Run:
    """One attempt under way."""

    claim: Claim
    signals: Signals
    halt: "asyncio.Future[Halted]"
    until_ms: float  # when it times out, by the test's clock


class Bench:
    """Runs one claim at a time, or as many as the test starts side by side."""

    def __init__(self, app: App, store: MemoryStore, fleet: Fleet, clock: TestClock) -> None:
        """`clock` tells when attempts time out."""
        self._app, self._store, self._fleet, self._clock = app, store, fleet, clock
        self.running: dict[str, Run] = {}
        self.ended = asyncio.Event()  # set anew after every attempt
        self._threads: ThreadPoolExecutor | None = None
        clock.moved.append(self._check_limits)

    def close(self) -> None:
        """End the threads; waits for plain handlers that still run."""
        self._clock.moved.remove(self._check_limits)
        if self._threads is not None:
            self._threads.shutdown(wait=True)

    async def run(self, claim: Claim, on_cancelled: Callable[[str], Any]) -> None:
        """One attempt, from the claim to what the store says of its end."""
        loop = asyncio.get_running_loop()
        told: list[asyncio.Task[Any]] = []
        signals = Signals()

        def report(fraction: float, note: str) -> None:
            news = [Progress(claim, fraction, note)]
            loop.call_soon_threadsafe(
                lambda: told.append(loop.create_task(self._store.progress(news)))
            )

        signals.report = report
        run = Run(claim, signals, loop.create_future(), float("inf"))
        self.running[claim.task_id] = run
        try:
            job = prepare(claim, self._app, self._fleet, signals)
            assert isinstance(job, Job), job  # noqa: S101 - of a claim that has a handler
            verdict = await self._attempt(job, run)
            await asyncio.sleep(0)  # what was reported last is on its way
            await asyncio.gather(*told)
        finally:
            del self.running[claim.task_id]
        settlement = settle(claim, verdict, job.policy, job.terms, jitter=JITTER)
        await self._settled(settlement, on_cancelled)
        self.ended.set()
        self.ended = asyncio.Event()

    def call_off(self, task_id: str) -> None:
        """Have the task's handler stopped, since its cancel was asked for."""
        run = self.running.get(task_id)
        if run is not None:
            run.signals.cancelled.set()
            _halt(run, "cancel")

    def _check_limits(self) -> None:
        for run in self.running.values():
            if self._clock.now_ms() >= run.until_ms:
                _halt(run, "timeout")

    async def _attempt(self, job: Job, run: Run) -> Verdict:
        run.until_ms = self._clock.now_ms() + job.terms.timeout_ms
        try:
            context = context_of(job, self._clock.now_ms())
            call = job.handler.call(context, job.spec.payload, job.spec.content_type)
        except Exception as error:  # noqa: BLE001 - hints and payloads are the app's
            return outcome.raised(error, ours=_OURS)
        running = self._started(job, call)
        await asyncio.wait({running, run.halt}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return _ended(running)
        if run.halt.result() == "timeout":
            return await self._timed_out(job, running)
        if job.handler.is_async:
            running.cancel()
        await asyncio.wait({running})
        if running.cancelled() or running.exception() is not None or job.signals.noticed.is_set():
            return CalledOff()
        return _ended(running)

    def _started(self, job: Job, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        token = inside.set(inside.get() | {job.claim.task_id})
        try:
            if job.handler.is_async:
                return asyncio.ensure_future(outcome.awaited(call))
            if self._threads is None:
                self._threads = ThreadPoolExecutor(thread_name_prefix="tradewind-test")
            context = contextvars.copy_context()

            def plain() -> Any:
                return context.run(lambda: outcome.called(call))

            return asyncio.get_running_loop().run_in_executor(self._threads, plain)
        finally:
            inside.reset(token)

    async def _timed_out(self, job: Job, running: "asyncio.Future[Any]") -> Verdict:
        job.signals.cancelled.set()
        if job.handler.is_async:
            running.cancel()
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({running}, timeout=_GRACE_S if job.handler.is_async else 0)
        message = f"the attempt ran longer than {job.terms.timeout_ms / 1000:g} s"
        return TimedOut(Failure("timeout", message))

    async def _settled(self, settlement: Settlement, on_cancelled: Callable[[str], Any]) -> None:
        store, task_id = self._store, settlement.claim.task_id
        match settlement:
            case Finish():
                (answer,) = await store.finish([settlement])
            case RetryAt():
                (answer,) = await store.retry([settlement])
            case Bury():
                (answer,) = await store.bury([settlement])
                found = await store.read(task_id)
                if settlement.may_move and isinstance(found, Record):
                    await store.keep(found, reason=ONE_REGION, retry_after_ms=None)
            case Release():
                (answer,) = await store.release([settlement])
            case Cancel():
                (answer,) = await store.confirm_cancel([settlement])
            case Crash():
                (answer,) = await store.crashed([settlement])
        if isinstance(answer, StoreError):
            raise answer
        if isinstance(settlement, Cancel) or answer.state == "CANCELLED":
            await on_cancelled(task_id)


def _halt(run: Run, why: Halted) -> None:
    if not run.halt.done():
        run.halt.set_result(why)


def _ended(running: "asyncio.Future[Any]") -> Verdict:
    if running.cancelled():
        return outcome.CANCELLED_FROM_INSIDE
    error = running.exception()
    if error is None:
        return outcome.returned(running.result())
    return outcome.raised(error, ours=_OURS)
