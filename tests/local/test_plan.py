import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tradewind.fleet import Fleet, RedisTarget, Region, Tls
from tradewind.local.errors import LocalSetupError
from tradewind.local.plan import (
    Layout,
    RegionPorts,
    redis_ports,
    router_argv,
    seeing,
    targets,
    wan_links,
    wan_pairs,
    worker_argv,
)
from tradewind.local.stores import form_of, store_of
from tradewind.local.wan import Link
from tradewind.policy_file import redis_at

US, EU, AP = "us-east", "eu-west", "ap-south"


def standalone(node: str) -> RedisTarget:
    return RedisTarget(kind="standalone", nodes=(node,))


def behind(target: RedisTarget, way: str) -> RedisTarget:
    """The same through a proxy; there is none where the way is its address."""
    [node] = target.nodes
    return target if way == node else replace(target, through={node: way})


def fleet(*found: RedisTarget) -> Fleet:
    names = (US, EU, AP)[: len(found)]
    regions = {name: Region(name, target) for name, target in zip(names, found, strict=True)}
    rtt_ms = {(US, EU): 89.0, (EU, US): 91.0, (US, AP): 214.0, (AP, US): 214.0}
    return Fleet(regions=regions, rtt_ms=rtt_ms)


TWO = fleet(standalone("127.0.0.1:6401"), standalone("localhost:6402"))
THREE = fleet(*(standalone(f"127.0.0.1:{port}") for port in (6401, 6402, 6403)))
TWO_PORTS = {US: RegionPorts(7070, 8070, 8071), EU: RegionPorts(7071, 8072, 8073)}
ALONE = form_of(cluster=False, replicas=False)
TWO_STORES = {US: store_of(US, ALONE, iter([6401])), EU: store_of(EU, ALONE, iter([6402]))}
DIRECT = Layout(TWO_PORTS, TWO_STORES)
FAR = Layout(TWO_PORTS, TWO_STORES, wan={(US, EU): 9001, (EU, US): 9002})


def test_redis_listens_where_the_file_says() -> None:
    assert redis_ports(TWO) == {US: 6401, EU: 6402}


UNFIT = {
    "another machine": (standalone("10.0.0.1:6402"), "region eu-west is not on this machine's"),
    "every address": (standalone("0.0.0.0:6402"), "redis://127.0.0.1:6401"),
    "a cluster": (RedisTarget("cluster", ("127.0.0.1:6402",)), "region eu-west is not"),
    "a sentinel": (RedisTarget("sentinel", ("127.0.0.1:6402",)), "region eu-west is not"),
    "a unix socket": (RedisTarget("unix", ("/run/redis.sock",)), "region eu-west is not"),
    "a port used twice": (standalone("127.0.0.1:6401"), "us-east and eu-west share port 6401"),
    "a password": (RedisTarget("standalone", ("127.0.0.1:6402",), password="x"), "a password"),
    "a user": (RedisTarget("standalone", ("127.0.0.1:6402",), username="x"), "a user"),
    "TLS": (RedisTarget("standalone", ("127.0.0.1:6402",), tls=Tls()), "TLS"),
}


@pytest.mark.parametrize(("second", "says"), UNFIT.values(), ids=UNFIT)
def test_a_region_that_cannot_be_embedded_is_named(second: RedisTarget, says: str) -> None:
    with pytest.raises(LocalSetupError) as caught:
        redis_ports(fleet(standalone("127.0.0.1:6401"), second))
    assert says in str(caught.value)


def test_every_way_between_two_regions_has_a_pair() -> None:
    assert wan_pairs(THREE) == [(US, EU), (US, AP), (EU, US), (EU, AP), (AP, US), (AP, EU)]
    assert wan_pairs(TWO, home=True) == [(US, EU), (EU, US), (US, US), (EU, EU)]
    processes = (f"router-{US}", f"router-{EU}", f"worker-{US}", f"worker-{EU}")
    assert wan_pairs(TWO, apart=True) == [(each, to) for each in processes for to in (US, EU)]


def test_a_link_delays_each_way_by_half_the_round_trip() -> None:
    assert wan_links(TWO, FAR) == {
        (US, EU): Link(9001, "127.0.0.1", 6402, 44.5),
        (EU, US): Link(9002, "127.0.0.1", 6401, 45.5),
    }


def test_a_process_with_a_way_of_its_own_is_as_far_away_as_its_region() -> None:
    ways = {(f"worker-{EU}", US): 9001, (f"router-{US}", US): 9002}
    layout = Layout(TWO_PORTS, TWO_STORES, ways, apart=True)
    assert wan_links(TWO, layout) == {
        (f"worker-{EU}", US): Link(9001, "127.0.0.1", 6401, 45.5),
        (f"router-{US}", US): Link(9002, "127.0.0.1", 6401, 0),
    }
    near = standalone("127.0.0.1:6401")
    assert targets(layout, layout.viewer("worker", EU))[US] == behind(near, "127.0.0.1:9001")
    assert targets(layout, layout.viewer("router", EU))[US] == near


def test_a_way_that_the_table_does_not_know_has_no_delay() -> None:
    stores = {**TWO_STORES, AP: store_of(AP, ALONE, iter([6403]))}
    layout = Layout({**TWO_PORTS, AP: RegionPorts(1, 2, 3)}, stores, wan={(EU, AP): 9003})
    assert wan_links(THREE, layout) == {(EU, AP): Link(9003, "127.0.0.1", 6403, 0)}


NODES = {
    "without delays everything is direct": (DIRECT, US, 6401, 6402),
    "the others are behind their proxies": (FAR, US, 6401, 9001),
    "each region has proxies of its own": (FAR, EU, 9002, 6402),
}


@pytest.mark.parametrize(("layout", "viewer", "us", "eu"), NODES.values(), ids=NODES)
def test_a_process_is_told_where_each_redis_is(
    layout: Layout, viewer: str, us: int, eu: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = targets(layout, viewer)
    assert seen == {
        US: behind(standalone("127.0.0.1:6401"), f"127.0.0.1:{us}"),
        EU: behind(standalone("127.0.0.1:6402"), f"127.0.0.1:{eu}"),
    }
    for name, text in seeing(seen).items():
        monkeypatch.setenv(name, text)
    assert redis_at() == seen


def test_command_lines() -> None:
    config, ports = Path("/c/regions.yaml"), TWO_PORTS[EU]
    where = ["--config", "/c/regions.yaml", "--region", EU]
    assert router_argv(config, EU, ports) == [
        *(sys.executable, "-P", "-m", "router", *where),
        *("--listen", "127.0.0.1:7071", "--http", "127.0.0.1:8072"),
    ]
    assert worker_argv(config, EU, ports, "./app.py:app", ["--concurrency", "8"]) == [
        *(sys.executable, "-P", "-m", "worker", *where, "--app", "./app.py:app"),
        *("--http", "127.0.0.1:8073", "--concurrency", "8"),
    ]
