"""What CLUSTER SHARDS says: which nodes there are, and which slots each primary serves.

CLUSTER SLOTS says less, and is asked where SHARDS is not to be had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from redis.crc import key_slot

_SLOTS: Final = 16_384
_UNKNOWN: Final = b"?"  # cluster-preferred-endpoint-type hostname, and no name was given


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and the ranges of slots that it serves, both ends included."""

    address: str
    is_primary: bool = True
    slots: tuple[tuple[int, int], ...] = ((0, _SLOTS - 1),)
    is_online: bool = True  # neither failed nor loading, as far as who was asked knows
    is_sure: bool = True  # False: another primary may as well be the one that serves these slots

    def serves(self, key: str) -> bool:
        """Whether a key lies there."""
        return self.holds(key_slot(key.encode()))

    def holds(self, slot: int) -> bool:
        """Whether a slot lies there."""
        return any(low <= slot <= high for low, high in self.slots)


def uncovered(places: Sequence[Place]) -> int:
    """How many slots none of these serves."""
    return _SLOTS - sum(high - low + 1 for place in places for low, high in place.slots)


def cluster_places(shards: Sequence[Any], *, asked: str, tls: bool = False) -> list[Place]:
    """The nodes of a reply; `asked` is who gave it: a node may not know its own host.

    `tls`: the ports for TLS are meant. Of several primaries of one shard, as for moments after a
    failover, the ones that are online serve its slots; only CLUSTER SLOTS tells which.
    """
    found: list[Place] = []
    for shard in shards:
        said = _named(shard)
        ends = cast("list[int]", said["slots"])
        ranges = tuple(zip(map(int, ends[::2]), map(int, ends[1::2]), strict=True))
        nodes = [_named(node) for node in cast("list[Any]", said["nodes"])]
        online = sum(_is_primary(node) and _is_online(node) for node in nodes)
        for node in nodes:
            is_primary = _is_primary(node)
            if is_primary and not ranges:  # serves nothing: one that was, or is to be, emptied
                continue
            serves = is_primary and (_is_online(node) or not online)
            found.append(
                Place(
                    _address(node, asked, tls=tls),
                    is_primary,
                    ranges if serves else (),
                    _is_online(node),
                    is_sure=not serves or online <= 1,
                )
            )
    return found


def slot_places(ranges: Sequence[Any], *, asked: str) -> list[Place]:
    """The primaries of a reply of CLUSTER SLOTS."""
    slots: dict[str, list[tuple[int, int]]] = {}
    for low, high, primary, *_ in ranges:
        address = f"{_host(primary[0], primary[3:], asked)}:{primary[1]}"
        slots.setdefault(address, []).append((int(low), int(high)))
    return [Place(address, slots=tuple(held)) for address, held in slots.items()]


def redirected(words: str, *, asked: str) -> str:
    """The node of a redirection, "SLOT HOST:PORT", as `asked` gave it. Its host may be missing."""
    host, _, port = words.rpartition(" ")[2].rpartition(":")
    return f"{host if host.encode() not in {b'', _UNKNOWN} else _host_of(asked)}:{port}"


def _address(node: dict[str, Any], asked: str, *, tls: bool) -> str:
    ports = [node.get("tls-port"), node.get("port")]
    port = next(filter(None, ports if tls else reversed(ports)), 0)
    return f"{_host(node.get('endpoint'), [[b'ip', node.get('ip')]], asked)}:{port}"


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


def _is_primary(node: dict[str, Any]) -> bool:
    return node["role"] == b"master"


def _is_online(node: dict[str, Any]) -> bool:
    return node["health"] == b"online"


def _named(flat: Any) -> dict[str, Any]:
    parts = cast("list[Any]", flat)
    return {name.decode(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}
