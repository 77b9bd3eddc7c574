"""What doctor says of queues that want their tasks on disk, or on a replica."""

from dataclasses import replace

import pytest

from tests.unit.doctor.test_examine import (
    ERROR,
    GUARDED,
    NEEDS,
    OK,
    WITH_REPLICA,
    a_node,
    a_region,
)
from tradewind.doctor import Finding, NodeFacts, Severity, examine

WANTS_DISK = replace(NEEDS, fsync=("orders",))
WANTS_REPLICA = replace(NEEDS, replica=("orders", "carts"))
OLD = {"redis_version": "7.0.15"}
LOG, EVERY_SECOND, ALWAYS = (
    "CONFIG SET appendonly yes",
    "CONFIG SET appendfsync everysec",
    "CONFIG SET appendfsync always",
)
DISKS: dict[str, tuple[NodeFacts, Severity, tuple[str, ...]]] = {
    "an AOF that can be waited for": (a_node(), OK, ()),
    "an older Redis that syncs each write": (a_node(OLD, {"appendfsync": "always"}), OK, ()),
    "an older Redis that does not": (a_node(OLD), ERROR, (ALWAYS,)),
    "an older Redis without AOF": (a_node({**OLD, "aof_enabled": "0"}), ERROR, (LOG, ALWAYS)),
    "no AOF": (a_node({"aof_enabled": "0"}), ERROR, (LOG,)),
    "no AOF, and none that would be synced": (
        a_node({"aof_enabled": "0"}, {"appendfsync": "no"}),
        ERROR,
        (LOG, EVERY_SECOND),
    ),
    "an AOF that is left to the system": (
        a_node(config={"appendfsync": "no"}),
        ERROR,
        (EVERY_SECOND,),
    ),
}


@pytest.mark.parametrize(("node", "severity", "mend"), DISKS.values(), ids=DISKS)
def test_queues_that_want_their_tasks_on_disk_need_a_redis_that_can_tell(
    node: NodeFacts, severity: Severity, mend: tuple[str, ...]
) -> None:
    (found,) = (f for f in examine(a_region(node), WANTS_DISK) if f.check == "durability fsync")
    assert (found.severity, found.found, found.mend) == (severity, "wanted by orders", mend)
    assert not [f for f in examine(a_region(node), NEEDS) if f.check == "durability fsync"]


def missing_replica(node: NodeFacts) -> list[Finding]:
    return [
        each
        for each in examine(a_region(node), WANTS_REPLICA)
        if each.check == "durability replica" and each.severity is ERROR
    ]


def test_queues_that_want_a_replica_need_one_that_is_online() -> None:
    (missing,) = missing_replica(a_node())
    assert missing.found == "wanted by orders, carts"
    assert "refused for these queues" in missing.means
    assert "add a replica" in missing.advice
    assert missing_replica(a_node(WITH_REPLICA, GUARDED)) == []


def test_a_replica_that_syncs_is_waited_for_not_added() -> None:
    syncs = {**WITH_REPLICA, "slave0": "ip=a,port=2,state=wait_bgsave,lag=0"}
    (missing,) = missing_replica(a_node(syncs))
    assert "add a replica" not in missing.advice
    assert "once it is online" in missing.advice
