"""Servers and stores for every test: real ones, on free ports, ended with the session."""

import itertools
import logging
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import redis
from hypothesis import settings

from tests.redis_keys import connected, fresh, leaked_keys, wrong_counts
from tests.sharded import IS_ON, sharded, target_of
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.local.errors import LocalSetupError
from tradewind.local.redis_server import find_server
from tradewind.local.scratch import (
    RedisProcess,
    Watched,
    cluster_processes,
    redis_process,
    watched_servers,
)
from tradewind.store.region_store import RegionStore

# How long an example takes says more of the machine's other work than of ours.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

#: Whose levels the code sets: the root, our packages, and what a command line listens to.
LOGGERS = ("", "router", "worker", "tradewind", "tradewind.client")
Kind = Literal["standalone", "cluster", "sentinel"]
#: What the store runs on. Behind Sentinels, to the store's scripts, is one more standalone server:
#: tests/contract/test_redis_sentinel.py has what differs, and `make test-all` runs everything.
FORMS = ("standalone", "cluster", pytest.param("sentinel", marks=pytest.mark.every_form))
REGIONS = {"eu-west": "eu", "us-east": "us", "ap-south": "apac"}  # with their residency group


def pytest_report_header() -> str:
    """The suite runs on several versions (tools/test_all.py): say which one this is."""
    try:
        server = find_server()
    except LocalSetupError as missing:
        return f"redis-server: none ({missing})"
    return f"redis-server: {'.'.join(map(str, server.version))}, {server.path}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where regions are Clusters, only those run to which that makes a difference."""
    if not IS_ON:
        return
    by_form: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        uses = "shared_servers" in getattr(item, "fixturenames", ())
        by_form[uses and item.get_closest_marker("standalone") is None].append(item)
    items[:] = by_form[True]
    config.hook.pytest_deselected(items=by_form[False])


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell that starts the suite in the background ignores Ctrl-C for it and all its children.

    A handler of our own does not outlive exec, so children have the default again.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def levels_stay() -> Iterator[None]:
    """A level that a test sets, or a command that it runs in here, is no other test's."""
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture(scope="session")
def shared_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    """Three standalone servers of the session, as the test before left them."""
    a_server = sharded if IS_ON else redis_process
    with (
        a_server(tmp_path_factory.mktemp("redis-a")) as a,
        a_server(tmp_path_factory.mktemp("redis-b")) as b,
        a_server(tmp_path_factory.mktemp("redis-c")) as c,
    ):
        yield [a, b, c]


@pytest.fixture
def redis_servers(shared_servers: list[RedisProcess]) -> list[RedisProcess]:
    """The same, empty. What another test left, its identity above all, would make a region down."""
    for server in shared_servers:
        fresh(server.port)
    return shared_servers


@pytest.fixture
def redis_server(redis_servers: list[RedisProcess]) -> RedisProcess:
    """One of them."""
    return redis_servers[0]


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """A server of this test's own, to be killed, filled or restarted."""
    with redis_process(tmp_path / "redis", ["--appendfsync", "always"]) as server:
        yield server


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """A Cluster of three primaries, of the session: its ports."""
    debug = ["--enable-debug-command", "local"]  # digests of keys
    with cluster_processes(tmp_path_factory.mktemp("cluster"), extra_args=debug) as ports:
        yield list(ports)


@pytest.fixture
def cluster_ports(shared_cluster: list[int]) -> list[int]:
    """The same, empty."""
    for port in shared_cluster:
        fresh(port)
    return shared_cluster


@pytest.fixture(scope="session")
def shared_watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A primary and a replica that three Sentinels watch, of the session. Nobody fails it over."""
    with watched_servers(tmp_path_factory.mktemp("sentinel")) as watched:
        yield watched


@pytest.fixture
def watched(shared_watched: Watched) -> Watched:
    """The same, empty."""
    fresh(shared_watched.primary.port)
    return shared_watched


@pytest.fixture
def sentinel_ports(watched: Watched) -> list[int]:
    """Where its Sentinels listen."""
    return [sentinel.port for sentinel in watched.sentinels]


def fleet_on(servers: Sequence[RedisProcess], partitions: int = 16) -> Fleet:
    """A fleet with a region per server, groups eu, us, apac."""
    regions = {
        name: Region(name, target_of(server), (group,))
        for (name, group), server in zip(REGIONS.items(), servers, strict=False)
    }
    pairs = itertools.permutations(regions, 2)
    return Fleet(regions=regions, partitions=partitions, rtt_ms=dict.fromkeys(pairs, 50.0))


def fleet_at(kind: Kind, ports: Sequence[int]) -> Fleet:
    """A fleet of one region, eu-west, on the Redis that listens there; of Sentinels their ports."""
    service = "main" if kind == "sentinel" else ""
    target = RedisTarget(kind, tuple(f"127.0.0.1:{port}" for port in ports), service)
    return Fleet(regions={"eu-west": Region("eu-west", target, ("eu",))}, partitions=16)


@pytest.fixture
def fleet(redis_servers: list[RedisProcess]) -> Iterator[Fleet]:
    """Three regions on empty servers; afterwards every key left must have an owner or a TTL."""
    yield fleet_on(redis_servers)
    for server in redis_servers:
        assert leaked_keys(server.port) == []


@dataclass(frozen=True, slots=True)
class Site:
    """An empty Redis of some form: where its data is, and how the store finds it."""

    kind: Kind
    ports: list[int]  # of the servers that hold the data
    fleet: Fleet


@pytest.fixture(params=FORMS)
def site(request: pytest.FixtureRequest) -> Site:
    """The Redis behind `store`, empty."""
    return site_of(request, request.param)


@pytest.fixture
def store_ports(site: Site) -> list[int]:
    """Where its data is."""
    return site.ports


def site_of(request: pytest.FixtureRequest, kind: Kind) -> Site:
    """The session's Redis of that kind, empty."""
    if kind == "cluster":
        ports: list[int] = request.getfixturevalue("cluster_ports")
        return Site(kind, ports, fleet_at(kind, ports))
    if kind == "sentinel":
        watched: Watched = request.getfixturevalue("watched")
        sentinels: list[int] = request.getfixturevalue("sentinel_ports")
        return Site(kind, [watched.primary.port], fleet_at(kind, sentinels))
    servers: list[RedisProcess] = request.getfixturevalue("redis_servers")
    return Site(kind, [servers[0].port], fleet_at(kind, [servers[0].port]))


@asynccontextmanager
async def opened(site: Site) -> AsyncGenerator[RegionStore]:
    """The store of one region there; afterwards counts and keys are checked."""
    one = RegionStore(site.fleet.regions["eu-west"], site.fleet)
    await one.start()
    yield one
    await one.close()
    assert wrong_counts(*site.ports) == {}
    assert [key for port in site.ports for key in leaked_keys(port)] == []


@pytest.fixture
async def redis_store(site: Site) -> AsyncIterator[RegionStore]:
    """The store of one region, on each form of Redis."""
    async with opened(site) as one:
        yield one


@pytest.fixture
def store(redis_store: RegionStore) -> RegionStore:
    """The same; tests/contract has one more form of it."""
    return redis_store


@pytest.fixture
def raw(store_ports: list[int]) -> Iterator[Any]:
    """The Redis behind `store`, past all our code: to look, and to prepare what is rare."""
    if len(store_ports) == 1:
        client = connected(store_ports[0])
    else:
        client = cast("Any", redis.RedisCluster)(
            host="127.0.0.1", port=store_ports[0], decode_responses=True
        )
    yield client
    client.close()
