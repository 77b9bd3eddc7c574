"""The questions that are asked, by name."""

from dataclasses import dataclass, replace

from bench.sim import matrices, outages
from bench.sim.model import Settings
from bench.sim.outages import Script

WARM_S = 20.0  # routers have looked at everything, queues have filled
TOY_SHARES = (45.0, 10.0, 25.0, 10.0, 10.0)  # of AZURE_FIVE: East US is over capacity
EVEN_SHARES = (25.0, 20.0, 25.0, 15.0, 15.0)  # with one region of five away the rest suffices
SPILL_RIVALS = (
    "nearest",
    "argmin",
    "p2c",
    "random",
    "p2c-quota",
    "p2c-priced",
    "oracle-quota",
    "oracle",
)
OUTAGE_RIVALS = ("nearest", "p2c", "p2c-blind")
OUTAGE_LOAD = 0.55  # of all capacity: four regions of five then run at 69 %, below 1/1.4
BEFORE_S = 150.0  # of an outage: what is normal
DRAIN_S = 40.0  # after the last submit, for answers that are under way
AFTER_S = 390.0  # of a recovery; 300 s are allowed for it
OPEN_LONG_S = 1800.0  # after the third trip within an hour (docs/routing.md: LONG)
LONG_AT_MOST_S = 1.2 * OPEN_LONG_S  # by its jitter


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world, what comes in, what goes wrong, and who is compared."""

    name: str
    settings: Settings
    load: float  # of the capacity of all regions
    length_s: float
    rivals: tuple[str, ...]
    trace: str = "conversation"
    script: Script | None = None

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.load * self.settings.capacity * len(self.settings.matrix.regions)


def loads(length_s: float, service_s: float = 0.5) -> list[Scenario]:
    """75 % and 90 % of all capacity, reports each 1 s and 5 s."""
    matrix = matrices.load("azure", 5)
    base = Settings(matrix, TOY_SHARES, service_s=service_s)
    return [
        Scenario(
            f"load-{load:.0%}-{report_s:g}s".replace("%", ""),
            replace(base, report_s=report_s),
            load,
            length_s,
            SPILL_RIVALS,
        )
        for load in (0.75, 0.90)
        for report_s in (1.0, 5.0)
    ]


def broken(name: str, length_s: float) -> Scenario:
    """One outage script; a flapping region goes on until it is shut out, and an hour more.

    One that is shut out and well is watched until its long time out is over.
    """
    matrix = matrices.load("azure", 5)
    service_s = 2.0 if name in {"flapping", "shut-out"} else 1.0  # hours with half the tasks
    settings = Settings(matrix, EVEN_SHARES, fenced=0.1, service_s=service_s)
    script = outages.ordered(outages.SHAPES[name](matrix.regions, BEFORE_S, length_s))
    ends_s = script.ends_s + AFTER_S + (LONG_AT_MOST_S if name == "shut-out" else 0.0)
    return Scenario(name, settings, OUTAGE_LOAD, ends_s, OUTAGE_RIVALS, script=script)


def big(regions: int, routers: int, length_s: float) -> Scenario:
    """Build many regions, many routers: does it hold, and how fast is the simulator there."""
    matrix = matrices.load("globe", regions)
    shares = tuple(1.0 + index % 3 for index in range(regions))
    settings = Settings(
        matrix,
        shares,
        fenced=0.1,
        routers=routers,
        workers=1,
        report_s=5.0,
        service_s=0.1,
        partitions=16,
    )
    return Scenario("big", settings, 0.75, length_s, ("nearest", "p2c"))
