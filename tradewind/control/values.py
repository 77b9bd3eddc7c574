"""What operators have ordered, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

#: ACTIVE: takes new work. CORDONED: nothing new comes in. DRAINING: and nothing starts either.
RegionState = Literal["ACTIVE", "CORDONED", "DRAINING"]


class Stamp(NamedTuple):
    """Which version of the document: also the ballot that it is voted on by.

    `epoch` grows with every version. `change_id` is the change's own, so that two that were begun
    at the same time are told apart.
    """

    epoch: int
    change_id: str


@dataclass(frozen=True, slots=True)
class Order:
    """What a region may do, and who said so. `forced`: past the safety rules."""

    state: RegionState
    reason: str = ""
    by: str = ""
    at_ms: int = 0  # by the clocks of the regions, for people
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing of a queue starts, in any region."""

    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Evacuation:
    """What waits in a region is to leave it. `rate_per_s` 0: as fast as the targets allow."""

    rate_per_s: float = 0.0
    by: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Control:
    """One version of the document. A region that it does not name is ACTIVE.

    `forced`: it needs no majority. `recent`: ids of the changes that led to it, the last ones, so
    that a change that is repeated after a lost answer knows whether it is in already.
    """

    stamp: Stamp
    regions: Mapping[str, Order] = field(default_factory=dict[str, Order])
    pauses: Mapping[str, Pause] = field(default_factory=dict[str, Pause])
    evacuations: Mapping[str, Evacuation] = field(default_factory=dict[str, Evacuation])
    forced: bool = False
    recent: tuple[str, ...] = ()

    def state(self, region: str) -> RegionState:
        """What the region may do."""
        order = self.regions.get(region)
        return "ACTIVE" if order is None else order.state

    def is_paused(self, queue: str) -> bool:
        """Whether nothing of the queue may start."""
        return queue in self.pauses


@dataclass(frozen=True, slots=True)
class Barred:
    """A region has promised this epoch to another change, and takes no lower one."""

    epoch: int


NEVER = Stamp(0, "")
#: What holds before the first change: everything is ACTIVE.
EMPTY = Control(NEVER)
