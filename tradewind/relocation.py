"""Where a task of one region may go: its own words, the rules of today and the regions as seen.

What couriers do by it, and what a router says beforehand that they would do. Pure.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tradewind import codec
from tradewind.control import Control
from tradewind.errors import NoRegionPermitted
from tradewind.fleet import Fleet
from tradewind.policy import rules
from tradewind.policy.relocate import (
    ALL_TRIED,
    FENCED,
    NO_GUESTS,
    NO_HOPS_LEFT,
    PINNED,
    Relocation,
    Stranded,
    relocate,
)
from tradewind.state import State
from tradewind.task import Draft, MoveReason, Record
from tradewind.v1.task_pb2 import TASK_STATE_DEAD_LETTER, Hop, TaskSpec
from tradewind.view import RegionView

RUNNING: Final = "running: it finishes where it is"  # of what an evacuation does not touch
_EVACUATION: Final[MoveReason] = "evacuation"
_FOR_GOOD: Final = frozenset({PINNED, FENCED, NO_GUESTS, NO_HOPS_LEFT, ALL_TRIED, RUNNING})
_BY_RULES: Final = "today's rules: "


@dataclass(frozen=True, slots=True)
class Situation:
    """What a choice depends on besides the task: all of one moment."""

    source: str
    fleet: Fleet
    views: Sequence[RegionView]
    control: Control
    now_ms: int  # by the clock of the source


def choose(record: Record, now: Situation) -> Relocation:
    """Pick where a task of `now.source` may go next: one that is settled as a dead letter."""
    try:
        spec = codec.unpack(record.packed).spec
        stays = codec.hops(record.hops)
        fence_now = rules.resolve(_draft(spec), now.fleet).fence
    except codec.DamagedRecord as error:
        return Relocation("", str(error), permanent=True)
    except NoRegionPermitted as error:
        return Relocation("", f"{_BY_RULES}{error}", permanent=True)
    stranded = Stranded(
        source=now.source,
        queue=spec.queue or "default",
        name=spec.name,
        fence=record.fence,
        fence_now=fence_now,
        pin=spec.pin_region,
        visited=[now.source, *(stay.region for stay in stays)],
        hop_count=record.hop_count,
        waits=record.state is not State.DEAD_LETTER,
        rests=record.settled,
        moved_ms_ago=now.now_ms - max(_left_as_it_was(stays), default=-math.inf),
    )
    views = [replace(view, state=now.control.state(view.name)) for view in now.views]
    return relocate(stranded, views, now.fleet)


def empties(record: Record, now: Situation) -> Relocation:
    """Pick where an evacuation takes a task, in the end: what may not run elsewhere rests there."""
    where = choose(record, now)
    if record.state is State.DEAD_LETTER and where.permanent and not record.settled:
        return choose(replace(record, settled=True), now)
    return where


def may_pass(reason: str) -> bool:
    """Whether what an evacuation left behind for this reason may leave later, as things are.

    What is pinned, fenced in or cannot be read stays until somebody changes that; what runs is not
    meant to leave.
    """
    is_damaged = reason.startswith(codec.UNREADABLE)
    return not (reason in _FOR_GOOD or reason.startswith(_BY_RULES) or is_damaged)


def queue_of(record: Record) -> str:
    """The queue of a task; empty if its record cannot be read."""
    try:
        return codec.unpack(record.packed).spec.queue or "default"
    except codec.DamagedRecord:
        return ""


def _left_as_it_was(stays: Iterable[Hop]) -> list[int]:
    """When stays ended that the task left while it waited, or as a dead letter."""
    return [
        stay.at.ToMilliseconds()
        for stay in stays
        if stay.state != TASK_STATE_DEAD_LETTER or stay.reason == _EVACUATION
    ]


def _draft(spec: TaskSpec) -> Draft:
    """As much of the submit as rules match on."""
    return Draft(
        name=spec.name,
        queue=spec.queue or "default",
        tenant=spec.tenant,
        labels=dict(spec.labels),
        affinity_key=spec.affinity_key,
        residency=tuple(spec.residency),
        pin_region=spec.pin_region,
    )
