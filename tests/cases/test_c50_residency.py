"""Case C50: residency holds where the region is lost, and where it is misspelt.

Dead letters (b) and repeats at another gateway (d) are in test_moves.py.
"""

import uuid
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from tests.cases.bare import Bare, bare, names_a_time
from tests.cases.pair import EU, US, cut_redis
from tests.harness.patience import until
from tests.harness.yard import Yard
from tests.rpc.running import fields_of
from tradewind.errors import HomeUnreachable, NoRegionReachable
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOWHERE = (HomeUnreachable, NoRegionReachable)
# What may be said of a submit that was under way as the Redis died.
IN_DOUBT = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


async def test_c50a_no_byte_of_a_fenced_task_leaves_a_region_that_is_lost(
    two_regions: Yard,
) -> None:
    world, mark = two_regions, f"mark-{uuid.uuid4().hex}"
    fenced: dict[str, Any] = {
        "name": "echo",
        "payload": f'{{"value": "{mark}"}}'.encode(),
        "tenant": mark,
        "affinity_key": mark,
    }
    by_wish: dict[str, Any] = {**fenced, "residency": ["eu"], "labels": {"note": mark}}
    by_rule: dict[str, Any] = {**fenced, "labels": {"data-class": "pii-eu", "note": mark}}
    errors: list[Any] = []
    async with AsyncExitStack() as stays:
        heard = await stays.enter_async_context(world.overheard(US))
        routers = [await stays.enter_async_context(bare(world, each)) for each in (EU, US)]
        client = await stays.enter_async_context(world.client(EU))
        before = await routers[0].submit(**by_wish)
        assert (await client.wait(before.task_id, timeout=30)).region == EU
        assert world.mentions(EU, mark)  # it can be found at all

        await cut_redis(world, EU)
        try:
            for router in routers:

                async def is_refused(router: Bare = router) -> bool:
                    """Submits go on, until the router knows that nowhere permitted is left."""
                    for number, task in enumerate((by_wish, by_rule)):
                        keys = {"idempotency_key": f"{mark}-{number}", "request_id": mark}
                        errors.append(await router.refusal(**task, **keys))
                        errors.append(await router.refusal(**task))
                    return all(isinstance(error, NOWHERE) for error in errors[-4:])

                await until(is_refused, "the router refuses what may only be in eu")
                # What may leave goes on.
                assert (await router.submit(name="sleep")).region == US
            assert {error.code for error in errors} <= IN_DOUBT
            for error in errors[-4:]:
                assert error.code is grpc.StatusCode.UNAVAILABLE
                assert names_a_time(error)
        finally:
            await world.supervisor.revive(f"redis-{EU}")

        for error in errors:
            assert mark not in str(error)
            assert mark.encode() not in error.status.SerializeToString()
        assert world.mentions(US, mark) == []
        assert heard
        for where, text in {
            "command": bytes(heard),
            "log": world.said(US),
            "disk": world.kept(US),
            "metric": await world.pages(US),
        }.items():
            assert mark.encode() not in text, where
        after = await client.submit("echo", {"value": mark}, residency=["eu"])
        task = await client.wait(after.task_id, timeout=30)
        assert (task.state, task.region) == (State.COMPLETED, EU)


@pytest.mark.parametrize("group", ["EU", "eu ", " eu", "", "mars", "eu,us", "*"])
async def test_c50e_a_residency_that_there_is_not_is_never_no_restriction(
    world: Yard, group: str
) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    for region in world.regions:
        async with bare(world, region) as router:
            for wish in ([group], ["eu", group], [group, "eu"]):
                error = await router.refusal(residency=wish, affinity_key=mark)
                assert error.code is grpc.StatusCode.INVALID_ARGUMENT
                assert fields_of(error) == ["residency"]
                assert "known: apac, eu, us" in str(error)
    for region in world.regions:
        assert world.mentions(region, mark) == []
