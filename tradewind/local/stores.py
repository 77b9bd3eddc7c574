"""What a region's Redis is made of: one server, a Cluster, or a primary that Sentinels watch. Pure.

With replicas each primary has one, which takes over when it dies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from tradewind.fleet import RedisTarget
from tradewind.local.freeports import LOOPBACK

SERVICE: Final = "main"  # what Sentinels call the primary that they watch
_PRIMARIES: Final = 3  # the smallest Cluster of which one primary may die (redis.io, Cluster)
_SENTINELS: Final = 3  # the smallest number of which one may die (redis.io, Sentinel)


@dataclass(frozen=True, slots=True)
class Form:
    """Of every region of a fleet. `directory` is where its servers' data lies, in the region's.

    Each form has data of its own: what a Cluster spread over its servers is of no use to one.
    """

    kind: Literal["standalone", "cluster", "sentinel"]
    directory: str = ""
    primaries: int = 1
    replicas: int = 0  # in all
    sentinels: int = 0

    @property
    def servers(self) -> int:
        """How many a region has."""
        return self.primaries + self.replicas

    @property
    def nodes(self) -> int:
        """How many processes a region has: servers, and what watches them."""
        return self.servers + self.sentinels

    @property
    def ports(self) -> int:
        """How many a region takes."""
        return self.nodes + (self.servers if self.kind == "cluster" else 0)


def form_of(*, cluster: bool, replicas: bool) -> Form:
    """The form that was asked for."""
    match cluster, replicas:
        case False, False:
            return Form("standalone")
        case False, True:
            return Form("sentinel", "replicas", replicas=1, sentinels=_SENTINELS)
        case True, False:
            return Form("cluster", "cluster", _PRIMARIES)
        case _:
            return Form("cluster", "cluster-replicas", _PRIMARIES, replicas=_PRIMARIES)


@dataclass(frozen=True, slots=True)
class Node:
    """One process of a region's Redis; its name is `redis-` and this one's."""

    name: str
    port: int
    bus_port: int = 0  # of a Cluster's node: where the others talk to it

    @property
    def directory(self) -> str:
        """Of its files, in that of its form; empty for one that is alone."""
        return self.name.partition(".")[2]

    @property
    def process(self) -> str:
        """Its name for the supervisor."""
        return f"redis-{self.name}"

    @property
    def address(self) -> str:
        """What it is called by the others, and by clients: HOST:PORT."""
        return f"{LOOPBACK}:{self.port}"


@dataclass(frozen=True, slots=True)
class Store:
    """A region's Redis. The first `form.primaries` servers are primaries when it is new."""

    form: Form
    servers: tuple[Node, ...]
    sentinels: tuple[Node, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All its processes."""
        return (*self.servers, *self.sentinels)

    @property
    def ports(self) -> set[int]:
        """All that it takes."""
        return {port for node in self.nodes for port in (node.port, node.bus_port) if port}

    def target(self, ways: Mapping[str, int]) -> RedisTarget:
        """It as a process finds it that reaches nodes, by name, through these ports of proxies."""
        asked = self.sentinels or self.servers
        return RedisTarget(
            self.form.kind,
            tuple(node.address for node in asked),
            service=SERVICE if self.sentinels else "",
            through={
                node.address: f"{LOOPBACK}:{ways[node.name]}"
                for node in self.nodes
                if node.name in ways
            },
        )


def store_of(region: str, form: Form, ports: Iterator[int]) -> Store:
    """Give a region's nodes `form.ports` of these; the first server gets the first.

    Nodes are numbered by a dot, which no region's name has; one that is alone has the region's.
    """
    count = form.servers
    names = [region] if form.kind == "standalone" else [f"{region}.{n + 1}" for n in range(count)]
    served = list(islice(ports, count))
    buses = islice(ports, count) if form.kind == "cluster" else [0] * count
    watching = enumerate(islice(ports, form.sentinels), 1)
    return Store(
        form,
        tuple(Node(*each) for each in zip(names, served, buses, strict=True)),
        tuple(Node(f"{region}.sentinel-{number}", port) for number, port in watching),
    )
