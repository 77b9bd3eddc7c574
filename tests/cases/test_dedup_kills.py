"""Case C20: kill -9 of the gateway in use, at a random moment within 20 ms of a submit."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.harness.gateways import Gateway, started
from tests.harness.yard import Yard
from tradewind import Client, Receipt

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN_S = 0.020
SUBMITS = 40  # sent within that time, so that a kill is in the midst of several
PATIENCE_S = 60.0  # a reservation of a dead router is adopted after its lease of 10 s


class Rank:
    """Gateways of two regions that are ready to be used and killed, one after the other."""

    def __init__(self, world: Yard, log: Path, spare: int) -> None:
        self._world, self._log = world, log
        self._ready: asyncio.Queue[Gateway] = asyncio.Queue()
        self._starting: set[asyncio.Task[None]] = set()
        self._regions = 0
        for _ in range(spare):
            self.start_one()

    def start_one(self) -> None:
        region = ("eu-west", "us-east")[self._regions % 2]
        self._regions += 1
        task = asyncio.create_task(self._start(region))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, region: str) -> None:
        self._ready.put_nowait(await started(self._world, region, self._log))

    async def next(self) -> Gateway:
        return await self._ready.get()

    async def close(self) -> None:
        await asyncio.gather(*self._starting)
        while not self._ready.empty():
            await self._ready.get_nowait().stop(self._log)


@pytest_asyncio.fixture(loop_scope="session")
async def rank(world: Yard, tmp_path: Path) -> AsyncIterator[Rank]:
    rank = Rank(world, tmp_path / "routers.log", spare=2)
    yield rank
    await rank.close()


def content(number: int) -> dict[str, Any]:
    """A submit by key, by request_id or by payload."""
    mark = uuid.uuid4().hex
    match number % 3:
        case 0:
            return {"args": {"value": mark}, "idempotency_key": mark}
        case 1:
            return {"args": {"value": mark}, "request_id": mark}
        case _:
            return {"args": {"value": mark}, "queue": "once"}


async def submit(client: Client, given: dict[str, Any]) -> Receipt:
    fields = dict(given)
    return await client.submit("echo", fields.pop("args"), deadline=PATIENCE_S, **fields)


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(6, id="short", marks=pytest.mark.timeout(300)),
        pytest.param(500, id="full", marks=[pytest.mark.long, pytest.mark.timeout(3_600)]),
    ],
)
async def test_c20_a_gateway_that_dies_within_a_submit_leaves_no_mark_without_a_task(
    world: Yard, rank: Rank, kills: int
) -> None:
    dice = random.Random(20)
    contents = [content(number) for number in range(kills * SUBMITS)]
    repeats: list[asyncio.Task[Receipt]] = []
    answered: dict[int, str] = {}
    async with world.client("ap-south") as other:

        async def at_the_gateway(client: Client, number: int) -> None:
            answered[number] = (await submit(client, contents[number])).task_id

        async def one_after_the_other(
            client: Client, numbers: range, calls: "list[asyncio.Task[None]]"
        ) -> None:
            for number in numbers:
                calls.append(asyncio.create_task(at_the_gateway(client, number)))
                await asyncio.sleep(WITHIN_S / SUBMITS)

        for kill in range(kills):
            gateway = await rank.next()
            rank.start_one()
            numbers = range(kill * SUBMITS, (kill + 1) * SUBMITS)
            async with Client(gateway.address, origin_region="ap-south") as client:
                await at_the_gateway(client, numbers[0])  # it is warm, and its Redis are connected
                calls: list[asyncio.Task[None]] = []
                sending = asyncio.create_task(one_after_the_other(client, numbers[1:], calls))
                await asyncio.sleep(dice.uniform(0, WITHIN_S))
                await gateway.kill()
                sending.cancel()
                for call in calls:
                    call.cancel()
                await asyncio.gather(sending, *calls, return_exceptions=True)
            # The repeats go on while the next gateway is killed: some wait for a lease to end.
            repeats += [asyncio.create_task(submit(other, contents[n])) for n in numbers]
        receipts = await asyncio.gather(*repeats)

        ids = [receipt.task_id for receipt in receipts]
        assert len(set(ids)) == len(contents)
        assert {number: ids[number] for number in answered} == answered
        for task_id in ids:
            assert (await world.settled(other, task_id)).state.value == "COMPLETED"
    assert world.ledger.count("start") == dict.fromkeys(ids, 1)
