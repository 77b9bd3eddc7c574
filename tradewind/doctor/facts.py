"""What was seen of a region's Redis, as frozen values.

`info` and `config` are what INFO and CONFIG GET said, name by name; a name that is not there is
one that this version does not know, or that the login may not ask for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as its primary sees it."""

    address: str
    is_online: bool
    lag_s: int  # since it last acknowledged


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One Redis process."""

    address: str
    info: Mapping[str, str]
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    pings_ms: tuple[float, ...] = ()
    skew_ms: float = 0.0  # its clock - ours, by the fastest ping
    skew_error_ms: float = 0.0  # half of that ping: it may be so much more or less
    servers: int = 1  # at its host, as far as is known: they share the memory of the machine
    others_limit: int = 0  # the sum of maxmemory of the others there, bytes

    @property
    def is_primary(self) -> bool:
        """Whether it takes writes."""
        return self.info.get("role", "master") == "master"

    @property
    def version(self) -> tuple[int, ...]:
        """As numbers; empty if it does not say."""
        parts = self.info.get("redis_version", "").split(".")
        return tuple(int(part) for part in parts if part.isdecimal())

    @property
    def ping_ms(self) -> float:
        """The median; 0 if it was not pinged."""
        return median(self.pings_ms) if self.pings_ms else 0.0

    def number(self, name: str) -> int:
        """A number of INFO; 0 if it is not there."""
        text = self.info.get(name, "")
        return int(text) if text.lstrip("-").isdecimal() else 0

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Those that are connected to it."""
        found: list[Replica] = []
        for index in range(self.number("connected_slaves")):
            pairs = self.info.get(f"slave{index}", "").split(",")
            said = {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
            lag = said.get("lag", "")
            found.append(
                Replica(
                    address=f"{said.get('ip', '?')}:{said.get('port', '?')}",
                    is_online=said.get("state") == "online",
                    lag_s=int(lag) if lag.isdecimal() else 0,
                )
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SilentNode:
    """A node that did not answer, and why."""

    address: str
    cause: str
    is_primary: bool = True


@dataclass(frozen=True, slots=True)
class Watcher:
    """A Sentinel: which primary it names, or why it names none."""

    address: str
    names: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition: who serves it, what it says that it is, and how many tasks it holds."""

    number: int
    node: str  # empty: nobody serves it
    identity: Mapping[str, str] = field(default_factory=dict[str, str])  # empty: never used
    waiting: int = 0  # ready, delayed and to be retried
    running: int = 0
    dead: int = 0

    @property
    def tasks(self) -> int:
        """All of them."""
        return self.waiting + self.running + self.dead


@dataclass(frozen=True, slots=True)
class KeySample:
    """Some of the keys of a region, from one place of its nodes on."""

    looked_at: int = 0
    in_all: int = 0
    foreign: tuple[str, ...] = ()  # keys that are none of ours: some of them
    foreign_count: int = 0
    ownerless: tuple[str, ...] = ()  # no TTL, and no task that they belong to


@dataclass(frozen=True, slots=True)
class Rights:
    """What the login may do."""

    user: str = ""
    is_known: bool = False  # whether it could be found out
    missing: tuple[str, ...] = ()  # of what we use: "+command", "~keys" or "&channels"
    unknown: tuple[str, ...] = ()  # commands of ours that the server does not have
    is_almighty: bool = False  # it may do everything


@dataclass(frozen=True, slots=True)
class RegionFacts:
    """All that was seen of one region."""

    name: str
    kind: str  # as of fleet.RedisTarget
    nodes: tuple[NodeFacts, ...] = ()
    silent: tuple[SilentNode, ...] = ()
    strangers: tuple[str, ...] = ()  # named for it, and nodes of another Cluster than the first
    partitions: tuple[PartitionFacts, ...] = ()
    watchers: tuple[Watcher, ...] = ()
    uncovered_slots: int = 0  # that no node owns
    silent_slots: int = 0  # of primaries that do not answer
    other_partitions: int = 0  # it is in use with so many; 0: with no other number
    keys: KeySample = KeySample()
    rights: Rights = Rights()

    @property
    def is_reachable(self) -> bool:
        """Whether any of its nodes has answered."""
        return bool(self.nodes)

    @property
    def primaries(self) -> tuple[NodeFacts, ...]:
        """Those that take writes."""
        return tuple(node for node in self.nodes if node.is_primary)
