"""A real router, in the test's own loop, over real Redis servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest

from router.gateway import Gateway
from router.server import Server
from tradewind.clock import SystemClock
from tradewind.fleet import Fleet
from tradewind.store.region_store import RegionStore
from tradewind.v1 import admin_pb2_grpc, router_pb2_grpc

OWN_REGION = "eu-west"


@dataclass(slots=True)
class Running:
    """A router that serves, and a client's way to it."""

    gateway: Gateway
    server: Server
    stores: dict[str, RegionStore]
    channel: grpc.aio.Channel
    router: Any
    admin: Any


@asynccontextmanager
async def running(fleet: Fleet, region: str = OWN_REGION) -> AsyncIterator[Running]:
    """Serve `fleet` from `region` on a free port; everything is gone afterwards."""
    stores = {name: RegionStore(one, fleet) for name, one in fleet.regions.items()}
    gateway = Gateway(fleet, region, stores, SystemClock())
    server = Server(gateway, "127.0.0.1:0")
    looking = asyncio.create_task(gateway.run())
    await gateway.census.first_look(5)
    await server.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield Running(
            gateway,
            server,
            stores,
            channel,
            router_pb2_grpc.RouterServiceStub(channel),
            admin_pb2_grpc.AdminServiceStub(channel),
        )
    hurry = asyncio.Event()
    hurry.set()
    await server.stop(hurry)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    for store in stores.values():
        await store.close()


@pytest.fixture
async def serving(fleet: Fleet) -> AsyncIterator[Running]:
    """A router in eu-west over three empty regions."""
    async with running(fleet) as router:
        yield router
