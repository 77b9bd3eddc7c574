"""A task that waits says for what: an order, or a worker."""

from tests.rpc.running import Running, answered
from tests.rpc.test_control import pause, resume, set_state
from tradewind.v1 import router_pb2


async def test_a_task_of_a_paused_queue_says_so_wherever_it_is_asked_after(
    serving: Running,
) -> None:
    await serving.staff()
    await pause(serving, "default")
    told = await serving.explain()
    receipt = await serving.submit()
    specs = [router_pb2.SubmitTaskRequest().spec for _ in range(2)]
    specs[0].name, specs[1].name, specs[1].queue = "email.send", "email.send", "other"
    batch = await answered(serving.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=specs)))
    watched = serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=receipt.task_id))
    async for first in watched:
        assert first.task.waits_for == "paused"
        break
    watched.cancel()
    assert (told.waits_for, receipt.waits_for) == ("paused", "paused")
    assert [each.accepted.waits_for for each in batch.results] == ["paused", ""]
    assert (await serving.get(receipt.task_id)).waits_for == "paused"

    await resume(serving, "default")

    assert (await serving.explain()).waits_for == ""
    assert (await serving.get(receipt.task_id)).waits_for == ""


async def test_a_task_in_a_drained_region_says_so_and_one_that_nobody_runs(
    serving: Running,
) -> None:
    await serving.staff(handlers=("other",))
    receipt = await serving.submit(pin_region="us-east", idempotency_key="k")
    assert receipt.waits_for == "", "that nobody runs it is its rule"
    assert (await serving.get(receipt.task_id)).waits_for == "no worker for handler"
    await set_state(serving, "us-east", "DRAINING")
    assert (await serving.get(receipt.task_id)).waits_for == "draining"
    again = await serving.submit(idempotency_key="k")
    assert (again.duplicate, again.waits_for) == (True, "draining")
