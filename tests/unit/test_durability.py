"""What a node says of itself, and what it can do for whom."""

from dataclasses import replace

import pytest

from tradewind.fleet import Durability, Fleet, QueuePolicy
from tradewind.store.durability import Facts, Purpose, reached, read
from tradewind.store.link import Command, Reply

BARE = Facts(replicas=0, logs=False, syncs="everysec", version=(8, 2))
LOGS = replace(BARE, logs=True)
ALWAYS = replace(LOGS, syncs="always")
OLD = replace(LOGS, version=(7, 0))
DISK: Command = ["WAITAOF", 1, 0, 2_000]
REPLICA: Command = ["WAIT", 1, 2_000]

# What it lacks for each, and what a submit then waits for; None: no submit gets that far.
NODES: dict[str, tuple[Facts, Durability, str, list[Command] | None]] = {
    "no log": (BARE, "fsync", "it keeps no append-only file (appendonly no)", None),
    "a log": (LOGS, "fsync", "", [DISK]),
    "a log that is always synced": (ALWAYS, "fsync", "", [DISK]),
    "a log of which it does not tell": (replace(LOGS, syncs=""), "fsync", "", [DISK]),
    "a log that nobody syncs": (
        replace(LOGS, syncs="no"),
        "fsync",
        "it leaves its log to the operating system (appendfsync no)",
        None,
    ),
    "7.2": (replace(LOGS, version=(7, 2)), "fsync", "", [DISK]),
    "7.0": (OLD, "fsync", "Redis 7.0 has no WAITAOF and does not sync always", None),
    "7.0 that does not tell": (
        replace(OLD, syncs=""),
        "fsync",
        "Redis 7.0 has no WAITAOF and does not sync always",
        None,
    ),
    "7.0 that always syncs, before it answers": (replace(OLD, syncs="always"), "fsync", "", []),
    "no replica": (LOGS, "replica", "no replica is connected", None),
    "a replica": (replace(BARE, replicas=1), "replica", "", [REPLICA]),
    "a replica, whatever the disk": (replace(LOGS, replicas=2), "replica", "", [REPLICA]),
    "nothing, for memory": (BARE, "memory", "", None),
}


@pytest.mark.parametrize(("facts", "asked", "lack", "waits"), NODES.values(), ids=NODES)
def test_a_queue_is_served_by_a_node_with(
    facts: Facts, asked: Durability, lack: str, waits: list[Command] | None
) -> None:
    assert facts.lacks(asked) == lack
    if waits is not None and asked != "memory":
        assert facts.waits(asked, 2_000) == waits


MOVES: dict[str, tuple[Facts, list[Command]]] = {
    "nothing": (BARE, []),
    "a log": (LOGS, [DISK]),
    "a log of 7.0": (OLD, []),
    "a replica": (replace(BARE, replicas=1), [REPLICA]),
    "both": (replace(LOGS, replicas=1), [REPLICA, DISK]),
}


@pytest.mark.parametrize(("facts", "waits"), MOVES.values(), ids=MOVES)
def test_a_move_waits_for_all_that_a_node_has(facts: Facts, waits: list[Command]) -> None:
    purpose: Purpose = "move"
    assert facts.waits(purpose, 2_000) == waits


FOLLOWS = "slave{}:ip=127.0.0.1,port=6380,state=online,offset=14,lag=0"


def told(
    *, replication: str = "connected_slaves:0", config: Reply = (), aof: int = 1
) -> list[Reply]:
    persistence = f"# Persistence\r\naof_enabled:{aof}\r\n"
    return [
        f"# Replication\r\nrole:master\r\n{replication}\r\n".encode(),
        persistence.encode(),
        b"redis_version:7.2.4\r\n",
        config,
    ]


def test_what_a_node_tells_is_read() -> None:
    assert read(told(config=[b"appendfsync", b"always"])) == Facts(0, True, "always", (7, 2))
    assert read(told(aof=0, config=PermissionError())) == Facts(0, False, "", (7, 2))


def test_a_replica_that_lags_too_far_is_none_where_the_node_counts() -> None:
    assert read(told(replication=f"{FOLLOWS.format(0)}\r\n{FOLLOWS.format(1)}")).replicas == 2
    behind = f"{FOLLOWS.format(0)}\r\nmin_slaves_good_slaves:0"
    assert read(told(replication=behind)).replicas == 0


def test_a_replica_that_takes_its_first_copy_is_none_yet() -> None:
    copies = FOLLOWS.format(0).replace("online", "wait_bgsave")
    assert read(told(replication=f"connected_slaves:1\r\n{copies}")).replicas == 0


def test_waitaof_tells_of_its_own_disk_first() -> None:
    assert [reached(answer) for answer in (0, 1, 2, [1, 0], [0, 3])] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_a_queue_that_is_not_named_asks_what_default_asks() -> None:
    fsync, memory = QueuePolicy(durability="fsync"), QueuePolicy()
    assert Fleet(regions={}, partitions=16).durable == {}
    assert Fleet(regions={}, partitions=16, default_queue=fsync, queues={"a": memory}).durable == {
        "": "fsync"
    }
