"""What a run is made of: one task on its way, and the settings of a world."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.sim.matrices import Matrix
from tradewind.errors import StoreError
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.policy.rules import Resolved, resolve
from tradewind.task import Draft

QUEUE, HANDLER = "default", "sim"
_NOWHERE = RedisTarget("standalone", ("sim:0",))  # nothing connects to it


@dataclass(frozen=True, slots=True)
class Origin:
    """Tasks of one kind: where their callers are, and what they may use."""

    region: str
    share: float
    draft: Draft
    resolved: Resolved
    permitted: frozenset[str]


@dataclass(slots=True, eq=False)
class Task:
    """One task, from its submit to its end. Times are simulated seconds."""

    origin: Origin
    at_s: float
    service_s: float
    partition: int
    until_s: float  # the caller's deadline
    attempt: int = 1  # of the caller
    refused: dict[str, StoreError] = field(default_factory=dict[str, StoreError])
    stored_in: str = ""
    is_answered: bool = False
    started_s: float = -1.0
    had_place: bool = False  # whether a permitted region could have taken it when it was submitted


@dataclass(frozen=True, slots=True)
class Settings:
    """A world. `shares` are those of the callers, by the order of the matrix's regions."""

    matrix: Matrix
    shares: tuple[float, ...]
    fenced: float = 0.0  # share of tasks that must stay in the residency group of their origin
    slots: int = 20  # of each region
    workers: int = 3  # processes of each region: zones, for the loss of one third
    routers: int = 2  # of each region
    report_s: float = 1.0  # how often workers write heartbeats and routers read them
    service_s: float = 0.5
    partitions: int = 64
    what_ifs: frozenset[str] = frozenset()  # see whatif.NAMES

    @property
    def capacity(self) -> float:
        """Tasks a second that one whole region completes."""
        return self.slots / self.service_s

    def fleet(self) -> Fleet:
        """Return what a regions.yaml of this world says: all defaults, and the matrix as priors."""
        groups = self.matrix.groups
        regions = {
            name: Region(name, _NOWHERE, residency=(groups[name],)) for name in self.matrix.regions
        }
        return Fleet(regions, partitions=self.partitions, rtt_ms=self.matrix.rtt_ms)

    def origins(self, fleet: Fleet) -> Iterator[Origin]:
        """Yield the kinds of tasks: of each region those without and those with a fence."""
        total = sum(self.shares)
        for name, share in zip(self.matrix.regions, self.shares, strict=True):
            for fence, part in (
                ((), 1 - self.fenced),
                (fleet.regions[name].residency, self.fenced),
            ):
                if part:
                    draft = Draft(HANDLER, QUEUE, residency=fence, origin_region=name)
                    resolved = resolve(draft, fleet)
                    permitted = frozenset(fleet.inside(resolved.fence))
                    yield Origin(name, share / total * part, draft, resolved, permitted)
