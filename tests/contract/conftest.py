"""The stores that keep the contract: one suite for all of them, with the same assertions."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import cast

import pytest

from tests.any_store import AnyStore
from tests.conftest import FORMS, fleet_at, fleet_on, opened, site_of
from tests.machine.clock import Clock, build
from tests.redis_keys import connected, flush
from tests.scripts.world import client_of
from tradewind.clock import ManualClock
from tradewind.fleet import DeadTaskHandler, Fleet, QueuePolicy
from tradewind.local.scratch import RedisProcess
from tradewind.store import scripts
from tradewind.store.region_store import RegionStore
from tradewind.testing import MemoryStore

HERE, THERE = "eu-west", "us-east"


@pytest.fixture(params=["memory", *FORMS])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[AnyStore]:
    """One region in memory, and on each form of Redis."""
    if request.param == "memory":
        yield MemoryStore(HERE, fleet_at("standalone", [1]))
        return
    async with opened(site_of(request, request.param)) as one:
        yield one


@dataclass(frozen=True, slots=True)
class World:
    """Two regions whose time stands still until it is moved on.

    What a real Redis forgets by itself it forgets by its own clock, on time or some ms early: tests
    of such moments keep away from the last second.
    """

    store: AnyStore
    target: AnyStore
    now_ms: Callable[[], int]
    advance: Callable[[int], Awaitable[None]]


@pytest.fixture(params=["memory", "standalone"])
async def world(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """Regions in memory, and on real servers whose scripts read the test's clock."""
    async with world_of(request, monkeypatch, fleet_on(redis_servers_of(request))) as one:
        yield one


@pytest.fixture(params=["memory", "standalone"])
async def loud_world(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """The same, with an on_dead for every queue."""
    loud = QueuePolicy(on_dead=DeadTaskHandler("bury"))
    fleet = replace(fleet_on(redis_servers_of(request)), default_queue=loud)
    async with world_of(request, monkeypatch, fleet) as one:
        yield one


@asynccontextmanager
async def world_of(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, fleet: Fleet
) -> AsyncGenerator[World]:
    if request.param == "memory":
        yield memory_world(fleet)
        return
    monkeypatch.setattr(scripts, "load", build())
    one = await redis_world(fleet, redis_servers_of(request))
    yield one
    await one.store.close()
    await one.target.close()


def redis_servers_of(request: pytest.FixtureRequest) -> list[RedisProcess]:
    return cast("list[RedisProcess]", request.getfixturevalue("redis_servers"))


def memory_world(fleet: Fleet) -> World:
    clock = ManualClock()

    async def advance(by_ms: int) -> None:
        clock.advance(by_ms)

    here, there = (MemoryStore(name, fleet, clock) for name in (HERE, THERE))
    return World(here, there, clock.now_ms, advance)


async def redis_world(fleet: Fleet, servers: list[RedisProcess]) -> World:
    """Wants `build()` in the place of scripts.load."""
    for server in servers[:2]:
        flush(server.port)
    pairs = zip((HERE, THERE), servers, strict=False)
    clock = Clock({name: connected(server.port) for name, server in pairs})
    stores = [RegionStore(fleet.regions[name], fleet) for name in (HERE, THERE)]

    async def advance(by_ms: int) -> None:
        clock.advance(by_ms)
        for one in stores:
            client_of(one).nodes.note_clock(0, clock.now_ms)

    for one in stores:
        await one.start()
    await advance(0)
    return World(stores[0], stores[1], lambda: clock.now_ms, advance)


def connections(store: AnyStore) -> int:
    """How many connections a subscription of the store has, each of which says when it began."""
    return len(client_of(store).nodes.owned_together()) if isinstance(store, RegionStore) else 1
