"""Case C49b: a region whose Redis is well and where nobody works."""

import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def refusal_of(client: Client, region: str) -> str:
    route = await client.explain("sleep", {})
    (reason,) = (each.excluded_by for each in route.candidates if each.region == region)
    return reason


async def test_c49b_nothing_unpinned_goes_where_nobody_works(world: Yard) -> None:
    worker = "worker-eu-west"
    async with world.client("eu-west") as eu, world.client("us-east") as us:
        for client in (eu, us):  # a test before may have restarted a router, or the worker
            seen: list[tuple[str, int, Sequence[str]]] = []

            async def at_work(client: Client = client, seen: Any = seen) -> bool:
                regions, _ = await client.admin.regions()
                seen[:] = [(r.health, r.workers, r.reasons) for r in regions if r.name == "eu-west"]
                # DEGRADED: that test's workers were more than the one that is left of them.
                return seen[0][0] in {"HEALTHY", "DEGRADED"} and seen[0][1] == 1

            await until(at_work, "the router has seen the worker of eu-west", seen=seen)
        assert await refusal_of(eu, "eu-west") == ""
        world.supervisor.disable_restart(worker)
        world.supervisor.kill(worker, signal.SIGTERM)
        try:
            for client in (eu, us):

                async def excluded(client: Client = client) -> bool:
                    return await refusal_of(client, "eu-west") == "no live worker"

                await until(excluded, "the router holds eu-west for unserved")
            regions, silent = await eu.admin.regions()
            assert silent == ()
            shown = {region.name: (region.health, region.workers) for region in regions}
            assert shown["eu-west"] == ("DEGRADED", 0)
            assert (await eu.admin.workers("eu-west"))[0] == []
            for region in ("eu-west", "us-east"):
                page = await world.router_page(region)
                assert b'\ntradewind_region_workers{region="eu-west"} 0.0\n' in page

            free = [await client.submit("sleep") for client in (eu, us) for _ in range(20)]
            pinned = await eu.submit("sleep", pin_region="eu-west")
            fenced = await us.submit("sleep", residency=["eu"])
            assert "eu-west" not in {receipt.region for receipt in free}
            for receipt in free:
                assert (await eu.wait(receipt.task_id, timeout=30)).state is State.COMPLETED
            # Whatever its condition, the only permitted region is better than a border crossed.
            assert {pinned.region, fenced.region} == {"eu-west"}
            assert (await us.get(pinned.task_id)).state is State.PENDING
        finally:
            await world.supervisor.revive(worker)
        for receipt in (pinned, fenced):
            assert (await eu.wait(receipt.task_id, timeout=30)).region == "eu-west"

        async def back() -> bool:
            return (await eu.explain("sleep", {})).region == "eu-west"

        await until(back, "tasks of eu-west stay at home again")
