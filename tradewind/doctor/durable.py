"""Whether what a node has accepted outlives it: its log, its snapshots, its replicas. Pure."""

from collections.abc import Iterator
from typing import Final

from tradewind.doctor.facts import NodeFacts, Replica
from tradewind.doctor.findings import Finding, Needs, Severity, at
from tradewind.doctor.sizes import many, several

OK, INFO, WARNING, ERROR = Severity
WAITAOF: Final = (7, 2)
MAX_LAG_S: Final = 10  # Redis's own default of min-replicas-max-lag


def durable_findings(node: NodeFacts, needs: Needs) -> Iterator[Finding]:
    """What there is to say of persistence; of a primary also of its replicas."""
    yield from _disk(node, needs)
    if node.is_primary:
        yield from _replicas(node, needs)
    elif node.info.get("master_link_status") == "down":
        yield at(
            node,
            ERROR,
            "replicas",
            "this replica has lost its primary",
            "it falls behind: promoted now, it would lose what was accepted since",
            advice="see its log for the cause: network, login, or a full output buffer",
        )


def _disk(node: NodeFacts, needs: Needs) -> Iterator[Finding]:
    has_log = node.info.get("aof_enabled") == "1"
    saves, fsync = node.config.get("save"), node.config.get("appendfsync", "")
    if node.info.get("aof_last_write_status", "ok") != "ok":
        yield at(
            node,
            ERROR,
            "persistence",
            "its last write to the log failed",
            "it refuses writes until the disk takes them again",
            advice="free or replace the disk that its `dir` is on",
        )
    elif has_log and fsync == "no":
        yield at(
            node,
            WARNING,
            "persistence",
            "AOF, appendfsync no",
            "a crash of the machine may lose half a minute of accepted tasks",
            ("CONFIG SET appendfsync everysec",),
        )
    elif has_log:
        yield at(node, OK, "persistence", f"AOF, appendfsync {fsync}" if fsync else "AOF")
    elif saves == "":
        yield at(
            node,
            WARNING,
            "persistence",
            "none",
            "a restart loses every task",
            ("CONFIG SET appendonly yes",),
        )
    else:
        yield at(
            node,
            WARNING,
            "persistence",
            "snapshots only" if saves else "no AOF",
            "a crash loses every task accepted since the last snapshot",
            ("CONFIG SET appendonly yes",),
        )
    yield from _background(node, has_snapshots=bool(saves))
    if needs.fsync and node.is_primary:
        yield _fsync(node, needs.fsync, fsync, has_log=has_log)


def _background(node: NodeFacts, *, has_snapshots: bool) -> Iterator[Finding]:
    if node.info.get("aof_last_bgrewrite_status", "ok") != "ok":
        yield at(
            node,
            WARNING,
            "persistence",
            "its last rewrite of the log failed",
            "the log grows, and with it the time that a restart takes",
            ("BGREWRITEAOF",),
            advice="it needs memory to fork, and room on its disk",
        )
    if node.info.get("rdb_last_bgsave_status", "ok") == "ok":
        return
    stops = node.config.get("stop-writes-on-bgsave-error", "yes") == "yes" and has_snapshots
    yield at(
        node,
        ERROR if stops else WARNING,
        "persistence",
        "its last snapshot failed",
        "it refuses writes until one succeeds" if stops else "a replica may not be able to join",
        ("BGSAVE",),
        advice="it needs memory to fork, and room on its disk",
    )


def _fsync(node: NodeFacts, queues: tuple[str, ...], syncs: str, *, has_log: bool) -> Finding:
    told = f"wanted by {several(queues)}"
    can_wait = node.version >= WAITAOF
    is_synced = syncs == "always" or (syncs != "no" and can_wait)
    if has_log and is_synced:
        return at(node, OK, "durability fsync", told)
    mend = () if has_log else ("CONFIG SET appendonly yes",)
    if not is_synced:
        mend = (*mend, f"CONFIG SET appendfsync {'everysec' if can_wait else 'always'}")
    return at(
        node,
        ERROR,
        "durability fsync",
        told,
        "it needs an AOF that it syncs, and Redis 7.2 or `appendfsync always`: "
        "this region is refused for these queues",
        mend,
    )


def _replicas(node: NodeFacts, needs: Needs) -> Iterator[Finding]:
    online = tuple(replica for replica in node.replicas if replica.is_online)
    late = tuple(replica for replica in online if replica.lag_s > MAX_LAG_S)
    lost = tuple(replica for replica in node.replicas if not replica.is_online)
    if late or lost:
        yield at(
            node,
            WARNING,
            "replicas",
            _lagging(late, lost),
            "a failover to one of these loses what was accepted meanwhile",
            advice="see the replica's log, its network, and client-output-buffer-limit replica",
        )
    elif online:
        worst_s = max(replica.lag_s for replica in online)
        yield at(node, OK, "replicas", f"{len(online)} online, lag {worst_s} s at most")
    if needs.replica and not online:
        yield at(
            node,
            ERROR,
            "durability replica",
            f"wanted by {several(needs.replica)}",
            "it needs a replica that is online: this region is refused for these queues",
            advice="the replica that it has counts once it is online: one that syncs soon is"
            if lost
            else "add a replica: REPLICAOF HOST PORT there, CLUSTER REPLICATE in a Cluster",
        )
    if "min-replicas-to-write" in node.config:
        yield from _least(node, len(online))


def _lagging(late: tuple[Replica, ...], lost: tuple[Replica, ...]) -> str:
    parts: list[str] = []
    if late:
        lags = tuple(f"{replica.address} {replica.lag_s} s" for replica in late)
        parts.append(f"behind: {several(lags)}")
    if lost:
        addresses = tuple(replica.address for replica in lost)
        parts.append(f"not online: {several(addresses)}")
    return "; ".join(parts)


def _least(node: NodeFacts, online: int) -> Iterator[Finding]:
    least = int(node.config["min-replicas-to-write"] or 0)
    if least > online:
        yield at(
            node,
            ERROR,
            "min-replicas",
            f"min-replicas-to-write {least}, {many(online, 'replica')} online",
            "it refuses every write",
            (f"CONFIG SET min-replicas-to-write {online}",),
            advice="better: bring the replicas back",
        )
    elif online and not least:
        yield at(
            node,
            WARNING,
            "min-replicas",
            "min-replicas-to-write 0",
            "a primary that is cut off goes on accepting tasks, all lost once its replica has "
            "taken over",
            ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-max-lag 10"),
        )
    elif least:
        yield at(node, OK, "min-replicas", f"min-replicas-to-write {least}")
