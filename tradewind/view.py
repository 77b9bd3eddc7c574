"""How a router sees regions, and what it decides: values of a routing decision.

All frozen. Ages are in the view, so that deciding reads no clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class RegionView:
    """One region as one router sees it now: the whole input of a routing decision about it.

    Ages are in the view, so that deciding reads no clock.
    """

    name: str
    rtt_ms: float
    ok: float = 1.0  # success rate of our calls, 0..1
    health: Literal["HEALTHY", "DEGRADED", "DOWN", "RECOVERING", "UNKNOWN"] = "HEALTHY"
    state: Literal["ACTIVE", "CORDONED", "DRAINING"] = "ACTIVE"
    depth: int = 0  # ready tasks by now: the reports, brought up to date
    in_flight: int = 0  # tasks this router has sent and not heard of
    routers: int = 1  # live routers that send to it, this one included
    slots: int = 0  # live worker slots
    free_slots: int = 0  # likewise
    rate: float = 0.0  # completions a second; 0 until known
    service_s: float = 0.0  # mean seconds an attempt takes; 0 until known
    age_s: float = 0.0  # of a full load report that would be as uncertain as these numbers
    full: bool = False  # the store refused for memory lately
    served: Mapping[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]],
    )  # queue -> handler names that some live worker runs ("*" = any)
    unserved_for_s: float = 0.0  # how long there has been no live worker at all
    ramp: float = 1.0  # how much of its share it may take while it recovers, 0..1
    trial: bool = False  # half-open: it may take one task now, which shows whether it is well
    live_share: float = 1.0  # slots, of those that it is known to have when all is well


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a decision says of one region: eligible with a score, or excluded by a reason."""

    region: str
    eligible: bool
    excluded_by: str
    rtt_ms: float
    expected_wait_s: float
    score_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a task goes and why: the decision object is the explanation."""

    region: str  # empty: nowhere
    rule: str
    candidates: tuple[Candidate, ...]
    fence: tuple[str, ...]
    ledger_home: str = ""
    reason: str = ""  # "affinity", "home", "spill", "pin", or why there is none
    policy_version: str = ""
