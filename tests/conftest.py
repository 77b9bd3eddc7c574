"""Servers and stores for every test: real ones, on free ports, ended with the session."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.local.scratch import RedisProcess, cluster_processes, redis_process
from tradewind.store.region_store import RegionStore
from tradewind.store.keys import PERMANENT

REGION_NAMES = ("eu-west", "us-east", "ap-south")


@pytest.fixture(scope="session")
def redis_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    """Three standalone servers that the session shares; every test finds them empty."""
    with (
        redis_process(tmp_path_factory.mktemp("redis-a")) as a,
        redis_process(tmp_path_factory.mktemp("redis-b")) as b,
        redis_process(tmp_path_factory.mktemp("redis-c")) as c,
    ):
        yield [a, b, c]


@pytest.fixture
def redis_server(redis_servers: list[RedisProcess]) -> Iterator[RedisProcess]:
    """One of them, empty."""
    _flush(redis_servers[0])
    yield redis_servers[0]


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """A server of this test's own, to be killed, filled or restarted."""
    with redis_process(tmp_path / "redis", ["--appendfsync", "always"]) as server:
        yield server


@pytest.fixture(scope="session")
def cluster_ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """A Cluster of three primaries that the session shares."""
    with cluster_processes(tmp_path_factory.mktemp("cluster")) as ports:
        yield list(ports)


def fleet_on(servers: list[RedisProcess], partitions: int = 16) -> Fleet:
    """A fleet with a region per server, groups eu, us, apac."""
    regions = {
        name: Region(name, RedisTarget("standalone", (f"127.0.0.1:{server.port}",)), (group,))
        for name, group, server in zip(REGION_NAMES, ("eu", "us", "apac"), servers, strict=False)
    }
    pairs = itertools.permutations(regions, 2)
    return Fleet(regions=regions, partitions=partitions, rtt_ms=dict.fromkeys(pairs, 50.0))


@pytest.fixture
def fleet(redis_servers: list[RedisProcess]) -> Iterator[Fleet]:
    """Three regions on empty servers; afterwards every key left must have an owner or a TTL."""
    for server in redis_servers:
        _flush(server)
    yield fleet_on(redis_servers)
    for server in redis_servers:
        assert leaked_keys(server.port) == []


@pytest.fixture(params=["standalone", "cluster"])
async def store(
    request: pytest.FixtureRequest, redis_servers: list[RedisProcess], cluster_ports: list[int]
) -> AsyncIterator[RegionStore]:
    """The store of one region, on each form of Redis."""
    fleet = fleet_on(redis_servers[:1])
    ports = [redis_servers[0].port]
    if request.param == "cluster":
        ports = cluster_ports
        target = RedisTarget("cluster", tuple(f"127.0.0.1:{port}" for port in ports))
        region = replace(fleet.regions["eu-west"], redis=target)
        fleet = replace(fleet, regions={"eu-west": region})
    for port in ports:
        redis.Redis(port=port).flushall()
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    yield one
    await one.close()
    await asyncio.sleep(0)
    assert [key for port in ports for key in leaked_keys(port)] == []


def leaked_keys(port: int) -> list[str]:
    """Keys without TTL that belong to no live or dead task and are not permanent (invariant 8)."""
    client = redis.Redis(port=port, decode_responses=True)
    keys = set(client.scan_iter(count=1000))
    tasks = {key.rpartition(":")[2] for key in keys if ":t:" in key and client.ttl(key) == -1}
    leaked: list[str] = []
    for key in sorted(keys):
        kind = key.partition("}:")[2]
        if kind in PERMANENT or client.ttl(key) != -1:
            continue
        match client.type(key):
            case "list":
                members = [member.partition(":")[0] for member in client.lrange(key, 0, -1)]
            case "zset":
                members = list(client.zrange(key, 0, -1))
            case _:
                members = [key.rpartition(":")[2]]
        if not tasks.issuperset(members):
            leaked.append(key)
    return leaked


def _flush(server: RedisProcess) -> None:
    redis.Redis(port=server.port).flushall()
