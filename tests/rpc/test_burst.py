"""Many calls at once, more than the router's event loop takes on at a time."""

import asyncio
from collections import Counter

import grpc.aio
import pytest

from tests.rpc.running import Running, running
from tradewind import Client
from tradewind.fleet import Fleet
from tradewind.v1 import admin_pb2


async def codes(serving: Running, calls: int) -> Counter[str]:
    """Make calls that all come before the router has taken on the first."""
    asked = [serving.admin.ListRegions(admin_pb2.ListRegionsRequest()) for _ in range(calls)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return Counter(
        answer.code().name if isinstance(answer, grpc.aio.AioRpcError) else "OK"
        for answer in answers
    )


async def test_a_burst_is_answered_to_the_last_call(serving: Running) -> None:
    assert await codes(serving, 5_000) == {"OK": 5_000}


async def test_what_is_more_than_may_wait_is_cancelled_and_the_sdk_asks_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.server.MAX_WAITING_CALLS", 50)
    async with running(fleet) as serving:
        told = await codes(serving, 500)
        assert set(told) == {"OK", "CANCELLED"}

        async with Client(serving.server.address, origin_region="eu-west") as client:
            routes = await asyncio.gather(*(client.explain("email.send") for _ in range(500)))
        assert {route.region for route in routes} == {"eu-west"}
