"""Region states while a Redis is killed and comes back."""

import asyncio
from dataclasses import replace

import pytest

from tests.conftest import fleet_on
from tests.redis_keys import connected
from tests.rpc.running import running
from tests.rpc.test_control import (
    AP,
    EU,
    US,
    help_at_once,
    pause,
    paused,
    set_state,
    states,
    until,
)
from tradewind.control import decode
from tradewind.errors import ControlUnavailable
from tradewind.fleet import Fleet, Health
from tradewind.local.scratch import RedisProcess
from tradewind.store.keys import partition_keys


@pytest.fixture
def mortal(redis_servers: list[RedisProcess], own_redis: RedisProcess) -> Fleet:
    """Three regions, of which ap-south can be killed."""
    fleet = fleet_on([*redis_servers[:2], own_redis])
    return replace(fleet, health=Health(interval_ms=100, timeout_ms=500))


async def test_a_region_that_was_down_during_a_change_holds_it_after_its_return(
    mortal: Fleet, own_redis: RedisProcess
) -> None:
    async with running(mortal) as serving:
        help_at_once(serving)
        await pause(serving, "mail")
        await asyncio.to_thread(own_redis.kill)
        await set_state(serving, EU, "DRAINING")
        with pytest.raises(ControlUnavailable) as refused:
            await set_state(serving, AP, "CORDONED")
        assert refused.value.missing == (AP,), "the one that is meant has to hold it"
        await asyncio.to_thread(own_redis.start)
        raw = connected(own_redis.port).hgetall(partition_keys(16)[0].control)
        assert decode(raw["dc"].encode()).is_paused("mail"), "what it held before outlives it"

        async def is_repaired() -> bool:
            control = serving.stores[AP].real.held()
            return control is not None and control.state(EU) == "DRAINING"

        await until(is_repaired)
        await set_state(serving, AP, "CORDONED")
    async with running(mortal, US) as serving:
        assert await states(serving) == {EU: "DRAINING", US: "ACTIVE", AP: "CORDONED"}
        assert await paused(serving) == {"mail"}
