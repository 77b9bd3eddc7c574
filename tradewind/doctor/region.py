"""What is to be said of a region as a whole: its nodes together, its tasks, its login. Pure."""

from collections import Counter
from collections.abc import Iterator
from shlex import quote
from statistics import median
from typing import Final

from tradewind.doctor.facts import PartitionFacts, RegionFacts
from tradewind.doctor.findings import Finding, Needs, Severity
from tradewind.doctor.sizes import many, several
from tradewind.limits import SECOND_MS

OK, INFO, WARNING, ERROR = Severity
UNEVEN: Final = 1.5  # times its even share of partitions, and one more; own choice
BIG: Final = 4.0  # times the median partition; own choice
BIG_TASKS: Final = 1_000  # below that nothing is big; own choice
SENTINELS: Final = 3  # so that one may die (redis.io, Sentinel)
SKEW_MS: Final = 1 * SECOND_MS  # between nodes: a failover would shift leases by it; own choice
SKEW_ERROR_MS: Final = 10 * SECOND_MS  # a third of the default lease


def region_findings(region: RegionFacts, needs: Needs) -> Iterator[Finding]:
    """Everything that concerns more than one node."""
    if not region.is_reachable:
        yield _unreachable(region)
        return
    yield from _form(region)
    yield from _nodes(region)
    yield from _watchers(region)
    yield from _coverage(region)
    yield from _identity(region, needs)
    yield from _rights(region)
    yield from _partitions(region)
    yield from _keys(region)


def _unreachable(region: RegionFacts) -> Finding:
    causes = tuple(f"{node.address}: {node.cause}" for node in region.silent)
    return Finding(
        ERROR,
        "reachable",
        several(causes) or "no node is known",
        "no task can be stored or run there from here",
        advice="start it, or correct the address, login or TLS of the region in regions.yaml",
    )


def _form(region: RegionFacts) -> Iterator[Finding]:
    """One that is named as what it is not works, until a node fails."""
    of_clusters, sentinels = (
        tuple(node.address for node in region.nodes if node.info.get("redis_mode") == mode)
        for mode in ("cluster", "sentinel")
    )
    if of_clusters and region.kind != "cluster":
        yield Finding(
            ERROR,
            "form",
            "a node of a Cluster, named as a server of its own",
            "once it fails, or its slots move, nobody looks for its tasks elsewhere",
            advice="name it as {cluster: [HOST:PORT, ...]} in regions.yaml",
            nodes=of_clusters,
        )
    if region.strangers:
        yield Finding(
            ERROR,
            "form",
            f"of another Cluster than what is named before: {several(region.strangers)}",
            "what starts while the others are silent uses that one, and its tasks lie there",
            advice="take out of regions.yaml those that are not of this region",
            nodes=region.strangers,
        )
    if sentinels:
        yield Finding(
            ERROR,
            "form",
            "a Sentinel, named as a server",
            "it keeps no tasks: nothing works here",
            advice="name it as {sentinel: [HOST:PORT, ...], service: NAME} in regions.yaml",
            nodes=sentinels,
        )


def _nodes(region: RegionFacts) -> Iterator[Finding]:
    if not region.primaries:
        replicas = tuple(node.address for node in region.nodes)
        yield Finding(
            ERROR,
            "nodes",
            "a replica, no primary",
            "it takes no writes: the region is down",
            advice="name the primary in regions.yaml, or have Sentinel follow it",
            nodes=replicas,
        )
    for node in region.silent:
        what = "primary" if node.is_primary else "replica"
        yield Finding(
            ERROR if node.is_primary else WARNING,
            "nodes",
            f"a {what} does not answer: {node.cause}",
            "its tasks wait until it is back, or a replica of it has taken over"
            if node.is_primary
            else "its primary has one copy fewer",
            advice="start it again with its data; one that is forgotten takes its tasks with it"
            if node.is_primary
            else "start it, or forget it: CLUSTER FORGET at the others",
            nodes=(node.address,),
        )
    primaries, replicas = len(region.primaries), len(region.nodes) - len(region.primaries)
    seen = sum(len(node.replicas) for node in region.primaries)
    told = f"{primaries} {'primary' if primaries == 1 else 'primaries'}"
    if region.kind in {"cluster", "sentinel"} and not (replicas or seen):
        yield Finding(
            WARNING,
            "nodes",
            f"{told}, no replica",
            "a primary that dies takes its tasks out of reach until it is back",
            advice="add a replica to each: CLUSTER REPLICATE, or REPLICAOF under Sentinel",
        )
    else:
        kept = f", {many(max(replicas, seen), 'replica')}" if replicas or seen else ""
        yield Finding(OK, "nodes", f"{told}{kept}")
    bare = tuple(node.address for node in region.primaries if not node.replicas)
    if region.kind == "cluster" and 0 < len(bare) < primaries:
        yield Finding(
            WARNING,
            "nodes",
            f"{len(bare)} of {primaries} primaries without a replica",
            "one that dies takes its tasks out of reach until it is back",
            advice="have a new node follow each: CLUSTER REPLICATE",
            nodes=bare,
        )
    skews = [node.skew_ms for node in region.nodes]
    apart_ms = max(skews) - min(skews)
    apart_ms -= sum(sorted(node.skew_error_ms for node in region.nodes)[-2:])
    if apart_ms > SKEW_MS:
        yield Finding(
            ERROR if apart_ms > SKEW_ERROR_MS else WARNING,
            "clocks",
            f"{apart_ms / SECOND_MS:.1f} s apart",
            "after a failover leases end so much too early or too late",
            advice="run NTP on all of its machines",
        )


