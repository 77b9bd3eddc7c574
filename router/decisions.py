"""Tells why tasks went where they went: a sample in the log, and on the span of whoever traces.

What is told is the object of `tradewind explain --json`, less the partition and what the task would
wait for there, which are no part of why. It says nothing of the task but its queue, handler and
origin: no tenant, label, key or payload. And of a task whose fence leaves the router's own region
out nothing is told at all: what is logged or traced here would have left the fence, though the task
itself only passes through.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tradewind import statuses, wire
from tradewind.admission.identity import dedup_by
from tradewind.client.views import route_of
from tradewind.fleet import Fleet
from tradewind.limits import MINUTE_MS, SECOND_MS
from tradewind.policy.decide import Weighed, refusal
from tradewind.policy.defaults import MAX_MEMORY
from tradewind.policy.rules import authors
from tradewind.task import Draft
from tradewind.v1 import task_pb2
from tradewind.view import Decision

try:
    from opentelemetry.trace import Span, get_current_span
except ModuleNotFoundError:  # the extra `tracing` is not installed
    get_current_span = None

_log = logging.getLogger("tradewind.decision")

SHARE: Final = 0.01  # of decisions, logged besides the first of each kind in a minute
# Logged at most: one takes 0.25 ms of CPU and 2 kB with five regions (measured).
MOST_A_SECOND: Final = 10

_Kind = tuple[str, str, str]  # rule, region, reason: as many as the policy file gives rise to


class Decisions:
    """Tells of one router's decisions by one fleet."""

    def __init__(
        self,
        fleet: Fleet,
        region: str,
        now_ms: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        """`region` is the router's own; `now_ms` a monotonic clock; `chance` is in [0, 1)."""
        self._fleet, self._region = fleet, region
        self._now_ms, self._chance = now_ms, chance
        self._told_ms: dict[_Kind, float] = {}
        self._second, self._told = -1, 0
        self._span: object = None
        self._on_span: set[_Kind] = set()
        self._may_tell: dict[tuple[str, ...], bool] = {}  # by fence

    def made(self, draft: Draft, weighed: Weighed, draw: float, decision: Decision) -> None:
        """Take the decision on `draft`: what `weighed` gives for `draw`, with no candidates yet."""
        kind = (decision.rule, decision.region, decision.reason)
        now_ms = self._now_ms()
        told_ms = self._told_ms.get(kind)
        is_due = told_ms is None or now_ms - told_ms >= MINUTE_MS
        is_sampled = is_due or self._chance() < SHARE
        span = None if get_current_span is None else get_current_span()
        is_traced = span is not None and span.is_recording()
        if not (is_sampled or is_traced) or not self._is_inside(decision.fence):
            return
        is_logged = is_sampled and _log.isEnabledFor(logging.INFO) and self._has_room(now_ms)
        is_traced = is_traced and self._is_new(span, kind)
        if not (is_logged or is_traced):
            return
        told = _told(explained(draft, weighed.decision(draw), self._fleet, partition=0))
        if is_logged:
            self._told_ms[kind] = now_ms
            origin = draft.origin_region or self._region
            task = {"queue": draft.queue, "handler": draft.name, "origin": origin}
            _log.info("decided where a task goes", extra={**task, "decision": told})
        if is_traced and span is not None:
            _add_event(span, told)

    def _is_inside(self, fence: tuple[str, ...]) -> bool:
        """Whether this region is inside `fence`: else nothing of its tasks may stay here."""
        may = self._may_tell.get(fence)
        if may is None:
            if len(self._may_tell) >= MAX_MEMORY:
                self._may_tell.clear()
            may = self._may_tell[fence] = self._region in self._fleet.inside(fence)
        return may

    def _has_room(self, now_ms: float) -> bool:
        second = int(now_ms / SECOND_MS)
        if second != self._second:
            self._second, self._told = second, 0
        self._told += 1
        return self._told <= MOST_A_SECOND

    def _is_new(self, span: object, kind: _Kind) -> bool:
        """Whether the span has none of its kind: that of a message of 1,000 is to hold few."""
        if span is not self._span:
            self._span, self._on_span = span, set()
        if kind in self._on_span:
            return False
        self._on_span.add(kind)
        return True


class _Told(dict[str, Any]):
    """The object; in a line for people only its gist."""

    def __str__(self) -> str:
        """Where to, by what, and each region's score or what excludes it."""
        regions = (
            f"{each['region']}: {each['score_s']:.3f} s"
            if each["eligible"]
            else f"{each['region']}: {', '.join(each['reasons'])}"
            for each in self["candidates"]
        )
        return f"{self['region'] or 'nowhere'} by {self['rule']} ({'; '.join(regions)})"


def explained(
    draft: Draft, decision: Decision, fleet: Fleet, *, partition: int, waits_for: str = ""
) -> task_pb2.RouteDecision:
    """Say all that there is to say of the decision on `draft`; `waits_for`: see router.waits."""
    return wire.decision(
        decision,
        partition=partition,
        fence_by=authors(draft, fleet),
        refusal=None if decision.region else statuses.to_status(refusal(decision, fleet)),
        dedup_by=dedup_by(draft, fleet),
        waits_for=waits_for,
    )


def _told(decision: task_pb2.RouteDecision) -> _Told:
    told = _Told(asdict(route_of(decision)))
    del told["partition"], told["waits_for"]
    return told


def _add_event(span: "Span", told: _Told) -> None:
    marks = {f"tradewind.{key}": told[key] for key in ("region", "rule", "step", "policy_version")}
    span.add_event("tradewind.decision", {**marks, "tradewind.decision": json.dumps(told)})
