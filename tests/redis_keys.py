"""Looking into a Redis past all our code: what is left there, and whether the counts are right."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

import redis

from tradewind.local.redis_server import find_server
from tradewind.local.scratch.server import wait_until
from tradewind.store.dial import CLIENT_NAME
from tradewind.store.letters import word
from tradewind.store.ownership import (
    is_owner,
    is_record,
    is_task_s,
    kind_of,
    place_of,
    tasks_in,
)
from tradewind.store.rights import acl_rules

#: First ports of Clusters that stand for one server each: see tests.sharded.
CLUSTERS: set[int] = set()


@cache
def connected(port: int) -> Any:
    """A plain client with decoded replies; redis-py's own types are too wide to be useful here."""
    kind = redis.RedisCluster if port in CLUSTERS else redis.Redis
    return cast("Any", kind)(host="127.0.0.1", port=port, decode_responses=True)


def flush(port: int) -> None:
    """Empty the server."""
    connected(port).flushall()


def allow(port: int, user: str, password: str, *, but: str = "") -> None:
    """Make a user that may do what we use, `but` for one rule."""
    newer = set[str]() if find_server().version >= (7, 2) else {"+waitaof", "+client|setinfo"}
    rules = [rule for rule in acl_rules() if rule not in {but, *newer}]
    connected(port).execute_command("ACL", "SETUSER", user, "on", f">{password}", *rules)


def fresh(port: int) -> None:
    """Empty the server, once nobody of the test before is connected any more.

    What a process that was killed had sent is still carried out, after the next test has begun.
    """
    here = partial(_connected_names, port)
    wait_until(lambda: CLIENT_NAME not in here(), f"a test has left a client of ours on {port}")
    flush(port)


def _connected_names(port: int) -> set[str]:
    client = connected(port)
    lists = (
        client.client_list(target_nodes="all").values()
        if port in CLUSTERS
        else [client.client_list()]
    )
    return {each["name"] for clients in lists for each in clients}


def leaked_keys(port: int) -> list[str]:
    """Keys without TTL that belong to no live or dead task and are not permanent (invariant 8)."""
    client = connected(port)
    lasting = [key for key, ttl in _each(client, _keys(client), "ttl").items() if ttl == -1]
    kinds = _each(client, lasting, "type")
    named = {
        key: tasks_in(key, kind, _members(client, key, kind))
        for key, kind in kinds.items()
        if is_task_s(key)
    }
    owners = {key.rpartition(":")[2] for key in lasting if is_record(key)}
    owners |= {id_ for key, ids in named.items() if is_owner(key) for id_ in ids}
    return sorted(
        key
        for key, ids in named.items()
        if not (owners.intersection(ids) if kinds[key] == "list" else owners.issuperset(ids))
    )


def wrong_counts(*ports: int) -> dict[str, tuple[int, int]]:
    """Fields of counts that differ from the records: (counted, in records), by KEY FIELD."""
    counted: dict[str, int] = {}
    actual: dict[str, int] = {}
    for port in ports:
        client = connected(port)
        keys = _keys(client)
        counts = _each(client, [key for key in keys if kind_of(key) == "counts"], "hgetall")
        for key, numbers in counts.items():
            for field, number in numbers.items():
                counted[f"{place_of(key)} {field}"] = int(number)
        records = [key for key in keys if is_record(key)]
        for key, facts in _each(client, records, "hmget", ["s", "q", "pr", "cr"]).items():
            # No state: its retention ended after the keys were listed.
            for field in _counted_as(*facts) if facts[0] else ():
                place = f"{place_of(key)} {field}"
                actual[place] = actual.get(place, 0) + 1
    return {
        field: (counted.get(field, 0), actual.get(field, 0))
        for field in counted.keys() | actual.keys()
        if counted.get(field, 0) != actual.get(field, 0)
    }


_KINDS = {"SCHEDULED": "s", "PROCESSING": "r", "FAILED": "f", "MOVING": "m", "DEAD_LETTER": "d"}


def _counted_as(letter: str, queue: str, priority: str | None, crashes: str | None) -> list[str]:
    state = word(letter.encode())
    if state == "PENDING":
        place = priority or "1"
        suspect = [f"ps{place}:{queue}"] if int(crashes or 0) else []
        return [f"p{place}:{queue}", "P", *suspect]
    return [f"{_KINDS[state]}:{queue}"] if state in _KINDS else []


def _keys(client: Any) -> list[str]:
    return list(client.scan_iter(count=1000))


def _each(client: Any, keys: Sequence[str], command: str, *arguments: Any) -> Mapping[str, Any]:
    """The command's reply for each key, in one round trip."""
    if not keys:
        return {}
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            getattr(pipe, command)(key, *arguments)
        return dict(zip(keys, pipe.execute(), strict=True))


def _members(client: Any, key: str, kind: str) -> list[str]:
    match kind:
        case "list":
            return list(client.lrange(key, 0, -1))
        case "zset":
            return list(client.zrange(key, 0, -1))
        case _:
            return []