def _watchers(region: RegionFacts) -> Iterator[Finding]:
    if region.kind != "sentinel":
        return
    silent = [each for each in region.watchers if not each.names]
    named = tuple(dict.fromkeys(each.names for each in region.watchers if each.names))
    for each in silent:
        yield Finding(
            WARNING,
            "sentinels",
            f"one names no primary: {each.cause}",
            "with too few of them nobody is promoted when the primary dies",
            advice="start it, or name another one in regions.yaml",
            nodes=(each.address,),
        )
    if len(named) > 1:
        yield Finding(
            WARNING,
            "sentinels",
            f"they name {several(named)}",
            "a failover is under way, or some of them are cut off",
            advice="look again in a minute; then SENTINEL RESET at those that are wrong",
        )
    if len(region.watchers) < SENTINELS:
        yield Finding(
            WARNING,
            "sentinels",
            f"the file names {many(len(region.watchers), 'Sentinel')}",
            "one that dies leaves too few to agree, or to be asked",
            advice=f"run {SENTINELS} or more on machines of their own, and name them all",
        )
    elif not silent and len(named) == 1:
        yield Finding(OK, "sentinels", f"{len(region.watchers)} name {named[0]}")


def _coverage(region: RegionFacts) -> Iterator[Finding]:
    if region.kind != "cluster":
        return
    if region.uncovered_slots:
        yield Finding(
            ERROR,
            "coverage",
            f"{many(region.uncovered_slots, 'slot')} served by nobody",
            "tasks there wait, and submits with a key for them are refused",
            advice=f"once lost nodes are back, or their tasks given up: redis-cli --cluster fix "
            f"{region.primaries[0].address}"
            if region.primaries
            else "start the primaries",
        )
    if region.silent_slots:
        yield Finding(
            ERROR,
            "coverage",
            f"{many(region.silent_slots, 'slot')} of primaries that do not answer",
            "tasks there wait, and submits with a key for them are refused",
            advice="start them again with their data",
        )
    strict = tuple(
        node.address
        for node in region.primaries
        if node.config.get("cluster-require-full-coverage") == "yes"
    )
    if strict:
        yield Finding(
            WARNING,
            "coverage",
            "cluster-require-full-coverage yes",
            "one lost primary stops all the others",
            ("CONFIG SET cluster-require-full-coverage no",),
            nodes=strict,
        )
    elif not region.uncovered_slots and not region.silent_slots:
        yield Finding(OK, "coverage", "all slots are served")


def _identity(region: RegionFacts, needs: Needs) -> Iterator[Finding]:
    wanted = {
        "deployment": needs.deployment,
        "region": region.name,
        "partitions": str(needs.partitions),
    }
    wrong: dict[str, str] = {}
    if region.other_partitions:
        wrong["partitions"] = str(region.other_partitions)
    for partition in region.partitions:
        for field, value in wanted.items():
            said = partition.identity.get(field)
            if said is not None and said != value:
                wrong[field] = said
        told = partition.identity.get("format", "")
        if told.isdecimal() and int(told) not in needs.formats:
            wrong["format"] = told
    if wrong:
        told = ", ".join(f"{field} {value}" for field, value in wrong.items())
        expected = ", ".join(f"{field} {wanted.get(field, needs.formats[-1])}" for field in wrong)
        yield Finding(
            ERROR,
            "identity",
            f"it says {told}; the file says {expected}",
            "these are another's tasks: routers and workers refuse this region",
            advice="finish its tasks with the version that stored them"
            if set(wrong) == {"format"}
            else "correct the address of the region, or deployment and partitions of the file",
        )
        return
    blank = [each for each in region.partitions if each.node and not each.identity]
    served = sum(1 for each in region.partitions if each.node)
    if len(blank) == served and not any(each.tasks for each in blank):
        yield Finding(INFO, "identity", "none yet: no router or worker was ever here")
    elif blank:
        yield Finding(
            WARNING,
            "identity",
            f"{len(blank)} of {many(len(region.partitions), 'partition')} have none",
            "their tasks are gone: something has emptied their node, or it began without its data",
            advice="look for a FLUSHALL, and for a primary without persistence that was restarted",
            nodes=tuple(dict.fromkeys(each.node for each in blank)),
        )
    else:
        yield Finding(OK, "identity", f"{needs.deployment}, {region.name}")


