"""A region's router, asked without the SDK, which would ask again until all is well."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest
from google.rpc import error_details_pb2

from tests.harness.yard import Yard
from tests.rpc.running import answered, spec
from tradewind.errors import TradewindError
from tradewind.v1 import router_pb2, router_pb2_grpc


class Bare:
    """One router."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._router: Any = router_pb2_grpc.RouterServiceStub(channel)

    async def submit(
        self, *, timeout_s: float = 10, **fields: Any
    ) -> router_pb2.SubmitTaskResponse:
        """Submit a task that is valid but for `fields`, once."""
        request = router_pb2.SubmitTaskRequest(spec=spec(**fields))
        return await answered(self._router.SubmitTask(request, timeout=timeout_s))

    async def refusal(self, **fields: Any) -> Any:
        """The error that a submit ends with: it has `code` and `status`."""
        with pytest.raises(TradewindError) as caught:
            await self.submit(**fields)
        return caught.value


@asynccontextmanager
async def bare(world: Yard, region: str) -> AsyncGenerator[Bare]:
    """Connect to a region's router for the length of a block."""
    async with grpc.aio.insecure_channel(world.router(region)) as channel:
        yield Bare(channel)


def names_a_time(error: Any) -> bool:
    """Whether the refusal says when to ask again."""
    info = error_details_pb2.RetryInfo()
    return any(detail.Unpack(info) for detail in error.status.details)
