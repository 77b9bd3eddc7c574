"""Case C01: what a killed worker held comes back, and nothing else is run again."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from tests.cases.scale import Scale, short_and_full
from tests.flow.lab import Lab
from tradewind.state import State

TASKS = 20
SLOTS = ("--concurrency", "4")


@short_and_full(10)
async def test_c01_exactly_the_interrupted_tasks_start_twice(
    make_lab: Callable[..., Lab], scale: Scale
) -> None:
    lab = make_lab(scale.queue)
    lab.patience_s = 2 * scale.soon_s
    seconds = 5.0 if scale.full else 0.4
    ids = [await lab.submit("sleep", {"seconds": seconds}) for _ in range(TASKS)]
    first = await lab.worker("eu-west", *SLOTS)

    async def four_are_mid_run() -> bool:
        return len(lab.lines(event="start")) >= 4

    await lab.until(four_are_mid_run)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = {line.task_id for line in lab.lines(event="done")}
    interrupted = {line.task_id for line in lab.lines(event="start")} - done
    if scale.full:
        await asyncio.sleep(3)
    await lab.worker("eu-west", *SLOTS)
    came_s = time.monotonic()
    records = {task_id: await lab.ended(task_id) for task_id in ids}

    if scale.full:
        assert time.monotonic() - came_s <= scale.soon_s
    assert len(interrupted) == 4
    assert {record.state for record in records.values()} == {State.COMPLETED}
    starts = {task_id: len(lab.lines(task_id, "start")) for task_id in ids}
    assert starts == {task_id: 2 if task_id in interrupted else 1 for task_id in ids}
    assert sorted(line.task_id for line in lab.lines(event="done")) == sorted(ids)
    causes = {records[task_id].failure for task_id in interrupted}
    assert {cause and cause.kind for cause in causes} == {"worker-lost"}
    assert {records[task_id].crashes for task_id in interrupted} == {1}
    assert {record.attempts for record in records.values()} == {1}
