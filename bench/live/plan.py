"""One small world and its scripts, the same for the live run and the simulator.

All times of a script, and health.interval with them, are a tenth of what bench.sim plays: the
breaker's times are multiples of that interval. Round trips, the SDK's pauses and the times by which
measurements age are as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.replay_input import slug
from bench.sim import matrices, outages
from bench.sim.matrices import Matrix
from bench.sim.model import Settings
from bench.sim.outages import Script
from tradewind import regions
from tradewind.fleet import Fleet

PACE = 0.1
BEFORE_S, OUTAGE_S = 150.0, 250.0  # in the simulator's time
AFTER_S = 30.0  # in ours
PATIENCE_S = 10.0  # of callers: shorter than outages, so that what waits for their end has failed
WARM_S = 5.0  # routers have seen workers work
REGIONS, SLOTS, SERVICE_S = 4, 10, 0.5
SHARES = (25.0, 20.0, 25.0, 15.0)
LOAD = 0.55
FENCED = 0.1

#: Scripts that can be played: a drain needs operators' words, which no router takes yet.
NAMES = ("hard-down", "cut-off", "gray", "flapping", "neighbours", "herd", "third-gone")


@dataclass(frozen=True, slots=True)
class World(Settings):
    """The settings of a world whose fleet a regions.yaml tells."""

    told: Callable[[], Fleet] | None = None

    def fleet(self) -> Fleet:
        """Return what the file says."""
        return Settings.fleet(self) if self.told is None else self.told()


@dataclass(frozen=True, slots=True)
class Plan:
    """A world, a script, and how long tasks come."""

    world: World
    script: Script
    length_s: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return LOAD * self.world.capacity * len(self.world.matrix.regions)

    @property
    def broken(self) -> str:
        """The region that fails first."""
        return self.script.changes[0].region


def plan(name: str, config: Path, count: int = REGIONS, pace: float = PACE) -> Plan:
    """Write the regions.yaml of a script's world, and return what is to be played.

    Scripts break the third of `count` regions, some others as well; `pace` is a factor on all their
    times. Raises ValueError for a script that there is not, or that cannot be played.
    """
    if name not in NAMES:
        raise ValueError(f"no script {name}: {', '.join(NAMES)}")
    matrix = _slugged(matrices.load("azure", count))
    shape = outages.SHAPES[name](matrix.regions, BEFORE_S, OUTAGE_S)
    script = _scaled(outages.ordered(shape), pace)
    workers = 3 if any(change.condition.workers < 1 for change in script.changes) else 1
    config.write_text(_file(matrix, pace), encoding="utf-8")
    fleet = regions.load(config)
    world = World(
        matrix=matrix,
        shares=SHARES[:count],
        fenced=FENCED,
        slots=SLOTS,
        workers=workers,
        routers=1,
        service_s=SERVICE_S,
        partitions=fleet.partitions,
        told=lambda: fleet,
    )
    return Plan(world, script, script.ends_s + AFTER_S)


def _scaled(script: Script, pace: float) -> Script:
    changes = tuple(replace(change, at_s=change.at_s * pace) for change in script.changes)
    return replace(
        script,
        begins_s=script.begins_s * pace,
        ends_s=script.ends_s * pace,
        changes=changes,
        patience_s=max(PATIENCE_S, script.patience_s * pace),
    )


def _slugged(matrix: Matrix) -> Matrix:
    def named(values: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
        return {(slug(a), slug(b)): value for (a, b), value in values.items()}

    return Matrix(
        matrix.source,
        tuple(map(slug, matrix.regions)),
        named(dict(matrix.rtt_ms)),
        named(dict(matrix.spread_ms)),
    )


def _file(matrix: Matrix, pace: float) -> str:
    groups = matrix.groups
    lines = ["version: 1", "regions:"]
    for number, name in enumerate(matrix.regions):
        redis = f"redis://127.0.0.1:{6401 + number}"
        lines.append(f"  {name}: {{redis: '{redis}', residency: [{groups[name]}]}}")
    lines.append("rtt:")
    for name in matrix.regions:
        ways = [f"{b}: {ms:g}ms" for (a, b), ms in matrix.rtt_ms.items() if a == name]
        lines.append(f"  {name}: {{{', '.join(ways)}}}")
    lines += [
        f"health: {{interval: {5_000 * pace:g}ms, timeout: 2s}}",
        "queues: {default: {lease: 5s}}",
    ]
    return "\n".join(lines) + "\n"
