import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from tests.rpc import labour
from tests.rpc.running import Running, refused
from tradewind import ids
from tradewind.errors import NoRegionReachable, StoreUnavailable, UnknownTask
from tradewind.task import Progress
from tradewind.v1 import router_pb2, task_pb2

State = task_pb2.TaskState
GONE = StoreUnavailable("x", "connection refused", sent=False)


async def watch(serving: Running, task_id: str) -> AsyncIterator[task_pb2.Task]:
    try:
        async for answer in serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=task_id)):
            yield answer.task
    except grpc.aio.AioRpcError as error:
        raise refused(error) from None


async def until(tasks: AsyncIterator[task_pb2.Task], state: int) -> task_pb2.Task:
    async for task in tasks:
        if task.state == state:
            return task
    raise AssertionError(State.Name(state))


async def test_a_watch_shows_each_state_and_ends_with_the_last(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    tasks = watch(serving, task_id)

    assert (await anext(tasks)).state == task_pb2.TASK_STATE_PENDING
    held = await labour.claim(store, task_id)
    assert (await until(tasks, task_pb2.TASK_STATE_PROCESSING)).attempts == 1
    await labour.finish(store, held)
    last = await until(tasks, task_pb2.TASK_STATE_COMPLETED)
    assert (last.settled, last.result) == (True, b"1")
    assert [task async for task in tasks] == []


async def test_a_watch_of_a_settled_task_sends_it_and_ends(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    await labour.finish(store, await labour.claim(store, task_id))

    states = [task.state async for task in watch(serving, task_id)]

    assert states == [task_pb2.TASK_STATE_COMPLETED]


async def test_a_watch_goes_along_when_its_task_moves(serving: Running) -> None:
    source, target = serving.stores["eu-west"], serving.stores["us-east"]
    task_id = (await serving.submit()).task_id
    tasks = watch(serving, task_id)
    await anext(tasks)

    await labour.bury(source, task_id, may_move=True)
    exported = await labour.begin_export(source, task_id, "us-east")
    assert (await until(tasks, task_pb2.TASK_STATE_MOVING)).region == "eu-west"
    await labour.import_task(target, exported)
    await source.real.ack_export(task_id, exported.epoch, "us-east", keep_ms=60_000)
    await target.real.settle_import(task_id, exported.epoch)
    assert (await until(tasks, task_pb2.TASK_STATE_PENDING)).region == "us-east"
    await labour.finish(target, await labour.claim(target, task_id))

    last = await until(tasks, task_pb2.TASK_STATE_COMPLETED)
    assert [hop.region for hop in last.hops] == ["eu-west", "us-east"]


async def test_a_region_that_falls_silent_is_waited_for(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    tasks = watch(serving, task_id)
    await anext(tasks)

    held = await labour.claim(store, task_id)
    store.fail("watch", GONE)
    await labour.finish(store, held)

    assert await until(tasks, task_pb2.TASK_STATE_COMPLETED)


async def test_watching_what_nobody_knows_is_not_found(serving: Running) -> None:
    with pytest.raises(UnknownTask):
        await anext(watch(serving, ids.mint(1, ids.region_code("eu-west"), 1, 1)))


async def test_many_watchers_of_one_task_all_see_its_end(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    watchers = [watch(serving, task_id) for _ in range(20)]
    for tasks in watchers:
        await anext(tasks)

    await labour.finish(store, await labour.claim(store, task_id))

    ends = await asyncio.gather(
        *(until(tasks, task_pb2.TASK_STATE_COMPLETED) for tasks in watchers)
    )
    assert len(ends) == 20


async def test_a_router_that_stops_sends_its_watchers_to_another(serving: Running) -> None:
    tasks = watch(serving, (await serving.submit()).task_id)
    await anext(tasks)

    await serving.server.stop(asyncio.Event())

    with pytest.raises(NoRegionReachable, match="watch again"):
        await anext(tasks)


async def test_a_watch_shows_how_far_an_attempt_has_come(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    held = await labour.claim(store, task_id)
    tasks = watch(serving, task_id)
    assert not (await anext(tasks)).HasField("progress")

    await store.real.progress([Progress(held, 0.5, "half")])

    progress = (await anext(tasks)).progress
    assert (progress.fraction, progress.note) == (0.5, "half")
