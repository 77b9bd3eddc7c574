"""The standard health service, of a router that leaves in order."""

import asyncio
from typing import Any

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class Health:
    """grpc.health.v1.Health, whose watches end with the router's own streams.

    The library's would go on, and hold up the listener until the grace is over.
    """

    def __init__(self) -> None:
        """Every service is unknown yet."""
        self._told = _librarys()
        self.List = self._told.List  # as the library has it: unimplemented
        self._closing = asyncio.Event()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve on `server`."""
        servicer: Any = self
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)  # pyright: ignore[reportUnknownMemberType]

    async def set(self, service: str, *, serving: bool) -> None:
        """Say how a service is, to watchers too. After `retire` it changes nothing."""
        kinds = health_pb2.HealthCheckResponse
        await self._told.set(service, kinds.SERVING if serving else kinds.NOT_SERVING)

    async def retire(self) -> None:
        """Say NOT_SERVING for good."""
        await self._told.enter_graceful_shutdown()

    def close(self) -> None:
        """End every watch."""
        self._closing.set()

    async def Check(  # noqa: D102 - of the protocol
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        return await self._told.Check(request, context)

    async def Watch(  # noqa: D102 - of the protocol
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> None:
        telling = asyncio.ensure_future(self._told.Watch(request, context))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({telling, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            telling.cancel()
            closing.cancel()
            await asyncio.gather(telling, closing, return_exceptions=True)


def _librarys() -> Any:
    return health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
