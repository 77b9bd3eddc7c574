"""Where a task that its region cannot finish, or is to let go of, may go next. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tradewind.fleet import Fleet, Region
from tradewind.limits import MOVE_AGAIN_MS
from tradewind.policy import filters
from tradewind.policy.defaults import MOVE_WAIT_SHARE
from tradewind.policy.scores import wait_s
from tradewind.view import RegionView

NOT_HEALTHY = "not healthy"

PINNED = "pinned"
NO_HOPS_LEFT = "no moves left (max_hops)"
FENCED = "no other permitted region"
NO_GUESTS = "every other permitted region takes no guests (max_spill_in 0%)"
ALL_TRIED = "every permitted region was tried"
MOVED_LATELY = "moved less than 10 min ago"

# What does not matter to a dead letter that only lies there: nobody runs it, and it holds up none.
_OF_RUNS: Final = filters.NOBODY_RUNS_IT | {filters.BACKLOG, filters.WAIT}


@dataclass(frozen=True, slots=True)
class Stranded:
    """What relocating needs to know of a task in region `source`.

    `fence` is what was stored at admission, `fence_now` what today's rules give (`rules.resolve`);
    both must hold. `visited`: regions of its hops. `hop_count`: dead-letter moves so far. Both
    count for a dead task only that is to run again: one that waits, or rests as a dead letter, may
    go back to where it was before, but not again and again: `moved_ms_ago`, since it last did.
    """

    source: str
    queue: str
    name: str
    fence: tuple[str, ...] = ()
    fence_now: tuple[str, ...] = ()
    pin: str = ""
    visited: Sequence[str] = ()
    hop_count: int = 0
    waits: bool = False
    rests: bool = False
    moved_ms_ago: float = math.inf


@dataclass(frozen=True, slots=True)
class Relocation:
    """The region to move to; or none, why, and whether that is for good."""

    target: str
    reason: str
    permanent: bool


def relocate(task: Stranded, views: Sequence[RegionView], fleet: Fleet) -> Relocation:
    """Pick the next region: in the order of failover.order, else the nearest by the views' rtt.

    A region of weight 0 takes moved tasks only if failover.order names it, one of max_spill_in 0
    never. `views` are as the courier sees them; a region without one counts as unknown.
    """
    if task.pin:
        return _stays(PINNED)
    may_return = task.waits or task.rests
    if not may_return and task.hop_count >= fleet.queue(task.queue).failover.max_hops:
        return _stays(NO_HOPS_LEFT)
    permitted = set(fleet.inside(task.fence)).intersection(fleet.inside(task.fence_now))
    by_name = {view.name: view for view in views}
    targets = [name for name in _order(task.source, by_name, fleet) if name in permitted]
    if not targets:
        return _stays(FENCED)
    targets = [name for name in targets if fleet.regions[name].limits.max_spill_in > 0]
    if not targets:
        return _stays(NO_GUESTS)
    fresh = [name for name in targets if may_return or name not in task.visited]
    if not fresh:
        return _stays(ALL_TRIED)
    return _first_open(task, fresh, by_name, fleet)


def _first_open(
    task: Stranded, fresh: Sequence[str], by_name: dict[str, RegionView], fleet: Fleet
) -> Relocation:
    if (task.waits or task.rests) and task.moved_ms_ago < MOVE_AGAIN_MS:
        return Relocation("", MOVED_LATELY, permanent=False)
    if task.rests:  # should it be redriven, somebody had better run it there
        fresh = sorted(fresh, key=lambda name: not _is_served(task, by_name.get(name)))
    found: list[str] = []
    for name in fresh:
        reason = _obstacle(task, by_name.get(name), fleet.regions[name], fleet)
        if not reason:
            return Relocation(name, "", permanent=False)
        found.append(f"{name}: {reason}")
    # Sorted: it is what tasks that stay are counted by, and distances change places.
    return Relocation("", ", ".join(sorted(found)), permanent=False)


def _is_served(task: Stranded, view: RegionView | None) -> bool:
    return view is not None and filters.serves(view, task.queue, task.name)


def _stays(reason: str) -> Relocation:
    return Relocation("", reason, permanent=True)


def _order(source: str, views: dict[str, RegionView], fleet: Fleet) -> list[str]:
    explicit = fleet.failover.order.get(source)
    if explicit is not None:
        return [name for name in explicit if name != source]

    def distance(name: str) -> tuple[float, str]:
        view = views.get(name)
        return (view.rtt_ms if view else float("inf"), name)

    others = (r.name for r in fleet.regions.values() if r.weight and r.name != source)
    return sorted(others, key=distance)


def _obstacle(task: Stranded, view: RegionView | None, region: Region, fleet: Fleet) -> str:
    if view is None:
        return filters.UNKNOWN
    wait = wait_s(view)
    reasons = filters.conditions(view, region, fleet, task.queue, task.name, wait)
    if task.rests:
        found = [reason for reason in reasons if reason not in _OF_RUNS]
        return found[0] if found else "" if view.health == "HEALTHY" else NOT_HEALTHY
    if reasons:
        return reasons[0]
    # Stricter than for new work: a task that moves may not be moved again.
    if not filters.serves(view, task.queue, task.name):
        return filters.NO_HANDLER
    if view.health != "HEALTHY":
        return NOT_HEALTHY
    return filters.WAIT if wait * 1000 > MOVE_WAIT_SHARE * region.limits.max_wait_ms else ""
