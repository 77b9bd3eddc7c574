"""A task that waits says for what: an order, or a worker."""

from router.held_back import HeldBack
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
    nobody = "no worker for handler"
    assert [each.accepted.waits_for for each in batch.results] == ["paused", nobody]
    assert (await serving.get(receipt.task_id)).waits_for == "paused"

    await resume(serving, "default")

    assert (await serving.explain()).waits_for == ""
    assert (await serving.get(receipt.task_id)).waits_for == ""


async def test_a_task_in_a_drained_region_says_so_and_one_that_nobody_runs(
    serving: Running,
) -> None:
    await serving.staff(handlers=("other",))
    receipt = await serving.submit(pin_region="us-east", idempotency_key="k")
    told = await serving.explain(pin_region="us-east")
    assert (told.waits_for, receipt.waits_for) == ("no worker for handler", "no worker for handler")
    assert (await serving.get(receipt.task_id)).waits_for == "no worker for handler"
    await set_state(serving, "us-east", "DRAINING")
    assert (await serving.get(receipt.task_id)).waits_for == "draining"
    again = await serving.submit(idempotency_key="k")
    assert (again.duplicate, again.waits_for) == (True, "draining")


async def test_tasks_that_nobody_in_a_region_runs_leave_it_idle_for_others(
    serving: Running,
) -> None:
    """Counted at once where they are sent; and by what lies there: other routers send, too."""
    await serving.staff(slots=10)
    for _ in range(30):
        receipt = await serving.submit(queue="typo", pin_region="us-east")
        assert receipt.waits_for == "no worker for handler"
    for _ in range(2):
        told = await serving.explain(origin_region="us-east")
        here = next(each for each in told.candidates if each.region == "us-east")
        assert (told.region, told.step) == ("us-east", "home")
        assert here.expected_wait.ToMilliseconds() == 0
        serving.gateway.census.hold_back("us-east", 0)
        stores = {name: store.real for name, store in serving.stores.items()}
        held = HeldBack(stores, serving.gateway.census, frozenset)
        await held.look()
        assert serving.gateway.census.view("us-east").held_back == 30
