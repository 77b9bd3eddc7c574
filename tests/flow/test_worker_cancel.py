"""Cancelling what runs: real workers, and a ledger that judges them (case C59)."""

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from tests.flow.lab import Lab
from tradewind.state import State
from tradewind.task import Cancelled, CancelOutcome, CancelRequested, TooLateToCancel

KEEP_MS = 3_600_000
RUNNING = {
    "a coroutine is cancelled": ("sleep", ["start"]),
    "a coroutine may tidy up": ("sleep.tidily", ["start", "stopped"]),
    "a thread is told": ("thread.looks", ["start", "stopped"]),
}


async def cancel(lab: Lab, task_id: str) -> CancelOutcome | None:
    return await lab.stores["eu-west"].cancel(task_id, retention_ms=KEEP_MS)


@pytest.mark.parametrize(("name", "events"), RUNNING.values(), ids=RUNNING)
async def test_a_running_handler_is_stopped_and_then_its_task_is_cancelled(
    lab: Lab, name: str, events: list[str]
) -> None:
    await lab.worker()
    task_id = await lab.submit(name, {"seconds": 30})
    await lab.begun(task_id)
    assert await cancel(lab, task_id) == CancelRequested(task_id)
    record = await lab.settled(task_id)
    assert (record.state, record.failure) == (State.CANCELLED, None)
    assert [line.event for line in lab.lines(task_id)] == events
    assert await cancel(lab, task_id) == Cancelled(task_id)


async def test_the_holder_is_told_and_does_not_wait_for_its_next_renewal(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("{lease: 10m}")  # renewed every 100 s, which no test waits for
    await lab.worker()
    task_id = await lab.submit("sleep", {"seconds": 300})
    await lab.begun(task_id)
    await cancel(lab, task_id)
    assert (await lab.settled(task_id)).state is State.CANCELLED


async def test_a_thread_that_does_not_look_completes_and_that_counts(lab: Lab) -> None:
    await lab.worker()
    task_id = await lab.submit("thread", {"seconds": 0.3})
    await lab.begun(task_id)
    assert await cancel(lab, task_id) == CancelRequested(task_id)
    assert (await lab.settled(task_id)).state is State.COMPLETED
    assert await cancel(lab, task_id) == TooLateToCancel(task_id, State.COMPLETED)


async def test_a_cancel_that_nobody_heard_is_learnt_from_the_next_renewal(lab: Lab) -> None:
    """The word of it comes while the event loop stands still, and is of the next task, too."""
    await lab.worker("eu-west", "--concurrency", "2")
    task_id = await lab.submit("thread.looks", {"seconds": 30})
    await lab.begun(task_id)
    blocking = await lab.submit("block", {"seconds": 3})
    await lab.begun(blocking)
    assert await cancel(lab, task_id) == CancelRequested(task_id)
    assert (await lab.settled(task_id)).state is State.CANCELLED
    (stopped,) = lab.lines(task_id, "stopped")
    (blocked,) = lab.lines(blocking, "done")
    assert stopped.at < blocked.at


async def test_cancelled_at_random_moments_each_task_ends_once_and_as_answered(lab: Lab) -> None:
    """Case C59, scaled down: 200 tasks instead of 2,000, two workers instead of eight."""
    for _ in range(2):
        await lab.worker("eu-west", "--concurrency", "20")
    dice = random.Random(59)

    async def one(index: int) -> tuple[str, CancelOutcome | None, float]:
        name = ("sleep", "thread", "thread.looks")[index % 3]
        task_id = await lab.submit(name, {"seconds": dice.uniform(0.02, 0.04)})
        await asyncio.sleep(dice.uniform(0, 0.06))
        return task_id, await cancel(lab, task_id), time.monotonic()

    room = asyncio.Semaphore(20)

    async def in_turn(index: int) -> tuple[str, CancelOutcome | None, float]:
        async with room:
            return await one(index)

    answers = await asyncio.gather(*map(in_turn, range(200)))
    first = {task_id: (await lab.settled(task_id)).state for task_id, _, _ in answers}
    kinds = {type(answer) for _, answer, _ in answers}
    assert kinds == {Cancelled, CancelRequested, TooLateToCancel}
    for task_id, answer, at in answers:
        state = first[task_id]
        events = [line.event for line in lab.lines(task_id)]
        assert events.count("start") <= 1, "never repeated"
        assert ("done" in events) is (state is State.COMPLETED)
        match answer:
            case Cancelled():
                assert state is State.CANCELLED
                assert [line for line in lab.lines(task_id) if line.at > at] == []
            case CancelRequested():
                assert state in {State.CANCELLED, State.COMPLETED}
            case _:
                assert answer == TooLateToCancel(task_id, State.COMPLETED)
                assert state is State.COMPLETED
    again = {task_id: await lab.record(task_id) for task_id in first}
    assert {task_id: record.state for task_id, record in again.items() if record} == first
