"""Case C38: the deadline has passed, but the task was accepted. A repeat is no second task."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio

from tests.harness.heldback import HeldBack, held_back
from tests.harness.yard import Yard
from tradewind import Client, Receipt
from tradewind.errors import NoAnswer, OutcomeUnknown, SubmitInFlight
from tradewind.v1 import router_pb2, router_pb2_grpc, task_pb2

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

HOLD_S, DEADLINE_S, ATTEMPTS, AT_ONCE = 2.0, 0.5, 5, 100

so_many = pytest.mark.parametrize(
    "submits", [100, pytest.param(1_000, marks=pytest.mark.long)], ids=["short", "full"]
)


@pytest_asyncio.fixture(loop_scope="session")
async def gateways(world: Yard) -> AsyncIterator[list[HeldBack]]:
    """Two routers, whose answers take 2 s longer than their work."""
    async with AsyncExitStack() as stays:
        yield [
            await stays.enter_async_context(held_back(world.router(region), HOLD_S))
            for region in ("eu-west", "us-east")
        ]


def fields(number: int, mark: str) -> dict[str, Any]:
    """Half of the submits have a key of the application's, too."""
    named: dict[str, Any] = {"request_id": f"{mark}-{number}", "origin_region": "ap-south"}
    return named | ({"idempotency_key": f"{mark}-{number}"} if number % 2 else {})


async def ran_once(world: Yard, ids: list[str]) -> None:
    """Each id leads to a task that ran, once, and nothing else ran."""
    assert len(set(ids)) == len(ids)
    async with world.client("ap-south") as client:
        for task_id in ids:
            assert (await world.settled(client, task_id)).state.value == "COMPLETED"
    assert world.ledger.count("start") == dict.fromkeys(ids, 1)


@so_many
async def test_c38_repeats_of_the_sdk_after_their_deadline_are_one_task(
    world: Yard, gateways: list[HeldBack], submits: int
) -> None:
    mark = uuid.uuid4().hex
    room = asyncio.Semaphore(AT_ONCE)
    unanswered = 0
    async with AsyncExitStack() as stays:
        clients = [
            await stays.enter_async_context(Client(one.address, origin_region="ap-south"))
            for one in gateways
        ]
        for client in clients:
            await client.connect()

        async def submit(number: int) -> Receipt:
            nonlocal unanswered
            args = {"number": number, "seconds": 0}
            async with room:
                for attempt in range(ATTEMPTS):
                    client = clients[(number + attempt) % 2]
                    try:
                        await client.submit(
                            "numbered", args, deadline=DEADLINE_S, **fields(number, mark)
                        )
                    except (NoAnswer, OutcomeUnknown, SubmitInFlight):
                        unanswered += 1
                return await clients[number % 2].submit("numbered", args, **fields(number, mark))

        receipts = await asyncio.gather(*map(submit, range(submits)))

    assert unanswered == ATTEMPTS * submits
    assert {receipt.duplicate for receipt in receipts} == {False}
    await ran_once(world, [receipt.task_id for receipt in receipts])


@so_many
async def test_c38_repeats_of_grpcs_own_retry_policy_are_one_task(
    world: Yard, gateways: list[HeldBack], submits: int
) -> None:
    """gRPC repeats what a broken connection left unanswered; it goes to either router."""
    mark = uuid.uuid4().hex
    retry = {
        "maxAttempts": ATTEMPTS,
        "initialBackoff": "0.1s",
        "maxBackoff": "0.5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
    }
    config: dict[str, Any] = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": [{}], "retryPolicy": retry, "waitForReady": True}],
    }
    options = [
        ("grpc.service_config", json.dumps(config)),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
    ]
    target = f"ipv4:{','.join(one.address for one in gateways)}"
    ids: list[str] = []
    async with grpc.aio.insecure_channel(target, options) as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)
        router: Any = router_pb2_grpc.RouterServiceStub(channel)
        for begin in range(0, submits, AT_ONCE):
            calls = [
                router.SubmitTask(
                    router_pb2.SubmitTaskRequest(
                        spec=task_pb2.TaskSpec(
                            name="numbered",
                            payload=json.dumps({"number": number, "seconds": 0}).encode(),
                            **fields(number, mark),
                        )
                    ),
                    timeout=60,
                )
                for number in range(begin, begin + AT_ONCE)
            ]
            answers = [asyncio.ensure_future(call) for call in calls]
            for _ in range(2):  # both times nobody has an answer yet
                await asyncio.sleep(DEADLINE_S)
                for one in gateways:
                    one.cut()
            ids += [receipt.task_id for receipt in await asyncio.gather(*answers)]
    await ran_once(world, ids)
