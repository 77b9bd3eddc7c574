"""One region on a real server, for parts of the worker that are driven without its process."""

from collections.abc import AsyncIterator

import pytest

from tests.conftest import fleet_on
from tradewind.fleet import Fleet
from tradewind.local.scratch import RedisProcess
from tradewind.store.region_store import RegionStore


@pytest.fixture
def one_region(redis_servers: list[RedisProcess]) -> Fleet:
    return fleet_on(redis_servers[:1])


@pytest.fixture
async def home(one_region: Fleet) -> AsyncIterator[RegionStore]:
    store = RegionStore(one_region.regions["eu-west"], one_region)
    await store.start()
    yield store
    await store.close()
