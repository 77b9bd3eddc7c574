"""Where everything of an embedded fleet listens, and what each process sees: pure decisions."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path
from typing import Literal

from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK
from tradewind.local.stores import Form, Store, form_of
from tradewind.local.wan import Link
from tradewind.policy_file import REDIS_AT, told

DEFAULT_DATA_DIR = Path(".tradewind")
DEFAULT_PORT = 7070

# What a redis:// URL may name: the embedded servers listen on this address only.
_LOOPBACK_NAMES = (LOOPBACK, "localhost")


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """How to run a fleet.

    `config` is the file that the fleet was parsed from, `app` is MODULE:NAME or ./file.py:NAME
    (None: no worker pools). The first router listens on `port`, the others on the next free ones;
    `ephemeral_ports` chooses every port anew, Redis included, so that runs do not meet;
    `redis_may_move` only gives a Redis another port than the file's if that one is taken.
    `cluster` makes each region's Redis a Cluster, `replicas` gives each primary one, and in a
    region that is no Cluster Sentinels as well.
    `wan` puts the file's rtt table between the regions; `wan_home` beside it a link without delay
    between a region's own processes and its Redis, which can then be broken, too; `wan_apart` both,
    and for the router and the workers of a region each their own.
    `worker_options` are appended to every pool's command line, `region_options` to that of one
    region's. At a stop, running tasks get `stop_grace_s` to end.
    """

    config: Path
    app: str | None
    data_dir: Path = DEFAULT_DATA_DIR
    port: int = DEFAULT_PORT
    wan: bool = False
    wan_home: bool = False
    wan_apart: bool = False
    ephemeral_ports: bool = False
    redis_may_move: bool = False
    cluster: bool = False
    replicas: bool = False
    worker_options: tuple[str, ...] = ()
    region_options: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    log_dir: Path | None = None  # default: logs/ in the data directory
    ready_timeout_s: float = 120.0  # a first start compiles everything, perhaps on two busy cores
    stop_grace_s: float = 15.0

    @property
    def form(self) -> Form:
        """Of each region's Redis."""
        return form_of(cluster=self.cluster, replicas=self.replicas)


@dataclass(frozen=True, slots=True)
class RegionPorts:
    """Loopback ports of one region: its router (gRPC and HTTP), its worker pool."""

    grpc: int
    http: int
    worker_http: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All ports of a fleet. `wan` has a proxy port for each (viewer, node), or nothing.

    A viewer is a region, or if they are `apart` a process, `router-R` or `worker-R`; a node is one
    of a region's Redis, and where that is one server it goes by the region's name.
    """

    regions: Mapping[str, RegionPorts]
    stores: Mapping[str, Store]
    wan: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    apart: bool = False

    def viewer(self, kind: Literal["router", "worker"], region: str) -> str:
        """By what name a process of a region goes in `wan`."""
        return f"{kind}-{region}" if self.apart else region


def redis_ports(fleet: Fleet) -> dict[str, int]:
    """Port of every region's Redis, as the file names it.

    Raises LocalSetupError for a region that `tradewind up` cannot host: another machine's, a
    Cluster or Sentinel, one with a password or TLS, or a port that two regions share.
    """
    ports: dict[str, int] = {}
    for region in fleet.regions.values():
        port = _redis_port(region)
        for other, taken in ports.items():
            if taken == port:
                raise LocalSetupError(
                    f"regions {other} and {region.name} share port {port}: give each its own"
                )
        ports[region.name] = port
    return ports


def wan_pairs(fleet: Fleet, *, home: bool = False, apart: bool = False) -> list[tuple[str, str]]:
    """(viewer, region) for every way between two regions, in file order; `home`: in one, too.

    `apart`: for every process and every region.
    """
    if apart:
        processes = [f"{kind}-{name}" for kind in ("router", "worker") for name in fleet.regions]
        return list(product(processes, fleet.regions))
    own = [(name, name) for name in fleet.regions] if home else []
    return [*permutations(fleet.regions, 2), *own]


def wan_links(fleet: Fleet, layout: Layout) -> dict[tuple[str, str], Link]:
    """Give each way its proxy: half of the file's round trip in each direction."""
    nodes = {
        node.name: (region, node.port)
        for region, store in layout.stores.items()
        for node in store.nodes
    }
    standing: dict[str, str] = {}
    for region in fleet.regions:
        standing |= {
            layout.viewer("router", region): region,
            layout.viewer("worker", region): region,
        }
    return {
        (viewer, node): Link(
            listen_port=port,
            target_host=LOOPBACK,
            target_port=nodes[node][1],
            delay_ms=fleet.rtt_ms.get((standing[viewer], nodes[node][0]), 0.0) / 2,
        )
        for (viewer, node), port in layout.wan.items()
    }


def targets(layout: Layout, viewer: str = "") -> dict[str, RedisTarget]:
    """Every region's Redis as it is reached by `viewer`: without a link, direct."""
    ways = {node: port for (whose, node), port in layout.wan.items() if whose == viewer}
    return {region: store.target(ways) for region, store in layout.stores.items()}


def seeing(redis_at: Mapping[str, RedisTarget]) -> dict[str, str]:
    """Environment of a process that reads the user's own file, and finds each Redis there."""
    return {REDIS_AT: told(redis_at)}


def router_argv(config: Path, region: str, ports: RegionPorts) -> list[str]:
    """Command line of a region's router."""
    return [
        *_python_module("router"),
        *("--config", str(config), "--region", region),
        *("--listen", f"{LOOPBACK}:{ports.grpc}", "--http", f"{LOOPBACK}:{ports.http}"),
    ]


def worker_argv(
    config: Path, region: str, ports: RegionPorts, app: str, options: Sequence[str] = ()
) -> list[str]:
    """Command line of a region's worker pool. `options` are appended as they are."""
    return [
        *_python_module("worker"),
        *("--config", str(config), "--region", region, "--app", app),
        *("--http", f"{LOOPBACK}:{ports.worker_http}"),
        *options,
    ]


def _python_module(name: str) -> list[str]:
    # -P: a router.py or worker.py in the user's directory must not be taken for ours.
    return [sys.executable, "-P", "-m", name]


def _redis_port(region: Region) -> int:
    target = region.redis
    host, _, port = target.nodes[0].rpartition(":") if target.kind == "standalone" else ("", "", "")
    if host not in _LOOPBACK_NAMES:
        raise LocalSetupError(
            f"region {region.name} is not on this machine's loopback address: `tradewind up` hosts "
            f"only regions like `redis: redis://{LOOPBACK}:6401`; start the others yourself, with "
            "`tradewind router` and `tradewind worker`"
        )
    if target.username or target.password or target.tls is not None:
        raise LocalSetupError(
            f"region {region.name} has a user, a password or TLS, which embedded regions have not: "
            "remove them for `tradewind up`"
        )
    return int(port)
