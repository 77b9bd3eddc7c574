import pytest
from conftest import Running

from tradewind.v1 import router_pb2, task_pb2

Spec = task_pb2.TaskSpec


async def submit(serving: Running, **fields: object) -> router_pb2.SubmitTaskResponse:
    spec = Spec(name="email.send", payload=b"{}")
    spec.MergeFrom(Spec(**fields))  # type: ignore[arg-type]
    return await serving.router.SubmitTask(router_pb2.SubmitTaskRequest(spec=spec), timeout=10)


async def test_a_submitted_task_can_be_read(serving: Running) -> None:
    receipt = await submit(serving, payload=b'{"to": "a"}', labels={"a": "b"})

    answer = await serving.router.GetTask(router_pb2.GetTaskRequest(task_id=receipt.task_id))

    assert receipt.region == "eu-west"
    assert receipt.state == task_pb2.TASK_STATE_PENDING
    assert answer.task.spec.payload == b'{"to": "a"}'
    assert answer.task.spec.queue == "default"
    assert answer.task.region == "eu-west"
    assert [hop.region for hop in answer.task.hops] == ["eu-west"]
