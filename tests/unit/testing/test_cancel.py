"""Cancels of the test client are answered as a router answers them."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from router import cancel as of_router
from tests.harness.patience import until
from tradewind import App, Context, State
from tradewind.errors import TaskCancelled
from tradewind.fleet import QueuePolicy, Retention
from tradewind.testing import TestClient, client

app = App()
released = threading.Event()


@app.task("stops", timeout=30)
async def stops(ctx: Context) -> None:
    await ctx.progress(0.5)
    await asyncio.Event().wait()


@app.task("looks", timeout=30)
def looks(ctx: Context) -> None:
    ctx.progress(0.5)
    while not ctx.cancelled:
        threading.Event().wait(0.001)


@app.task("goes-on", timeout=30, attempts=1)
async def goes_on(ctx: Context) -> str:
    await ctx.progress(0.5)
    until_ended = asyncio.Event()
    for _ in range(2):
        try:
            await until_ended.wait()
        except asyncio.CancelledError:
            continue
    return "all the same"


@app.task("isolated", timeout=30, isolate=True)
def isolated(ctx: Context) -> None:
    ctx.progress(0.5)
    released.wait(60)  # listens to nobody: in a worker it would be killed


@app.task("completes", timeout=30)
async def completes(ctx: Context) -> str:
    await ctx.progress(0.5)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "was done"


async def running(one: TestClient, task_id: str) -> "asyncio.Task[Any]":
    attempt = asyncio.create_task(one.run(task_id))

    async def has_reported() -> bool:
        return (await one.get(task_id)).progress is not None

    await until(has_reported, "the handler runs")
    return attempt


@pytest.mark.parametrize("name", ["stops", "looks", "isolated"])
async def test_a_handler_that_stops_is_waited_for(name: str) -> None:
    released.clear()
    async with TestClient(app) as one:
        receipt = await one.submit(name, idempotency_key="k")
        attempt = await running(one, receipt.task_id)
        answer = await one.cancel(receipt.task_id)
        assert (answer.cancelled, answer.requested) == (True, False)
        assert answer.task.state is State.CANCELLED
        assert (await attempt).state is State.CANCELLED
        with pytest.raises(TaskCancelled):
            await one.wait(receipt.task_id)
        again = await one.submit(name, idempotency_key="k")
        assert not again.duplicate, "the key of a cancelled task is free again"
        second = await one.cancel(receipt.task_id)
        assert (second.cancelled, second.requested) == (True, False)
    released.set()


async def test_a_handler_that_goes_on_was_asked_to_stop() -> None:
    async with TestClient(app) as one:
        receipt = await one.submit("goes-on")
        attempt = await running(one, receipt.task_id)
        answer = await one.cancel(receipt.task_id, deadline=0.05)
        assert (answer.cancelled, answer.requested) == (False, True)
        assert answer.task.state is State.PROCESSING
        one.advance(30)
        assert (await attempt).result == "all the same"
        late = await one.cancel(receipt.task_id)
        assert (late.cancelled, late.requested) == (False, False)


async def test_a_handler_that_completes_all_the_same_has_completed() -> None:
    async with TestClient(app) as one:
        receipt = await one.submit("completes")
        attempt = await running(one, receipt.task_id)
        answer = await one.cancel(receipt.task_id)
        assert (answer.cancelled, answer.requested) == (False, False)
        assert (await attempt).result == answer.task.result == "was done"


async def test_a_cancelled_handler_that_goes_on_ends_at_its_limit() -> None:
    async with TestClient(app, patience=0.05) as one:
        receipt = await one.submit("goes-on")
        await running(one, receipt.task_id)
        await one.cancel(receipt.task_id, deadline=0.05)
        assert (await one.wait(receipt.task_id)).result == "all the same"


async def test_a_cancelled_task_is_found_by_a_late_repeat_of_its_submit() -> None:
    brief = QueuePolicy(retention=Retention(completed_ms=1_000))
    async with TestClient(app, queues={"brief": brief}) as one:
        receipt = await one.submit("stops", queue="brief", request_id="r")
        await one.cancel(receipt.task_id)
        one.advance(10)
        assert (await one.get(receipt.task_id)).state is State.CANCELLED
        again = await one.submit("stops", queue="brief", request_id="r")
        assert again.task_id == receipt.task_id


def test_it_waits_as_long_as_a_router() -> None:
    assert client.CONFIRMED_WITHIN_S == of_router.CONFIRMED_WITHIN_S


async def test_a_late_repeat_of_a_cancelled_submit_is_told_so_and_its_key_is_free() -> None:
    async with TestClient(app) as one:
        first = await one.submit("stops", idempotency_key="k", request_id="r")
        assert (await one.cancel(first.task_id)).cancelled
        again = await one.submit("stops", idempotency_key="k", request_id="r")
        other = await one.submit("stops", idempotency_key="k", request_id="s")
    assert (again.task_id, again.state, again.duplicate) == (first.task_id, State.CANCELLED, False)
    assert (other.task_id != first.task_id, other.duplicate) == (True, False)
