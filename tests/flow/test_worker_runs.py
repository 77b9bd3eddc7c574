import json

from tests.flow.lab import Lab
from tradewind.state import State


async def test_a_task_runs_once_and_keeps_its_result(lab: Lab) -> None:
    worker = await lab.worker()
    task_id = await lab.submit("sleep", {"seconds": 0})
    record = await lab.ended(task_id)
    assert (record.state, json.loads(record.result)) == (State.COMPLETED, worker.pid)
    assert [line.event for line in lab.lines(task_id)] == ["start", "done"]
