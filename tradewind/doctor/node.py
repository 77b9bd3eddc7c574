"""What is to be said of one Redis process. Pure: facts in, findings out."""

from collections.abc import Iterator
from typing import Final

from tradewind.doctor.durable import durable_findings
from tradewind.doctor.facts import NodeFacts
from tradewind.doctor.findings import Finding, Needs, Severity, at
from tradewind.doctor.sizes import many, size
from tradewind.limits import MIB, SECOND_MS

OK, INFO, WARNING, ERROR = Severity
OLDEST: Final = (7, 0)  # scripts with flags
MAX_SHARE: Final = 0.75  # of the machine's memory (design: allow-oom writes, and AOF rewrites)
NEARLY_FULL: Final = 0.9  # of maxmemory; own choice
PACKED_BYTES: Final = 1_024  # of the longest value that a packed hash may hold (deploy/redis.conf)
FAR_MS: Final = 50.0  # steering.band_min: more is another place; own choice
MAX_SKEW_MS: Final = 1 * SECOND_MS  # against this host: ids sort by time, and people read times
BUSY: Final = 0.8  # of maxclients; own choice
_ROUND: Final = 64 * MIB


def node_findings(node: NodeFacts, needs: Needs) -> Iterator[Finding]:
    """Everything about one node, what is well included."""
    yield _version(node)
    if not node.config:
        yield at(
            node,
            INFO,
            "configuration",
            "its login may not read it",
            "some checks know only half of what they look for",
            advice="allow +config|get to the user, or run doctor as one that may",
        )
    yield _eviction(node)  # of a replica as well: it may be promoted
    # A replica ignores its limit, and needs one from the moment when it is promoted.
    if node.is_primary or not node.number("maxmemory"):
        yield from _memory(node)
    yield from durable_findings(node, needs)
    yield from _connections(node)
    yield _clock(node)
    yield _latency(node)


def _version(node: NodeFacts) -> Finding:
    told = node.info.get("redis_version", "unknown")
    if node.version < OLDEST:
        return at(
            node,
            ERROR,
            "version",
            told,
            "scripts need the flags that 7.0 brought: nothing works here",
            advice="run Redis 7.0 or newer",
        )
    return at(node, OK, "version", f"{told}, needs no module")


def _eviction(node: NodeFacts) -> Finding:
    policy = node.info.get("maxmemory_policy", "unknown")
    lost = node.number("evicted_keys")
    told = f"{policy}, {many(lost, 'key')} evicted since its start" if lost else policy
    if policy != "noeviction":
        return at(
            node,
            ERROR,
            "eviction",
            told,
            "a full Redis would delete tasks, and forget which submits it has seen: "
            "routers and couriers send nothing new here",
            ("CONFIG SET maxmemory-policy noeviction",),
        )
    if lost:
        return at(
            node,
            WARNING,
            "eviction",
            told,
            "another policy was in force: tasks may be gone, and repeats may run twice",
            ("CONFIG RESETSTAT",),
            advice="look for lost tasks first, then reset the count",
        )
    return at(node, OK, "eviction", told)


def _memory(node: NodeFacts) -> Iterator[Finding]:
    used, most = node.number("used_memory"), node.number("maxmemory")
    machine = node.number("total_system_memory")
    told = f"{size(used)} used of {size(most)}" if most else f"{size(used)} used, no limit"
    share = int(MAX_SHARE * machine) // node.servers
    wanted = f"CONFIG SET maxmemory {_rounded(share)}"
    shared = f"its even share: {node.servers} servers are on its host" if node.servers > 1 else ""
    if not most:
        yield at(
            node,
            WARNING,
            "memory",
            told,
            "it grows until the kernel ends it, instead of refusing new work in time",
            (wanted,) if machine else ("CONFIG SET maxmemory 768mb",),
            advice=shared if machine else "",
        )
    elif used >= most:
        yield at(
            node,
            ERROR,
            "memory",
            told,
            "it is full and refuses new work; what it holds is still run",
            advice="add workers so that it empties sooner, raise maxmemory, or add a primary",
        )
    elif used >= NEARLY_FULL * most:
        yield at(
            node,
            WARNING,
            "memory",
            told,
            "nearly full: then it refuses new work",
            advice="add workers, shorten retention, raise maxmemory, or add a primary",
        )
    elif machine and most > share and most + node.others_limit > MAX_SHARE * machine:
        beside = f", {size(node.others_limit)} for others there" if node.others_limit else ""
        yield at(
            node,
            WARNING,
            "memory",
            f"{told}, on a machine of {size(machine)}{beside}",
            "rewriting the log copies pages that change, and work under way may exceed the limit",
            (wanted,),
            advice=shared,
        )
    else:
        yield at(node, OK, "memory", told)
    packed = node.config.get("hash-max-listpack-value", "")
    if packed.isdecimal() and int(packed) < PACKED_BYTES:
        yield at(
            node,
            INFO,
            "packing",
            f"hash-max-listpack-value {packed}",
            "records with a longer payload take some 200 bytes more than they need",
            (f"CONFIG SET hash-max-listpack-value {PACKED_BYTES}",),
        )


def _rounded(share: int) -> str:
    """What of a machine it may have, as redis.conf spells it."""
    return f"{max(share // _ROUND, 1) * _ROUND // MIB}mb"


def _connections(node: NodeFacts) -> Iterator[Finding]:
    now, most = node.number("connected_clients"), node.number("maxclients")
    refused = node.number("rejected_connections")
    told = f"{now:,} of {most:,}" + (
        f", {refused:,} turned away since its start" if refused else ""
    )
    if most and now > BUSY * most:
        yield at(
            node,
            WARNING,
            "connections",
            told,
            "above the limit routers and workers cannot connect",
            (f"CONFIG SET maxclients {2 * most}",),
        )
    elif refused:
        yield at(
            node,
            INFO,  # one that only looks whether the port is open and hangs up counts, too
            "connections",
            told,
            "they came when it had no connection left, or hung up before they were let in",
            (f"CONFIG SET maxclients {2 * most}", "CONFIG RESETSTAT"),
        )
    else:
        yield at(node, OK, "connections", told)


def _clock(node: NodeFacts) -> Finding:
    off_ms = abs(node.skew_ms) - node.skew_error_ms
    told = f"{node.skew_ms / SECOND_MS:+.1f} s against this machine"
    if off_ms > MAX_SKEW_MS:
        return at(
            node,
            WARNING,
            "clock",
            told,
            "leases do not mind, but times of tasks are told wrong, and `not_before` is late or "
            "early by as much",
            advice="run NTP on both machines",
        )
    return at(node, OK, "clock", f"within {MAX_SKEW_MS / SECOND_MS:.0f} s of this machine")


def _latency(node: NodeFacts) -> Finding:
    ms = node.ping_ms
    if ms > FAR_MS:
        return at(
            node,
            INFO,
            "latency",
            f"{ms:.0f} ms",
            "right if that region is far from here; else its network or its machine is slow",
        )
    return at(node, OK, "latency", f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms")
