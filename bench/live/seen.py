"""What was seen of a run, live or simulated, and the figures that follow."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.live.plan import WARM_S, Plan
from bench.sim.run import quantile

BUCKET_S = 2.0  # of shares over time
WINDOW = 3  # buckets over which shares are taken: below it, chance moves them
NORMAL_POINTS = 0.10  # a share this near to what it was before is normal
FALLS_POINTS = 0.10  # a share that is lower by so much has fallen; by chance alone it moves by 5
SUCCESS = 0.99
NEVER = -1.0
NOBODY = "-"


@dataclass(slots=True)
class Seen:
    """One task. Times in seconds from the start of the run, or NEVER."""

    at_s: float
    origin: str
    permitted: frozenset[str]
    had_place: bool  # whether a permitted region could take it when it was submitted
    stored_in: str = ""
    stored_s: float = NEVER
    answered_s: float = NEVER
    started_in: tuple[str, ...] = ()
    started_s: float = NEVER


@dataclass(frozen=True, slots=True)
class Record:
    """A whole run. `changes` are (router, region) -> when it became eligible or not."""

    tasks: Sequence[Seen]
    changes: Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run. `shares` are those of the region that failed: before, during and after."""

    tasks: int
    p50_s: float
    p99_s: float
    home: float
    shares: tuple[float, float, float]
    taken_by: str  # who took most of its callers' tasks in the second half, if its share fell
    back_s: float  # from the end of the outage until all shares are as before; inf: not yet
    peak: float  # of arrivals at a region after it, of its capacity
    success: float  # of submits with a permitted region that was up
    outside_fence: int
    twice: int  # tasks that were started again
    lost: int  # tasks that were stored and never started
    changes: int  # the most that a router changed its mind on whether one that fails is eligible


def figures(plan: Plan, record: Record) -> Figures:
    """Add a run up; what came while routers warmed up does not count."""
    tasks = [task for task in record.tasks if task.at_s >= WARM_S]
    stored = [task for task in tasks if task.stored_in]
    delays = sorted(task.started_s - task.at_s for task in stored if task.started_s >= 0)
    placed = [task for task in tasks if task.had_place]
    begins_s, ends_s = plan.script.begins_s, plan.script.ends_s
    late_s = (begins_s + ends_s) / 2
    spans = ((WARM_S, begins_s), (late_s, ends_s), (plan.length_s - 10, plan.length_s))
    broken = [_shares(stored, *span).get(plan.broken, 0.0) for span in spans]
    failing = {change.region for change in plan.script.changes}
    is_spared = not failing.issuperset(plan.world.matrix.regions)
    falls = broken[0] - broken[1] > FALLS_POINTS
    return Figures(
        tasks=len(tasks),
        p50_s=quantile(delays, 0.50),
        p99_s=quantile(delays, 0.99),
        home=sum(task.stored_in == task.origin for task in stored) / max(1, len(stored)),
        shares=(broken[0], broken[1], broken[2]),
        taken_by=_taken_by(plan, stored, late_s) if is_spared and falls else NOBODY,
        back_s=_back_s(plan, stored),
        peak=_peak(plan, stored),
        success=sum(task.answered_s >= 0 for task in placed) / max(1, len(placed)),
        outside_fence=sum(
            not task.permitted.issuperset((task.stored_in, *task.started_in)) for task in stored
        ),
        twice=sum(len(task.started_in) > 1 for task in stored),
        lost=sum(not task.started_in for task in stored),
        changes=max(
            (len(times) for (_, region), times in record.changes.items() if region in failing),
            default=0,
        ),
    )


def disagreements(live: Figures, simulated: Sequence[Figures]) -> list[str]:
    """Return what no simulated run did that was done live, or what should hold and does not, live.

    One seed is not enough: whether a gray region is shut out is a matter of some calls in a row.
    """
    found: list[str] = []
    heirs = {each.taken_by for each in simulated}
    if live.taken_by not in heirs:
        found.append(f"{live.taken_by} takes over, not {' or '.join(sorted(heirs))}")
    if _falls(live) not in map(_falls, simulated):
        found.append("its share falls" if _falls(live) else "its share does not fall")
    if _returns(live) not in map(_returns, simulated):
        found.append("shares come back" if _returns(live) else "shares do not come back")
    if live.outside_fence:
        found.append(f"{live.outside_fence} tasks outside their fence")
    if live.success < SUCCESS:
        found.append(f"{live.success:.1%} of submits succeed")
    if live.lost:
        found.append(f"{live.lost} tasks never ran")
    return found


def middle(simulated: Sequence[Figures]) -> Figures:
    """Return the run whose failed region had the middle share during the outage."""
    return sorted(simulated, key=lambda each: each.shares[1])[len(simulated) // 2]


def _falls(of: Figures) -> bool:
    before, during, _ = of.shares
    return before - during > FALLS_POINTS


def _returns(of: Figures) -> bool:
    return math.isfinite(of.back_s)


def _shares(stored: Sequence[Seen], from_s: float, to_s: float) -> dict[str, float]:
    """Return each region's share of what was stored in that time."""
    counts = Counter(task.stored_in for task in stored if from_s <= task.stored_s < to_s)
    total = max(1, counts.total())
    return {region: count / total for region, count in counts.items()}


def _taken_by(plan: Plan, stored: Sequence[Seen], late_s: float) -> str:
    """Return the region that most tasks of the broken one's callers went to."""
    others = Counter(
        task.stored_in
        for task in stored
        if task.origin == plan.broken != task.stored_in
        and late_s <= task.stored_s < plan.script.ends_s
    )
    return others.most_common(1)[0][0] if others else NOBODY


def _back_s(plan: Plan, stored: Sequence[Seen]) -> float:
    normal = _shares(stored, WARM_S, plan.script.begins_s)
    buckets = int((plan.length_s - plan.script.ends_s) / BUCKET_S) - WINDOW + 1
    good = 0
    for bucket in range(buckets):
        from_s = plan.script.ends_s + bucket * BUCKET_S
        now = _shares(stored, from_s, from_s + WINDOW * BUCKET_S)
        names = plan.world.matrix.regions
        is_normal = all(
            abs(now.get(name, 0.0) - normal.get(name, 0.0)) <= NORMAL_POINTS for name in names
        )
        good = good + 1 if is_normal else 0
        if good == WINDOW:
            return (bucket - WINDOW + 1) * BUCKET_S
    return math.inf


def _peak(plan: Plan, stored: Sequence[Seen]) -> float:
    ends_s = plan.script.ends_s
    counts = Counter(
        (task.stored_in, int((task.stored_s - ends_s) / BUCKET_S))
        for task in stored
        if task.stored_s >= ends_s
    )
    return max(counts.values(), default=0) / BUCKET_S / plan.world.capacity
