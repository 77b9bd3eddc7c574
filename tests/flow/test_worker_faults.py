"""Cases C01, C03, C05, C55 and C57: the ledger outside the product judges."""

import asyncio
import json
import os
import signal
from collections.abc import Callable

import pytest

from tests.flow.lab import Lab, ended_with, free_address
from tradewind.state import State

LEASE_S = 1.0


async def test_c01_tasks_of_a_killed_worker_come_back(lab: Lab) -> None:
    ids = [await lab.submit("sleep", {"seconds": 0.4}) for _ in range(20)]
    first = await lab.worker("eu-west", "--concurrency", "4")

    async def four_run() -> bool:
        return len(lab.lines(event="start")) >= 4

    await lab.until(four_run)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = {line.task_id for line in lab.lines(event="done")}
    interrupted = {line.task_id for line in lab.lines(event="start")} - done
    await lab.worker("eu-west", "--concurrency", "4")
    records = {task_id: await lab.ended(task_id) for task_id in ids}
    assert {record.state for record in records.values()} == {State.COMPLETED}
    starts = {task_id: len(lab.lines(task_id, "start")) for task_id in ids}
    assert starts == {task_id: 2 if task_id in interrupted else 1 for task_id in ids}
    assert len(lab.lines(event="done")) == 20
    causes = {records[task_id].failure for task_id in interrupted}
    assert {cause.kind for cause in causes if cause is not None} == {"worker-lost"}
    assert {record.attempts for record in records.values()} == {1}


@pytest.mark.parametrize("tasks", [1, 12], ids=["alone", "many at once"])
async def test_c03_a_healthy_long_task_is_never_handed_to_a_second_worker(
    lab: Lab, tasks: int
) -> None:
    for _ in range(3):
        await lab.worker()
    ids = [await lab.submit("sleep", {"seconds": 4 * LEASE_S}) for _ in range(tasks)]
    records = [await lab.ended(task_id) for task_id in ids]
    assert {(r.state, r.attempts, r.crashes) for r in records} == {(State.COMPLETED, 1, 0)}
    assert [len(lab.lines(task_id)) for task_id in ids] == [2] * tasks


async def test_c05_a_warm_shutdown_keeps_the_lease_until_the_task_is_done(lab: Lab) -> None:
    first = await lab.worker("eu-west", "--concurrency", "1", "--grace", "40")
    running = await lab.submit("sleep", {"seconds": 3 * LEASE_S})
    (began,) = await lab.begun(running)
    waiting = [await lab.submit("sleep", {"seconds": 0}) for _ in range(2)]
    first.terminate()
    second = await lab.worker()
    for task_id in waiting:
        assert json.loads((await lab.ended(task_id)).result) == second.pid
    assert lab.lines(running, "done") == []
    assert await ended_with(first) == 0
    record = await lab.ended(running)
    assert (json.loads(record.result), began.pid) == (first.pid, first.pid)
    assert len(lab.lines(running, "start")) == 1


@pytest.mark.parametrize("kind", ["sleep", "thread"])
async def test_c05_what_outlives_the_grace_is_handed_back_at_once(lab: Lab, kind: str) -> None:
    first = await lab.worker("eu-west", "--grace", "0.2")
    task_id = await lab.submit(kind, {"seconds": 2.0})
    await lab.begun(task_id)
    first.terminate()
    assert await ended_with(first) == 0
    second = await lab.worker()
    record = await lab.ended(task_id)
    assert (json.loads(record.result), record.attempts, record.crashes) == (second.pid, 1, 0)
    assert [line.pid for line in lab.lines(task_id, "start")] == [first.pid, second.pid]
    assert [line.pid for line in lab.lines(task_id, "done")] == [second.pid]


async def test_c05_a_second_signal_shortens_the_grace(lab: Lab) -> None:
    worker = await lab.worker("eu-west", "--grace", "600")
    await lab.begun(await lab.submit("sleep", {"seconds": 60}))
    worker.terminate()
    await asyncio.sleep(0.3)  # two signals at the same instant are one
    worker.terminate()
    assert await asyncio.wait_for(ended_with(worker), 20) == 0


@pytest.mark.parametrize("kind", ["block", "burn"])
async def test_c55_a_blocking_handler_does_not_cost_its_neighbours_their_leases(
    lab: Lab, kind: str
) -> None:
    address = free_address()
    await lab.worker("eu-west", "--concurrency", "10", "--http", address)
    ids = [await lab.submit("sleep", {"seconds": 3 * LEASE_S}) for _ in range(9)]
    for task_id in ids:
        await lab.begun(task_id)
    ids.append(await lab.submit(kind, {"seconds": 4 * LEASE_S}))
    await lab.begun(ids[-1])
    await lab.worker()
    assert await lab.page(address, "/healthz") == "alive\n"
    records = [await lab.ended(task_id) for task_id in ids]
    assert {(r.state, r.attempts, r.crashes) for r in records} == {(State.COMPLETED, 1, 0)}
    assert [len(lab.lines(task_id, "start")) for task_id in ids] == [1] * 10


@pytest.mark.parametrize("after_it", [False, True], ids=["while W2 runs", "after W2 has finished"])
async def test_c57_a_sleeper_that_wakes_up_changes_nothing(
    make_lab: Callable[..., Lab], after_it: bool
) -> None:
    lab = make_lab()
    address = free_address()
    first = await lab.worker("eu-west", "--http", address)
    ids = [
        await lab.submit("sleep", {"seconds": 2.0}),
        await lab.submit("sleep.first.fails", {"seconds": 2.0}),
    ]
    for task_id in ids:
        await lab.begun(task_id)
    os.kill(first.pid, signal.SIGSTOP)
    second = await lab.worker()
    for task_id in ids:
        await lab.begun(task_id, times=2)
    if after_it:
        for task_id in ids:
            await lab.ended(task_id)
    os.kill(first.pid, signal.SIGCONT)

    async def refused() -> bool:
        text = await lab.page(address, "/metrics")
        return 'outcome="refused",queue="default",region="eu-west"} 2.0' in text

    await lab.until(refused)
    records = [await lab.ended(task_id) for task_id in ids]
    assert [json.loads(record.result) for record in records] == [second.pid] * 2
    second.terminate()
    await ended_with(second)
    # The sleeper goes on with new work, and nothing has been started a third time.
    assert json.loads((await lab.ended(await lab.submit("sleep", {"seconds": 0}))).result) == (
        first.pid
    )
    assert [len(lab.lines(task_id, "start")) for task_id in ids] == [2, 2]
