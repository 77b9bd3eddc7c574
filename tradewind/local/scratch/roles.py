"""Who is primary and who is replica, and how they change places."""

import time
from collections.abc import Mapping
from typing import Final, Literal

from tradewind.local.errors import LocalSetupError
from tradewind.local.redis_server import ask
from tradewind.local.scratch.server import POLL_S, RedisProcess, wait_until

_FAILOVER_TIMEOUT_S: Final = 20.0
# Nodes give the same shard no second vote within two node timeouts, and say nothing.
_ASK_AGAIN_S: Final = 1.0


def is_primary(server: RedisProcess) -> bool:
    """Whether it takes writes, by its own account. Raises OSError if it does not answer."""
    return replication(server.port)["role"] == "master"


def follows(replica: RedisProcess, primary: RedisProcess) -> bool:
    """Whether it has all that the primary had a moment ago, and hears of what comes."""
    return _follows(replica.port, primary.port)


def fail_over(replica: RedisProcess, how: Literal["", "FORCE", "TAKEOVER"] = "") -> None:
    """Make a Cluster's replica the primary of its slots; return once it is.

    The former primary follows it by then, if it lives. If it does not, `how` must be FORCE, or
    TAKEOVER where most primaries are dead. Raises LocalSetupError if it does not happen.
    """
    former_port = int(replication(replica.port)["master_port"])
    why_not = f"the node on port {replica.port} did not become a primary"
    give_up_at, ask_at = time.monotonic() + _FAILOVER_TIMEOUT_S, 0.0
    while not is_primary(replica):
        if time.monotonic() > give_up_at:
            raise LocalSetupError(why_not)
        if time.monotonic() > ask_at:
            ask(replica.port, f"CLUSTER FAILOVER {how}".strip())
            ask_at = time.monotonic() + _ASK_AGAIN_S
        time.sleep(POLL_S)
    wait_until(lambda: _follows_or_is_dead(former_port, replica.port), why_not)


def replication(port: int) -> Mapping[str, str]:
    """INFO replication. Raises OSError if nobody answers."""
    lines = ask(port, "INFO replication").splitlines()
    return {name: value for name, _, value in (line.partition(":") for line in lines)}


def _follows(port: int, primary_port: int) -> bool:
    facts = replication(port)
    return (
        facts["role"] == "slave"
        and facts["master_port"] == str(primary_port)
        and facts["master_link_status"] == "up"
    )


def _follows_or_is_dead(port: int, primary_port: int) -> bool:
    try:
        return _follows(port, primary_port)
    except OSError:
        return True
