"""What a primary, its replica and their Sentinels know of one another before they start. Pure.

Sentinels write what has changed since into these files, and have the servers do so, too: who is
primary outlives them all.
"""

import re
import secrets
from collections.abc import Sequence
from itertools import chain
from typing import Final

from tradewind.local.freeports import LOOPBACK
from tradewind.local.stores import SERVICE, Node

_QUORUM: Final = 2  # of three
DOWN_AFTER_MS: Final = 5_000  # a machine with other work to do may well be silent for seconds
_NEXT_FAILOVER_MS: Final = 10_000  # the half of it, if one fails (sentinel.c)

_PORT = re.compile(r"^port (\d+)$", re.MULTILINE)
_FOLLOWS = re.compile(r"^(?:replicaof|slaveof) ", re.MULTILINE)
_MONITOR = re.compile(rf"^sentinel monitor {SERVICE} \S+ (\d+) ", re.MULTILINE)
_EPOCH = re.compile(rf"^sentinel config-epoch {SERVICE} (\d+)$", re.MULTILINE)


def server_text(node: Node, primary: Node) -> str:
    """A server's file: what it is, and nothing that its command line says."""
    follows = "" if node == primary else f"replicaof {LOOPBACK} {primary.port}\n"
    return f"port {node.port}\n{follows}"


def sentinel_texts(sentinels: Sequence[Node], primary: Node, others: Sequence[Node]) -> list[str]:
    """Each Sentinel's file; all know each other, and the replicas."""
    ids = [secrets.token_hex(20) for _ in sentinels]
    watch = [
        f"monitor {SERVICE} {LOOPBACK} {primary.port} {_QUORUM}",
        f"down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
        f"failover-timeout {SERVICE} {_NEXT_FAILOVER_MS}",
        *(f"known-replica {SERVICE} {LOOPBACK} {other.port}" for other in others),
    ]
    texts: list[str] = []
    for mine, sentinel in zip(ids, sentinels, strict=True):
        friends = [
            f"known-sentinel {SERVICE} {LOOPBACK} {other.port} {other_id}"
            for other_id, other in zip(ids, sentinels, strict=True)
            if other is not sentinel
        ]
        told = chain([f"myid {mine}"], watch, friends)
        lines = [f"port {sentinel.port}", f"bind {LOOPBACK}", *(f"sentinel {t}" for t in told)]
        texts.append("".join(f"{line}\n" for line in lines))
    return texts


def port_in(text: str) -> int:
    """Where a server listened that left this; 0 if it does not say."""
    found = _PORT.search(text)
    return int(found[1]) if found else 0


def primary_among(servers: Sequence[str], sentinels: Sequence[str]) -> int:
    """Which of the servers that left these is primary: by the newest word of a Sentinel.

    Where that is none of them, by its own: the first that follows nobody.
    """
    told: list[tuple[int, int]] = []
    for text in sentinels:
        watched, epoch = _MONITOR.search(text), _EPOCH.search(text)
        if watched is not None:
            told.append((int(epoch[1]) if epoch else 0, int(watched[1])))
    _, port = max(told, default=(0, 0))
    ports = [port_in(text) for text in servers]
    if port in ports:
        return ports.index(port)
    alone = [index for index, text in enumerate(servers) if not _FOLLOWS.search(text)]
    return min(alone, default=0)
