import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.worker.jobs import FLEET, claim, packed, run
from tradewind.attempts.describe import describe
from tradewind.attempts.job import Job, prepare
from tradewind.attempts.settle import (
    Failed,
    HandedBack,
    Rejected,
    RetryAsked,
    Success,
    TimedOut,
    Unkeepable,
    Unreadable,
    Verdict,
)
from tradewind.attempts.threads import Threads
from tradewind.handlers import App, Context, Reject, Retry, Signals
from tradewind.limits import MAX_ERROR_BYTES, MAX_RESULT_BYTES
from tradewind.task import Failure
from tradewind.v1.task_pb2 import TaskSpec
from worker.run import Ran


async def fine() -> dict[str, int]:
    return {"a": 1}


def plain() -> str:
    return threading.current_thread().name[:7]


async def asks() -> None:
    raise Retry(after=2)


async def asks_and_says_why() -> None:
    raise Retry(reason="no stock yet")


async def refuses() -> None:
    raise Reject("never")


async def needs(argument: int) -> None:
    pass


async def quits() -> None:
    raise SystemExit(1)


def quits_plainly() -> None:
    raise KeyboardInterrupt


async def cancels_itself() -> None:
    raise asyncio.CancelledError


async def returns_too_much() -> bytes:
    return b"x" * (MAX_RESULT_BYTES + 1)


async def returns_no_json() -> object:
    return object()


VERDICTS: dict[str, tuple[Callable[..., Any], Verdict]] = {
    "a coroutine's result is JSON": (fine, Success(b'{"a":1}', "application/json")),
    "a plain function runs in a thread": (plain, Success(b'"handler"', "application/json")),
    "Retry asks": (asks, RetryAsked(2000)),
    "Reject refuses": (refuses, Rejected(Failure("rejected", "never"))),
    "arguments that do not fit are refused": (
        needs,
        Rejected(Failure("rejected", "argument argument is missing")),
    ),
    "a handler that cancels itself has failed": (
        cancels_itself,
        Failed(Failure("error", "CancelledError: the handler was cancelled from inside")),
    ),
    "Retry gives its reason": (asks_and_says_why, RetryAsked(0, "no stock yet")),
    "a result over the limit is not asked for again": (
        returns_too_much,
        Unkeepable(
            Failure(
                "result-too-large",
                "the handler has run and is not run again: "
                "the result has 262145 bytes, the limit is 262144; "
                "store it elsewhere and return a reference",
            )
        ),
    ),
    "a result that is no JSON is not asked for again": (
        returns_no_json,
        Unkeepable(
            Failure(
                "rejected",
                "the handler has run and is not run again: "
                "the result cannot be stored as JSON (TypeError); "
                "return JSON values or bytes",
            )
        ),
    ),
}


@pytest.mark.parametrize(("function", "verdict"), VERDICTS.values(), ids=VERDICTS)
async def test_verdicts(function: Callable[..., Any], verdict: Verdict) -> None:
    assert (await run(function)).verdict == verdict


@pytest.mark.parametrize("function", [quits, quits_plainly])
async def test_a_handler_that_exits_ends_its_task_and_not_the_worker(
    function: Callable[..., Any],
) -> None:
    verdict = (await run(function)).verdict
    assert isinstance(verdict, Failed)
    assert verdict.failure.message.startswith(("SystemExit", "KeyboardInterrupt"))


async def test_a_failure_keeps_message_and_place_but_no_values() -> None:
    async def fails() -> None:
        secret = "hunter2"
        assert secret
        raise ValueError("no such thing")

    ran = await run(fails)
    assert isinstance(ran.verdict, Failed)
    failure = ran.verdict.failure
    assert (failure.kind, failure.message) == ("error", "ValueError: no such thing")
    assert "raise ValueError" in failure.traceback
    assert "worker/run.py" not in failure.traceback
    assert (ran.error, ran.where.startswith(__file__)) == ("ValueError", True)


async def test_a_reason_that_is_no_text_does_no_harm() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError

    async def refuses_oddly() -> None:
        raise Reject(Odd())  # pyright: ignore[reportArgumentType]

    failure = Failure("rejected", "(its message cannot be read)")
    assert (await run(refuses_oddly)).verdict == Rejected(failure)


def test_error_texts_are_cut_to_their_limit() -> None:
    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError("é" * MAX_ERROR_BYTES)

    with pytest.raises(ValueError, match="é") as raised:
        deep(50)
    failure = describe(raised.value)
    size = len(failure.message.encode()) + len(failure.traceback.encode())
    assert size <= MAX_ERROR_BYTES


async def test_a_coroutine_is_cancelled_at_its_limit() -> None:
    cleaned = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    ran = await run(slow, timeout=0.02)
    assert ran == Ran(TimedOut(Failure("timeout", "the attempt ran longer than 0.02 s")))
    assert cleaned.is_set()


def test_the_tasks_own_settings_win_over_the_handlers_and_those_over_the_queues() -> None:
    app = App()
    app.task("own", timeout=1, attempts=2)(fine)
    app.task("queue")(fine)
    spec = TaskSpec(name="own", max_attempts=9, pin_region="eu")
    spec.timeout.FromMilliseconds(1500)
    found: list[tuple[int, int]] = []
    for name, stored in (("own", spec), ("own", TaskSpec()), ("queue", TaskSpec())):
        prepared = prepare(claim(packed(stored), name), app, FLEET, Signals())
        assert isinstance(prepared, Job)
        found.append((prepared.terms.attempts, prepared.terms.timeout_ms))
    assert found == [(9, 1500), (2, 1000), (5, 60_000)]


def test_bytes_that_are_no_task_are_damaged() -> None:
    app = App()
    app.task("t")(fine)
    verdict = prepare(claim(b"\xff\xff"), app, FLEET, Signals())
    assert verdict == Unreadable(Failure("damaged", "the stored task cannot be read"))


def test_a_task_without_a_handler_is_handed_back() -> None:
    assert prepare(claim(b""), App(), FLEET, Signals()) == HandedBack()


async def test_the_context_tells_what_the_claim_says() -> None:
    seen: list[Context] = []

    async def looks(ctx: Context) -> None:
        seen.append(ctx)

    await run(looks, timeout=1)
    (ctx,) = seen
    assert (ctx.task_id, ctx.attempt, ctx.region, ctx.fencing_token, ctx.fingerprint) == (
        "t1",
        2,
        "eu",
        7,
        "ab" * 32,
    )
    assert ctx.deadline is not None
    assert ctx.deadline.isoformat() == "2026-01-01T00:00:01+00:00"


async def test_an_idle_thread_is_used_again_and_busy_ones_do_not_queue() -> None:
    threads = Threads()
    first = await threads.run(threading.get_ident)
    # A thread says that it is idle just after it has delivered, so ask more than once.
    assert first in [await threads.run(threading.get_ident) for _ in range(100)]
    both = threading.Barrier(2)
    await asyncio.gather(threads.run(lambda: both.wait(10)), threads.run(lambda: both.wait(10)))


async def test_what_a_thread_raises_reaches_the_caller() -> None:
    def fails() -> None:
        time.sleep(0)
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await Threads().run(fails)
