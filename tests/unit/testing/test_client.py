"""The test client: what a user's test sees of submits, attempts and their ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.harness.patience import until
from tradewind import App, Context, Reject, Retry, State, TaskRequest
from tradewind.client import Client
from tradewind.errors import (
    IdempotencyKeyReused,
    InvalidTask,
    NoRegionPermitted,
    PayloadTooLarge,
    TaskDead,
    TaskExpired,
    UnknownTask,
    WaitOver,
)
from tradewind.fleet import Backoff, Fleet, QueuePolicy, RedisTarget, Region
from tradewind.testing import CannotRun, TestClient

app = App()


@app.task("add")
async def add(a: int, b: int = 1) -> int:
    return a + b


@app.task("flaky", attempts=3)
async def flaky(ctx: Context, succeed_at: int) -> int:
    if ctx.attempt < succeed_at:
        raise RuntimeError(f"attempt {ctx.attempt}")
    return ctx.attempt


@app.task("picky")
async def picky(ctx: Context, wait_s: float = 0, why: str = "") -> None:
    if why:
        raise Reject(why)
    raise Retry(after=wait_s)


@app.task("plain")
def plain() -> dict[str, Any]:
    return {"thread": threading.current_thread().name}


@app.task("slow", timeout=30)
async def slow(ctx: Context) -> None:
    await ctx.progress(0.5, "half")
    await asyncio.Event().wait()


@pytest.fixture
async def client() -> AsyncIterator[TestClient]:
    async with TestClient(app) as one:
        yield one


async def running(client: TestClient, task_id: str) -> "asyncio.Task[Any]":
    """An attempt that somebody else has started, its handler under way."""
    attempt = asyncio.create_task(client.run(task_id))

    async def has_reported() -> bool:
        return (await client.get(task_id)).progress is not None

    await until(has_reported, "the handler runs")
    return attempt


async def test_nothing_runs_before_the_test_says_so(client: TestClient) -> None:
    receipt = await client.submit("add", {"a": 2})
    assert receipt.state is State.PENDING
    assert (await client.get(receipt.task_id)).state is State.PENDING
    task = await client.run(receipt.task_id)
    assert (task.state, task.result, task.attempts) == (State.COMPLETED, 3, 1)
    assert (task.region, task.partition, task.settled) == ("test", 0, True)


async def test_ids_and_times_are_the_same_in_every_run() -> None:
    async def once() -> Any:
        async with TestClient(app) as one:
            receipt = await one.submit("add", {"a": 2})
            return await one.run(receipt.task_id)

    assert await once() == await once()


async def test_a_wrong_argument_is_a_reject_that_names_it(client: TestClient) -> None:
    receipt = await client.submit("add", {"a": "two"})
    with pytest.raises(TaskDead, match="argument a: expected int, got str") as dead:
        await client.wait(receipt.task_id)
    assert dead.value.kind == "rejected"


async def test_wait_goes_through_retries_and_their_waits(client: TestClient) -> None:
    receipt = await client.submit("flaky", {"succeed_at": 3})
    before_ms = client.clock.now_ms()
    task = await client.wait(receipt.task_id)
    assert (task.result, task.attempts) == (3, 3)
    assert client.clock.now_ms() - before_ms == 1_000 + 2_000  # half of 2 s, then of 4 s


async def test_a_retry_waits_until_the_clock_is_moved_on(client: TestClient) -> None:
    receipt = await client.submit("flaky", {"succeed_at": 2})
    task = await client.run(receipt.task_id)
    assert task.state is State.FAILED
    assert task.error is not None
    assert task.error.message == "RuntimeError: attempt 1"
    assert "tradewind" not in task.error.traceback
    assert await client.drain() == 0
    with pytest.raises(CannotRun, match=r"due in 1 s: move on with client.advance\(1\)"):
        await client.run(receipt.task_id)
    client.advance(timedelta(seconds=2))
    assert await client.drain() == 1
    assert (await client.get(receipt.task_id)).result == 2


async def test_the_last_attempt_makes_a_dead_letter_that_can_be_redriven(
    client: TestClient,
) -> None:
    receipt = await client.submit("flaky", {"succeed_at": 9})
    with pytest.raises(TaskDead, match="attempt 3") as dead:
        await client.wait(receipt.task_id)
    assert dead.value.kind == "exhausted"
    (letter,) = await client.dead_tasks()
    assert (letter.task_id, letter.settled) == (receipt.task_id, True)
    assert letter.failover == "a test has one region"
    assert (await client.redrive(receipt.task_id)).state is State.PENDING
    assert await client.dead_tasks() == []
    with pytest.raises(CannotRun, match="is not dead: it is PENDING"):
        await client.redrive(receipt.task_id)


async def test_reject_and_retry_mean_what_they_mean(client: TestClient) -> None:
    receipt = await client.submit("picky", {"why": "no such address"})
    task = await client.run(receipt.task_id)
    assert (task.state, task.error and task.error.message) == (
        State.DEAD_LETTER,
        "no such address",
    )
    receipt = await client.submit("picky", {"wait_s": 60})
    task = await client.run(receipt.task_id)
    assert task.next_attempt_at is not None
    assert task.next_attempt_at.timestamp() * 1000 - client.clock.now_ms() == 60_000


async def test_delays_and_expiries_pass_with_the_clock(client: TestClient) -> None:
    late = await client.submit("add", {"a": 1}, delay=60)
    assert late.state is State.SCHEDULED
    missed = await client.submit("add", {"a": 1}, queue="nobody", delay=10, expires=20)
    assert await client.drain() == 0
    client.advance(60)
    assert await client.drain() == 1
    assert (await client.get(late.task_id)).state is State.COMPLETED
    with pytest.raises(TaskExpired):
        await client.wait(missed.task_id)


async def test_the_time_limit_passes_with_the_clock(client: TestClient) -> None:
    receipt = await client.submit("slow", max_attempts=1)
    attempt = await running(client, receipt.task_id)
    client.advance(29)
    await asyncio.sleep(0.01)
    assert not attempt.done()
    client.advance(1)
    task = await attempt
    assert (task.state, task.error and task.error.kind) == (State.DEAD_LETTER, "timeout")
    assert task.progress is not None
    assert (task.progress.fraction, task.progress.note) == (0.5, "half")


async def test_a_waiting_task_is_cancelled_at_once(client: TestClient) -> None:
    receipt = await client.submit("add", {"a": 1}, idempotency_key="k")
    answer = await client.cancel(receipt.task_id)
    assert (answer.cancelled, answer.task.state) == (True, State.CANCELLED)
    assert not (await client.submit("add", {"a": 1}, idempotency_key="k")).duplicate


async def test_a_duplicate_gets_the_first_id(client: TestClient) -> None:
    first = await client.submit("add", {"a": 1}, idempotency_key="k")
    second = await client.submit("add", {"a": 1}, idempotency_key="k")
    assert (second.task_id, second.duplicate, second.rule) == (first.task_id, True, "ledger")
    with pytest.raises(IdempotencyKeyReused) as reused:
        await client.submit("add", {"a": 2}, idempotency_key="k")
    assert reused.value.first_id == first.task_id
    assert await client.drain() == 1
    client.advance(timedelta(days=2))
    assert not (await client.submit("add", {"a": 1}, idempotency_key="k")).duplicate


async def test_what_a_router_refuses_is_refused(client: TestClient) -> None:
    with pytest.raises(InvalidTask, match="queue: may hold letters"):
        await client.submit("add", {"a": 1}, queue="a b")
    with pytest.raises(InvalidTask, match="residency"):
        await client.submit("add", {"a": 1}, residency=["eu"])
    with pytest.raises(PayloadTooLarge):
        await client.submit("add", b"x" * (1 << 20) + b"x", content_type="text/plain")
    with pytest.raises(InvalidTask, match="task_id"):
        await client.get("nonsense")
    with pytest.raises(UnknownTask):
        await client.get("0" * 26)
    receipts = await client.submit_many([TaskRequest("add", {"a": 1}), TaskRequest("a b")])
    assert [type(each).__name__ for each in receipts] == ["Receipt", "InvalidTask"]
    assert len(await client.store.counts()) == 1, "what was refused left nothing"


async def test_a_plain_handler_runs_in_a_thread_that_ends_with_the_client() -> None:
    before = set(threading.enumerate())
    async with TestClient(app) as one:
        receipt = await one.submit("plain")
        task = await one.run(receipt.task_id)
    assert task.result["thread"].startswith("handler-")
    assert set(threading.enumerate()) <= before


async def test_high_runs_before_low() -> None:
    ordered, ran = App(), list[int]()

    @ordered.task("note")
    async def note(n: int) -> None:
        ran.append(n)

    async with TestClient(ordered) as one:
        for n, priority in enumerate(("low", "normal", "high", "normal")):
            await one.submit("note", {"n": n}, priority=priority)
        assert await one.drain() == 4
    assert ran == [2, 1, 3, 0]
    assert note is not None


async def test_wait_ends_with_its_timeout_by_the_tests_clock(client: TestClient) -> None:
    receipt = await client.submit("add", {"a": 1}, delay=60)
    with pytest.raises(WaitOver):
        await client.wait(receipt.task_id, timeout=10)
    assert (await client.wait(receipt.task_id, timeout=60)).result == 2


async def test_what_nobody_can_run_is_said_instead_of_waited_for(client: TestClient) -> None:
    receipt = await client.submit("mistyped")
    with pytest.raises(CannotRun, match="no handler in the app, which has add, flaky"):
        await client.wait(receipt.task_id)
    with pytest.raises(CannotRun, match="no handler"):
        await client.run(receipt.task_id)
    with pytest.raises(WaitOver):
        await client.wait(receipt.task_id, timeout=5)


async def test_a_watcher_sees_every_state(client: TestClient) -> None:
    receipt = await client.submit("flaky", {"succeed_at": 2})
    states = [view.state async for view in client.watch(receipt.task_id)]
    assert states[0] is State.PENDING
    assert states[-1] is State.COMPLETED
    assert State.FAILED in states


async def test_a_handler_may_submit_and_wait(client: TestClient) -> None:
    nested = App()

    @nested.task("child")
    async def child(n: int) -> int:
        return n * 2

    async with TestClient(nested) as one:

        @nested.task("parent")
        async def parent() -> int:
            receipt = await one.submit("child", {"n": 21}, delay=5)
            return (await one.wait(receipt.task_id)).result

        receipt = await one.submit("parent")
        assert (await one.wait(receipt.task_id)).result == 42
    assert child is not parent


async def test_endless_work_is_not_drained_for_ever(client: TestClient) -> None:
    endless = App()
    async with TestClient(endless) as one:

        @endless.task("again")
        async def again() -> None:
            await one.submit("again")

        await one.submit("again")
        with pytest.raises(CannotRun, match="20 attempts"):
            await one.drain(limit=20)
        assert again is not None


async def test_queues_may_have_their_own_policies() -> None:
    impatient = QueuePolicy(attempts=1, backoff=Backoff(initial_ms=1))
    async with TestClient(app, queues={"once": impatient}) as one:
        receipt = await one.submit("picky", queue="once")
        assert (await one.run(receipt.task_id)).state is State.DEAD_LETTER


async def test_a_fleet_of_the_users_own_has_fences() -> None:
    target = RedisTarget("standalone", ())
    fleet = Fleet(regions={name: Region(name, target, (name[:2],)) for name in ("eu-1", "us-1")})
    async with TestClient(app, fleet=fleet, region="us-1") as one:
        assert (await one.submit("add", {"a": 1}, residency=["us"])).region == "us-1"
        route = await one.explain("add", {"a": 1})
        assert (route.region, route.rule) == ("us-1", "home")
        with pytest.raises(NoRegionPermitted, match="may not be in region us-1"):
            await one.submit("add", {"a": 1}, residency=["eu"])
    with pytest.raises(ValueError, match="ap-1 is not a region"):
        TestClient(app, fleet=fleet, region="ap-1")


def test_it_has_every_call_of_the_client() -> None:
    import inspect

    lacking = {"admin"}
    for name, method in inspect.getmembers(Client):
        if name.startswith("_") or name in lacking:
            continue
        theirs = inspect.signature(method).parameters
        ours = inspect.signature(getattr(TestClient, name)).parameters
        assert list(ours) == list(theirs), name
