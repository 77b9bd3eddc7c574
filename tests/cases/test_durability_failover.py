"""A primary of a Cluster dies while tasks are accepted that a replica has to have."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import fleet_at
from tests.rpc.running import Running, running
from tradewind.errors import TradewindError
from tradewind.fleet import Health, QueuePolicy
from tradewind.local.scratch import cluster_nodes
from tradewind.local.scratch.roles import is_primary

CALLERS, ENOUGH = 16, 300


class Ledger:
    """What callers were told: ids of tasks that a replica has, and of those that may be lost."""

    def __init__(self, serving: Running) -> None:
        self._serving, self.is_over = serving, False
        self.confirmed: list[str] = []
        self.unconfirmed: list[str] = []

    async def submit(self) -> None:
        while not self.is_over:
            try:
                receipt = await self._serving.submit(queue="safe", timeout_s=5)
            except TradewindError:
                await asyncio.sleep(0.05)
                continue
            told = self.unconfirmed if receipt.replication_unconfirmed else self.confirmed
            told.append(receipt.task_id)

    async def grows(self, told: list[str], by: int) -> None:
        wanted = len(told) + by
        while len(told) < wanted:  # noqa: ASYNC110 - callers append to it
            await asyncio.sleep(0.02)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_no_task_that_a_replica_has_is_lost_with_its_primary(tmp_path: Path) -> None:
    with cluster_nodes(tmp_path, 3, ["--appendonly", "no"], replicas=1) as nodes:
        fleet = replace(
            fleet_at("cluster", [node.port for node in nodes[:3]]),
            queues={"safe": QueuePolicy(durability="replica")},
            health=Health(interval_ms=200),
        )
        async with running(fleet) as serving, asyncio.timeout(150):
            ledger = Ledger(serving)
            callers = [asyncio.create_task(ledger.submit()) for _ in range(CALLERS)]
            await ledger.grows(ledger.confirmed, ENOUGH)
            nodes[0].kill()
            while not is_primary(nodes[3]):  # noqa: ASYNC110 - the nodes vote among themselves
                await asyncio.sleep(0.05)
            await ledger.grows(ledger.unconfirmed, 1)  # it has no replica of its own
            nodes[0].start()
            seen = len(ledger.unconfirmed)
            while True:  # until it follows, and is seen to
                await ledger.grows(ledger.confirmed, ENOUGH)
                if len(ledger.unconfirmed) == seen:
                    break
                seen = len(ledger.unconfirmed)
            ledger.is_over = True
            await asyncio.gather(*callers)
            assert len(ledger.confirmed) >= 2 * ENOUGH
            for task_id in ledger.confirmed:
                assert (await serving.get(task_id)).task_id == task_id
