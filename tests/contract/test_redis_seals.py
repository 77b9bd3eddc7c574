"""A seal waits for replicas and the disk, where there are any, once for all who ask."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import fleet_at
from tests.redis_keys import connected
from tests.scripts.world import PLACE, a_task, stored
from tradewind.errors import StoreError
from tradewind.local.redis_server import find_server
from tradewind.local.scratch import RedisProcess, redis_process
from tradewind.store import seals
from tradewind.store.region_store import RegionStore

NO_LOG = ["--appendonly", "no"]


@pytest.fixture
def primary(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    args: list[str] = getattr(request, "param", NO_LOG)
    with redis_process(tmp_path / "primary", args) as server:
        yield server


@pytest.fixture
async def store(primary: RedisProcess) -> AsyncIterator[RegionStore]:
    fleet = fleet_at("standalone", [primary.port])
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    yield one
    await one.close()


def calls(primary: RedisProcess, command: str) -> int:
    stats: Any = connected(primary.port).info("commandstats")
    return stats.get(f"cmdstat_{command}", {}).get("calls", 0)


async def test_nothing_is_waited_for_where_there_is_nothing(
    primary: RedisProcess, store: RegionStore
) -> None:
    assert await store.seal(PLACE)
    assert (calls(primary, "wait"), calls(primary, "waitaof")) == (0, 0)


@pytest.mark.parametrize("primary", [["--appendfsync", "no"]], indirect=True)
async def test_a_node_that_never_writes_to_disk_by_itself_is_not_waited_for(
    primary: RedisProcess, store: RegionStore
) -> None:
    assert await store.seal(PLACE)
    assert calls(primary, "waitaof") == 0


@pytest.mark.skipif(find_server().version < (7, 2), reason="WAITAOF came with 7.2")
@pytest.mark.parametrize("primary", [["--appendfsync", "everysec"]], indirect=True)
async def test_those_who_ask_together_share_one_wait_for_the_disk(
    primary: RedisProcess, store: RegionStore
) -> None:
    await stored(store, a_task())
    assert all(await asyncio.gather(*(store.seal(place) for place in range(16) for _ in range(9))))
    assert calls(primary, "waitaof") == 1
    assert await store.seal(PLACE)
    assert calls(primary, "waitaof") == 2, "what was written since is another matter"


@pytest.mark.skipif(find_server().version < (7, 2), reason="WAITAOF came with 7.2")
@pytest.mark.parametrize("primary", [["--appendfsync", "always"]], indirect=True)
async def test_a_node_whose_log_was_switched_off_is_asked_anew_after_one_refusal(
    primary: RedisProcess, store: RegionStore
) -> None:
    assert await store.seal(PLACE)
    connected(primary.port).config_set("appendonly", "no")
    with pytest.raises(StoreError):
        await store.seal(PLACE)
    assert await store.seal(PLACE)


async def test_a_replica_that_hangs_is_not_taken_for_one_that_has_it(
    primary: RedisProcess,
    store: RegionStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seals, "_WAIT_MS", 200)
    args = [*NO_LOG, "--replicaof", "127.0.0.1", str(primary.port)]
    with redis_process(tmp_path / "replica", args) as replica:
        async with asyncio.timeout(20):
            while connected(replica.port).info("replication")["master_link_status"] != "up":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await stored(store, a_task())
        assert await store.seal(PLACE)
        assert connected(replica.port).dbsize() > 0
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            await stored(store, a_task())
            assert not await store.seal(PLACE)
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        assert await store.seal(PLACE)
