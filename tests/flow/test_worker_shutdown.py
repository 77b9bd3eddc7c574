"""A pool of processes that is asked to end: the parent passes it on, and ends with its children."""

import asyncio
import os
import signal

import pytest

from tests.flow.lab import Lab, ended_with
from tradewind.state import State
from tradewind.stops import TOGETHER_S

POOL = ("--processes", "2", "--concurrency", "2")


async def both_live(lab: Lab) -> bool:
    return len(await lab.stores["eu-west"].workers()) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_every_process_finishes_what_it_runs(lab: Lab, number: int) -> None:
    parent = lab.start("eu-west", *POOL)
    await lab.until(lambda: both_live(lab))
    ids = [await lab.submit("sleep", {"seconds": 2.5}) for _ in range(4)]
    for task_id in ids:
        await lab.begun(task_id)
    os.kill(parent.pid, number)
    assert await ended_with(parent) == 0
    records = [await lab.ended(task_id) for task_id in ids]
    assert {(r.state, r.attempts, r.crashes) for r in records} == {(State.COMPLETED, 1, 0)}
    assert [[line.event for line in lab.lines(task_id)] for task_id in ids] == [
        ["start", "done"]
    ] * 4
    assert await lab.stores["eu-west"].workers() == []


async def test_a_second_signal_shortens_the_grace_of_every_process(lab: Lab) -> None:
    parent = lab.start("eu-west", *POOL, "--grace", "600")
    await lab.until(lambda: both_live(lab))
    ids = [await lab.submit("sleep", {"seconds": 300}) for _ in range(4)]
    for task_id in ids:
        await lab.begun(task_id)
    parent.terminate()

    async def both_stop() -> bool:
        return lab.logs().count("worker stops") == 2

    await lab.until(both_stop)
    await asyncio.sleep(2 * TOGETHER_S)  # sooner it would be a repeat of the first
    parent.terminate()
    assert await ended_with(parent) == 0
    records = [await lab.record(task_id) for task_id in ids]
    assert {record and (record.state, record.attempts, record.crashes) for record in records} == {
        (State.PENDING, 0, 0)
    }, "handed back, and no attempt of theirs is used up"


@pytest.mark.parametrize(
    ("apart_s", "ends_as"),
    [
        pytest.param(2 * TOGETHER_S, (State.PENDING, 0), id="two requests, so what runs is cut"),
        pytest.param(0, (State.COMPLETED, 1), id="one that came twice, so what runs may end"),
    ],
)
async def test_requests_are_told_apart_though_a_handler_holds_the_loop(
    lab: Lab, apart_s: float, ends_as: tuple[State, int]
) -> None:
    worker = await lab.worker("eu-west", "--concurrency", "2", "--grace", "600")
    running = await lab.submit("sleep", {"seconds": 4})
    await lab.begun(running)
    holding = await lab.submit("hold.until.told", {})
    await lab.begun(holding)
    for _ in range(2):
        worker.terminate()
        await asyncio.sleep(apart_s)
    lab.tell()
    assert await ended_with(worker) == 0
    record = await lab.record(running)
    assert record is not None
    assert (record.state, record.attempts) == ends_as


async def test_what_waits_is_not_held_up_by_a_worker_that_ends(lab: Lab) -> None:
    """Hints that it took before it was asked to end are passed on to others."""
    first = await lab.worker("eu-west", "--concurrency", "1")
    running = await lab.submit("until.told", {"seconds": 0})
    await lab.begun(running)
    waiting = [await lab.submit("sleep", {"seconds": 0}, partition=n) for n in range(10)]
    await lab.worker("eu-west", "--concurrency", "1")
    first.terminate()
    for task_id in waiting:
        await lab.ended(task_id)
    lab.tell()
    assert {line.worker for task_id in waiting for line in lab.lines(task_id)} == {"w1"}
    assert await ended_with(first) == 0
    assert [(line.event, line.worker) for line in lab.lines(running)] == [
        ("start", "w0"),
        ("done", "w0"),
    ]
