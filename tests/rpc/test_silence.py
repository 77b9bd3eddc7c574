"""Regions that swallow what they are asked: who is answered, by when, and that they are named."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.harness.links import Way, way_to
from tests.rpc import labour
from tests.rpc.running import Running, answered, refused, running
from tradewind.errors import RegionSilent
from tradewind.fleet import Fleet, Health
from tradewind.v1 import admin_pb2, router_pb2, task_pb2

pytestmark = pytest.mark.standalone  # nodes of a Cluster are called where they say they are
NEVER_S = 600.0


@asynccontextmanager
async def swallowing(
    fleet: Fleet, names: Collection[str], of: str = "ap-south"
) -> AsyncGenerator[tuple[Running, list[Way]]]:
    """A router of a region, and a network on the way to each of `names` that can lose everything.

    Nobody notices a loss by itself: probes are long.
    """
    async with AsyncExitStack() as stack:
        regions, networks = dict(fleet.regions), list[Way]()
        for name in names:
            target = regions[name].redis
            port = int(target.nodes[0].rpartition(":")[2])
            networks.append(await stack.enter_async_context(way_to(port)))
            there = replace(target, nodes=(f"127.0.0.1:{networks[-1].port}",))
            regions[name] = replace(regions[name], redis=there)
        health = Health(interval_ms=100, timeout_ms=600_000)
        there = replace(fleet, regions=regions, health=health)
        serving = await stack.enter_async_context(running(there, of))
        try:
            yield serving, networks
        finally:
            for network in networks:
                await network.become()


async def get(serving: Running, task_id: str) -> Any:
    request = router_pb2.GetTaskRequest(task_id=task_id)
    return await answered(serving.router.GetTask(request, timeout=1))


async def cancel(serving: Running, task_id: str) -> Any:
    request = router_pb2.CancelTaskRequest(task_id=task_id)
    return await answered(serving.router.CancelTask(request, timeout=1))


async def watch(serving: Running, task_id: str) -> Any:
    call = serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=task_id), timeout=20)
    try:
        return await call.read()
    except grpc.aio.AioRpcError as error:
        raise refused(error) from None


QUESTIONS: dict[str, tuple[Callable[[Running, str], Awaitable[Any]], float]] = {
    # A watch has no deadline; of the others it is what counts, shorter than any patience of ours.
    "a look": (get, NEVER_S),
    "a cancel": (cancel, NEVER_S),
    "a watch": (watch, 0.2),
}


@pytest.mark.parametrize(("ask", "patience_s"), QUESTIONS.values(), ids=QUESTIONS)
async def test_who_asks_for_a_task_of_a_silent_region_is_told_which_in_time(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Running, str], Awaitable[Any]],
    patience_s: float,
) -> None:
    monkeypatch.setattr("router.lookup.SILENT_AFTER_S", patience_s)
    async with swallowing(fleet, ["eu-west"]) as (serving, (network,)):
        task_id = (await serving.submit(pin_region="eu-west")).task_id
        await network.become(reach="silent")

        with pytest.raises(RegionSilent, match="eu-west: what it holds is kept") as silent:
            await ask(serving, task_id)

    assert silent.value.regions == ("eu-west",)
    assert silent.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]


async def test_so_is_who_submits_again_what_a_silent_region_holds(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.lookup.SILENT_AFTER_S", NEVER_S)
    async with swallowing(fleet, ["eu-west"]) as (serving, (network,)):
        key = await serving.key_at("us-east", pin_region="eu-west")
        await serving.submit(idempotency_key=key, pin_region="eu-west")
        await network.become(reach="silent")

        with pytest.raises(RegionSilent, match="eu-west"):
            await serving.submit(idempotency_key=key, pin_region="eu-west", timeout_s=1)


async def test_a_list_of_dead_tasks_waits_for_a_silent_region_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.dead.SILENT_AFTER_S", 0.2)
    monkeypatch.setattr("router.admin.SILENT_AFTER_S", NEVER_S)
    async with swallowing(fleet, ["eu-west"]) as (serving, (network,)):
        task_id = (await serving.submit(pin_region="us-east")).task_id
        await labour.bury(serving.stores["us-east"], task_id)
        await network.become(reach="silent")

        page = await answered(
            serving.admin.ListDeadTasks(admin_pb2.ListDeadTasksRequest(), timeout=2)
        )

    assert [task.task_id for task in page.tasks] == [task_id]
    assert (page.total, list(page.silent_regions)) == (1, ["eu-west"])


@pytest.mark.parametrize("method", ["RedriveDeadTasks", "PurgeDeadTasks"])
async def test_silent_regions_hold_up_no_work_in_the_others_and_are_named_in_time(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr("router.redrive.SILENT_AFTER_S", NEVER_S)  # the deadline is what counts
    monkeypatch.setattr("router.service.ANSWER_WITHIN", 0.2)  # of 5 s, so that 4 s are to spare
    async with swallowing(fleet, ["eu-west", "us-east"]) as (serving, networks):
        task_id = (await serving.submit(pin_region="ap-south")).task_id
        await labour.bury(serving.stores["ap-south"], task_id)
        for network in networks:
            await network.become(reach="silent")

        request: Any = getattr(admin_pb2, f"{method}Request")()
        done = await answered(getattr(serving.admin, method)(request, timeout=5))

        assert (done.count, list(done.silent_regions)) == (1, ["eu-west", "us-east"])
        if method == "RedriveDeadTasks":
            assert (await serving.get(task_id)).state == task_pb2.TASK_STATE_PENDING
