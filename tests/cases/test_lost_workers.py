"""Case C01: tasks of a killed worker come back."""

import time

import pytest

from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECONDS = 0.6  # of each task


def four_are_mid_run(ledger: Ledger) -> bool:
    """Whether four run, and nothing has begun or ended so lately that Redis may not know of it."""
    lines = ledger.lines()
    starts, ends = len(ledger.count("start")), len(ledger.count("done"))
    return (starts, ends) == (8, 4) and time.monotonic() - lines[-1].at > SECONDS / 4


async def test_c01_exactly_what_was_interrupted_is_started_again(world: Yard) -> None:
    async with world.client("eu-west") as client:
        receipts = [
            await client.submit("sleep", {"seconds": SECONDS}, pin_region="eu-west")
            for _ in range(20)
        ]
        ids = [receipt.task_id for receipt in receipts]
        await until(lambda: four_are_mid_run(world.ledger), "the second four tasks are mid-run")
        killed = world.supervisor.pid_of("worker-eu-west")
        world.supervisor.kill("worker-eu-west")
        await until(
            lambda: world.supervisor.pid_of("worker-eu-west") not in {killed, None},
            "the supervisor has started another worker",
        )
        by_the_dead = [line for line in world.ledger.lines() if line.pid == killed]
        ended = {line.task_id for line in by_the_dead if line.event == "done"}
        interrupted = {line.task_id for line in by_the_dead} - ended

        tasks = {task_id: await client.wait(task_id, timeout=30) for task_id in ids}

    assert len(interrupted) == 4
    assert {task.state for task in tasks.values()} == {State.COMPLETED}
    assert world.ledger.count("start") == {id_: 2 if id_ in interrupted else 1 for id_ in ids}
    assert world.ledger.count("done") == dict.fromkeys(ids, 1)
    reasons = {tasks[task_id].error for task_id in interrupted}
    assert all(reason and "lost" in reason.message for reason in reasons), reasons
    assert {tasks[task_id].crashes for task_id in interrupted} == {1}
    assert {tasks[task_id].error for task_id in set(ids) - interrupted} == {None}
