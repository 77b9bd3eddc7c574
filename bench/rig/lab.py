"""What rows measure with: a folder, the sizes of this run, other queues, snapshots made once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.rig.peers import Contender
from bench.rig.server import Fresh, Kind, Store, fresh
from bench.rig.services import drive, router, site


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. The defaults are those of a full run."""

    drain: int = 100_000  # tasks of a drain
    bulk: int = 100_000  # tasks of a bulk submit
    calls: int = 8_000  # unary calls
    submits: int = 20_000  # of the SDK
    paced_s: float = 6.0  # seconds at 50/s
    memory: int = 50_000  # tasks whose bytes are counted
    backlog: int = 1_000_000
    idle_s: float = 10.0  # one window of watching idle processes
    settle_s: float = 70.0  # until they are idle: a new worker is watched closely for a minute
    lifetime: int = 1_000_000  # tasks of one worker process


QUICK = Sizes(
    drain=10_000,
    bulk=10_000,
    calls=1_500,
    submits=3_000,
    paced_s=2.0,
    memory=5_000,
    backlog=50_000,
    idle_s=3.0,
    settle_s=3.0,
    lifetime=20_000,
)


@dataclass(frozen=True, slots=True)
class Lab:
    """One run of the benchmarks. Everything it makes is in `home`."""

    home: Path
    sizes: Sizes
    peers: Mapping[str, Contender]
    _snapshots: dict[str, Path] = field(default_factory=dict[str, Path])

    def snapshot(self, name: str, on: Fresh[Kind], fill: Callable[[Kind], None]) -> Path:
        """What a Redis holds after `fill`, made the first time it is asked for."""
        if name not in self._snapshots:
            target = self.home / f"{name}.rdb"
            with on(self.home) as store:
                fill(store)
                store.save(target)
            self._snapshots[name] = target
        return self._snapshots[name]

    def filled(self, name: str, *loads: tuple[str, ...], on: Fresh[Store] = fresh) -> Path:
        """A snapshot with tasks of ours, submitted through a router: options of mode `bulk`."""

        def fill(store: Store) -> None:
            place = site(self.home, store)
            with router(place) as gate:
                for options in loads:
                    drive(place, "bulk", gate.address, "--size", "500", *options)

        return self.snapshot(name, on, fill)
