"""Which regions cannot take a task, each with its reason. Pure.

Reasons are short, stable strings: people read them in `explain`, programs compare them. A region's
first reason, in the order of this list, is the one shown.
"""

import math
from collections.abc import Collection

from tradewind.fleet import Fleet, Region
from tradewind.policy.defaults import UNKNOWN_AFTER_MS
from tradewind.view import RegionView

OUTSIDE_FENCE = "outside the fence"
NOT_PINNED = "not the pinned region"
WEIGHT_ZERO = "weight 0"  # takes only a pin, or failover.order naming it
DURABILITY = "durability"  # its Redis cannot keep tasks as durably as the queue asks
EVICTS = "evicts keys"  # its Redis would delete tasks to make room: maxmemory-policy
NO_WORKER = "no live worker"
NO_HANDLER = "no worker for handler"
CORDONED = "cordoned"
DRAINING = "draining"
DOWN = "down"
KEPT_OUT = "kept out"  # answers, and is out for long because it flapped
HALF_OPEN = "half-open"  # was down; one task at a time shows whether it still is
UNKNOWN = "unknown"  # nothing heard, or nothing for UNKNOWN_AFTER_MS
FULL = "full"  # memory
BACKLOG = "backlog over limit"
WAIT = "wait over limit"
# Of a candidate that others are preferred to; not filters of their own.
NOT_AFFINITY = "not the affinity region"  # to one with mode `required`
GUESTS = "guests over limit"  # to the task's home: limits.max_spill_in
FILLING = "filling up after its return"  # to the task's home: guests.only_settled
# Of a task's queue: keeps it out of no region, and nothing of it starts in any.
PAUSED = "paused"

BY_POLICY = frozenset({OUTSIDE_FENCE, NOT_PINNED, WEIGHT_ZERO})  # waiting does not help
BY_LOAD = frozenset({FULL, BACKLOG, WAIT})
BY_OPERATOR = frozenset({CORDONED, DRAINING})
# What may be wrong or pass soon, so that panic may overlook it. Everything else is a border, an
# operator's word, or known to fail: fence, pin, weight, durability, eviction, drain, down, full.
DOUBTS = frozenset({NO_WORKER, NO_HANDLER, KEPT_OUT, HALF_OPEN, UNKNOWN, WAIT})
NOBODY_RUNS_IT = frozenset({NO_WORKER, NO_HANDLER})
# Of what `conditions` gives: all else is the same for any task.
OF_A_TASK = frozenset({DURABILITY, NO_HANDLER})
# Whose details a refusal tells: they say what to do, and stay the same for a while.
TOLD_WHEN_REFUSED = frozenset({DURABILITY, BACKLOG})

_STATES = {"CORDONED": CORDONED, "DRAINING": DRAINING}


def border(region: Region, permitted: Collection[str], pin: str) -> tuple[str, ...]:
    """Return every reason why policy keeps a task out of `region`, whatever its condition."""
    found = () if region.name in permitted else (OUTSIDE_FENCE,)
    if pin:
        return found if region.name == pin else (*found, NOT_PINNED)
    return found if region.weight else (*found, WEIGHT_ZERO)


def borders(fleet: Fleet, fence: tuple[str, ...], pin: str) -> tuple[tuple[str, ...], ...]:
    """Return `border` of every region, in the order of the file."""
    permitted = frozenset(fleet.inside(fence))
    return tuple(border(region, permitted, pin) for region in fleet.regions.values())


def conditions(
    view: RegionView, region: Region, fleet: Fleet, queue: str, name: str, wait: float
) -> tuple[str, ...]:
    """Return every reason against `region` that its present condition gives.

    `wait` is `wait_s(view)`, in seconds.
    """
    found = _unfit(view, fleet, queue) if view.lacks or view.evicts else []
    if unserved := nobody(view, fleet, queue, name):
        found.append(unserved)
    if view.state != "ACTIVE":
        found.append(_STATES[view.state])
    if view.trial:
        found.append(HALF_OPEN)
    elif view.health == "DOWN":
        found.append(KEPT_OUT if view.kept_out else DOWN)
    elif view.health == "UNKNOWN" or view.age_s * 1000 > UNKNOWN_AFTER_MS:
        found.append(UNKNOWN)
    if view.full:
        found.append(FULL)
    limits = region.limits
    if view.depth >= limits.max_backlog:
        found.append(BACKLOG)
    # Where nobody works for a moment the wait is a guess, and `unserved_after` gives them time.
    if wait * 1000 > limits.max_wait_ms and (view.slots or view.rate):
        found.append(WAIT)
    return tuple(found)


def _unfit(view: RegionView, fleet: Fleet, queue: str) -> list[str]:
    """Return what its Redis is not set up for."""
    found = [DURABILITY] if fleet.queue(queue).durability in view.lacks else []
    return [*found, EVICTS] if view.evicts else found


def details(view: RegionView, reasons: Collection[str]) -> dict[str, str]:
    """Say more of those of `reasons` of which more is known: causes, numbers, how long."""
    said = {
        DURABILITY: "; ".join(f"{asked}: {why}" for asked, why in view.lacks.items()),
        BACKLOG: f"{view.held_back} of {view.depth} ready tasks are paused or run by nobody"
        if view.held_back
        else "",
        DOWN: f"for {_span(view.out_for_s)} more at least" if view.out_for_s else "",
        KEPT_OUT: f"it went down again and again; for {_span(view.out_for_s)} more"
        if view.out_for_s
        else "",
    }
    return {reason: text for reason in reasons if (text := said.get(reason, ""))}


def _span(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes > 1 else f"{math.ceil(seconds)} s"


def nobody(view: RegionView, fleet: Fleet, queue: str, name: str) -> str:
    """Say that no live worker there runs it, or has run it lately; empty if one does."""
    if not view.slots and view.unserved_for_s * 1000 >= fleet.failover.unserved_after_ms:
        return NO_WORKER
    return NO_HANDLER if view.served and not serves(view, queue, name) else ""


def serves(view: RegionView, queue: str, name: str) -> bool:
    """Whether some live worker there runs handler `name` from `queue`."""
    handlers = view.served.get(queue)
    return handlers is not None and (name in handlers or "*" in handlers)
