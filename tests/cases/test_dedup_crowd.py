"""Case C21: sixty-four callers send the same content at the same instant, through four gateways."""

import asyncio
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateways import gateway
from tests.harness.yard import Yard
from tradewind import Client

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALLERS = 64


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(5, id="short", marks=pytest.mark.timeout(120)),
        pytest.param(200, id="full", marks=[pytest.mark.long, pytest.mark.timeout(1_200)]),
    ],
)
@pytest.mark.parametrize("by", ["idempotency_key", "payload", "request_id"])
async def test_c21_identical_submits_at_the_same_instant_are_one_task(
    world: Yard, tmp_path: Path, rounds: int, by: str
) -> None:
    async with AsyncExitStack() as stays:
        fourth = await stays.enter_async_context(gateway(world, "eu-west", tmp_path / "log"))
        clients = [
            await stays.enter_async_context(Client(address, origin_region=region, deadline=30))
            for region, address in (
                *((region, world.router(region)) for region in world.regions),
                ("us-east", fourth),
            )
            for _ in range(2)
        ]
        for client in clients:
            await client.connect()
        ids: list[str] = []
        for _ in range(rounds):
            key = uuid.uuid4().hex
            fields: dict[str, Any] = {"queue": "once"} if by == "payload" else {by: key}
            if by == "request_id":  # a repeat of one submit comes from one place
                fields["origin_region"] = "ap-south"
            start = asyncio.Barrier(CALLERS)

            async def submit(
                number: int,
                key: str = key,
                fields: dict[str, Any] = fields,
                start: asyncio.Barrier = start,
            ) -> tuple[str, bool]:
                async with start:
                    client = clients[number % len(clients)]
                    receipt = await client.submit("echo", {"value": key}, **fields)
                return receipt.task_id, receipt.duplicate

            answers = await asyncio.gather(*map(submit, range(CALLERS)))
            assert len({task_id for task_id, _ in answers}) == 1
            firsts = [duplicate for _, duplicate in answers].count(False)
            assert firsts == (CALLERS if by == "request_id" else 1)
            ids.append(answers[0][0])
        for task_id in ids:
            await clients[0].wait(task_id, timeout=30)
    assert world.ledger.count("start") == dict.fromkeys(ids, 1)
