import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.redis_keys import connected
from tests.rpc import labour
from tests.rpc.running import Running, refused
from tradewind import ids
from tradewind.errors import NoRegionReachable, StoreUnavailable, UnknownTask
from tradewind.store.keys import partition_keys
from tradewind.task import Progress
from tradewind.v1 import router_pb2, task_pb2

State = task_pb2.TaskState
GONE = StoreUnavailable("x", "connection refused", sent=False)
NEVER_S = 3_600.0


@pytest.fixture(autouse=True)
def no_rereading(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is told by reports alone."""
    monkeypatch.setattr("router.watch._REREAD_EVERY_S", NEVER_S)


def reads_of(serving: Running, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of tasks that the router reads in order to watch them, from now on."""
    read: list[str] = []
    for store in serving.stores.values():

        async def watch(task_id: str, real: Any = store.real.watch) -> Any:
            read.append(task_id)
            return await real(task_id)

        monkeypatch.setattr(store.real, "watch", watch)
    return read


def raw_of(serving: Running, region: str = "eu-west") -> Any:
    """A region's Redis, past all our code."""
    return connected(int(serving.fleet.regions[region].redis.nodes[0].rpartition(":")[2]))


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


async def test_watchers_of_one_task_are_one_read_a_change_and_none_while_nothing_happens(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    watchers = [watch(serving, task_id) for _ in range(50)]
    await asyncio.gather(*(anext(tasks) for tasks in watchers))
    # Its subscription, if it came late, has them read once more: until that is over, too.
    last = watch(serving, (await serving.submit()).task_id)
    await anext(last)
    read = reads_of(serving, monkeypatch)

    held = await labour.claim(store, task_id)
    await asyncio.gather(*(until(tasks, task_pb2.TASK_STATE_PROCESSING) for tasks in watchers))
    await labour.finish(store, held)
    await asyncio.gather(*(until(tasks, task_pb2.TASK_STATE_COMPLETED) for tasks in watchers))

    assert read.count(task_id) <= 4


async def test_what_changes_while_reports_are_cut_off_is_seen_as_soon_as_they_are_back(
    serving: Running,
) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    tasks = watch(serving, task_id)
    await anext(tasks)
    held = await labour.claim(store, task_id)
    await until(tasks, task_pb2.TASK_STATE_PROCESSING)

    raw_of(serving).client_kill_filter(_type="pubsub")
    await labour.finish(store, held)  # the reports come back a second later at the earliest

    assert await until(tasks, task_pb2.TASK_STATE_COMPLETED)


async def ends_unheard(serving: Running, task_id: str) -> None:
    """The task ends, and no report says so; all reports of before have been heard.

    Of a region on one server, where all channels are.
    """
    raw = raw_of(serving)
    while len(raw.execute_command("PUBSUB", "SHARDCHANNELS")) < 16:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)  # that it listens now has the router read once more
    keys = partition_keys(serving.fleet.partitions)[ids.parse(task_id).partition]
    raw.hset(keys.task(task_id), mapping={"s": "E", "rv": 9})
    raw.pexpire(keys.task(task_id), 60_000)
    raw.delete(keys.ready("default", 1), keys.counts)


@pytest.mark.standalone
async def test_a_report_that_is_lost_unnoticed_hides_nothing_for_long(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.watch._REREAD_EVERY_S", 0.05)
    monkeypatch.setattr("router.watch.REREAD_S", 0.05)
    task_id = (await serving.submit()).task_id
    tasks = watch(serving, task_id)
    await anext(tasks)

    await ends_unheard(serving, task_id)

    assert (await until(tasks, task_pb2.TASK_STATE_EXPIRED)).settled


async def test_a_watcher_that_does_not_listen_gets_the_newest_state_not_all_of_them(
    serving: Running,
) -> None:
    """Or the router would have to keep all that it has not sent."""
    changes, payload = 300, json.dumps({"text": "x" * 200_000}).encode()  # 60 MB in all
    task_id = (await serving.submit(payload=payload)).task_id
    store = serving.stores["eu-west"]
    held = await labour.claim(store, task_id)
    tasks = watch(serving, task_id)
    await anext(tasks)

    for number in range(changes):
        await store.real.progress([Progress(held, number / changes)])
    await labour.finish(store, held)

    seen = [task async for task in tasks]
    assert seen[-1].state == task_pb2.TASK_STATE_COMPLETED
    assert len(seen) < changes / 2


@pytest.mark.standalone
async def test_one_who_joins_sees_the_task_as_it_is_at_that_moment(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    first = watch(serving, task_id)
    await anext(first)

    await ends_unheard(serving, task_id)
    second = watch(serving, task_id)

    assert (await anext(second)).state == task_pb2.TASK_STATE_EXPIRED


async def test_watching_leaves_nothing_behind(serving: Running) -> None:
    task_ids = [(await serving.submit()).task_id for _ in range(20)]
    listening = watch(serving, task_ids[0])  # the regions are listened to from now on
    await anext(listening)
    before = len(asyncio.all_tasks())
    calls = [serving.router.WatchTask(router_pb2.WatchTaskRequest(task_id=id_)) for id_ in task_ids]
    await asyncio.gather(*(call.read() for call in calls))
    assert len(asyncio.all_tasks()) >= before + 20
    for call in calls:
        call.cancel()

    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > before + 5:  # noqa: ASYNC110 - those of other parts vary
            await asyncio.sleep(0.01)
