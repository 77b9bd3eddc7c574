import asyncio
from dataclasses import replace

import pytest

from tests.conftest import fleet_on
from tests.rpc.running import Running, running
from tradewind import Client
from tradewind.errors import NoRegionReachable, OutcomeUnknown, TradewindError
from tradewind.fleet import Health
from tradewind.local.scratch import RedisProcess


async def refused_at_last(serving: Running) -> TradewindError:
    """Submit inside the fence until the router knows that its only region is gone."""
    while True:
        try:
            await serving.submit(residency=["eu"], timeout_s=2)
        except OutcomeUnknown:  # sent on a connection that was about to break
            continue
        except TradewindError as error:
            return error
        await asyncio.sleep(0.02)


async def test_submits_of_callers_whose_region_is_lost_go_on_in_the_others(
    redis_servers: list[RedisProcess], own_redis: RedisProcess
) -> None:
    fleet = fleet_on([own_redis, *redis_servers[1:]])
    health = Health(interval_ms=100, timeout_ms=500)
    async with running(replace(fleet, health=health), "us-east") as serving:
        async with Client(serving.server.address, origin_region="eu-west", deadline=5) as client:
            before = await client.submit("email.send")
            await asyncio.to_thread(own_redis.kill)

            while serving.gateway.census.silent() != ["eu-west"]:  # noqa: ASYNC110 - it polls, too
                await asyncio.sleep(0.02)
            during = [await client.submit("email.send") for _ in range(5)]

            await asyncio.to_thread(own_redis.start)
            while serving.gateway.census.silent():  # noqa: ASYNC110 - it polls, too
                await asyncio.sleep(0.02)
            fenced = await client.submit("email.send", residency=["eu"])
            # The others are preferred while less waits there; each task of theirs brings the end
            # of that nearer, so the callers come home.
            after = [await client.submit("email.send")]
            while after[-1].region != "eu-west":
                after.append(await client.submit("email.send"))

        assert before.region == fenced.region == "eu-west"
        assert "eu-west" not in {receipt.region for receipt in during}
        receipts = [before, *during, fenced, *after]
        assert len({receipt.task_id for receipt in receipts}) == len(receipts)
        assert sum((await serving.stored()).values()) == len(receipts)


async def test_a_region_is_lost_and_comes_back_and_the_fence_holds_throughout(
    redis_servers: list[RedisProcess], own_redis: RedisProcess
) -> None:
    fleet = fleet_on([own_redis, redis_servers[1]])
    health = Health(interval_ms=100, timeout_ms=500)
    async with running(replace(fleet, health=health)) as serving:
        before = await serving.submit(residency=["eu"])
        await asyncio.to_thread(own_redis.kill)

        assert isinstance(await refused_at_last(serving), NoRegionReachable)
        assert (await serving.insist()).region == "us-east"
        while serving.gateway.census.silent() != ["eu-west"]:  # noqa: ASYNC110 - it polls, too
            await asyncio.sleep(0.02)
        assert (await serving.submit()).region == "us-east"
        with pytest.raises(TradewindError, match="eu-west"):
            await serving.get(before.task_id)

        await asyncio.to_thread(own_redis.start)
        after = await serving.insist(residency=["eu"])

        assert after.region == "eu-west"
        assert (await serving.get(before.task_id)).region == "eu-west"
