"""How a router sees regions, and what it decides: values of a routing decision.

All frozen but the view itself, of which each look makes one a region: a frozen one takes 2.7 us to
make, this one 1.0. Ages are in the view, so that deciding reads no clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
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
    held_back: int = 0  # of them, of paused queues or run by nobody: no other waits behind those
    in_flight: int = 0  # tasks this router has sent and not heard of
    routers: int = 1  # live routers that send to it, this one included
    slots: int = 0  # live worker slots
    free_slots: int = 0  # likewise
    rate: float = 0.0  # completions a second, were all tasks like those there now; 0 until known
    service_s: float = 0.0  # mean seconds one takes that waits or runs there; 0 until known
    age_s: float = 0.0  # of a full load report that would be as uncertain as these numbers
    full: bool = False  # the store refused for memory lately
    evicts: bool = False  # its Redis deletes keys when it is full, tasks among them
    lacks: Mapping[str, str] = field(
        default_factory=dict[str, str],
    )  # durabilities that its Redis cannot give -> why
    served: Mapping[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]],
    )  # queue -> handler names that some live worker runs ("*" = any)
    unserved_for_s: float = 0.0  # how long there has been no live worker at all
    ramp: float = 1.0  # how much of its share it may take while it recovers, 0..1
    trial: bool = False  # half-open: it may take one task now, which shows whether it is well
    kept_out: bool = False  # down, though it answers: it has flapped
    out_for_s: float = 0.0  # how much longer it stays down at least; 0: nothing but probes says
    back_for_s: float = math.inf  # since it came back, give or take; inf: it was never out
    live_share: float = 1.0  # slots, of those that it is known to have when all is well


def known_for_s(view: RegionView) -> float | None:
    """Age of what is known of its load, in seconds; None: nothing is."""
    return None if view.health == "UNKNOWN" else view.age_s


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """What a score is made of: (rtt_s + wait_s + cost_s) / success_rate / ramp * health_factor.

    The seconds are those of the region times the weights of steering; the others as they count.
    """

    rtt_s: float
    wait_s: float
    cost_s: float
    success_rate: float
    ramp: float  # 1 but while it recovers
    health_factor: float  # 1 but while it is degraded, or its report is old


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a decision says of one region: eligible with a score, or excluded by reasons."""

    region: str
    eligible: bool
    excluded_by: str  # the most fundamental of `reasons`; empty if there is none
    rtt_ms: float
    expected_wait_s: float
    score_s: float
    share: float
    reasons: tuple[str, ...] = ()  # all that speaks against it, the most fundamental first
    parts: ScoreParts | None = None  # of score_s; None if it has none
    age_s: float | None = None  # of what is known of its load; None: nothing is
    health: str = ""
    trial: bool = False  # half-open: a task shows whether it is well again
    details: Mapping[str, str] = field(default_factory=dict[str, str])  # of `reasons`, where known


@dataclass(frozen=True, slots=True)
class FenceAuthors:
    """Who drew the fence of a task: a rule, its own `residency`, and a pin, which is narrower."""

    rule: str = ""  # empty: none fences it
    rule_residency: tuple[str, ...] = ()
    task_residency: tuple[str, ...] = ()
    pin_region: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a task goes and why: the decision object is the explanation."""

    region: str  # empty: nowhere
    rule: str
    candidates: tuple[Candidate, ...]
    fence: tuple[str, ...]
    ledger_home: str = ""
    reason: str = ""  # the step: "affinity", "home", "spill", "pin" ...; or why there is none
    policy_version: str = ""
    home: str = ""  # the nearest; empty if distance had no part in it
    spills: bool = False  # tasks leave home, each for a region drawn by its share
    bypassed: str = ""  # would be home if it were not full or out; empty: `home` is the nearest