def _rights(region: RegionFacts) -> Iterator[Finding]:
    rights = region.rights
    user = rights.user or "default"
    if rights.unknown:
        yield Finding(
            ERROR,
            "commands",
            f"it does not know {several(rights.unknown, 8)}",
            "calls that need it fail",
            advice="take what renames it out of redis.conf (rename-command), and restart it",
            nodes=tuple(node.address for node in region.nodes),
        )
    if rights.missing:
        yield Finding(
            ERROR,
            "rights",
            f"user {user} lacks {several(rights.missing, 8)}",
            "calls that need it fail, some of them half-way",
            (f"ACL SETUSER {quote(user)} {' '.join(map(quote, rights.missing))}",),
            nodes=tuple(node.address for node in region.nodes),
        )
    elif rights.is_almighty:
        yield Finding(
            INFO,
            "rights",
            f"user {user} may do everything",
            "more than we use: who steals this login can empty the server",
            advice="give it a user of its own: see docs/doctor.md, The login",
        )
    elif not rights.is_known:
        yield Finding(
            INFO,
            "rights",
            f"not known: user {user} may not ask",
            advice="allow +acl|whoami and +acl|dryrun, or ask as an administrator",
        )
    else:
        yield Finding(OK, "rights", f"user {user} may do what we use")


def _partitions(region: RegionFacts) -> Iterator[Finding]:
    served = Counter(partition.node for partition in region.partitions if partition.node)
    if not served:
        return
    even = sum(served.values()) / max(len(region.primaries), 1)
    node, most = max(served.items(), key=lambda pair: pair[1])
    told = ", ".join(str(number) for number in sorted(served.values(), reverse=True))
    if len(region.primaries) > len(served) or most > UNEVEN * even + 1:
        yield Finding(
            WARNING,
            "partitions",
            f"{told} on {many(len(region.primaries), 'node')}; most on {node}",
            "the node with the most does most of the work",
            advice=f"redis-cli --cluster rebalance {node}",
        )
    else:
        yield Finding(OK, "partitions", f"{told} on {many(len(served), 'node')}")
    yield from _big(region)


def _big(region: RegionFacts) -> Iterator[Finding]:
    typical = median(partition.tasks for partition in region.partitions)
    big = [p for p in region.partitions if p.tasks > max(BIG_TASKS, BIG * typical)]
    for partition in sorted(big, key=lambda each: -each.tasks)[:3]:
        yield Finding(
            WARNING,
            "big partition",
            f"partition {partition.number} has {many(partition.tasks, 'task')}, "
            f"half of all have less than {typical:,.0f}",
            _why_big(partition),
            advice="spread the key, or drain what is dead: tradewind queues, tradewind dlq list",
            nodes=(partition.node,) if partition.node else (),
        )


def _why_big(partition: PartitionFacts) -> str:
    if partition.dead > partition.tasks / 2:
        return "most are dead letters"
    return "many tasks have one affinity or idempotency key: one node does all of their work"


def _keys(region: RegionFacts) -> Iterator[Finding]:
    keys = region.keys
    told = f"{keys.looked_at:,} of {keys.in_all:,} looked at"
    if keys.ownerless:
        yield Finding(
            WARNING,
            "keys",
            f"{many(len(keys.ownerless), 'key')} without owner, such as {keys.ownerless[0]}; "
            f"{told}",
            "no task and no TTL: nothing would ever remove them",
            tuple(f"UNLINK {quote(key)}" for key in keys.ownerless[:3]),
            advice="look again in an hour first: workers put in order what they find",
        )
    if keys.foreign_count:
        yield Finding(
            INFO,
            "keys",
            f"{many(keys.foreign_count, 'key')} of others, such as {keys.foreign[0]}; {told}",
            "they take memory that is counted as ours, and an eviction policy for them harms us",
            advice="give Tradewind a Redis of its own",
        )
    if not (keys.ownerless or keys.foreign_count):
        yield Finding(OK, "keys", f"{told}, each has an owner")
