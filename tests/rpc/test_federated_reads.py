"""Reads through two routers, of tasks in every region, while one region swallows what it is asked.

Whatever can be answered is, by each of them, and what cannot names the region that is silent.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.rpc import labour
from tests.rpc.running import Running, answered
from tests.rpc.test_silence import cancel, get, swallowing, watch
from tests.scripts.world import an_id
from tradewind.errors import RegionSilent, UnknownTask
from tradewind.fleet import Fleet
from tradewind.v1 import admin_pb2

EU, US, AP = "eu-west", "us-east", "ap-south"
SILENT = f"silent: {US}"
IN_TIME_S = 10  # of a list, far above what is waited for a region

Ids = Mapping[str, str]  # of a task, by the region that holds it
Told = Mapping[str, str]  # by region: what was said of it


async def one_by_one(ask: Callable[[str], Awaitable[Any]], ids: Ids) -> Told:
    """How each task was answered for."""
    told: dict[str, str] = {}
    for region, task_id in ids.items():
        try:
            told[region] = (await ask(task_id)).task.region
        except RegionSilent as silent:
            told[region] = f"silent: {', '.join(silent.regions)}"
        except UnknownTask:
            told[region] = "unknown"
    return told


async def looked_at(router: Running, ids: Ids) -> Told:
    return await one_by_one(lambda task_id: get(router, task_id), ids)


async def watched(router: Running, ids: Ids) -> Told:
    return await one_by_one(lambda task_id: watch(router, task_id), ids)


async def cancelled(router: Running, ids: Ids) -> Told:
    """Dead ones: a second cancel answers the same."""
    return await one_by_one(lambda task_id: cancel(router, task_id), ids)


def listed(found: set[str], answer: Any) -> Told:
    silent = dict.fromkeys(answer.silent_regions, f"silent: {', '.join(answer.silent_regions)}")
    return {region: region for region in found} | silent


async def dead(router: Running, ids: Ids) -> Told:
    request = admin_pb2.ListDeadTasksRequest(
        filter=admin_pb2.DeadTaskFilter(task_ids=list(ids.values()))
    )
    page = await answered(router.admin.ListDeadTasks(request, timeout=IN_TIME_S))
    assert {task.task_id for task in page.tasks} <= set(ids.values())
    assert page.total == len(page.tasks)
    return listed({task.region for task in page.tasks}, page)


async def counted(router: Running, _ids: Ids) -> Told:
    request = admin_pb2.ListQueuesRequest()
    answer = await answered(router.admin.ListQueues(request, timeout=IN_TIME_S))
    return listed({each.region for each in answer.queues if each.dead}, answer)


READS: Mapping[str, Callable[[Running, Ids], Awaitable[Told]]] = {
    "GetTask": looked_at,
    "WatchTask": watched,
    "ListDeadTasks": dead,
    "ListQueues": counted,
    "CancelTask": cancelled,  # the last: what is cancelled is not dead any more
}


@pytest.mark.standalone  # nodes of a Cluster are called where they say they are
async def test_every_router_answers_for_all_regions_and_names_the_one_that_is_silent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        routers, ways = dict[str, Running](), list[Any]()
        for name in (EU, AP):
            router, (way,) = await stack.enter_async_context(swallowing(fleet, [US], name))
            routers[name] = router
            ways.append(way)
        ids: dict[str, str] = {}
        for region in (EU, US, AP):
            ids[region] = (await routers[EU].submit(pin_region=region)).task_id
            await labour.bury(routers[EU].stores[region], ids[region])
        reads = [(name, who) for name in READS for who in routers]
        everywhere = {region: region for region in ids}
        for name, who in reads[:-2]:
            assert await READS[name](routers[who], ids) == everywhere, (name, who)
        assert await looked_at(routers[AP], {"": an_id(0, EU)}) == {"": "unknown"}

        for way in ways:
            await way.become(reach="silent")
        heard = {EU: EU, US: SILENT, AP: AP}
        with monkeypatch.context() as patience:  # of those that answer a slow machine needs more
            for place in ("lookup", "dead", "admin", "cancel"):
                patience.setattr(f"router.{place}.SILENT_AFTER_S", 0.5)
            told = {each: await READS[each[0]](routers[each[1]], ids) for each in reads}
            assert told == dict.fromkeys(reads, heard)
            for router in routers.values():  # a no from two regions is none from the third
                assert await looked_at(router, {"": an_id(0, EU)}) == {"": SILENT}

        for way in ways:
            await way.become()
        for router in routers.values():
            assert await looked_at(router, ids) == everywhere
