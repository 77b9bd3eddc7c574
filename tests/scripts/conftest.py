"""The region to which the tasks of `store` move."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import fleet_on
from tests.redis_keys import connected, leaked_keys, wrong_counts
from tradewind.local.scratch import RedisProcess
from tradewind.store.region_store import RegionStore


@pytest.fixture
async def target(redis_servers: list[RedisProcess]) -> AsyncIterator[RegionStore]:
    """The region us-east, to which tasks of `store` move."""
    fleet = fleet_on(redis_servers)
    there = RegionStore(fleet.regions["us-east"], fleet)
    await there.start()
    yield there
    await there.close()
    assert wrong_counts(redis_servers[1].port) == {}
    assert leaked_keys(redis_servers[1].port) == []


@pytest.fixture
def there(redis_servers: list[RedisProcess]) -> Any:
    return connected(redis_servers[1].port)
