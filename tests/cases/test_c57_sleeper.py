"""Case C57: a holder that slept past its lease changes nothing when it wakes up."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.cases.scale import Scale, short_and_full
from tests.flow.lab import Lab, ended_with, free_address
from tests.redis_keys import connected
from tradewind import ids
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.keys import partition_keys


def leases_of(lab: Lab, server: RedisProcess, task_ids: list[str]) -> list[float]:
    """When each task's lease ends, in ms of the server's clock; 0: there is none."""
    keys = partition_keys(lab.fleet.partitions)
    client = connected(server.port)
    found = [client.zscore(keys[ids.parse(t).partition].leases, t) for t in task_ids]
    return [float(until_ms or 0) for until_ms in found]


@short_and_full(5)
@pytest.mark.parametrize(
    "after_it",
    [
        pytest.param(False, id="while W2 runs"),
        pytest.param(True, id="after W2 has finished", marks=pytest.mark.long),
    ],
)
async def test_c57_a_sleeper_that_wakes_up_changes_nothing(
    make_lab: Callable[..., Lab], redis_servers: list[RedisProcess], scale: Scale, after_it: bool
) -> None:
    """Both of its ends at once: one task that it completes, one that it fails."""
    lab = make_lab(scale.queue)
    lab.patience_s = 90
    address = free_address()
    seconds = 2 * scale.lease_s
    first = await lab.worker("eu-west", "--http", address)
    tasks = [
        await lab.submit("sleep", {"seconds": seconds}),
        await lab.submit("sleep.first.fails", {"seconds": seconds}),
    ]
    for task_id in tasks:
        await lab.begun(task_id)
    os.kill(first.pid, signal.SIGSTOP)
    second = await lab.worker()
    for task_id in tasks:
        await lab.begun(task_id, times=2)
    if after_it:
        for task_id in tasks:
            await lab.ended(task_id)
    leases: list[list[float]] = []
    os.kill(first.pid, signal.SIGCONT)

    async def refused() -> bool:
        leases.append(leases_of(lab, redis_servers[0], tasks))
        text = await lab.page(address, "/metrics")
        return 'outcome="refused",queue="default",region="eu-west"} 2.0' in text

    await lab.until(refused)
    records = [await lab.ended(task_id) for task_id in tasks]
    assert [(record.state, record.attempts) for record in records] == [(State.COMPLETED, 1)] * 2
    for until_ms in zip(*leases, strict=True):
        held = [one for one in until_ms if one]  # none once it has ended
        assert held == sorted(held), "no renewal shortened the second holder's lease"
    for task_id, record in zip(tasks, records, strict=True):
        assert [line.worker for line in lab.lines(task_id, "start")] == ["w0", "w1"]
        (own,) = [line for line in lab.lines(task_id, "done") if line.worker == "w1"]
        assert int(record.result) == own.pid
    second.terminate()
    await ended_with(second)
    # The sleeper goes on with new work, and nothing has been started a third time.
    new = await lab.submit("sleep", {"seconds": 0})
    assert (await lab.ended(new)).state is State.COMPLETED
    assert [line.worker for line in lab.lines(new)] == ["w0", "w0"]
    assert [len(lab.lines(task_id, "start")) for task_id in tasks] == [2, 2]
    again = [await lab.record(task_id) for task_id in tasks]
    assert [record and (record.state, record.result) for record in again] == [
        (record.state, record.result) for record in records
    ]
