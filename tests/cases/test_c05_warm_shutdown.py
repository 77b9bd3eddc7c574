"""Case C05: a worker that is asked to end keeps its lease until its task is done."""

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from tests.cases.scale import Scale, short_and_full
from tests.flow.lab import Lab, ended_with
from tradewind.state import State
from tradewind.stops import TOGETHER_S

HANDED_ON_S = 2.0  # the case's own bound, at full length


@short_and_full(5)
async def test_c05_a_warm_shutdown_keeps_the_lease_until_the_task_is_done(
    make_lab: Callable[..., Lab], scale: Scale
) -> None:
    lab = make_lab(scale.queue)
    first = await lab.worker("eu-west", "--concurrency", "1", "--grace", "40")
    running = await lab.submit("until.told", {"seconds": 4 * scale.lease_s})
    await lab.begun(running)
    waiting = [await lab.submit("sleep", {"seconds": 0}) for _ in range(2)]
    first.terminate()
    await lab.worker()
    came_s = time.monotonic()
    for task_id in waiting:
        assert (await lab.ended(task_id)).state is State.COMPLETED
    lab.tell()  # they did not wait for it, nor for its lease, which it keeps
    assert await ended_with(first) == 0
    exited_s = time.monotonic()

    assert (await lab.ended(running)).state is State.COMPLETED
    assert [(line.event, line.worker) for line in lab.lines(running)] == [
        ("start", "w0"),
        ("done", "w0"),
    ]
    for task_id in waiting:
        assert [(line.event, line.worker) for line in lab.lines(task_id)] == [
            ("start", "w1"),
            ("done", "w1"),
        ]
    if scale.full:
        (done,) = lab.lines(running, "done")
        assert exited_s - done.at <= HANDED_ON_S
        starts = [lab.lines(task_id, "start")[0].at for task_id in waiting]
        assert max(starts) - came_s <= HANDED_ON_S


@short_and_full(5)
@pytest.mark.parametrize("kind", ["first.sleeps", "first.sleeps.plain"])
async def test_c05_what_outlives_the_grace_is_handed_back_at_once(
    make_lab: Callable[..., Lab], scale: Scale, kind: str
) -> None:
    lab = make_lab(scale.queue)
    grace_s = 3.0 if scale.full else 0.2
    first = await lab.worker("eu-west", "--grace", f"{grace_s:g}")
    task_id = await lab.submit(kind, {"seconds": 30.0})
    await lab.begun(task_id)
    await lab.worker()  # idle until then
    first.terminate()
    asked_s = time.monotonic()
    assert await ended_with(first) == 0
    record = await lab.ended(task_id)
    assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 0)
    starts = lab.lines(task_id, "start")
    assert [line.worker for line in starts] == ["w0", "w1"]
    assert [line.worker for line in lab.lines(task_id, "done")] == ["w1"]
    if scale.full:
        assert grace_s <= starts[1].at - asked_s <= grace_s + HANDED_ON_S


async def test_c05_a_worker_that_ends_takes_nothing_new(lab: Lab) -> None:
    first = await lab.worker("eu-west", "--concurrency", "4")
    running = await lab.submit("until.told", {"seconds": 0})
    await lab.begun(running)
    first.terminate()

    async def is_stopping() -> bool:
        return "worker stops" in lab.logs()

    await lab.until(is_stopping)
    later = [await lab.submit("sleep", {"seconds": 0}) for _ in range(20)]
    lab.tell()
    assert await ended_with(first) == 0
    assert [line.event for line in lab.lines(running)] == ["start", "done"]
    assert [line for task_id in later for line in lab.lines(task_id)] == []
    await lab.worker()
    for task_id in later:
        assert (await lab.ended(task_id)).state is State.COMPLETED


async def test_c05_a_second_signal_shortens_the_grace(lab: Lab) -> None:
    worker = await lab.worker("eu-west", "--grace", "600")
    task_id = await lab.submit("sleep", {"seconds": 60})
    await lab.begun(task_id)
    worker.terminate()

    async def is_stopping() -> bool:
        return "worker stops" in lab.logs()

    await lab.until(is_stopping)
    await asyncio.sleep(2 * TOGETHER_S)  # sooner it would be a repeat of the first
    worker.terminate()
    assert await asyncio.wait_for(ended_with(worker), 20) == 0
    record = await lab.record(task_id)
    assert record is not None
    assert (record.state, record.attempts) == (State.PENDING, 0), "handed back, not used up"
    assert json.loads(record.result or b"null") is None
