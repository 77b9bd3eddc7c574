"""What a Redis refuses for a moment is asked for again in the caller's time, and stored once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import fleet_at
from tests.harness.patience import until
from tests.redis_keys import connected
from tests.scripts.world import a_task, keys_at, outcome, record_of
from tradewind.errors import IdentityMismatch, StoreUnavailable
from tradewind.local.freeports import free_ports
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Stored

PATIENCE_S = 20.0  # far above what anything takes


@pytest.fixture
async def own(own_redis: RedisProcess) -> AsyncIterator[RegionStore]:
    """A store on a Redis that this test may spoil."""
    fleet = fleet_at("standalone", [own_redis.port])
    store = RegionStore(fleet.regions["eu-west"], fleet)
    await store.start()
    yield store
    await store.close()


@pytest.fixture
def raw(own_redis: RedisProcess) -> Any:
    return connected(own_redis.port)


async def is_refused(store: RegionStore, cause: str) -> None:
    """The next submit is refused for that cause, once it has no time left."""
    outcomes, _ = await store.enqueue([a_task()], timeout_s=0.2)
    (refusal,) = outcomes
    assert isinstance(refusal, StoreUnavailable)
    assert (refusal.cause, refusal.sent) == (cause, False)


async def is_stored_once_it_passes(store: RegionStore, passes: Callable[[], Any]) -> None:
    """A submit begins while Redis refuses, and ends as one task soon after it does not."""
    task = a_task()
    submit = asyncio.create_task(store.enqueue([task], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    answer: Any = passes()
    if isinstance(answer, Awaitable):
        await answer
    outcomes, _ = await asyncio.wait_for(submit, PATIENCE_S)
    assert outcomes == [Stored(task.task_id, State.PENDING, created=True)]
    await record_of(store, task.task_id)


async def test_a_primary_that_wants_replicas(own: RegionStore, raw: Any) -> None:
    raw.config_set("min-replicas-to-write", 1)
    await is_refused(own, "not enough replicas")
    assert await own.counts() == {}
    await is_stored_once_it_passes(own, lambda: raw.config_set("min-replicas-to-write", 0))


async def test_a_server_that_is_busy_with_a_script(own: RegionStore, raw: Any) -> None:
    raw.config_set("busy-reply-threshold", 1)
    endless = asyncio.create_task(asyncio.to_thread(spin, raw))
    try:
        await until_it_spins(raw)
        await is_stored_once_it_passes(own, raw.script_kill)
    finally:
        await endless


def spin(raw: Any) -> None:
    try:
        raw.eval("while true do end", 0)
    except redis.ResponseError:
        return  # killed


async def until_it_spins(raw: Any) -> None:
    def spins() -> bool:
        try:
            raw.ping()
        except redis.ResponseError as refusal:
            return str(refusal).startswith("BUSY")
        return False

    await until(spins, "busy")


async def test_a_server_that_cannot_save(own: RegionStore, raw: Any) -> None:
    raw.config_set("appendonly", "no")
    raw.config_set("save", "3600 1")
    raw.set("one", "1", ex=60)
    folder = Path(raw.config_get("dir")["dir"]) / raw.config_get("dbfilename")["dbfilename"]
    folder.unlink(missing_ok=True)
    folder.mkdir()
    (folder / "in the way").touch()
    with pytest.raises(redis.ResponseError):
        raw.save()
    raw.bgsave()
    await until(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err", "a failure")
    await is_refused(own, "cannot persist its data")
    await is_stored_once_it_passes(own, lambda: raw.config_set("stop-writes-on-bgsave-error", "no"))
    raw.config_set("save", "")  # or it would try again before it ends


async def test_a_primary_that_was_made_a_replica(own: RegionStore, raw: Any) -> None:
    raw.replicaof("127.0.0.1", free_ports(1)[0])
    await is_refused(own, "its node is a replica, which takes no writes")
    await is_stored_once_it_passes(own, lambda: raw.replicaof("NO", "ONE"))


async def test_what_a_replica_holds_is_looked_at_again_once_it_is_primary(
    own: RegionStore, raw: Any
) -> None:
    """It may be what its primary had, and connections outlive all of that."""
    assert isinstance(await outcome(own, a_task()), Stored)
    raw.replicaof("127.0.0.1", free_ports(1)[0])
    await is_refused(own, "its node is a replica, which takes no writes")
    raw.config_set("replica-read-only", "no")
    for place in range(own.partitions):
        raw.hset(keys_at(place).identity, "region", "another")
    raw.config_set("replica-read-only", "yes")
    raw.replicaof("NO", "ONE")
    assert isinstance(await outcome(own, a_task()), IdentityMismatch)


async def test_a_replica_that_has_lost_its_primary(own: RegionStore, raw: Any) -> None:
    raw.config_set("replica-serve-stale-data", "no")
    raw.config_set("replica-read-only", "no")  # or that would be its reason
    raw.replicaof("127.0.0.1", free_ports(1)[0])
    await is_refused(own, "its primary is down")
    await is_stored_once_it_passes(own, lambda: raw.replicaof("NO", "ONE"))


async def restarts_slowly(
    store: RegionStore, own_redis: RedisProcess, raw: Any
) -> "asyncio.Task[None]":
    """Killed and started, it has loaded its data when the task ends; that has not yet."""
    with raw.pipeline(transaction=False) as pipe:
        for number in range(1_000):
            pipe.set(f"filler:{number}", "x", ex=600)
        pipe.execute()
    raw.bgrewriteaof()
    await until(lambda: raw.info("persistence")["aof_rewrite_in_progress"] == 0, "one base file")
    own_redis.kill()
    slowly = ("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    own_redis.extra_args += slowly  # 1 s: 1 ms a key
    loading = asyncio.create_task(asyncio.to_thread(own_redis.start))

    async def says_so() -> bool:
        (refusal,), _ = await store.enqueue([a_task()], timeout_s=0.2)
        return isinstance(refusal, StoreUnavailable) and refusal.cause == "still loading its data"

    await until(says_so, "it is loading")
    return loading


async def test_a_server_that_loads_its_data(
    own: RegionStore, own_redis: RedisProcess, raw: Any
) -> None:
    loading = await restarts_slowly(own, own_redis, raw)
    await is_stored_once_it_passes(own, lambda: loading)


async def test_a_server_that_loads_what_is_not_ours_is_refused_though_it_could_not_tell_at_first(
    own: RegionStore, own_redis: RedisProcess, raw: Any
) -> None:
    for place in range(own.partitions):  # nobody looks as long as the connection lasts
        raw.hset(keys_at(place).identity, "deployment", "another")
    loading = await restarts_slowly(own, own_redis, raw)
    (refusal,), _ = await own.enqueue([a_task()], timeout_s=PATIENCE_S)
    assert isinstance(refusal, IdentityMismatch)
    await loading
