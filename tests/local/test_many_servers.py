"""Regions whose Redis is several servers: started, broken, and started again elsewhere."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness.patience import PATIENCE_S, until
from tradewind import Client, regions
from tradewind.cli.up import ECHO_APP, STARTER
from tradewind.local.embedded import EmbeddedFleet
from tradewind.local.freeports import free_ports
from tradewind.local.plan import EmbeddedOptions
from tradewind.local.redis_server import ask, find_server
from tradewind.local.store_files import file_of, lay_out
from tradewind.local.store_specs import store_specs
from tradewind.local.stores import Node, Store, form_of, store_of
from tradewind.local.supervisor import Supervisor

US, EU = "us-east", "eu-west"
HASTY = "CONFIG SET cluster-node-timeout 500"  # so that a failover takes a second
KEYS = [f"key-{number}" for number in range(20)]  # on all primaries


def served(node: Node, command: str) -> str:
    """The first line that a server answers, nothing if it does not."""
    try:
        return ask(node.port, command).partition("\r\n")[0]
    except OSError:
        return ""


def kept(store: Store) -> list[str]:
    """The keys that some server has and serves."""
    return [key for key in KEYS if any(served(n, f"GET {key}") == "$1" for n in store.servers)]


def is_primary(port: int) -> bool:
    try:
        return "role:master" in ask(port, "INFO replication")
    except OSError:
        return False


def ids(nodes: Sequence[Node]) -> list[str]:
    return [ask(node.port, "CLUSTER MYID").splitlines()[1] for node in nodes]


@asynccontextmanager
async def started(home: Path, *, cluster: bool) -> AsyncGenerator[tuple[Store, Supervisor]]:
    """A region's Redis alone, with replicas, on ports that nobody has used."""
    form = form_of(cluster=cluster, replicas=True)
    store = store_of(EU, form, iter(free_ports(form.ports)))
    lay_out(store, home, find_server())
    supervisor = Supervisor([store_specs(find_server(), store, home, home / "logs")])
    await supervisor.start()
    try:
        yield store, supervisor
    finally:
        await supervisor.stop()


async def lost(supervisor: Supervisor, node: Node) -> None:
    """Kill it, and keep it away."""
    supervisor.disable_restart(node.process)
    supervisor.kill(node.process)
    await until(lambda: supervisor.pid_of(node.process) is None, f"{node.name} is gone")


@pytest.mark.cluster
@pytest.mark.long
async def test_a_cluster_that_failed_over_is_the_same_one_at_other_ports(tmp_path: Path) -> None:
    async with started(tmp_path, cluster=True) as (store, supervisor):
        for node in store.servers:
            ask(node.port, HASTY)
        for key in KEYS:
            assert any(served(node, f"SET {key} 1") == "+OK" for node in store.servers)
        first, heir = store.servers[0], store.servers[store.form.primaries]
        was = ids(store.servers)
        await lost(supervisor, first)
        await until(lambda: is_primary(heir.port), "its replica has taken over")
        await until(lambda: kept(store) == KEYS, "all keys are served again")

    async with started(tmp_path, cluster=True) as (moved, _):
        assert not moved.ports & store.ports
        assert ids(moved.servers) == was
        assert kept(moved) == KEYS
        heir = moved.servers[store.form.primaries]
        await until(
            lambda: is_primary(heir.port) and not is_primary(moved.servers[0].port),
            "they have the roles that they had, and the former primary knows it",
        )


@pytest.mark.long  # Sentinels take some ten seconds
async def test_watched_servers_that_failed_over_are_so_at_other_ports(tmp_path: Path) -> None:
    async with started(tmp_path, cluster=False) as (store, supervisor):
        first, heir = store.servers
        assert served(first, f"SET {KEYS[0]} 1") == "+OK"
        await lost(supervisor, first)
        files = [file_of(store, tmp_path, sentinel) for sentinel in store.sentinels]
        # Before that clients are told of the former one, by most Sentinels.
        watching = f"sentinel monitor main 127.0.0.1 {heir.port} "
        await until(
            lambda: any(watching in file.read_text() for file in files), "a Sentinel knows it"
        )
        for key in KEYS[1:]:  # the former primary has none of these
            assert served(heir, f"SET {key} 1") == "+OK"

    async with started(tmp_path, cluster=False) as (moved, _):
        assert [is_primary(node.port) for node in moved.servers] == [False, True]
        assert kept(moved) == KEYS


