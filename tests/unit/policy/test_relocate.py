from dataclasses import replace

import pytest

from tests.unit.policy.worlds import busy, fleet, region, unserved, view
from tradewind.fleet import FailoverPlan, Fleet, QueueFailover, QueuePolicy, RegionLimits
from tradewind.policy import filters
from tradewind.policy.relocate import (
    ALL_TRIED,
    FENCED,
    NO_GUESTS,
    NO_HOPS_LEFT,
    NOT_HEALTHY,
    PINNED,
    Relocation,
    Stranded,
    relocate,
)
from tradewind.view import RegionView

WORLD = fleet(
    region("eu", "eu", "west"),
    region("us", "us", "west"),
    region("ap", "apac"),
    region("spare", "west", weight=0),
)
ORDERED = replace(WORLD, failover=FailoverPlan(order={"eu": ("ap", "spare")}))
EU, US, AP, SPARE = view("eu"), view("us", 90.0), view("ap", 200.0), view("spare", 50.0)
VIEWS = [EU, US, AP, SPARE]
TASK = Stranded("eu", "default", "a", visited=("eu",))

CLOSED = RegionLimits(max_spill_in=0.0)
SHUT = replace(WORLD, regions={**WORLD.regions, "us": replace(WORLD.regions["us"], limits=CLOSED)})
LIES = replace(TASK, rests=True)

TARGETS = {
    "the nearest other region": (TASK, VIEWS, WORLD, "us"),
    "the next that was not visited": (replace(TASK, visited=("eu", "us")), VIEWS, WORLD, "ap"),
    "the first in the file's order": (TASK, VIEWS, ORDERED, "ap"),
    "weight 0, where the order names it": (
        TASK,
        [EU, US, replace(AP, health="DOWN"), SPARE],
        ORDERED,
        "spare",
    ),
    "inside the stored fence": (replace(TASK, fence=("apac", "eu")), VIEWS, WORLD, "ap"),
    "inside today's fence too": (
        replace(TASK, fence=("west", "apac"), fence_now=("us",)),
        VIEWS,
        WORLD,
        "us",
    ),
    "the second nearest when the nearest is down": (
        TASK,
        [EU, replace(US, health="DOWN"), AP],
        WORLD,
        "ap",
    ),
    "the next where the nearest takes no guests": (TASK, VIEWS, SHUT, "ap"),
    "a region where it was before, if it only lies there": (
        replace(LIES, visited=("eu", "us", "ap"), hop_count=9),
        VIEWS,
        WORLD,
        "us",
    ),
    "a region where nobody works and much waits, if it only lies there": (
        replace(LIES, fence=("us",)),
        [EU, replace(unserved("us"), depth=100_000)],
        WORLD,
        "us",
    ),
    "a region where it could run, though it only lies there": (
        LIES,
        [EU, unserved("us"), AP],
        WORLD,
        "ap",
    ),
}


@pytest.mark.parametrize(("task", "views", "world", "target"), TARGETS.values(), ids=TARGETS)
def test_a_task_moves_to(
    task: Stranded, views: list[RegionView], world: Fleet, target: str
) -> None:
    assert relocate(task, views, world) == Relocation(target, "", permanent=False)


NO_MOVES = replace(WORLD, default_queue=QueuePolicy(failover=QueueFailover(max_hops=0)))
FOR_GOOD = {
    "pinned": (replace(TASK, pin="eu"), WORLD, PINNED),
    "moved as often as it may": (replace(TASK, hop_count=1), WORLD, NO_HOPS_LEFT),
    "in a queue that never moves": (TASK, NO_MOVES, NO_HOPS_LEFT),
    "alone inside its fence": (replace(TASK, fence=("eu",)), WORLD, FENCED),
    "alone inside what both fences leave": (
        replace(TASK, fence=("west",), fence_now=("eu", "apac")),
        WORLD,
        FENCED,
    ),
    "inside a group that is no more": (replace(TASK, fence=("mars",)), WORLD, FENCED),
    "outside the fence with every target of its order": (
        replace(TASK, fence=("us", "eu")),
        ORDERED,
        FENCED,
    ),
    "alone among those that take guests": (replace(TASK, fence=("eu", "us")), SHUT, NO_GUESTS),
    "pinned, though it only lies there": (replace(LIES, pin="eu"), WORLD, PINNED),
    "alone inside its fence, though it only lies there": (
        replace(LIES, fence=("eu",)),
        WORLD,
        FENCED,
    ),
    "tried everywhere": (replace(TASK, visited=("us", "ap", "eu")), WORLD, ALL_TRIED),
}


@pytest.mark.parametrize(("task", "world", "reason"), FOR_GOOD.values(), ids=FOR_GOOD)
def test_a_task_stays_for_good_when(task: Stranded, world: Fleet, reason: str) -> None:
    assert relocate(task, VIEWS, world) == Relocation("", reason, permanent=True)


FOR_NOW = {
    "nothing was heard of the target": (None, filters.UNKNOWN),
    "the report is old": (replace(US, age_s=31.0), filters.UNKNOWN),
    "it is down": (replace(US, health="DOWN"), filters.DOWN),
    "it is cordoned": (replace(US, state="CORDONED"), filters.CORDONED),
    "it drains": (replace(US, state="DRAINING"), filters.DRAINING),
    "it recovers": (replace(US, health="RECOVERING"), NOT_HEALTHY),
    "nobody works there": (unserved("us"), filters.NO_WORKER),
    "nobody is known to work there": (unserved("us", unserved_for_s=1.0), filters.NO_HANDLER),
    "no worker has the handler": (
        replace(US, served={"default": frozenset({"b"})}),
        filters.NO_HANDLER,
    ),
    "it is out of memory": (replace(US, full=True), filters.FULL),
    "its backlog is long": (replace(US, depth=100_000, rate=1e6), filters.BACKLOG),
    "the wait is half of what is allowed": (busy("us", 15.1), filters.WAIT),
}


@pytest.mark.parametrize(("us", "reason"), FOR_NOW.values(), ids=FOR_NOW)
def test_a_task_stays_for_now_when(us: RegionView | None, reason: str) -> None:
    task = replace(TASK, fence=("eu", "us"))
    expected = Relocation("", f"us: {reason}", permanent=False)
    assert relocate(task, [EU, us] if us else [EU], WORLD) == expected


@pytest.mark.parametrize("us", ["it is down", "it is cordoned", "it drains", "it recovers"])
def test_a_dead_letter_is_not_laid_where(us: str) -> None:
    there, reason = FOR_NOW[us]
    assert there is not None
    task = replace(LIES, fence=("eu", "us"))
    assert relocate(task, [EU, there], WORLD).reason == f"us: {reason}"
    assert relocate(task, [EU, replace(US, full=True)], WORLD).reason == "us: full"


def test_every_obstacle_is_named() -> None:
    views = [EU, replace(US, health="DOWN"), replace(AP, full=True)]
    assert relocate(TASK, views, WORLD).reason == "ap: full, us: down"
