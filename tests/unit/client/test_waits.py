"""Waiting for tasks, and ending."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.unit.client.scripted import (
    ScriptedRouter,
    task,
)
from tradewind import Client, SyncClient
from tradewind.errors import (
    RouterUnreachable,
    TaskCancelled,
    TaskDead,
    TaskExpired,
    TradewindError,
    UnknownTask,
    WaitOver,
)
from tradewind.v1 import task_pb2
from tradewind.v1.router_pb2_grpc import add_RouterServiceServicer_to_server


async def test_a_client_that_waits_for_nothing_ends_its_stream_in_order(
    target: str, router: ScriptedRouter
) -> None:
    async with Client(target) as client:
        await client.submit("email.send")
    assert (router.streams, router.ended_streams) == (1, 1)


CLOSED: dict[str, Callable[[Client], Any]] = {
    "submit": lambda client: client.submit("late"),
    "get": lambda client: client.get("id"),
    "wait": lambda client: client.wait("id"),
    "explain": lambda client: client.explain("late"),
    "connect": lambda client: client.connect(),
    "regions": lambda client: client.admin.regions(),
}


@pytest.mark.parametrize("late", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("origin", ["", "eu-west"])
async def test_a_closed_client_says_so(
    target: str, late: Callable[[Client], Any], origin: str
) -> None:
    async with Client(target, origin_region=origin) as client:
        await client.submit("in time")
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await late(client)


async def test_a_watch_that_loses_its_router_says_that_the_task_is_kept(
    router: ScriptedRouter,
) -> None:
    server = grpc.aio.server()
    add_RouterServiceServicer_to_server(router, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    router.watches = [[task(task_pb2.TASK_STATE_PENDING)]]
    async with Client(f"127.0.0.1:{port}", deadline=0.3) as client:
        views = client.watch("id")
        assert (await anext(views)).task_id == "id"
        await server.stop(None)
        with pytest.raises(RouterUnreachable, match="task id is kept, ask for it again later"):
            await anext(views)


async def test_an_unknown_task_is_an_error_of_ours(client: Client) -> None:
    with pytest.raises(UnknownTask, match="no region knows"):
        await client.get("01")


async def test_wait_survives_a_router_restart_and_decodes_the_result(
    client: Client, router: ScriptedRouter
) -> None:
    done = task(
        task_pb2.TASK_STATE_COMPLETED,
        settled=True,
        result=b'{"sent": 1}',
        result_content_type="application/json",
    )
    router.watches = [
        [task(task_pb2.TASK_STATE_PENDING), task(task_pb2.TASK_STATE_PROCESSING)],
        [task(task_pb2.TASK_STATE_PROCESSING), done],
    ]
    assert (await client.wait("id")).result == {"sent": 1}


async def test_watch_gives_each_state_once_and_ends_when_settled(
    client: Client, router: ScriptedRouter
) -> None:
    router.watches = [
        [task(task_pb2.TASK_STATE_PENDING)],
        [task(task_pb2.TASK_STATE_PENDING), task(task_pb2.TASK_STATE_PROCESSING)],
        [task(task_pb2.TASK_STATE_COMPLETED, settled=True)],
    ]
    states = [view.state.value async for view in client.watch("id")]
    assert states == ["PENDING", "PROCESSING", "COMPLETED"]


ENDINGS: list[tuple[task_pb2.Task, type[TradewindError]]] = [
    (
        task(
            task_pb2.TASK_STATE_DEAD_LETTER,
            settled=True,
            error=task_pb2.TaskError(kind="exhausted", message="no such host"),
        ),
        TaskDead,
    ),
    (task(task_pb2.TASK_STATE_CANCELLED, settled=True), TaskCancelled),
    (task(task_pb2.TASK_STATE_EXPIRED, settled=True), TaskExpired),
]


@pytest.mark.parametrize(("last", "error"), ENDINGS, ids=[each.__name__ for _, each in ENDINGS])
async def test_wait_raises_what_became_of_a_task_without_a_result(
    client: Client, router: ScriptedRouter, last: task_pb2.Task, error: type[TradewindError]
) -> None:
    router.watches = [[last]]
    with pytest.raises(error):
        await client.wait("id")


async def test_wait_ends_after_its_timeout(client: Client, router: ScriptedRouter) -> None:
    router.watches = [[task(task_pb2.TASK_STATE_PENDING)]]
    with pytest.raises(WaitOver):
        await client.wait("id", timeout=0.05)


async def test_a_dead_task_that_may_still_move_is_waited_for(
    client: Client, router: ScriptedRouter
) -> None:
    router.watches = [
        [
            task(task_pb2.TASK_STATE_DEAD_LETTER),
            task(task_pb2.TASK_STATE_MOVING),
            task(task_pb2.TASK_STATE_COMPLETED, settled=True),
        ],
    ]
    assert (await client.wait("id")).settled


async def test_the_blocking_client_does_the_same(target: str, router: ScriptedRouter) -> None:
    router.watches = [[task(task_pb2.TASK_STATE_COMPLETED, settled=True)]]

    def use() -> list[str]:
        with SyncClient(target) as client:
            client.connect()
            receipt = client.submit("email.send", {"to": "a"})
            states = [view.state.value for view in client.watch("id")]
            with pytest.raises(UnknownTask):
                client.get("01")
        with pytest.raises(RuntimeError, match="closed"):
            client.submit("late")
        return [receipt.region, *states]

    assert await asyncio.to_thread(use) == ["eu-west", "COMPLETED"]
