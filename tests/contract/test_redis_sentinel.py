"""A region behind Sentinels: who is its primary, and what becomes of calls when that changes."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import hiredis
import pytest

from tests.conftest import fleet_at
from tests.harness.patience import until
from tests.redis_keys import connected
from tests.scripts.world import a_task, outcome, record_of, stored
from tradewind.errors import StoreUnavailable
from tradewind.local.freeports import free_ports
from tradewind.local.scratch import Watched, watched_servers
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Stored

SOON_S = 30.0  # a switch takes the Sentinels a second or two


@pytest.fixture
def own_watched(tmp_path: Path) -> Iterator[Watched]:
    """Servers of this test's own, to be failed over."""
    with watched_servers(tmp_path, 1, ["--appendfsync", "always"]) as watched:
        yield watched


def ports(watched: Watched) -> list[int]:
    return [sentinel.port for sentinel in watched.sentinels]


@asynccontextmanager
async def opened(seeds: list[int], **change: Any) -> AsyncGenerator[RegionStore]:
    fleet = fleet_at("sentinel", seeds)
    region = fleet.regions["eu-west"]
    region = replace(region, redis=replace(region.redis, **change))
    store = RegionStore(region, fleet)
    try:
        yield store
    finally:
        await store.close()


async def refusal(store: RegionStore) -> str:
    answer = await outcome(store, a_task())
    assert isinstance(answer, StoreUnavailable)
    assert not answer.sent
    return answer.cause


@pytest.mark.every_form
async def test_calls_follow_the_primary_and_find_what_was_stored_before(
    own_watched: Watched,
) -> None:
    async with opened(ports(own_watched)) as store:
        task = await stored(store)
        former = own_watched.primary
        assert await asyncio.to_thread(own_watched.fail_over) is not former
        assert isinstance(await eventually_stored(store), Stored)
        assert (await record_of(store, task.task_id)).state is State.PENDING


async def test_a_primary_that_dies_is_replaced_and_nothing_that_it_shared_is_lost(
    own_watched: Watched,
) -> None:
    async with opened(ports(own_watched)) as store:
        task = await stored(store)
        assert connected(own_watched.primary.port).wait(1, 5_000) == 1
        own_watched.primary.kill()
        await asyncio.to_thread(own_watched.fail_over)  # as after down-after-milliseconds
        assert isinstance(await eventually_stored(store), Stored)
        assert (await record_of(store, task.task_id)).state is State.PENDING


async def eventually_stored(store: RegionStore) -> Any:
    """The outcome of the first submit that is not refused. The same task each time."""
    task, answers = a_task(), list[Any]()

    async def is_stored() -> bool:
        answers.append(await outcome(store, task))
        return isinstance(answers[-1], Stored)

    await until(is_stored, "a primary takes it", patience_s=SOON_S)
    return answers[-1]


async def test_a_primary_that_was_made_a_replica_is_left_at_its_first_refusal(
    own_watched: Watched,
) -> None:
    """By hand, so that no connection is cut: only READONLY tells."""
    old, new = own_watched.servers
    async with opened(ports(own_watched)) as store:
        task = await stored(store)
        assert connected(old.port).wait(1, 5_000) == 1
        for sentinel in own_watched.sentinels:
            sentinel.ask("SENTINEL", "REMOVE", "main")
        connected(new.port).replicaof("NO", "ONE")
        connected(old.port).replicaof("127.0.0.1", new.port)
        for sentinel in own_watched.sentinels:
            sentinel.ask("SENTINEL", "MONITOR", "main", "127.0.0.1", new.port, 2)
        assert isinstance(await outcome(store, a_task()), Stored)
        assert (await record_of(store, task.task_id)).state is State.PENDING


async def test_one_sentinel_that_answers_is_enough(
    watched: Watched, sentinel_ports: list[int]
) -> None:
    async with opened([*free_ports(2), sentinel_ports[0]]) as store:
        assert isinstance(await outcome(store, a_task()), Stored)


async def test_without_any_sentinel_the_region_does_not_answer() -> None:
    async with opened(free_ports(2)) as store:
        assert await refusal(store) == "of a Sentinel: connection refused"


async def test_a_service_that_no_sentinel_knows_says_what_to_do(
    sentinel_ports: list[int],
) -> None:
    async with opened(sentinel_ports, service="other") as store:
        assert await refusal(store) == (
            "its Sentinels watch no master named other: correct `service` in regions.yaml, "
            "or have them monitor it"
        )


@asynccontextmanager
async def one_that_says(said: bytes, after_s: float = 0) -> AsyncGenerator[int]:
    """A Sentinel of the test's own, with its answer; gives the port on which it listens."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = hiredis.Reader()
        while data := await reader.read(4096):
            commands.feed(data)
            while command := commands.gets():
                is_asked = command[0] == b"SENTINEL"
                await asyncio.sleep(after_s if is_asked else 0)
                writer.write(said if is_asked else b"+OK\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        yield server.sockets[0].getsockname()[1]


def one_that_names(port: int, after_s: float = 0) -> AbstractAsyncContextManager[int]:
    """For which the primary is on `port`."""
    said = f"*2\r\n$9\r\n127.0.0.1\r\n${len(str(port))}\r\n{port}\r\n"
    return one_that_says(said.encode(), after_s)


async def test_what_is_no_sentinel_is_told_so_and_stands_in_nobody_s_way(
    watched: Watched, sentinel_ports: list[int]
) -> None:
    server = watched.primary.port
    async with one_that_says(b"+OK\r\n") as stranger:
        for wrong in (server, stranger):
            async with opened([wrong]) as store:
                assert await refusal(store) == (
                    "it is no Sentinel: correct `sentinel` in regions.yaml"
                )
        async with opened([stranger, server, sentinel_ports[0]]) as store:
            assert isinstance(await outcome(store, a_task()), Stored)


async def test_a_sentinel_that_was_cut_off_is_outvoted_though_it_is_the_fastest(
    watched: Watched,
) -> None:
    replica = next(server for server in watched.servers if server is not watched.primary)
    async with (
        one_that_names(replica.port) as stale,
        one_that_names(watched.primary.port, 0.1) as one,
        one_that_names(watched.primary.port, 0.1) as other,
        opened([stale, one, other]) as store,
    ):
        assert isinstance(await outcome(store, a_task()), Stored)


async def test_a_replica_that_is_named_as_primary_is_not_taken_for_one(watched: Watched) -> None:
    replica = next(server for server in watched.servers if server is not watched.primary)
    async with one_that_names(replica.port) as stale, opened([stale]) as store:
        assert await refusal(store) == "its primary has become a replica"
