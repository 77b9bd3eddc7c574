"""A lab's Redis, looked at past all our code."""

import time
from typing import Any

import redis

from tests.flow.lab import Lab
from tradewind.store.keys import partition_keys


def server(lab: Lab, region: str = "eu-west") -> Any:
    """A plain client with decoded replies."""
    target = lab.fleet.regions[region].redis
    host, _, port = target.nodes[0].rpartition(":")
    kind: Any = redis.RedisCluster if target.kind == "cluster" else redis.Redis
    return kind(host=host, port=int(port), decode_responses=True)


def due_times(lab: Lab) -> dict[str, float]:
    """When each task that waits for a time is due, ms; those of one partition in their order."""
    found: dict[str, float] = {}
    with server(lab) as raw:
        for keys in partition_keys(lab.fleet.partitions):
            for key in keys.due.values():
                found.update(raw.zrange(key, 0, -1, withscores=True))
    return found


def monotonic_zero_ms(lab: Lab) -> float:
    """What the Redis's clock said, ms, when this machine's monotonic clock stood at 0."""
    with server(lab) as raw:
        seconds, micros = raw.time()
        return seconds * 1_000 + micros / 1_000 - time.monotonic() * 1_000


def log_slow_calls(lab: Lab, longer_than_ms: float) -> None:
    """From now on, note calls that hold the Redis up for longer."""
    with server(lab) as raw:
        raw.config_set("slowlog-log-slower-than", round(longer_than_ms * 1_000))
        raw.slowlog_reset()


def slow_calls(lab: Lab) -> list[tuple[int, str]]:
    """Those calls, with their microseconds."""
    with server(lab) as raw:
        return [(call["duration"], str(call["command"])[:200]) for call in raw.slowlog_get(128)]
