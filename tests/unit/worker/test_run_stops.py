"""How attempts end that do not end by themselves: cancelled, handed back, out of time, stuck."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.worker.jobs import job
from tradewind.attempts.settle import (
    CalledOff,
    HandedBack,
    Success,
    TimedOut,
    Verdict,
)
from tradewind.attempts.threads import Threads
from tradewind.clock import ManualClock
from tradewind.handlers import Context
from tradewind.task import Failure
from worker.run import Ran, attempt
from worker.slot import Halt


class Stuck:
    """A thread that goes on past its limit, as `attempt` sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
        monkeypatch.setattr("worker.run._STUCK_AFTER_S", 0.0)
        self.heard = asyncio.Event()
        self.halt = Halt()
        stuck = job(function, timeout=0.02)
        self.running = asyncio.create_task(
            attempt(stuck, Threads(), self.halt, ManualClock(), self.heard.set)
        )


TIMED_OUT = Ran(TimedOut(Failure("timeout", "the attempt ran longer than 0.02 s")))


async def test_a_thread_past_its_limit_is_waited_for_and_its_work_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    def works_on() -> int:
        release.wait(10)
        return 1

    stuck = Stuck(monkeypatch, works_on)
    await stuck.heard.wait()
    assert not stuck.running.done()
    release.set()
    assert await stuck.running == Ran(ONE, late=True)


async def test_one_that_raises_or_looks_has_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def raises() -> None:
        release.wait(10)
        raise ValueError

    def looks_late(ctx: Context) -> int:
        release.wait(10)
        assert ctx.cancelled
        return 1

    for function in (raises, looks_late):
        release.clear()
        stuck = Stuck(monkeypatch, function)
        await stuck.heard.wait()
        release.set()
        assert await stuck.running == TIMED_OUT


async def test_one_whose_cancel_is_asked_for_past_its_limit_ends_as_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    def raises() -> None:
        release.wait(10)
        raise ValueError

    stuck = Stuck(monkeypatch, raises)
    await stuck.heard.wait()
    stuck.halt.call_off()
    await asyncio.sleep(0)
    assert not stuck.running.done(), "requested until it has ended"
    release.set()
    assert await stuck.running == Ran(CalledOff())


async def test_a_stuck_one_is_left_where_the_worker_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    stuck = Stuck(monkeypatch, lambda: release.wait(10))
    await stuck.heard.wait()
    stuck.halt.end()
    ran = await stuck.running
    assert ran.verdict == TIMED_OUT.verdict
    assert ran.leftover is not None
    assert not ran.leftover.done()
    release.set()
    await ran.leftover


async def test_a_thread_that_looks_in_time_is_not_stuck() -> None:
    heard: list[int] = []
    ran = await attempt(
        job(looks, timeout=0.02), Threads(), Halt(), ManualClock(), lambda: heard.append(1)
    )
    assert (ran, heard) == (TIMED_OUT, [])


async def test_a_coroutine_that_refuses_to_end_is_stuck_and_its_work_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = asyncio.Event()

    async def refuses() -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await release.wait()
        return 1

    stuck = Stuck(monkeypatch, refuses)
    await stuck.heard.wait()
    release.set()
    assert await stuck.running == Ran(ONE, late=True)


async def test_a_stopped_attempt_is_handed_back() -> None:
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    halt = Halt()
    running = asyncio.create_task(attempt(job(slow), Threads(), halt, ManualClock()))
    await started.wait()
    halt.end()
    assert await running == Ran(HandedBack())


async def completes_all_the_same() -> int:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return 1
    return 2


async def fails_while_it_stops() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise ValueError("while tidying up")


def looks(ctx: Context) -> None:
    while not ctx.cancelled:
        time.sleep(0.001)


def does_not_look(ctx: Context) -> int:
    while not ctx.signals.cancelled.is_set():
        time.sleep(0.001)
    return 1


async def waits() -> None:
    await asyncio.sleep(60)


async def refuses_to_end() -> None:
    for _ in range(2):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


ONE = Success(b"1", "application/json")
CALLED_OFF: dict[str, tuple[Callable[..., Any], Verdict]] = {
    "a coroutine is cancelled": (waits, CalledOff()),
    "one that fails while it stops has stopped": (fails_while_it_stops, CalledOff()),
    "one that completes all the same has completed": (completes_all_the_same, ONE),
    "a plain function that looked has stopped": (looks, CalledOff()),
    "one that did not look has completed": (does_not_look, ONE),
}


@pytest.mark.parametrize(("function", "verdict"), CALLED_OFF.values(), ids=CALLED_OFF)
async def test_how_an_attempt_ends_whose_cancel_was_asked_for(
    function: Callable[..., Any], verdict: Verdict
) -> None:
    halt = Halt()
    running = asyncio.create_task(attempt(job(function), Threads(), halt, ManualClock()))
    await asyncio.sleep(0)  # it starts
    await asyncio.sleep(0)
    halt.call_off()
    assert await running == Ran(verdict)


async def test_what_was_called_off_before_it_started_does_not_start() -> None:
    started: list[int] = []

    async def starts() -> None:
        started.append(1)

    halt = Halt()
    halt.call_off()
    assert await attempt(job(starts), Threads(), halt, ManualClock()) == Ran(CalledOff())
    assert started == []


async def test_a_handler_that_does_not_stop_is_told_again_at_its_limit() -> None:
    told: list[int] = []

    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                told.append(1)
        raise ValueError

    halt = Halt()
    running = asyncio.create_task(
        attempt(job(stubborn, timeout=0.05), Threads(), halt, ManualClock())
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    halt.call_off()
    assert (await running, told) == (Ran(CalledOff()), [1, 1])


async def test_a_worker_that_goes_waits_no_longer_for_what_was_called_off() -> None:
    halt = Halt()
    running = asyncio.create_task(attempt(job(refuses_to_end), Threads(), halt, ManualClock()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    halt.call_off()
    await asyncio.sleep(0)
    halt.end()
    assert (await running).verdict == HandedBack()
