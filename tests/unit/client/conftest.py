"""A scripted router, and a client of it."""

from collections.abc import AsyncGenerator

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2_grpc

from tests.unit.client.scripted import Health, ScriptedRouter
from tradewind import Client
from tradewind.v1.router_pb2_grpc import add_RouterServiceServicer_to_server


@pytest.fixture
async def router() -> ScriptedRouter:
    return ScriptedRouter()  # pyright: ignore[reportAbstractUsage] - the rest is UNIMPLEMENTED


@pytest.fixture
async def health() -> Health:
    return Health("ap-south")


@pytest.fixture
async def target(router: ScriptedRouter, health: Health) -> AsyncGenerator[str, None]:
    server = grpc.aio.server()
    add_RouterServiceServicer_to_server(router, server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)  # pyright: ignore[reportUnknownMemberType]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def client(target: str) -> AsyncGenerator[Client, None]:
    async with Client(target, origin_region="eu-west") as client:
        yield client
