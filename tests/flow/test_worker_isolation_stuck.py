"""Handlers that go on past their limit in a thread: nobody does their work beside them."""

import json
import os
import signal

from google.protobuf.duration_pb2 import Duration

from tests.flow.lab import Lab, ended_with
from tradewind.state import State
from tradewind.task import CancelRequested
from worker.__main__ import WORN_OUT

SHORT = Duration(nanos=200_000_000)
LONG = 60


async def is_stuck(lab: Lab, task_id: str) -> None:
    async def says_so() -> bool:
        marks = (task_id, "runs on past its time limit")
        return any(all(m in line for m in marks) for line in lab.logs().splitlines())

    await lab.until(says_so)


async def death_of(lab: Lab, task_id: str) -> str:
    """What it has died of; nobody is left to carry it on."""
    record = await lab.record(task_id)
    assert record is not None
    assert record.state is State.DEAD_LETTER
    return record.death


async def test_a_cancel_of_a_stuck_thread_is_requested_until_it_ends(lab: Lab) -> None:
    await lab.worker("eu-west", "--concurrency", "10")
    task_id = await lab.submit("thread.then.fail", {"seconds": 4}, timeout=SHORT)
    await lab.begun(task_id)
    await is_stuck(lab, task_id)
    answer = await lab.stores["eu-west"].cancel(task_id, retention_ms=3_600_000)
    assert answer == CancelRequested(task_id)
    record = await lab.record(task_id)
    assert record is not None
    assert (record.state, record.cancel_requested) == (State.PROCESSING, True)
    assert (await lab.settled(task_id)).state is State.CANCELLED
    assert [line.event for line in lab.lines(task_id)] == ["start", "done"]


async def test_a_worn_out_worker_finishes_what_is_healthy_and_asks_to_be_replaced(lab: Lab) -> None:
    worker = await lab.worker("eu-west", "--concurrency", "2")
    healthy = await lab.submit("sleep", {"seconds": 5})
    await lab.begun(healthy)
    stuck = await lab.submit("thread", {"seconds": LONG}, timeout=SHORT, max_attempts=1)
    (begun,) = await lab.begun(stuck)
    await is_stuck(lab, stuck)
    later = await lab.submit("sleep", {"seconds": 0})
    assert await ended_with(worker) == WORN_OUT == 75
    (done,) = lab.lines(healthy, "done")
    assert done.at - begun.at > 2, "the one that was healthy has not been cut short"
    assert await death_of(lab, stuck) == "timeout"
    waiting = await lab.record(later)
    assert waiting is not None
    assert (waiting.state, lab.lines(later)) == (State.PENDING, [])


async def test_a_worn_out_process_is_replaced_by_its_parent(lab: Lab) -> None:
    parent = lab.start("eu-west", "--concurrency", "1", "--processes", "2")
    stuck = await lab.submit("thread.first.sleeps", {"seconds": LONG}, timeout=SHORT)
    first, second = await lab.begun(stuck, 2)
    record = await lab.ended(stuck)
    assert (record.state, json.loads(record.result)) == (State.COMPLETED, second.pid)
    assert first.pid != second.pid
    assert '"status": 75' in lab.logs()

    async def both_live() -> bool:
        workers = await lab.stores["eu-west"].workers()
        return len({w.heartbeat.worker_id for w in workers if w.age_ms < 2_000}) == 2

    await lab.until(both_live)
    os.kill(parent.pid, signal.SIGTERM)
    assert await ended_with(parent) == 0


async def test_a_stuck_thread_does_not_keep_a_worker_from_ending(lab: Lab) -> None:
    """Not even one that the interpreter would wait for; its time is up, so that is what it was."""
    worker = await lab.worker("eu-west", "--concurrency", "10", "--grace", "0.2")
    task_id = await lab.submit("thread.in.a.pool", {"seconds": LONG}, timeout=SHORT, max_attempts=1)
    await lab.begun(task_id)
    await is_stuck(lab, task_id)
    worker.terminate()
    assert await ended_with(worker) == 0
    assert await death_of(lab, task_id) == "timeout"
