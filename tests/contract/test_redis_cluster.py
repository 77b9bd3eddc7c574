"""A region on a Cluster whose nodes change: what is learnt, from whom, and what stays open."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import fleet_at
from tests.harness.patience import until
from tests.redis_keys import connected, flush
from tests.scripts.slots import Slot
from tests.scripts.world import a_task, an_id, client_of, keys_at, outcome, record_of
from tradewind.errors import IdentityMismatch, StoreError, StoreUnavailable
from tradewind.local.freeports import free_ports
from tradewind.local.redis_server import ask
from tradewind.local.scratch import RedisProcess, cluster_nodes, fail_over, is_primary, settle
from tradewind.state import State
from tradewind.store import nodes as nodes_module
from tradewind.store.region_store import RegionStore
from tradewind.task import Stored

PLACES = (0, 15)  # a partition of the first node, and one of the last
SOON_S = 30.0


@pytest.fixture(scope="module")
def shared_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    """Two primaries, then the replica of each."""
    with cluster_nodes(tmp_path_factory.mktemp("own-cluster"), 2, replicas=1) as nodes:
        yield nodes


@pytest.fixture
def nodes(shared_nodes: list[RedisProcess]) -> list[RedisProcess]:
    """The same, empty, all of them running, the first two primary."""
    for node in shared_nodes[:2]:
        if not is_primary(node):
            fail_over(node, "TAKEOVER")
    settle(shared_nodes)
    for node in shared_nodes[:2]:
        flush(node.port)
    return shared_nodes


@asynccontextmanager
async def opened(seeds: Sequence[int]) -> AsyncGenerator[RegionStore]:
    fleet = fleet_at("cluster", seeds)
    store = RegionStore(fleet.regions["eu-west"], fleet)
    try:
        yield store
    finally:
        await store.close()


async def eventually_stored(store: RegionStore, place: int) -> str:
    """Submit one task until it is stored; gives its id."""
    task = a_task(an_id(place))

    async def is_stored() -> bool:
        return isinstance(await outcome(store, task), Stored)

    await until(is_stored, f"partition {place} takes a task", patience_s=SOON_S)
    return task.task_id


def ours(nodes: Sequence[RedisProcess]) -> int:
    """How many connections of ours these have."""
    lists = [connected(node.port).client_list() for node in nodes]
    return sum(client["name"] == "tradewind" for clients in lists for client in clients)


def all_shared(nodes: Sequence[RedisProcess]) -> None:
    """Return once replicas have what their primaries answered."""
    for node in nodes:
        if is_primary(node):
            connected(node.port).wait(1, 5_000)


async def failovers(nodes: list[RedisProcess], times: int) -> None:
    """The primaries change places with their replicas, again and again, under a client."""
    async with opened([nodes[0].port]) as store:
        ids = [await eventually_stored(store, place) for place in PLACES]
        before = ours(nodes)
        for number in range(times):
            all_shared(nodes)
            for index in (0, 1):
                replica = nodes[index if number % 2 else index + 2]
                await asyncio.to_thread(fail_over, replica, "TAKEOVER")
            ids += [await eventually_stored(store, place) for place in PLACES]

        async def is_as_before() -> bool:
            with contextlib.suppress(StoreError):
                await store.probe()  # as a router does: a node may have told an old map
            return ours(nodes) <= before

        await until(is_as_before, f"no more than {before} connections")
        for task_id in ids:
            assert (await record_of(store, task_id)).state is State.PENDING
    asked = {name for node in nodes for name in connected(node.port).info("commandstats")}
    assert "cmdstat_cluster|slots" in asked
    assert "cmdstat_cluster|shards" not in asked, "it may never end: docs/decisions/0019"


@pytest.mark.parametrize(
    "times",
    [3, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
async def test_after_failovers_there_are_as_many_connections_as_before(
    nodes: list[RedisProcess], monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(nodes_module, "PART_AFTER_S", 0.2)
    await failovers(nodes, times)


@pytest.mark.long  # in short, and with much more around it, it is case C09
async def test_a_primary_that_is_dead_is_left_for_its_replica(nodes: list[RedisProcess]) -> None:
    async with opened([node.port for node in nodes]) as store:
        ids = [await eventually_stored(store, place) for place in PLACES]
        all_shared(nodes)
        nodes[0].kill()
        try:
            await asyncio.to_thread(fail_over, nodes[2], "TAKEOVER")
            await eventually_stored(store, PLACES[0])
            for task_id in ids:
                assert (await record_of(store, task_id)).state is State.PENDING
        finally:
            nodes[0].start()


async def test_a_seed_that_was_given_to_another_cluster_gets_nothing_while_ours_is_silent(
    tmp_path: Path,
) -> None:
    with cluster_nodes(tmp_path / "a", 1) as (ours,), cluster_nodes(tmp_path / "b", 1) as (other,):
        async with opened([ours.port, other.port]) as store:
            await eventually_stored(store, 0)
            os.kill(ours.pid, signal.SIGSTOP)
            try:
                with pytest.raises(StoreUnavailable, match="only nodes of another Cluster answer"):
                    await client_of(store).nodes.learn()
                assert isinstance(await outcome(store, a_task(an_id(0))), StoreUnavailable)
            finally:
                os.kill(ours.pid, signal.SIGCONT)
            await eventually_stored(store, 0)
        assert connected(other.port).dbsize() == 0


async def test_any_seed_will_do_also_a_replica(nodes: list[RedisProcess]) -> None:
    async with opened([*free_ports(2), nodes[3].port]) as store:
        for place in PLACES:
            assert isinstance(await outcome(store, a_task(an_id(place))), Stored)


@pytest.mark.parametrize(
    ("kind", "name", "seed", "reached"),
    [
        ("hostname", "localhost", "127.0.0.1", "localhost"),
        ("hostname", "", "localhost", "127.0.0.1"),  # none is announced: its address instead
        ("unknown-endpoint", "", "localhost", "localhost"),
    ],
)
async def test_nodes_are_reached_as_they_announce_themselves(
    nodes: list[RedisProcess], kind: str, name: str, seed: str, reached: str
) -> None:
    primaries = nodes[:2]
    await announce(nodes, kind, name)
    try:
        fleet = fleet_at("cluster", [])
        object.__setattr__(fleet.regions["eu-west"].redis, "nodes", (f"{seed}:{nodes[0].port}",))
        store = RegionStore(fleet.regions["eu-west"], fleet)
        for place in PLACES:
            assert isinstance(await outcome(store, a_task(an_id(place))), Stored)
        owners = client_of(store).nodes.owned_together().keys()
        await store.close()
        assert owners == {f"{reached}:{node.port}" for node in primaries}
    finally:
        await announce(nodes, "ip", "")


async def announce(nodes: Sequence[RedisProcess], kind: str, name: str) -> None:
    """Return once every node calls every other one so."""
    for node in nodes:
        connected(node.port).config_set("cluster-announce-hostname", name)
        connected(node.port).config_set("cluster-preferred-endpoint-type", kind)

    def known() -> bool:
        said = [ask(node.port, "CLUSTER NODES").splitlines() for node in nodes]
        places = [line.split()[1] for lines in said for line in lines if "@" in line]
        return all([*place.partition("@")[2].split(","), ""][1] == name for place in places)

    await until(known, f"all are called {name!r}")


@pytest.fixture
def slot(nodes: list[RedisProcess]) -> Iterator[Slot]:
    """The first partition's, which goes home afterwards."""
    number = int(connected(nodes[0].port).execute_command("CLUSTER KEYSLOT", keys_at(0).identity))
    slot = Slot([node.port for node in nodes[:2]], number)
    yield slot
    slot.hand_over()
    slot.close()
    settle(nodes)


