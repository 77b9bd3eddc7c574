"""Looking into a Redis past all our code: what is left there, and whether the counts are right."""

from typing import Any, cast

import redis

from tradewind.store.keys import PERMANENT


def connected(port: int) -> Any:
    """A plain client with decoded replies; redis-py's own types are too wide to be useful here."""
    return cast("Any", redis.Redis(port=port, decode_responses=True))


def flush(port: int) -> None:
    """Empty the server, and undo what a test may have configured."""
    with connected(port) as client:
        client.flushall()


def leaked_keys(port: int) -> list[str]:
    """Keys without TTL that belong to no live or dead task and are not permanent (invariant 8)."""
    with connected(port) as client:
        lasting = [key for key in client.scan_iter(count=1000) if client.ttl(key) == -1]
        tasks = {key.rpartition(":")[2] for key in lasting if _kind(key).startswith("t:")}
        # An import is remembered until it is settled, however long its task is gone.
        unsettled = {
            task_id
            for key in lasting
            if _kind(key) == "imports"
            for task_id in client.zrange(key, 0, -1)
        }
        return sorted(
            key
            for key in lasting
            if _kind(key) not in PERMANENT
            and not (tasks | unsettled).issuperset(_members(client, key))
        )


def wrong_counts(*ports: int) -> dict[str, tuple[int, int]]:
    """Fields of counts that differ from the records: (counted, in records), by KEY FIELD."""
    counted: dict[str, int] = {}
    actual: dict[str, int] = {}
    for port in ports:
        with connected(port) as client:
            for key in client.scan_iter(count=1000):
                place, kind = key.partition("}:")[0], _kind(key)
                if kind == "counts":
                    for field, number in client.hgetall(key).items():
                        counted[f"{place} {field}"] = int(number)
                elif kind.startswith("t:"):
                    for field in _counted_as(*client.hmget(key, "st", "q", "pr")):
                        actual[f"{place} {field}"] = actual.get(f"{place} {field}", 0) + 1
    return {
        field: (counted.get(field, 0), actual.get(field, 0))
        for field in counted.keys() | actual.keys()
        if counted.get(field, 0) != actual.get(field, 0)
    }


_LETTERS = {"SCHEDULED": "s", "PROCESSING": "r", "FAILED": "f", "MOVING": "m", "DEAD_LETTER": "d"}


def _counted_as(state: str, queue: str, priority: str) -> list[str]:
    if state == "PENDING":
        return [f"p{priority}:{queue}", "P"]
    return [f"{_LETTERS[state]}:{queue}"] if state in _LETTERS else []


def _kind(key: str) -> str:
    return key.partition("}:")[2]


def _members(client: Any, key: str) -> list[str]:
    match client.type(key):
        case "list":
            return [member.partition(":")[0] for member in client.lrange(key, 0, -1)]
        case "zset":
            return list(client.zrange(key, 0, -1))
        case _:
            return [key.rpartition(":")[2]]
