"""What doctor says of what was seen: one row a finding, and nothing but OK of a sound region."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tradewind.doctor import (
    Finding,
    KeySample,
    Needs,
    NodeFacts,
    PartitionFacts,
    RegionFacts,
    Rights,
    Severity,
    SilentNode,
    Watcher,
    examine,
    needs_of,
    together,
)
from tradewind.fleet import Fleet, QueuePolicy, RedisTarget, Region

OK, INFO, WARNING, ERROR = Severity
MIB, GIB = 2**20, 2**30
NEEDS = Needs("tradewind", 4, range(2, 3))
IDENTITY = {"deployment": "tradewind", "region": "eu", "partitions": "4", "format": "2"}
SOUND = {
    "redis_version": "8.2.3",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "maxmemory": str(GIB),
    "used_memory": str(100 * MIB),
    "total_system_memory": str(4 * GIB),
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "connected_clients": "12",
    "maxclients": "10000",
}
SET = {
    "save": "",
    "appendfsync": "everysec",
    "min-replicas-to-write": "0",
    "hash-max-listpack-value": "1024",
    "cluster-require-full-coverage": "no",
}
WITH_REPLICA = {"connected_slaves": "1", "slave0": "ip=10.0.0.2,port=6379,state=online,lag=1"}
GUARDED = {"min-replicas-to-write": "1"}


def a_node(
    info: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    *,
    address: str = "r:1",
    **fields: Any,
) -> NodeFacts:
    shown: dict[str, Any] = {"pings_ms": (0.2, 0.3, 9.0), **fields}
    return NodeFacts(address, {**SOUND, **(info or {})}, {**SET, **(config or {})}, **shown)


def partitions(*nodes: str, **fields: Any) -> tuple[PartitionFacts, ...]:
    return tuple(
        PartitionFacts(number, node, IDENTITY, **fields) for number, node in enumerate(nodes)
    )


def a_region(*nodes: NodeFacts, **fields: Any) -> RegionFacts:
    shown: dict[str, Any] = {
        "partitions": partitions("r:1", "r:1", "r:1", "r:1"),
        "rights": Rights("tw", is_known=True),
    }
    kind = fields.pop("kind", "standalone")
    return RegionFacts("eu", kind, nodes or (a_node(),), **(shown | fields))


def a_cluster(*nodes: NodeFacts, **fields: Any) -> RegionFacts:
    """Two primaries that each have a replica, two partitions each."""
    nodes = nodes or tuple(
        a_node(WITH_REPLICA, GUARDED, address=address) for address in ("r:1", "r:2")
    )
    shown = {"partitions": partitions("r:1", "r:1", "r:2", "r:2")}
    return a_region(*nodes, kind="cluster", **(shown | fields))


def a_watched(*watchers: Watcher) -> RegionFacts:
    """A primary with a replica, and two Sentinels that agree, beside others."""
    sound = (Watcher("s:1", names="r:1"), Watcher("s:2", names="r:1"))
    node = a_node(WITH_REPLICA, GUARDED)
    return a_region(node, kind="sentinel", watchers=(*sound, *watchers))


def test_a_sound_region_is_told_to_be_so() -> None:
    watched = a_watched(Watcher("s:3", names="r:1"))
    for region in (a_region(), a_cluster(), a_region(a_node(WITH_REPLICA, GUARDED)), watched):
        found = examine(region, NEEDS)
        assert {finding.severity for finding in found} == {OK}
        assert all(finding.found and not finding.mend for finding in found)


Row = tuple[RegionFacts, Severity, str, str, str]
ROWS: dict[str, Row] = {
    "a version that knows no flags": (
        a_region(a_node({"redis_version": "6.2.14"})), ERROR, "version", "6.2.14", "7.0 or newer",
    ),
    "a policy that would delete tasks": (
        a_region(a_node({"maxmemory_policy": "allkeys-lru"})),
        ERROR, "eviction", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction",
    ),
    "a policy that was changed after keys were lost": (
        a_region(a_node({"evicted_keys": "7"})),
        WARNING, "eviction", "noeviction, 7 keys evicted since its start", "CONFIG RESETSTAT",
    ),
    "no limit of memory": (
        a_region(a_node({"maxmemory": "0"})),
        WARNING, "memory", "100.0 MiB used, no limit", "CONFIG SET maxmemory 3072mb",
    ),
    "a limit above three quarters of the machine": (
        a_region(a_node({"maxmemory": str(GIB), "total_system_memory": str(GIB)})),
        WARNING, "memory", "100.0 MiB used of 1.0 GiB, on a machine of 1.0 GiB",
        "CONFIG SET maxmemory 768mb",
    ),
    "a full Redis": (
        a_region(a_node({"used_memory": str(GIB)})),
        ERROR, "memory", "1.0 GiB used of 1.0 GiB", "add workers",
    ),
    "a nearly full Redis": (
        a_region(a_node({"used_memory": str(int(0.95 * GIB))})),
        WARNING, "memory", "972.8 MiB used of 1.0 GiB", "add workers",
    ),
    "records that are not packed": (
        a_region(a_node(config={"hash-max-listpack-value": "64"})),
        INFO, "packing", "hash-max-listpack-value 64", "CONFIG SET hash-max-listpack-value 1024",
    ),
    "a login that may not read the configuration": (
        replace(a_region(), nodes=(replace(a_node(), config={}),)),
        INFO, "configuration", "its login may not read it", "+config|get",
    ),
    "a disk that takes no log": (
        a_region(a_node({"aof_last_write_status": "err"})),
        ERROR, "persistence", "its last write to the log failed", "the disk",
    ),
    "a log that nobody syncs": (
        a_region(a_node(config={"appendfsync": "no"})),
        WARNING, "persistence", "AOF, appendfsync no", "CONFIG SET appendfsync everysec",
    ),
    "nothing on disk": (
        a_region(a_node({"aof_enabled": "0"})),
        WARNING, "persistence", "none", "CONFIG SET appendonly yes",
    ),
    "snapshots alone": (
        a_region(a_node({"aof_enabled": "0"}, {"save": "3600 1"})),
        WARNING, "persistence", "snapshots only", "CONFIG SET appendonly yes",
    ),
    "a log that cannot be rewritten": (
        a_region(a_node({"aof_last_bgrewrite_status": "err"})),
        WARNING, "persistence", "its last rewrite of the log failed", "BGREWRITEAOF",
    ),
    "a snapshot that failed and stops writes": (
        a_region(a_node({"rdb_last_bgsave_status": "err"}, {"save": "3600 1"})),
        ERROR, "persistence", "its last snapshot failed", "BGSAVE",
    ),
    "a snapshot that failed and stops nothing": (
        a_region(a_node({"rdb_last_bgsave_status": "err"})),
        WARNING, "persistence", "its last snapshot failed", "BGSAVE",
    ),
    "a replica that is late": (
        a_region(a_node({**WITH_REPLICA, "slave0": "ip=a,port=2,state=online,lag=12"}, GUARDED)),
        WARNING, "replicas", "behind: a:2 12 s", "client-output-buffer-limit",
    ),
    "a replica that is still loading": (
        a_region(a_node({**WITH_REPLICA, "slave0": "ip=a,port=2,state=wait_bgsave,lag=0"})),
        WARNING, "replicas", "not online: a:2", "client-output-buffer-limit",
    ),
    "a primary that goes on alone": (
        a_region(a_node(WITH_REPLICA)),
        WARNING, "min-replicas", "min-replicas-to-write 0", "CONFIG SET min-replicas-to-write 1",
    ),
    "a primary that wants more replicas than there are": (
        a_region(a_node(config=GUARDED)),
        ERROR, "min-replicas", "min-replicas-to-write 1, 0 replicas online",
        "CONFIG SET min-replicas-to-write 0",
    ),
    "a replica that has lost its primary": (
        a_region(a_node(), a_node({"role": "slave", "master_link_status": "down"}, address="r:2")),
        ERROR, "replicas", "this replica has lost its primary", "see its log",
    ),
    "too many connections": (
        a_region(a_node({"connected_clients": "9000"})),
        WARNING, "connections", "9,000 of 10,000", "CONFIG SET maxclients 20000",
    ),
    "connections that were turned away": (
        a_region(a_node({"rejected_connections": "3"})),
        INFO, "connections", "12 of 10,000, 3 turned away since its start", "CONFIG RESETSTAT",
    ),
    "a clock that is wrong": (
        a_region(a_node(skew_ms=-5_000.0, skew_error_ms=1.0)),
        WARNING, "clock", "-5.0 s against this machine", "NTP",
    ),
    "a node far away": (
        a_region(a_node(pings_ms=(80.0, 81.0, 300.0))), INFO, "latency", "81 ms", "far from here",
    ),
    "nobody at the address": (
        RegionFacts("eu", "standalone", silent=(SilentNode("r:1", "connection refused"),)),
        ERROR, "reachable", "r:1: connection refused", "regions.yaml",
    ),
    "a replica at the address": (
        a_region(a_node({"role": "slave"})),
        ERROR, "nodes", "a replica, no primary", "name the primary",
    ),
    "a primary that does not answer": (
        a_cluster(silent=(SilentNode("r:3", "no answer in time"),)),
        ERROR, "nodes", "a primary does not answer: no answer in time", "with its data",
    ),
    "a replica that does not answer": (
        a_cluster(silent=(SilentNode("r:3", "no answer in time", is_primary=False),)),
        WARNING, "nodes", "a replica does not answer: no answer in time", "CLUSTER FORGET",
    ),
    "a Cluster of which one primary has no replica": (
        a_cluster(a_node(WITH_REPLICA, GUARDED, address="r:1"), a_node(address="r:2")),
        WARNING, "nodes", "1 of 2 primaries without a replica", "CLUSTER REPLICATE",
    ),
    "slots of a primary that is dead": (
        a_cluster(silent_slots=5_461),
        ERROR, "coverage", "5,461 slots of primaries that do not answer", "with their data",
    ),
    "a replica without a limit, which it will need": (
        a_cluster(
            *(a_node(WITH_REPLICA, GUARDED, address=at) for at in ("r:1", "r:2")),
            a_node({"role": "slave", "maxmemory": "0"}, address="r:3"),
        ),
        WARNING, "memory", "100.0 MiB used, no limit", "CONFIG SET maxmemory 3072mb",
    ),
    "a Cluster without replicas": (
        a_cluster(a_node(address="r:1"), a_node(address="r:2")),
        WARNING, "nodes", "2 primaries, no replica", "CLUSTER REPLICATE",
    ),
    "nodes whose clocks differ": (
        a_cluster(
            a_node(WITH_REPLICA, GUARDED, address="r:1", skew_ms=900.0, skew_error_ms=1.0),
            a_node(WITH_REPLICA, GUARDED, address="r:2", skew_ms=-900.0, skew_error_ms=1.0),
        ),
        WARNING, "clocks", "1.8 s apart", "NTP",
    ),
    "a Sentinel that is gone": (
        a_watched(Watcher("s:3", cause="connection refused")),
        WARNING, "sentinels", "one names no primary: connection refused", "start it",
    ),
    "Sentinels that disagree": (
        a_watched(Watcher("s:3", names="r:2")), WARNING, "sentinels", "they name r:1, r:2", "RESET",
    ),
    "too few Sentinels": (
        a_watched(), WARNING, "sentinels", "the file names 2 Sentinels", "run 3 or more",
    ),
    "slots of nobody": (
        a_cluster(uncovered_slots=5_461),
        ERROR, "coverage", "5,461 slots served by nobody", "--cluster fix",
    ),
    "a Cluster that stops whole": (
        a_cluster(
            *(
                a_node(
                    WITH_REPLICA, {**GUARDED, "cluster-require-full-coverage": "yes"}, address=at
                )
                for at in ("r:1", "r:2")
            )
        ),
        WARNING, "coverage", "cluster-require-full-coverage yes",
        "CONFIG SET cluster-require-full-coverage no",
    ),
    "another region's Redis": (
        a_region(partitions=(PartitionFacts(0, "r:1", {**IDENTITY, "region": "us"}),)),
        ERROR, "identity", "it says region us; the file says region eu", "correct the address",
    ),
    "records of a newer version": (
        a_region(partitions=(PartitionFacts(0, "r:1", {**IDENTITY, "format": "3"}),)),
        ERROR, "identity", "it says format 3; the file says format 2", "version that stored them",
    ),
    "an empty Redis": (
        a_region(partitions=(PartitionFacts(0, "r:1"),)),
        INFO, "identity", "none yet: no router or worker was ever here", "",
    ),
    "a primary that has lost its data": (
        a_cluster(
            partitions=(
                *partitions("r:1", "r:1"), PartitionFacts(2, "r:2"), PartitionFacts(3, "r:2"),
            )
        ),
        WARNING, "identity", "2 of 4 partitions have none", "look for a FLUSHALL",
    ),
    "a node of a Cluster, named as a server of its own": (
        a_region(a_node({"redis_mode": "cluster"})),
        ERROR, "form", "a node of a Cluster, named as a server of its own", "{cluster: [HOST:PORT",
    ),
    "a Sentinel, named as a server": (
        a_region(a_node({"redis_mode": "sentinel"})),
        ERROR, "form", "a Sentinel, named as a server", "{sentinel: [HOST:PORT",
    ),
    "a login that lacks a command": (
        a_region(rights=Rights("tw", is_known=True, missing=("+zadd", "~tw:*"))),
        ERROR, "rights", "user tw lacks +zadd, ~tw:*", "ACL SETUSER tw +zadd '~tw:*'",
    ),
    "a node of another Cluster": (
        a_cluster(strangers=("r:9",)),
        ERROR, "form", "of another Cluster than what is named before: r:9", "regions.yaml",
    ),
    "a command that was renamed": (
        a_region(rights=Rights("tw", is_known=True, unknown=("eval",))),
        ERROR, "commands", "it does not know eval", "rename-command",
    ),
    "a login that may do everything": (
        a_region(rights=Rights("default", is_known=True, is_almighty=True)),
        INFO, "rights", "user default may do everything", "a user of its own",
    ),
    "a login that may not ask": (
        a_region(rights=Rights("tw")), INFO, "rights", "not known: user tw may not ask", "+acl",
    ),
    "a primary without partitions": (
        a_cluster(partitions=partitions("r:1", "r:1", "r:1", "r:1")),
        WARNING, "partitions", "4 on 2 nodes; most on r:1", "--cluster rebalance r:1",
    ),
    "a partition with most of the tasks": (
        a_region(
            partitions=(
                *partitions("r:1", "r:1", "r:1", waiting=10),
                PartitionFacts(3, "r:1", IDENTITY, waiting=5_000),
            )
        ),
        WARNING, "big partition", "partition 3 has 5,000 tasks, half of all have less than 10",
        "spread the key",
    ),
    "a key that nobody would remove": (
        a_region(keys=KeySample(2_000, 9_000, ownerless=("tw:{a}:q:mail:1",))),
        WARNING, "keys", "1 key without owner, such as tw:{a}:q:mail:1; 2,000 of 9,000 looked at",
        "UNLINK 'tw:{a}:q:mail:1'",
    ),
    "keys of others": (
        a_region(keys=KeySample(10, 10, foreign=("session:1",), foreign_count=4)),
        INFO, "keys", "4 keys of others, such as session:1; 10 of 10 looked at", "of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("region", "severity", "check", "found", "help_"), ROWS.values(), ids=ROWS)
def test_what_is_wrong_is_found_alone_with_what_mends_it(
    region: RegionFacts, severity: Severity, check: str, found: str, help_: str
) -> None:
    bad = [finding for finding in examine(region, NEEDS) if finding.severity is not OK]
    assert [(each.severity, each.check, each.found) for each in bad] == [(severity, check, found)]
    assert help_ in " ".join((bad[0].means, bad[0].advice, *bad[0].mend))
    assert bad[0].means or severity is INFO, "people are told what follows from it"
    assert bad[0].mend or bad[0].advice or severity is INFO


def test_what_the_file_wants_is_read_off_it() -> None:
    region = Region("eu", RedisTarget("standalone", ("r:1",)))
    fleet = Fleet(
        {"eu": region},
        partitions=16,
        deployment="shop",
        default_queue=QueuePolicy(durability="replica"),
        queues={"orders": QueuePolicy(durability="fsync"), "mail": QueuePolicy()},
    )
    assert needs_of(fleet, range(2, 3)) == Needs("shop", 16, range(2, 3), ("orders",), ("default",))


def test_nodes_with_the_same_trouble_share_one_finding() -> None:
    nodes = [a_node({"maxmemory": "0"}, address=f"r:{n}") for n in (1, 2)]
    found = [f for f in examine(a_region(*nodes), NEEDS) if f.check == "memory"]
    assert [each.nodes for each in found] == [("r:1", "r:2")]
    told = together([Finding(OK, "version", v, nodes=(v,)) for v in ("7.2", "8.0", "7.2")])
    assert told == [Finding(OK, "version", "7.2; 8.0", nodes=("7.2", "8.0"))]


def test_the_worst_comes_first() -> None:
    node = a_node({"maxmemory": "0", "maxmemory_policy": "volatile-ttl"}, {"appendfsync": "no"})
    order = [finding.severity for finding in examine(a_region(node), NEEDS)]
    assert order == sorted(order, reverse=True)
    assert order[0] is ERROR
