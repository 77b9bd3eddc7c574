"""What CLUSTER SLOTS says: which nodes there are, and which slots each primary serves.

CLUSTER SHARDS says more and is never asked: in the moments after a failover, while a node takes the
other for its own replica and is one itself, it never ends, and the node answers nobody until it is
killed (docs/decisions/0019).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.crc import key_slot

_SLOTS: Final = 16_384
_NOWHERE: Final = frozenset({b"noaddr", b"handshake"})  # flags of nodes that nobody can reach yet
_UNKNOWN: Final = b"?"  # cluster-preferred-endpoint-type hostname, and no name was given


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and the ranges of slots that it serves, both ends included."""

    address: str
    is_primary: bool = True
    slots: tuple[tuple[int, int], ...] = ((0, _SLOTS - 1),)

    def serves(self, key: str) -> bool:
        """Whether a key lies there."""
        return self.holds(key_slot(key.encode()))

    def holds(self, slot: int) -> bool:
        """Whether a slot lies there."""
        return any(low <= slot <= high for low, high in self.slots)


def uncovered(places: Sequence[Place]) -> int:
    """How many slots none of these serves."""
    return _SLOTS - sum(high - low + 1 for place in places for low, high in place.slots)


def slot_places(ranges: Sequence[Any], *, asked: str) -> list[Place]:
    """The nodes of a reply of CLUSTER SLOTS: primaries, then the replicas that are well.

    `asked` is who gave it: a node may not know its own host.
    """
    slots: dict[str, list[tuple[int, int]]] = {}
    followers: dict[str, None] = {}
    for low, high, primary, *replicas in ranges:
        slots.setdefault(_address(primary, asked), []).append((int(low), int(high)))
        followers |= dict.fromkeys(_address(replica, asked) for replica in replicas)
    primaries = [Place(address, slots=tuple(held)) for address, held in slots.items()]
    return [*primaries, *(Place(address, is_primary=False, slots=()) for address in followers)]


def node_ids(ranges: Sequence[Any]) -> frozenset[bytes]:
    """Of all that a reply of CLUSTER SLOTS names."""
    return frozenset(node[2] for _, _, *members in ranges for node in members)


def idle_places(nodes: bytes, ranges: Sequence[Any], *, asked: str) -> list[Place]:
    """Those of CLUSTER NODES of which CLUSTER SLOTS says nothing.

    Failed replicas, primaries without slots, and whatever has not joined or caught up yet.
    """
    known = node_ids(ranges)
    found: list[Place] = []
    for line in nodes.splitlines():
        node_id, where, flags, *_ = line.split()
        if node_id not in known and _NOWHERE.isdisjoint(flags.split(b",")):
            host, _, port = where.partition(b"@")[0].rpartition(b":")
            address = f"{host.decode() or _host_of(asked)}:{int(port)}"
            found.append(Place(address, is_primary=b"master" in flags, slots=()))
    return found


def redirected(words: str, *, asked: str) -> str:
    """The node of a redirection, "SLOT HOST:PORT", as `asked` gave it. Its host may be missing."""
    host, _, port = words.rpartition(" ")[2].rpartition(":")
    return f"{host if host.encode() not in {b'', _UNKNOWN} else _host_of(asked)}:{port}"


def _address(node: Sequence[Any], asked: str) -> str:
    return f"{_host(node[0], node[3:], asked)}:{node[1]}"


def _host(endpoint: Any, more: Sequence[Any], asked: str) -> str:
    """Where to reach a node.

    Its preferred endpoint. Without a name for one ("?") its IP address, which is told beside it;
    without any endpoint the host that was asked (redis.io, CLUSTER SLOTS).
    """
    if endpoint == _UNKNOWN:
        pairs = [part for pairs in more for part in pairs]
        endpoint = dict(zip(pairs[::2], pairs[1::2], strict=True)).get(b"ip")
    return endpoint.decode() if endpoint else _host_of(asked)


def _host_of(address: str) -> str:
    return address.rpartition(":")[0]
