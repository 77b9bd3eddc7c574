"""Every error reply that Redis has for us: what it means, and whether anything was changed."""

from typing import Any, cast

import pytest
from redis._parsers.base import BaseParser

from tradewind.errors import StoreContractBroken, StoreError, StoreFull, StoreMoving
from tradewind.errors import StoreUnavailable as Unavailable
from tradewind.store.refusals import Elsewhere, Later, ScriptUnknown, error_of, final

REGION, PARTITION = "eu-west", 7

# The words of Redis 7.0 and 8.2, and what is made of them.
REPLIES: dict[str, tuple[str, StoreError]] = {
    "MOVED: the slot is at the node that it names": (
        "MOVED 3999 127.0.0.1:6381",
        Elsewhere("no node serves the partition", to="3999 127.0.0.1:6381"),
    ),
    "ASK: the key is on its way, and scripts do not follow it": (
        "ASK 3999 127.0.0.1:6381",
        StoreMoving(REGION, PARTITION),
    ),
    "TRYAGAIN: keys are on two nodes": (
        "TRYAGAIN Multiple keys request during rehashing of slot",
        StoreMoving(REGION, PARTITION),
    ),
    "READONLY: the primary has become a replica": (
        "READONLY You can't write against a read only replica.",
        Elsewhere("its node is a replica, which takes no writes"),
    ),
    "READONLY, said to a script": (
        "READONLY You can't write against a read only replica. script: 1f9d, on @user_script:1.",
        Elsewhere("its node is a replica, which takes no writes"),
    ),
    "UNBLOCKED: it became one while somebody waited": (
        (
            "UNBLOCKED force unblock from blocking operation, instance state changed "
            "(master -> replica?)"
        ),
        Elsewhere("its node is a replica, which takes no writes"),
    ),
    "MASTERDOWN: a replica without its primary": (
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        Elsewhere("its primary is down"),
    ),
    "CLUSTERDOWN: too few primaries, or nobody's slot": (
        "CLUSTERDOWN The cluster is down",
        Later("cluster down", doubtful=True),
    ),
    "CLUSTERDOWN of one slot": (
        "CLUSTERDOWN Hash slot not served",
        Later("cluster down", doubtful=True),
    ),
    "LOADING: a server that has just started": (
        "LOADING Redis is loading the dataset in memory",
        Later("still loading its data", doubtful=True),
    ),
    "NOSCRIPT: the source is sent": (
        "NOSCRIPT No matching script. Please use EVAL.",
        ScriptUnknown(),
    ),
    "BUSY: a script that does not end": (
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        Later("busy with a script"),
    ),
    "UNKILLABLE: and that cannot be ended": (
        "UNKILLABLE Sorry the script already executed write commands against the dataset.",
        Later("busy with a script"),
    ),
    "NOREPLICAS: min-replicas-to-write": (
        "NOREPLICAS Not enough good replicas to write.",
        Later("not enough replicas"),
    ),
    "MISCONF: its disk is full": (
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist",
        Later("cannot persist its data"),
    ),
    "OOM: maxmemory": (
        "OOM command not allowed when used memory > 'maxmemory'.",
        StoreFull(REGION),
    ),
    "OOM, said to a script": (
        (
            "OOM allow-oom flag is not set on the script, can not run it when used memory > "
            "'maxmemory'"
        ),
        StoreFull(REGION),
    ),
    "NOAUTH: it wants a password": (
        "NOAUTH Authentication required.",
        Unavailable(REGION, "login refused", sent=False),
    ),
    "unknown command: it is a Sentinel": (
        "ERR unknown command 'EVALSHA', with args beginning with: ",
        Unavailable(REGION, "it lacks a command: it is a Sentinel, or has renamed it", sent=False),
    ),
    "WRONGPASS: it wants another": (
        "WRONGPASS invalid username-password pair or user is disabled.",
        Unavailable(REGION, "login refused", sent=False),
    ),
    "NOPERM: before a script begins": (
        "NOPERM User app has no permissions to run the 'evalsha' command",
        Unavailable(REGION, "its login lacks +evalsha", sent=False),
    ),
    "NOPERM: of our keys": (
        "NOPERM No permissions to access a key",
        Unavailable(REGION, "its login lacks ~tw:* or &tw:*", sent=False),
    ),
    "no permission inside a script, which may have written": (
        (
            "ERR ACL failure in script: User app has no permissions to run the 'hset' command "
            "script: 1f9d, on @user_script:9."
        ),
        Unavailable(
            REGION,
            "its login lacks a permission that our scripts need",
            sent=True,
            failed=True,
        ),
    ),
    "the same in Redis 7.0": (
        "ERR The user executing the script can't run this command or subcommand script: 1f9d",
        Unavailable(
            REGION,
            "its login lacks a permission that our scripts need",
            sent=True,
            failed=True,
        ),
    ),
    "somebody else's keys": (
        "WRONGTYPE Operation against a key holding the wrong kind of value script: 1f9d",
        Unavailable(REGION, "somebody else's data is under our keys", sent=True, failed=True),
    ),
    "a slot that leaves under a script": (
        "ERR Script attempted to access a non local key in a cluster node script: 1f9d",
        Unavailable(REGION, "the slot moved under a script", sent=True),
    ),
}


def facts(error: StoreError) -> tuple[Any, ...]:
    slots = ("region", "partition", "cause", "to", "doubtful", "sent", "failed")
    return (type(error), *(getattr(error, slot, None) for slot in slots))


def said(reply: str) -> Exception:
    """The exception that redis-py makes of it."""
    return cast("Any", BaseParser).parse_error(reply)


@pytest.mark.parametrize(("reply", "ours"), REPLIES.values(), ids=REPLIES)
def test_an_error_reply_is(reply: str, ours: StoreError) -> None:
    assert facts(error_of(REGION, PARTITION, said(reply))) == facts(ours)


def test_a_reply_that_nobody_knows_is_a_fault_that_shows_its_text() -> None:
    error = error_of(REGION, PARTITION, said("ERR something new"))
    assert isinstance(error, StoreContractBroken)
    assert "something new" in str(error)


@pytest.mark.parametrize("refusal", [Elsewhere("gone"), Later("gone")])
def test_a_refusal_that_lasts_is_an_unavailable_region_in_which_nothing_was_changed(
    refusal: StoreError,
) -> None:
    assert facts(final(REGION, refusal)) == facts(Unavailable(REGION, "gone", sent=False))


def test_a_partition_that_goes_on_moving_is_still_that() -> None:
    moving = StoreMoving(REGION, PARTITION)
    assert final(REGION, moving) is moving
