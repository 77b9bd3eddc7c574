"""Hooks of an app: before, after and on error, around every kind of handler."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tradewind import App, Context, Reject, Retry, State
from tradewind.handlers.hooks import HookFailed
from tradewind.testing import TestClient, fake_context

JSON = "application/json"


class Told:
    """An app with hooks that tell what they hear, around an async and a plain handler."""

    def __init__(self) -> None:
        self.app, self.lines = App(), list[str]()

        @self.app.before
        async def first(ctx: Context, arguments: Mapping[str, Any]) -> None:
            await asyncio.sleep(0)
            self.lines.append(f"first before {ctx.name} {dict(arguments)}")

        @self.app.before
        def second(ctx: Context, arguments: Mapping[str, Any]) -> None:
            self.lines.append("second before")

        @self.app.after
        def third(ctx: Context, result: Any) -> None:
            self.lines.append(f"third after {result}")

        @self.app.after
        async def fourth(ctx: Context, result: Any) -> None:
            self.lines.append("fourth after")

        @self.app.on_error
        def fifth(ctx: Context, error: BaseException) -> None:
            self.lines.append(f"fifth hears {error!r}")

        @self.app.on_error
        async def sixth(ctx: Context, error: BaseException) -> None:
            self.lines.append("sixth hears")

        @self.app.task("async")
        async def one(n: int) -> int:
            self.lines.append("runs")
            return self.ran(n)

        @self.app.task("plain")
        def other(n: int) -> int:
            self.lines.append("runs")
            return self.ran(n)

        self.kept = (first, second, third, fourth, fifth, sixth, one, other)

    def ran(self, n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n + 1


both = pytest.mark.parametrize("name", ["async", "plain"])


async def run_apart(told: Told, name: str, payload: bytes) -> Any:
    """The handler's call, awaited or made in a thread."""
    handler = told.app.handlers[name]
    made = handler.call(fake_context(name=name), payload, JSON)
    return await made() if handler.is_async else await asyncio.to_thread(made)


@both
async def test_hooks_go_in_in_order_and_out_in_reverse(name: str) -> None:
    told = Told()
    assert await run_apart(told, name, b'{"n": 1}') == 2
    assert told.lines == [
        f"first before {name} {{'n': 1}}",
        "second before",
        "runs",
        "fourth after",
        "third after 2",
    ]


@both
async def test_an_error_is_heard_of_in_reverse_and_goes_on(name: str) -> None:
    told = Told()
    with pytest.raises(ValueError, match="negative"):
        await run_apart(told, name, b'{"n": -1}')
    assert told.lines[2:] == ["runs", "sixth hears", "fifth hears ValueError('negative')"]


@both
async def test_wrong_arguments_are_heard_of_and_nothing_else_runs(name: str) -> None:
    told = Told()
    with pytest.raises(Reject, match="argument n: expected int, got str"):
        await run_apart(told, name, b'{"n": "x"}')
    assert told.lines[0] == "sixth hears"
    assert len(told.lines) == 2


@both
async def test_a_before_hook_that_fails_is_the_attempts_failure(name: str) -> None:
    told = Told()

    @told.app.before
    def locks(ctx: Context, arguments: Mapping[str, Any]) -> None:
        raise PermissionError("no lock")

    with pytest.raises(HookFailed) as failed:
        await run_apart(told, name, b'{"n": 1}')
    assert "the before hook" in str(failed.value)
    assert "locks failed: PermissionError: no lock" in str(failed.value)
    assert isinstance(failed.value.__cause__, PermissionError)
    assert "runs" not in told.lines
    assert told.lines[-2:] == ["sixth hears", f"fifth hears {failed.value!r}"]


@both
@pytest.mark.parametrize("asked", [Retry(after=5), Reject("not today")])
async def test_a_before_hook_may_ask_for_a_retry_or_reject(name: str, asked: Exception) -> None:
    told = Told()

    @told.app.before
    async def asks(ctx: Context, arguments: Mapping[str, Any]) -> None:
        raise asked

    with pytest.raises(type(asked)) as raised:
        await run_apart(told, name, b'{"n": 1}')
    assert raised.value is asked


@both
async def test_what_goes_wrong_after_the_handler_is_logged_and_changes_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    @told.app.after
    def breaks(ctx: Context, result: Any) -> None:
        raise OSError("secret")

    @told.app.on_error
    async def breaks_too(ctx: Context, error: BaseException) -> None:
        raise OSError("secret")

    with caplog.at_level(logging.ERROR):
        assert await run_apart(told, name, b'{"n": 1}') == 2
        with pytest.raises(ValueError, match="negative"):
            await run_apart(told, name, b'{"n": -1}')
    assert "third after 2" in told.lines, "the others are called all the same"
    marks = [vars(record) for record in caplog.records]
    assert [(mark["when"], mark["error"]) for mark in marks] == [
        *(("after", "OSError"), ("error", "OSError"))
    ]
    assert marks[0]["hook"].endswith("breaks")
    assert "secret" not in caplog.text