async def test_a_slot_that_has_moved_is_followed_at_the_first_refusal(
    nodes: list[RedisProcess], slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waited_for() -> None:
        pytest.fail("the refusal names the owner: no call waits for the map")

    async with opened([nodes[0].port]) as store:
        task_id = await eventually_stored(store, 0)
        slot.hand_over()
        monkeypatch.setattr(client_of(store).nodes, "learn", waited_for)
        assert isinstance(await outcome(store, a_task(an_id(0))), Stored)
        assert client_of(store).nodes.address(0) == f"127.0.0.1:{nodes[1].port}"
        assert (await record_of(store, task_id)).state is State.PENDING


async def test_what_arrives_at_a_node_that_is_connected_already_is_verified(
    nodes: list[RedisProcess], slot: Slot
) -> None:
    async with opened([nodes[0].port]) as store:
        for place in PLACES:
            await eventually_stored(store, place)
        slot.hand_over()
        there = connected(nodes[1].port)
        there.hset(keys_at(0).identity, "deployment", "another")
        answer: Any = await outcome(store, a_task(an_id(0)))
        assert isinstance(answer, IdentityMismatch)
        assert isinstance(await outcome(store, a_task(an_id(PLACES[1]))), Stored)


async def test_a_slot_that_nobody_serves_is_waited_for(nodes: list[RedisProcess]) -> None:
    raw = connected(nodes[0].port)
    number = raw.execute_command("CLUSTER KEYSLOT", keys_at(0).identity)
    async with opened([nodes[0].port]) as store:
        await eventually_stored(store, 0)
        raw.execute_command("CLUSTER DELSLOTS", number)
        (refused,), _ = await store.enqueue([a_task(an_id(0))], timeout_s=0.2)
        assert isinstance(refused, StoreUnavailable)
        assert (refused.cause, refused.sent) == ("cluster down", False)
        task = a_task(an_id(0))
        submit = asyncio.create_task(store.enqueue([task], timeout_s=SOON_S))
        await asyncio.sleep(0)
        raw.execute_command("CLUSTER ADDSLOTS", number)
        (stored,), _ = await submit
        assert isinstance(stored, Stored)
        assert isinstance(await outcome(store, a_task(an_id(PLACES[1]))), Stored)
    settle(nodes)
