"""Runs claims as a worker does: real handlers, the same verdicts, time that a test moves."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

from tradewind.attempts.job import Job, prepare
from tradewind.attempts.settle import settle
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.handlers import App
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    Crash,
    Finish,
    Progress,
    Record,
    Release,
    RetryAt,
    Settlement,
)
from tradewind.testing.attempt import Attempts, Run, inside
from tradewind.testing.clock import TestClock
from tradewind.testing.memory import MemoryStore

_log = logging.getLogger(__name__)
#: Of the retry's backoff: its shortest wait, half of the nominal one, so that a test that moves on
#: by the nominal wait finds the task due.
JITTER: Final = 0.0
ONE_REGION: Final = "a test has one region"
_LOOK_S: Final = 0.1  # between two looks at attempts that may have come to rest
_HELD_UP_S: Final = 0.1  # an event loop that is later than this was at work, or in a debugger


class Bench:
    """Runs one claim at a time, or as many as the test starts side by side."""

    def __init__(
        self,
        app: App,
        store: MemoryStore,
        fleet: Fleet,
        clock: TestClock,
        on_cancelled: Callable[[str], Any],
    ) -> None:
        """`clock` tells when attempts time out; `on_cancelled` is awaited with a task's id."""
        self._app, self._store, self._fleet, self._clock = app, store, fleet, clock
        self._on_cancelled = on_cancelled
        self.running: dict[str, Run] = {}
        self._attempts = Attempts(clock)
        self._loop: asyncio.AbstractEventLoop | None = None  # once an attempt has begun
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None  # of ours, not of an app
        self._ended = asyncio.Event()  # set anew after every attempt
        self._stirred_s = 0.0  # when an attempt began, ended or reported, or the clock was moved
        clock.moved.append(self._time_moved)

    async def close(self) -> None:
        """Have what still runs stopped; a thread that does not listen is left behind."""
        self._clock.moved.remove(self._time_moved)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if left := self._attempts.close():
            _log.warning("plain handlers run on although the test has ended", extra={"left": left})

    def start(self, claim: Claim) -> "asyncio.Task[None]":
        """Make an attempt, from the claim to what the store says of its end. Named by its task."""
        self._loop = asyncio.get_running_loop()
        run = self.running[claim.task_id] = Run(claim)
        self._stir()
        task = self._loop.create_task(self._run(run), name=claim.task_id)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def rests(self, patience_s: float) -> bool:
        """Wait for an attempt to end: False. True: there is none, or none is going to by itself.

        That is when for `patience_s` of real time no attempt has begun, ended or reported progress,
        and the clock has stood still. Attempts inside whose handlers the caller runs wait for it.
        """
        loop = asyncio.get_running_loop()
        while self._others():
            if self._fault is not None:
                raise self._fault
            since_s, ended = loop.time(), self._ended
            left_s = self._stirred_s + patience_s - since_s
            if left_s <= 0 and not any(run.is_ending for run in self._others()):
                return True
            look_s = min(left_s, _LOOK_S) if left_s > 0 else _LOOK_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_s):
                    await ended.wait()
                return False
            if loop.time() - since_s > look_s + _HELD_UP_S:
                self._stir()
        if self._fault is not None:
            raise self._fault
        return True

    async def call_off(self, task_id: str, within_s: float) -> None:
        """Have the task's handler stopped. Return once it has, or after so much real time."""
        if (run := self.running.get(task_id)) is not None:
            run.call_off()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while task_id in self.running:
                    await self._ended.wait()

    def limit_ms(self) -> float:
        """When the next attempt times out, by the test's clock; infinite if none will."""
        limits = (run.until_ms for run in self.running.values() if not run.is_ending)
        return min(limits, default=float("inf"))

    def has_others(self) -> bool:
        """Whether attempts run, but those that the caller is part of."""
        return bool(self._others())

    def _others(self) -> list[Run]:
        return [run for task_id, run in self.running.items() if task_id not in inside.get()]

    def _stir(self) -> None:
        if self._loop is not None:
            self._stirred_s = self._loop.time()

    def _time_moved(self) -> None:
        self._stir()
        if self._loop is not None and self.running:  # a plain handler may move it, from its thread
            self._loop.call_soon_threadsafe(self._check_limits)

    def _check_limits(self) -> None:
        for run in self.running.values():
            run.check_limit(self._clock.now_ms())

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fault = error

    async def _run(self, run: Run) -> None:
        claim, loop = run.claim, asyncio.get_running_loop()
        told: list[asyncio.Task[Any]] = []

        def reported(news: Progress) -> None:
            self._stir()
            told.append(loop.create_task(self._store.progress([news])))

        def report(fraction: float, note: str) -> None:
            with contextlib.suppress(RuntimeError):  # a thread that outlived the test's loop
                loop.call_soon_threadsafe(reported, Progress(claim, fraction, note))

        run.signals.report = report
        try:
            job = prepare(claim, self._app, self._fleet, run.signals)
            assert isinstance(job, Job), job  # noqa: S101 - of a claim that has a handler
            verdict = await self._attempts.make(job, run)
            await asyncio.sleep(0)  # what was reported last is on its way
            await asyncio.gather(*told)
            await self._settled(settle(claim, verdict, job.policy, job.terms, jitter=JITTER))
        finally:
            del self.running[claim.task_id]
            self._stir()
            self._ended.set()
            self._ended = asyncio.Event()

    async def _settled(self, settlement: Settlement) -> None:
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
            await self._on_cancelled(task_id)
