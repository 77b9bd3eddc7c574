"""An evacuation of 20,000 waiting tasks: none is lost, none runs twice, and there is no second."""

import secrets
import time
from collections.abc import Callable

import pytest

from tests.flow.lab import Lab
from tests.flow.test_worker_evacuation import HERE, ORDERED_MS, THERE, evacuation, order, runs
from tests.redis_keys import wrong_counts
from tradewind import codec, ids
from tradewind.control import Control, Order, Stamp
from tradewind.task import Draft, NewTask, Priority, Stored
from tradewind.v1.task_pb2 import TaskSpec

TASKS, AT_ONCE = 20_000, 2_000


async def fill(lab: Lab) -> None:
    """As routers would, in messages of many."""
    spec = TaskSpec(name="sleep", payload=b'{"seconds":0}', content_type="application/json")
    draft = Draft(name="sleep", spec=spec.SerializeToString())
    packed = codec.pack(draft, fence=(), traceparent="", deduplicated=False)
    code, partitions = ids.region_code(HERE), lab.fleet.partitions

    def new(number: int) -> NewTask:
        now_ms = time.time_ns() // 1_000_000
        task_id = ids.mint(now_ms, code, number % partitions, secrets.randbits(48))
        return NewTask(task_id, "default", "sleep", Priority.NORMAL, packed)

    for begin in range(0, TASKS, AT_ONCE):
        tasks = [new(number) for number in range(begin, begin + AT_ONCE)]
        outcomes, _ = await lab.stores[HERE].enqueue(tasks, timeout_s=30)
        assert all(isinstance(outcome, Stored) for outcome in outcomes)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_20_000_waiting_tasks_leave_and_a_second_order_finds_nothing(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("{lease: 5s, attempts: 2}", regions=2)
    lab.patience_s = 200.0
    await order(lab, Control(Stamp(1, "test"), regions={HERE: Order("DRAINING")}))
    await fill(lab)
    await lab.worker(THERE, "--concurrency", "64")
    await lab.worker(HERE)
    await order(lab, evacuation(2))

    async def all_have_left() -> bool:
        told = await lab.stores[HERE].evacuated(ORDERED_MS)
        return (told.moved, told.remaining) == (TASKS, 0)

    async def all_have_run() -> bool:
        return len(lab.lines(event="start")) >= TASKS

    await lab.until(all_have_left)
    await lab.until(all_have_run)
    await order(lab, evacuation(3))
    await lab.until(all_have_left)
    assert len(runs(lab)) == TASKS
    assert set(runs(lab).values()) == {1}
    assert {region for _, region in runs(lab)} == {THERE}
    assert [wrong_counts(port) for port in lab.ports.values()] == [{}, {}]
