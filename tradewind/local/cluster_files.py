"""What the nodes of a Cluster know of one another before they start: nodes.conf, as text. Pure.

Nodes that read who is there and who serves what are a Cluster from their first moment; those that
are introduced by commands have to agree first, and may be stopped half-way.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tradewind.local.errors import LocalSetupError
from tradewind.local.stores import Node

SLOTS = 16_384  # fixed by the Redis Cluster specification
_SHARD_IDS = (7, 2, 0)

# ID HOST:PORT@BUS[,HOSTNAME[,NAME=VALUE...]] FLAGS ... (redis.io, CLUSTER NODES)
_LINE = re.compile(r"(?P<id>[0-9a-f]{40}) (?P<address>[^ ,]*)(?P<rest>\S* (?P<flags>\S+).*)")


def born(nodes: Sequence[Node], primaries: int, *, version: tuple[int, int, int]) -> list[str]:
    """The files of a new Cluster: slots in equal ranges, a replica each as far as nodes go.

    `version` of the server: only from 7.2 on it can read which of them make up a shard. It guesses
    otherwise, and until it has heard of all it tells clients wrongly.
    """
    ids = [secrets.token_hex(20) for _ in nodes]
    shards = [f",,shard-id={secrets.token_hex(20)}" for _ in range(primaries)]
    if version < _SHARD_IDS:
        shards = [""] * primaries
    bounds = [index * SLOTS // primaries for index in range(primaries + 1)]
    ranges = [f" {low}-{high - 1}" for low, high in pairwise(bounds)]
    texts: list[str] = []
    for reader in range(len(nodes)):
        lines: list[str] = []
        for index, (node, node_id) in enumerate(zip(nodes, ids, strict=True)):
            of = index % primaries
            role, follows = ("master", "-") if index == of else ("slave", ids[of])
            mine = "myself," if index == reader else ""
            # Each primary has an epoch of its own: nodes of the same one must settle it first.
            state = f"{mine}{role} {follows} 0 0 {of + 1} connected"
            slots = ranges[of] if index == of else ""
            lines.append(f"{node_id} {_place(node)}{shards[of]} {state}{slots}")
        vars_line = f"vars currentEpoch {primaries} lastVoteEpoch 0"
        texts.append("".join(f"{line}\n" for line in [*lines, vars_line]))
    return texts


def relocated(texts: Sequence[str], nodes: Sequence[Node]) -> list[str]:
    """The same Cluster with these ports: nodes keep their ids, and what they know of each other.

    Raises LocalSetupError if one of them does not say which node it is.
    """
    places = {
        _myself(text, node)["id"]: _place(node) for text, node in zip(texts, nodes, strict=True)
    }
    return [_with(text, places) for text in texts]


def port_in(text: str, node: Node) -> int:
    """Where a node listened that left this. Raises LocalSetupError if it does not say."""
    address = _myself(text, node)["address"].partition("@")[0]
    return int(address.rpartition(":")[2])


def _with(text: str, places: Mapping[str, str]) -> str:
    def moved(line: str) -> str:
        found = _LINE.fullmatch(line)
        if found is None or found["id"] not in places:  # `vars`, or a node that has been forgotten
            return line
        return f"{found['id']} {places[found['id']]}{found['rest']}"

    return "".join(f"{moved(line)}\n" for line in text.splitlines())


def _myself(text: str, node: Node) -> re.Match[str]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is not None and "myself" in found["flags"].split(","):
            return found
    raise LocalSetupError(f"the nodes.conf of {node.name} does not say which node it is")


def _place(node: Node) -> str:
    return f"{node.address}@{node.bus_port}"