@asynccontextmanager
async def fleet(home: Path, *, cluster: bool, replicas: bool) -> AsyncGenerator[EmbeddedFleet]:
    """The regions of `tradewind up` with delays between them, serving."""
    options = EmbeddedOptions(
        config=STARTER,
        app=ECHO_APP,
        data_dir=home / "data",
        wan=True,
        cluster=cluster,
        replicas=replicas,
        ephemeral_ports=True,
        stop_grace_s=1.0,
    )
    running = EmbeddedFleet(regions.load(STARTER), options)
    await running.start()
    try:
        await running.until_served()
        yield running
    finally:
        running.hurry()
        await running.stop()


async def ran(client: Client, region: str, count: int) -> list[str]:
    """Submit tasks to a region, wait for them, and tell where they ran."""
    receipts = await asyncio.gather(
        *(client.submit("echo", {"text": f"{n}"}, pin_region=region) for n in range(count))
    )
    done = await asyncio.gather(
        *(client.wait(receipt.task_id, timeout=PATIENCE_S) for receipt in receipts)
    )
    return [view.region for view in done]


@pytest.mark.cluster
async def test_three_clusters_far_from_each_other_each_run_their_tasks(tmp_path: Path) -> None:
    plan = regions.load(STARTER)
    async with (
        fleet(tmp_path, cluster=True, replicas=False) as running,
        Client(running.endpoints[US].grpc, origin_region=US) as client,
    ):
        assert {end.redis.kind for end in running.endpoints.values()} == {"cluster"}
        for region in plan.regions:
            # More tasks than one node has partitions of: all nodes are reached.
            assert await ran(client, region, 30) == [region] * 30
        found, silent = await client.admin.regions()
        assert not silent
        rtt_ms = {each.name: each.rtt_ms or 0.0 for each in found}
        assert all(rtt_ms[far] >= plan.rtt_ms[US, far] for far in plan.regions if far != US)
        route = await client.explain("echo")
        assert route.policy_version == plan.version  # that of the file


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("cluster", [True, False], ids=["cluster", "sentinel"])
async def test_a_region_serves_again_without_the_primary_that_was_killed(
    tmp_path: Path, cluster: bool
) -> None:
    heard: list[str] = []
    async with (
        fleet(tmp_path, cluster=cluster, replicas=True) as running,
        # A region that was out is asked for a task half a minute later: docs/routing.md.
        Client(running.endpoints[US].grpc, origin_region=US, deadline=2 * PATIENCE_S) as client,
    ):
        following = asyncio.create_task(running.follow(heard.append))
        assert await ran(client, US, 20) == [US] * 20
        (running.outage_dir / f"redis-{US}.1").touch()
        await until(lambda: len(heard) == 1, "it was killed")
        if cluster:  # tasks take other partitions meanwhile
            heir = running.endpoints[US].redis.nodes[3]
            await until(lambda: is_primary(int(heir.rpartition(":")[2])), "its replica took over")
        assert await ran(client, US, 20) == [US] * 20
        assert running.supervisor.pid_of(f"redis-{US}.1") is None

        (running.outage_dir / US).touch()
        await until(lambda: len(heard) == 2, "the whole region was killed")
        (running.outage_dir / US).unlink()  # what is asked for beside it stays away
        await until(lambda: len(heard) == 3, "the rest of it is back")
        assert running.supervisor.pid_of(f"redis-{US}.1") is None
        assert running.supervisor.pid_of(f"redis-{US}.2") is not None
        assert await ran(client, US, 20) == [US] * 20
        (running.outage_dir / f"redis-{US}.1").unlink()
        await until(lambda: len(heard) == 4, "all of it is back")
        assert [said.partition(" ")[0] for said in heard] == [
            *(f"redis-{US}.1", US, US, f"redis-{US}.1")
        ]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
