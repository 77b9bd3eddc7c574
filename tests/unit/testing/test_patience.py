"""Handlers that do not end by themselves: no call of the test client hangs on one."""

import asyncio
import threading

import pytest

from tradewind import App, Context, State
from tradewind.errors import TaskDead, WaitOver
from tradewind.testing import CannotRun, TestClient, TestClock

PATIENCE_S = 0.25  # real time: enough for a handler that ends, on a machine that is busy
app = App()
released = threading.Event()


@app.task("sleeps", timeout=5, attempts=1)
async def sleeps() -> None:
    await asyncio.sleep(3600)


@app.task("deaf", timeout=5, attempts=1)
async def deaf() -> str:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "was nearly done"
    return ""


@app.task("looks", timeout=5, attempts=1)
def looks(ctx: Context) -> None:
    while not ctx.cancelled:
        threading.Event().wait(0.001)


@app.task("computes", timeout=5, attempts=1)
def computes(ctx: Context) -> str:
    while not ctx.signals.cancelled.is_set():  # as one that is done a little after its limit
        threading.Event().wait(0.001)
    return "done"


@app.task("stuck", timeout=5, attempts=1, isolate=True)
def stuck() -> None:
    released.wait(60)


@app.task("add")
async def add(a: int) -> int:
    return a + 1


def client(patience: float = PATIENCE_S) -> TestClient:
    return TestClient(app, patience=patience)


@pytest.mark.parametrize("name", ["sleeps", "looks"])
async def test_wait_goes_on_to_the_time_limit_of_a_handler_that_does_not_end(name: str) -> None:
    async with client() as one:
        before_ms = one.clock.now_ms()
        receipt = await one.submit(name)
        with pytest.raises(TaskDead, match="ran longer than 5 s") as dead:
            await one.wait(receipt.task_id)
        assert dead.value.kind == "timeout"
        assert one.clock.now_ms() - before_ms == 5_000


async def test_wait_tries_again_after_a_time_out() -> None:
    async with client() as one:
        receipt = await one.submit("sleeps", max_attempts=2)
        with pytest.raises(TaskDead):
            await one.wait(receipt.task_id)
        assert (await one.get(receipt.task_id)).attempts == 2


async def test_a_thread_that_cannot_be_stopped_has_timed_out_and_holds_up_nothing() -> None:
    released.clear()
    async with client() as one:
        receipt = await one.submit("stuck")
        with pytest.raises(TaskDead, match="ran longer than 5 s"):
            await one.wait(receipt.task_id)
    released.set()


@pytest.mark.parametrize("name", ["deaf", "computes"])
async def test_what_returns_after_its_limit_has_completed_as_in_a_worker(name: str) -> None:
    async with client() as one:
        receipt = await one.submit(name)
        assert (await one.wait(receipt.task_id)).state is State.COMPLETED


async def test_a_wait_ends_by_its_own_timeout_and_the_attempt_goes_on() -> None:
    async with client() as one:
        receipt = await one.submit("sleeps")
        before_ms = one.clock.now_ms()
        with pytest.raises(WaitOver):
            await one.wait(receipt.task_id, timeout=2)
        assert one.clock.now_ms() - before_ms == 2_000
        assert (await one.get(receipt.task_id)).state is State.PROCESSING
        with pytest.raises(TaskDead, match="ran longer than 5 s"):
            await one.wait(receipt.task_id, timeout=4)
        assert one.clock.now_ms() - before_ms == 5_000


async def test_a_wait_that_is_given_up_leaves_the_attempt_as_it_is() -> None:
    async with client(patience=float("inf")) as one:
        receipt = await one.submit("sleeps")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(one.wait(receipt.task_id), 0.01)
        one.advance(5)
        with pytest.raises(TaskDead, match="ran longer"):
            await one.wait(receipt.task_id)


async def test_a_watcher_goes_on_to_the_time_limit() -> None:
    async with client() as one:
        receipt = await one.submit("sleeps")
        states = [view.state async for view in one.watch(receipt.task_id)]
        assert states[-1] is State.DEAD_LETTER


async def test_run_says_what_to_do_and_the_attempt_goes_on() -> None:
    async with client() as one:
        receipt = await one.submit("sleeps")
        before_ms = one.clock.now_ms()
        with pytest.raises(CannotRun, match=r"\(sleeps\) still runs .* client.advance\(5\)"):
            await one.run(receipt.task_id)
        assert one.clock.now_ms() == before_ms, "time stands still"
        one.advance(5)
        with pytest.raises(TaskDead):
            await one.wait(receipt.task_id)