@both
@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
async def test_whatever_a_hook_raises_it_is_no_more_than_a_hook_that_failed(
    name: str, raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    @told.app.after
    def leaves(ctx: Context, result: Any) -> None:
        raise raised

    @told.app.on_error
    async def leaves_too(ctx: Context, error: BaseException) -> None:
        raise raised

    with caplog.at_level(logging.ERROR):
        assert await run_apart(told, name, b'{"n": 1}') == 2
        with pytest.raises(ValueError, match="negative"):
            await run_apart(told, name, b'{"n": -1}')
    assert [(vars(r)["when"], vars(r)["error"]) for r in caplog.records] == [
        *(("after", raised.__name__), ("error", raised.__name__))
    ]

    @told.app.before
    async def leaves_first(ctx: Context, arguments: Mapping[str, Any]) -> None:
        raise raised

    with pytest.raises(HookFailed, match=f"leaves_first failed: {raised.__name__}"):
        await run_apart(told, name, b'{"n": 1}')


@pytest.mark.parametrize("kind", ["before", "after"])
async def test_a_coroutine_is_cancelled_in_its_hooks_too(kind: str) -> None:
    app, reached = App(), asyncio.Event()

    async def waits(ctx: Context, about: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    getattr(app, kind)(waits)

    @app.task("t")
    async def handler() -> None: ...

    attempt = asyncio.ensure_future(app.handlers["t"].call(fake_context(), b"", JSON)())
    await reached.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert handler is not waits


async def test_hooks_run_where_the_handler_runs() -> None:
    app, threads = App(), list[str]()

    @app.before
    def where(ctx: Context, arguments: Mapping[str, Any]) -> None:
        threads.append(threading.current_thread().name)

    @app.task("plain")
    def plain() -> str:
        return threading.current_thread().name

    async with TestClient(app) as client:
        receipt = await client.submit("plain")
        assert (await client.run(receipt.task_id)).result == threads[0]
    assert threads[0] != threading.current_thread().name
    assert where is not plain


async def test_a_coroutine_that_is_told_to_stop_is_heard_of() -> None:
    app, heard = App(), list[type[BaseException]]()

    @app.on_error
    async def hears(ctx: Context, error: BaseException) -> None:
        heard.append(type(error))

    @app.task("slow", timeout=10)
    async def slow() -> None:
        client.clock.advance(10_000)
        await asyncio.Event().wait()

    async with TestClient(app) as client:
        receipt = await client.submit("slow", max_attempts=1)
        task = await client.run(receipt.task_id)
    assert (task.state, task.error and task.error.kind) == (State.DEAD_LETTER, "timeout")
    assert heard == [asyncio.CancelledError]
    assert hears is not slow


async def test_the_traceback_of_a_hook_starts_in_the_app() -> None:
    app = App()

    @app.before
    def breaks(ctx: Context, arguments: Mapping[str, Any]) -> None:
        raise OSError("no lock")

    @app.task("t")
    async def handler() -> None:
        raise AssertionError("not reached")

    async with TestClient(app) as client:
        receipt = await client.submit("t")
        task = await client.run(receipt.task_id)
    assert task.error is not None
    assert "breaks failed: OSError: no lock" in task.error.message
    assert task.error.traceback.splitlines()[0].endswith("in breaks")
    assert breaks is not handler


def test_arguments_cannot_be_changed_by_a_hook() -> None:
    app = App()

    @app.before
    def meddles(ctx: Context, arguments: Any) -> None:
        arguments["n"] = 2

    @app.task("t")
    def handler(n: int) -> int:
        return n

    with pytest.raises(HookFailed, match="meddles failed: TypeError"):
        app.handlers["t"].call(fake_context(), b'{"n": 1}', JSON)()
    assert meddles is not handler


@pytest.mark.parametrize("kind", ["before", "after", "on_error"])
def test_a_hook_takes_two_arguments(kind: str) -> None:
    app: Any = App()

    def lacks(ctx: Context) -> None: ...

    with pytest.raises(TypeError, match="lacks must take two arguments: ctx, "):
        getattr(app, kind)(lacks)
    with pytest.raises(TypeError, match="is not callable"):
        getattr(app, kind)("a text")


def test_hooks_registered_after_a_task_count_for_it_too() -> None:
    app, lines = App(), list[str]()

    @app.task("t")
    def handler() -> None: ...

    @app.before
    def late(ctx: Context, arguments: Mapping[str, Any]) -> None:
        lines.append("late")

    app.handlers["t"].call(fake_context(), b"", JSON)()
    assert lines == ["late"]
    assert late is not handler
