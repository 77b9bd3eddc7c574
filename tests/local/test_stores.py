"""What a region's Redis is made of, and what its nodes know of one another before they start."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.local import cluster_files, sentinel_files
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.plan import EmbeddedOptions, Layout, RegionPorts, targets, wan_links
from tradewind.local.prepare import choose_layout
from tradewind.local.redis_server import ServerBinary
from tradewind.local.store_files import file_of, lay_out, left_behind
from tradewind.local.stores import Form, Node, Store, form_of, store_of
from tradewind.store.cluster_map import Place, uncovered

EU, US = "eu-west", "us-east"
NEW, OLD = (8, 2, 3), (7, 0, 15)

FORMS = {
    # cluster, replicas: servers, Sentinels, ports
    "one server": (False, False, 1, 0, 1),
    "a primary with a replica, watched": (False, True, 2, 3, 5),
    "a Cluster": (True, False, 3, 0, 6),
    "a Cluster with replicas": (True, True, 6, 0, 12),
}


def store(*, cluster: bool = False, replicas: bool = False, first: int = 6401) -> Store:
    return store_of(EU, form_of(cluster=cluster, replicas=replicas), count(first))


@pytest.mark.parametrize(
    ("cluster", "replicas", "servers", "sentinels", "ports"), FORMS.values(), ids=FORMS
)
def test_a_form_has_so_many_processes_and_ports(
    cluster: bool, replicas: bool, servers: int, sentinels: int, ports: int
) -> None:
    made = store(cluster=cluster, replicas=replicas)
    assert (len(made.servers), len(made.sentinels)) == (servers, sentinels)
    assert made.ports == set(range(6401, 6401 + ports))
    assert made.form.ports == ports
    assert len(made.nodes) == made.form.nodes == len({node.process for node in made.nodes})
    assert made.servers[0].port == 6401  # that of the file


def test_no_two_forms_share_their_files() -> None:
    forms = [form_of(cluster=one, replicas=two) for one in (False, True) for two in (False, True)]
    assert len({form.directory for form in forms}) == len(forms)


def test_nodes_are_named_as_no_region_is() -> None:
    assert [node.process for node in store().nodes] == ["redis-eu-west"]
    assert [node.process for node in store(replicas=True).nodes] == [
        *("redis-eu-west.1", "redis-eu-west.2"),
        *(f"redis-eu-west.sentinel-{number}" for number in (1, 2, 3)),
    ]


TARGETS = {
    "one server": (store(), RedisTarget("standalone", ("127.0.0.1:6401",))),
    "Sentinels are asked, never the servers": (
        store(replicas=True),
        RedisTarget(
            "sentinel",
            ("127.0.0.1:6403", "127.0.0.1:6404", "127.0.0.1:6405"),
            service="main",
        ),
    ),
    "any node of a Cluster": (
        store(cluster=True),
        RedisTarget("cluster", ("127.0.0.1:6401", "127.0.0.1:6402", "127.0.0.1:6403")),
    ),
}


@pytest.mark.parametrize(("made", "direct"), TARGETS.values(), ids=TARGETS)
def test_clients_find_a_store_by_its_own_addresses_and_reach_it_through_proxies(
    made: Store, direct: RedisTarget
) -> None:
    assert made.target({}) == direct
    ways = {node.name: 9000 + place for place, node in enumerate(made.nodes)}
    through = {node.address: f"{LOOPBACK}:{ways[node.name]}" for node in made.nodes}
    assert made.target(ways) == replace(direct, through=through)


def test_each_node_of_a_cluster_has_a_link_of_its_own_from_each_viewer() -> None:
    stores = {
        US: store_of(US, form_of(cluster=True, replicas=False), count(6401)),
        EU: store_of(EU, form_of(cluster=True, replicas=False), count(6501)),
    }
    wan = {(US, f"{EU}.{number}"): 9000 + number for number in (1, 2, 3)}
    fleet = Fleet(
        {name: Region(name, RedisTarget("standalone", ("127.0.0.1:1",))) for name in stores},
        rtt_ms={(US, EU): 80.0, (EU, US): 80.0},
    )
    layout = Layout({name: RegionPorts(1, 2, 3) for name in stores}, stores, wan)
    links = wan_links(fleet, layout)
    assert {name: (link.target_port, link.delay_ms) for (_, name), link in links.items()} == {
        "eu-west.1": (6501, 40.0),
        "eu-west.2": (6502, 40.0),
        "eu-west.3": (6503, 40.0),
    }
    assert targets(layout, US)[EU].through == {
        "127.0.0.1:6501": "127.0.0.1:9001",
        "127.0.0.1:6502": "127.0.0.1:9002",
        "127.0.0.1:6503": "127.0.0.1:9003",
    }
    assert not targets(layout, EU)[EU].through


@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_layout_gives_every_node_and_every_link_a_port_of_its_own(
    tmp_path: Path, ephemeral: bool
) -> None:
    port, us_redis, eu_redis = free_ports(3)
    given = {US: us_redis, EU: eu_redis}
    fleet = Fleet(
        {
            name: Region(name, RedisTarget("standalone", (f"{LOOPBACK}:{redis}",)))
            for name, redis in given.items()
        }
    )
    options = EmbeddedOptions(
        *(tmp_path / "regions.yaml", None, tmp_path / "data", port),
        wan=True,
        cluster=True,
        replicas=True,
        ephemeral_ports=ephemeral,
    )
    layout = choose_layout(fleet, options)
    if not ephemeral:
        assert {name: made.servers[0].port for name, made in layout.stores.items()} == given
    ports = [number for made in layout.stores.values() for number in sorted(made.ports)]
    ports += [number for each in layout.regions.values() for number in (each.grpc, each.http)]
    ports += layout.wan.values()
    assert len(set(ports)) == len(ports) == 2 * 12 + 2 * 2 + 2 * 6


def served(text: str) -> dict[str, Place]:
    """By address, what a nodes.conf says of who serves what."""
    found: dict[str, Place] = {}
    for line in text.splitlines():
        _, address, flags, *rest = line.split()
        if "master" in flags:
            low, high = map(int, rest[5].split("-"))
            found[address.partition("@")[0]] = Place(address, slots=((low, high),))
    return found


@pytest.mark.parametrize("version", [NEW, OLD])
def test_nodes_are_born_knowing_each_other_and_who_serves_what(version: tuple[int, ...]) -> None:
    made = store(cluster=True, replicas=True)
    major, minor, patch = version
    texts = cluster_files.born(made.servers, 3, version=(major, minor, patch))
    assert len({text.replace("myself,", "") for text in texts}) == 1
    for node, text in zip(made.servers, texts, strict=True):
        assert cluster_files.port_in(text, node) == node.port
        assert uncovered(list(served(text).values())) == 0
        assert served(text).keys() == {each.address for each in made.servers[:3]}
        assert ("shard-id" in text) == (version == NEW)  # 7.0 takes it for a host name


def test_a_cluster_that_moves_keeps_ids_roles_and_slots() -> None:
    before, after = store(cluster=True), store(cluster=True, first=7401)
    texts = cluster_files.born(before.servers, 3, version=NEW)
    stranger = f"{'f' * 40} 127.0.0.1:9@19 slave,fail - 0 0 4 disconnected\n"
    moved = cluster_files.relocated([stranger + text for text in texts], after.servers)
    for text, was, node in zip(moved, texts, after.servers, strict=True):
        expected = stranger + was
        for old, new in zip(before.servers, after.servers, strict=True):
            expected = expected.replace(
                f"{old.address}@{old.bus_port}", f"{new.address}@{new.bus_port}"
            )
        assert text == expected
        assert cluster_files.port_in(text, node) == node.port


def test_a_nodes_conf_of_nobody_is_one_sentence() -> None:
    with pytest.raises(LocalSetupError, match=r"of eu-west\.1 does not say which node it is"):
        cluster_files.port_in("vars currentEpoch 3 lastVoteEpoch 0\n", store(cluster=True).nodes[0])


ONE, TWO = "port 6401\n", "port 6402\nreplicaof 127.0.0.1 6401\n"


def watched(port: int, epoch: int = 0) -> str:
    said = f"sentinel config-epoch main {epoch}\n" if epoch else ""
    return f"port 1\n{said}sentinel monitor main 127.0.0.1 {port} 2\n"


PRIMARIES: dict[str, tuple[list[str], list[str], int]] = {
    "the first, as it was born": ([ONE, TWO], [watched(6401)] * 3, 0),
    "whom the Sentinels have promoted": ([ONE, "port 6402\n"], [watched(6402, 1)] * 3, 1),
    "... also if one of them has not heard": (
        [ONE, "port 6402\n"],
        [watched(6401), watched(6402, 1), watched(6401)],
        1,
    ),
    "... and the newest word, not the most": (
        [ONE, TWO],
        [watched(6402, 2), watched(6401, 3), watched(6402, 2)],
        0,
    ),
    "by their own account where none is named": (
        ["port 6401\nreplicaof 127.0.0.1 6402\n", "port 6402\n"],
        [watched(9)],
        1,
    ),
    "the first where nobody says anything": ([TWO, TWO.replace("6402", "6403")], [], 0),
}


@pytest.mark.parametrize(("servers", "sentinels", "index"), PRIMARIES.values(), ids=PRIMARIES)
def test_who_was_primary_outlives_them_all(
    servers: list[str], sentinels: list[str], index: int
) -> None:
    assert sentinel_files.primary_among(servers, sentinels) == index


def server_of(version: tuple[int, int, int] = NEW) -> ServerBinary:
    return ServerBinary(Path("/nowhere/redis-server"), version)


def test_watched_servers_that_move_follow_the_primary_there(tmp_path: Path) -> None:
    before, after = store(replicas=True), store(replicas=True, first=7401)
    lay_out(before, tmp_path, server_of())
    promoted = before.servers[1]
    for sentinel in before.sentinels:
        file_of(before, tmp_path, sentinel).write_text(watched(promoted.port, 1))
    lay_out(after, tmp_path, server_of())
    texts = [file_of(after, tmp_path, node).read_text() for node in after.nodes]
    assert texts[:2] == ["port 7401\nreplicaof 127.0.0.1 7402\n", "port 7402\n"]
    for text, sentinel in zip(texts[2:], after.sentinels, strict=True):
        assert f"port {sentinel.port}\n" in text
        assert "sentinel monitor main 127.0.0.1 7402 2\n" in text
        assert "sentinel known-replica main 127.0.0.1 7401\n" in text
        assert text.count("known-sentinel") == 2


@pytest.mark.parametrize("form", [form_of(cluster=c, replicas=True) for c in (True, False)])
def test_a_region_is_laid_out_whole_or_not_at_all(tmp_path: Path, form: Form) -> None:
    made = store_of(EU, form, count(6401))
    assert left_behind(made, tmp_path) == []
    (tmp_path / f"{form.directory}.new" / "1").mkdir(parents=True)  # of a start that was ended
    lay_out(made, tmp_path, server_of())
    assert [port for port, _ in left_behind(made, tmp_path)] == [n.port for n in made.servers]

    lost: Node = made.servers[1]
    file_of(made, tmp_path, lost).unlink()
    with pytest.raises(LocalSetupError, match=f"remove {tmp_path / form.directory} to begin anew"):
        left_behind(made, tmp_path)
