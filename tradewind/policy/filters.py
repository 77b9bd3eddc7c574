"""Which regions cannot take a task, each with its reason. Pure.

Reasons are short, stable strings: people read them in `explain`, programs compare them. A region's
first reason, in the order of this list, is the one shown.
"""

from collections.abc import Collection, Iterator

from tradewind.fleet import Fleet, Region
from tradewind.limits import SECOND_MS
from tradewind.view import RegionView

OUTSIDE_FENCE = "outside the fence"
NOT_PINNED = "not the pinned region"
WEIGHT_ZERO = "weight 0"  # takes only a pin, or failover.order naming it
NO_WORKER = "no live worker"
NO_HANDLER = "no worker for handler"
CORDONED = "cordoned"
DRAINING = "draining"
DOWN = "down"
UNKNOWN = "unknown"  # nothing heard, or nothing for UNKNOWN_AFTER_MS
FULL = "full"  # memory
BACKLOG = "backlog over limit"
WAIT = "wait over limit"
# A candidate that loses to an affinity with mode `required`; not a filter of its own.
NOT_AFFINITY = "not the affinity region"

BY_POLICY = frozenset({OUTSIDE_FENCE, NOT_PINNED, WEIGHT_ZERO})  # waiting does not help
BY_LOAD = frozenset({FULL, BACKLOG, WAIT})
# What may be wrong or pass soon, so that panic may overlook it. Everything else is a border, an
# operator's word, or known to fail: fence, pin, weight, drain, down, full.
DOUBTS = frozenset({NO_WORKER, NO_HANDLER, UNKNOWN, WAIT})
NOBODY_RUNS_IT = frozenset({NO_WORKER, NO_HANDLER})

UNKNOWN_AFTER_MS = 30 * SECOND_MS  # routing.md 2.1
_STATES = {"CORDONED": CORDONED, "DRAINING": DRAINING}


def border(region: Region, permitted: Collection[str], pin: str) -> str:
    """Return why policy keeps a task out of `region`, whatever its condition; empty if nothing."""
    if region.name not in permitted:
        return OUTSIDE_FENCE
    if pin:
        return "" if region.name == pin else NOT_PINNED
    return "" if region.weight else WEIGHT_ZERO


def conditions(
    view: RegionView, region: Region, fleet: Fleet, queue: str, name: str, wait: float
) -> Iterator[str]:
    """Yield every reason against `region` that its present condition gives.

    `wait` is `wait_s(view)`, in seconds.
    """
    if view.unserved_for_s * 1000 >= fleet.failover.unserved_after_ms and not view.slots:
        yield NO_WORKER
    elif view.served and not serves(view, queue, name):
        yield NO_HANDLER
    if view.state != "ACTIVE":
        yield _STATES[view.state]
    if view.health == "DOWN":
        yield DOWN
    elif view.health == "UNKNOWN" or view.age_s * 1000 > UNKNOWN_AFTER_MS:
        yield UNKNOWN
    if view.full:
        yield FULL
    if view.depth >= region.limits.max_backlog:
        yield BACKLOG
    if wait * 1000 > region.limits.max_wait_ms:
        yield WAIT


def serves(view: RegionView, queue: str, name: str) -> bool:
    """Whether some live worker there runs handler `name` from `queue`."""
    handlers = view.served.get(queue)
    return handlers is not None and (name in handlers or "*" in handlers)
