"""What a store says of how durable its tasks are, on servers that are run in different ways."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.any_store import AnyStore
from tests.conftest import fleet_at
from tests.redis_keys import connected
from tests.scripts.world import PLACE, a_mark, a_task, an_id, outcome, stored
from tradewind.local.redis_server import REPLICATED, find_server
from tradewind.local.scratch import RedisProcess, redis_process
from tradewind.store import seals
from tradewind.store.region_store import RegionStore
from tradewind.task import Stored

SECONDS = 5.0
has_waitaof = pytest.mark.skipif(find_server().version < (7, 2), reason="WAITAOF came with 7.2")
ALWAYS, NO_LOG = ["--appendfsync", "always"], ["--appendonly", "no"]


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    args: list[str] = getattr(request, "param", ALWAYS)
    with redis_process(tmp_path / "primary", args) as one:
        yield one


@asynccontextmanager
async def store_of(server: RedisProcess) -> AsyncGenerator[RegionStore]:
    fleet = fleet_at("standalone", [server.port])
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    try:
        yield one
    finally:
        await one.close()


@has_waitaof
async def test_what_is_stored_is_safe_and_what_is_not_there_is_not(store: AnyStore) -> None:
    kept, other = a_task(), a_task(an_id(PLACE + 1))
    for task in (kept, other):
        await stored(store, task)
    asked = [kept.task_id, an_id(PLACE + 2), other.task_id]
    assert list(await store.tasks_safe("fsync", asked, timeout_s=SECONDS)) == [True, False, True]


@has_waitaof
async def test_an_entry_is_safe_once_it_is_there(store: AnyStore) -> None:
    mark, task_id = a_mark(), an_id()
    assert await store.reserve(mark, task_id, "eu-west", 1) is None
    asked = [mark, a_mark(b"o" * 32)]
    safe = (store.entry_safe("fsync", each, task_id, timeout_s=SECONDS) for each in asked)
    assert await asyncio.gather(*safe) == [True, False]


async def test_a_seal_behind_a_crash_does_not_vouch_for_what_the_crash_took(
    server: RedisProcess,
) -> None:
    """The node that has the mark may have started anew since it answered for the task."""
    async with store_of(server) as store:
        lost, kept = a_task(), a_task()
        await stored(store, lost)
        connected(server.port).flushdb()  # as if the crash had taken it
        server.kill()
        server.start()
        async with asyncio.timeout(SECONDS):
            while not isinstance(await outcome(store, kept), Stored):
                pass  # its connection is gone, too
        assert list(await store.tasks_safe("fsync", [lost.task_id], timeout_s=SECONDS)) == [False]
        assert list(await store.tasks_safe("fsync", [kept.task_id], timeout_s=SECONDS)) == [True]


@has_waitaof
@pytest.mark.parametrize("server", [NO_LOG], indirect=True)
async def test_a_server_is_asked_anew_once_it_is_run_in_another_way(server: RedisProcess) -> None:
    async with store_of(server) as store:
        task = a_task()
        await stored(store, task)
        assert await store.lacks() == {
            "fsync": "it keeps no append-only file (appendonly no)",
            "replica": "no replica is connected",
        }
        assert list(await store.tasks_safe("fsync", [task.task_id], timeout_s=SECONDS)) == [False]
        assert list(await store.tasks_safe("memory", [task.task_id], timeout_s=SECONDS)) == [True]
        admin = connected(server.port)
        admin.config_set("appendonly", "yes")
        assert "fsync" not in await store.lacks()
        async with asyncio.timeout(SECONDS):  # its log is written first
            while not all(await store.tasks_safe("fsync", [task.task_id], timeout_s=SECONDS)):
                pass
        admin.config_set("appendonly", "no")
        assert list(await store.tasks_safe("fsync", [task.task_id], timeout_s=SECONDS)) == [False]


@has_waitaof
async def test_a_seal_whose_connection_is_cut_is_asked_for_again(server: RedisProcess) -> None:
    async with store_of(server) as store:
        first, second = a_task(), a_task()
        for task in (first, second):
            await stored(store, task)
        assert list(await store.tasks_safe("fsync", [first.task_id], timeout_s=SECONDS)) == [True]
        admin = connected(server.port)
        admin.client_pause(300)  # so that it is cut while it waits
        asked = asyncio.create_task(
            asyncio.wait_for(
                store.tasks_safe("fsync", [second.task_id], timeout_s=SECONDS), SECONDS
            )
        )
        await asyncio.sleep(0.05)  # the question is on its way by then
        admin.client_kill_filter(_type="normal", skipme=True)
        assert list(await asked) == [True]


@has_waitaof
async def test_a_login_that_may_not_ask_is_taken_at_its_answers(server: RedisProcess) -> None:
    connected(server.port).acl_setuser(
        "default", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config"]
    )
    async with store_of(server) as store:
        task = a_task()
        await stored(store, task)
        assert "fsync" not in await store.lacks()
        assert list(await store.tasks_safe("fsync", [task.task_id], timeout_s=SECONDS)) == [True]


@has_waitaof
async def test_of_a_cluster_every_node_has_to_have_it(cluster_ports: list[int]) -> None:
    fleet = fleet_at("cluster", cluster_ports)
    store = RegionStore(fleet.regions["eu-west"], fleet)
    admin = connected(cluster_ports[1])
    try:
        await store.start()
        assert await store.lacks() == {"replica": "no replica is connected (3 of 3 nodes)"}
        admin.config_set("appendfsync", "no")
        found = (await store.lacks())["fsync"]
        assert found == "it leaves its log to the operating system (appendfsync no) (1 of 3 nodes)"
    finally:
        admin.config_set("appendfsync", "everysec")
        await store.close()


@pytest.mark.parametrize("server", [[*NO_LOG, *REPLICATED]], indirect=True)
async def test_a_task_is_safe_once_a_replica_has_it(
    server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "_WAIT_MS", 200)
    args = [*NO_LOG, "--replicaof", "127.0.0.1", str(server.port)]
    with redis_process(tmp_path / "replica", args) as replica:
        async with store_of(server) as store, asyncio.timeout(20):
            while "replica" in await store.lacks():  # noqa: ASYNC110 - only the server can tell
                await asyncio.sleep(0.02)
            task, late = a_task(), a_task()
            await stored(store, task)
            assert list(await store.tasks_safe("replica", [task.task_id], timeout_s=SECONDS)) == [
                True
            ]
            os.kill(replica.pid, signal.SIGSTOP)
            try:
                await stored(store, late)
                asked = [late.task_id]
                assert list(await store.tasks_safe("replica", asked, timeout_s=SECONDS)) == [False]
                assert list(await store.tasks_safe("replica", asked, timeout_s=0.05)) == [False]
            finally:
                os.kill(replica.pid, signal.SIGCONT)
            while not all(await store.tasks_safe("replica", asked, timeout_s=SECONDS)):
                pass
