"""Faults of a region's set-up are named as such: never raw Redis text, never our own bug."""

from collections.abc import AsyncIterator

import pytest

from tests.conftest import fleet_at
from tests.redis_keys import connected
from tests.scripts.world import a_task, keys_at, outcome, record_of, stored
from tradewind.errors import StoreUnavailable
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore


@pytest.fixture
async def own(own_redis: RedisProcess) -> AsyncIterator[RegionStore]:
    """The store on a server of this test's own."""
    fleet = fleet_at("standalone", [own_redis.port])
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    yield one
    await one.close()


@pytest.mark.parametrize("command", ["hset", "time", "rpush"])
async def test_a_login_without_a_command_that_scripts_need_is_an_unavailable_region(
    own: RegionStore, own_redis: RedisProcess, command: str
) -> None:
    connected(own_redis.port).execute_command("ACL", "SETUSER", "default", f"-{command}")

    refused = await outcome(own, a_task())

    assert isinstance(refused, StoreUnavailable)
    assert refused.cause == "its login lacks a permission that our scripts need"
    assert refused.sent, "a script may have written before it was refused"


async def test_foreign_data_under_our_keys_is_an_unavailable_region(
    own: RegionStore, own_redis: RedisProcess
) -> None:
    before = await stored(own)
    connected(own_redis.port).set(keys_at().counts, "somebody else's")

    refused = await outcome(own, a_task())

    assert isinstance(refused, StoreUnavailable)
    assert refused.cause == "somebody else's data is under our keys"
    assert (await record_of(own, before.task_id)).state is State.PENDING