async def test_drain_runs_the_rest_before_it_says_so() -> None:
    async with client() as one:
        before_ms = one.clock.now_ms()
        receipt = await one.submit("sleeps")
        others = [await one.submit("add", {"a": n}) for n in range(3)]
        with pytest.raises(CannotRun, match=f"{receipt.task_id} .* still runs"):
            await one.drain()
        views = [await one.get(other.task_id) for other in others]
        assert [view.result for view in views] == [1, 2, 3]
        assert one.clock.now_ms() == before_ms


async def test_what_waits_for_another_task_is_no_reason_to_move_the_clock() -> None:
    pair, arrived = App(), asyncio.Event()

    @pair.task("first", timeout=5)
    async def first() -> str:
        await arrived.wait()
        return "met"

    @pair.task("second")
    async def second() -> None:
        arrived.set()

    async with TestClient(pair, patience=PATIENCE_S) as one:
        before_ms = one.clock.now_ms()
        receipt = await one.submit("first")
        await one.submit("second")
        assert (await one.wait(receipt.task_id)).result == "met"
        assert one.clock.now_ms() == before_ms
    assert first is not second


async def test_a_handler_that_waits_for_io_is_not_timed_out() -> None:
    real = App()

    @real.task("io", timeout=1)
    async def io() -> str:
        await asyncio.sleep(0.02)
        return "read"

    async with TestClient(real) as one:
        before_ms = one.clock.now_ms()
        receipt = await one.submit("io")
        assert (await one.wait(receipt.task_id)).result == "read"
        assert one.clock.now_ms() == before_ms
    assert io is not None


async def test_progress_and_a_blocked_event_loop_are_signs_of_life() -> None:
    lively = App()

    @lively.task("reports", timeout=1)
    async def reports(ctx: Context) -> None:
        for step in range(6):
            await asyncio.sleep(PATIENCE_S)
            await ctx.progress(step / 6)

    @lively.task("blocks", timeout=1)
    async def blocks() -> None:
        threading.Event().wait(0.5)  # as a breakpoint does
        await asyncio.sleep(0.01)

    async with TestClient(lively, patience=4 * PATIENCE_S) as one:
        before_ms = one.clock.now_ms()
        for name in ("reports", "blocks"):
            receipt = await one.submit(name)
            assert (await one.wait(receipt.task_id)).state is State.COMPLETED
        assert one.clock.now_ms() == before_ms
    assert reports is not blocks


async def test_a_handler_that_waits_for_a_slow_child_gives_it_its_time() -> None:
    nested = App()
    async with TestClient(nested, patience=PATIENCE_S) as one:

        @nested.task("child", timeout=7, attempts=1)
        async def child() -> None:
            await asyncio.sleep(3600)

        @nested.task("parent", timeout=60)
        async def parent() -> str:
            receipt = await one.submit("child")
            with pytest.raises(TaskDead):
                await one.wait(receipt.task_id)
            return "saw it"

        before_ms = one.clock.now_ms()
        receipt = await one.submit("parent")
        assert (await one.wait(receipt.task_id)).result == "saw it"
        assert one.clock.now_ms() - before_ms == 7_000
    assert child is not parent


async def test_a_plain_handler_may_move_the_clock() -> None:
    clock, moving = TestClock(), App()

    @moving.task("moves", timeout=5, attempts=1)
    def moves(ctx: Context) -> None:
        clock.advance(5_000)
        while not ctx.cancelled:
            threading.Event().wait(0.001)

    async with TestClient(moving, clock=clock) as one:
        receipt = await one.submit("moves")
        task = await one.run(receipt.task_id)
        assert (task.error and task.error.kind) == "timeout"
    assert moves is not None


async def test_the_end_of_the_client_is_the_end_of_what_still_runs() -> None:
    ended = asyncio.Event()
    endless = App()

    @endless.task("endless")
    async def runs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    before = set(threading.enumerate())
    endless.task("looks")(looks)
    async with TestClient(endless, patience=PATIENCE_S) as one:
        await one.submit("endless")
        await one.submit("looks")
        with pytest.raises(CannotRun, match="still runs"):
            await one.drain()
    assert ended.is_set()
    assert set(threading.enumerate()) <= before
    assert runs is not None


def test_patience_is_more_than_nothing() -> None:
    with pytest.raises(ValueError, match="patience must be over 0 s, not 0"):
        client(patience=0)
