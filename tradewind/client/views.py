"""What the client hands to its callers: receipts, tasks and routes as frozen values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import code_pb2

from tradewind.client.enums import short_name, state_of
from tradewind.client.times import duration, milliseconds, moment, seconds
from tradewind.state import State
from tradewind.v1 import router_pb2, task_pb2
from tradewind.view import Candidate, FenceAuthors, ScoreParts

JSON_TYPE = "application/json"
_NOBODY = FenceAuthors()
_PLACES = 6  # of shares, and of seconds: to the microsecond


@dataclass(frozen=True, slots=True)
class Receipt:
    """A stored task. After a receipt the task is kept until it is final."""

    task_id: str  # of the first task if this submit is a duplicate
    region: str
    partition: int
    state: State
    duplicate: bool = False  # the idempotency key or payload was submitted before
    possible_duplicate: bool = False  # the region that would know was unreachable
    replication_unconfirmed: bool = False  # stored, but not yet as durably as the queue asks
    rule: str = ""  # what decided the region
    waits_for: str = ""  # what holds it back: an operator's order, or that nobody there runs it


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why the last attempt ended badly, or what the task died of."""

    kind: str  # exhausted, timeout, crashed, rejected or damaged
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Stay:
    """One stay in one region: a hop. Each begins when the one before ended, under way to it."""

    region: str
    state: State | None  # in which it ended; of the present one the task's
    attempts: int
    reason: str
    at: datetime | None  # when it ended; of the present one when it began
    began_at: datetime | None = None
    ended_at: datetime | None = None  # None: it lasts


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running handler last said of itself; `fraction` is 0 to 1."""

    fraction: float
    note: str


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its owner region knew it when asked. Times are UTC, by that region's Redis."""

    task_id: str
    name: str
    queue: str
    state: State
    region: str  # while MOVING: the source
    partition: int
    settled: bool  # nothing but a redrive can change it any more
    attempts: int  # in the present region
    crashes: int
    hops: tuple[Stay, ...]  # oldest first, the present stay included
    priority: str  # HIGH, NORMAL or LOW
    fence: tuple[str, ...]  # residency groups it may not leave; empty: unfenced
    fingerprint: str  # SHA-256, hex
    payload: bytes
    content_type: str
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    next_attempt_at: datetime | None
    result: Any = None  # decoded JSON, or bytes for a handler that returned bytes
    result_content_type: str = ""
    result_omitted: bool = False  # there was a result, dropped since the region's memory was tight
    payload_omitted: bool = False  # dropped for the same cause, once it had run
    error: TaskFailure | None = None
    progress: Progress | None = None
    failover: str = ""  # why a dead task was not moved on
    cancel_requested: bool = False
    affinity_key: str = ""
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    idempotency_key: str = ""
    origin_region: str = ""
    pin_region: str = ""
    residency: tuple[str, ...] = ()  # as asked for; `fence` is what it came to
    timeout: timedelta | None = None
    max_attempts: int = 0  # 0: the queue's
    expires_at: datetime | None = None  # no attempt starts from then on; None: never
    # Why nothing starts it for now, in the words of tradewind.policy.filters; empty: nothing does.
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a task would go and why; every region with its score or what excluded it."""

    region: str  # empty: nowhere
    rule: str
    candidates: tuple[Candidate, ...]
    ledger_home: str
    partition: int
    policy_version: str
    step: str = ""  # that took the region among those that the rule left open
    home: str = ""  # the nearest; empty if distance had no part in it
    spills: bool = False  # such tasks leave home now
    fence: tuple[str, ...] = ()  # residency groups that it may not leave; empty: it has none
    fence_by: FenceAuthors = _NOBODY
    bypassed: str = ""  # region that would be home if it were not full or out
    refused: str = ""  # without a region the code of gRPC that a submit would get, in words ...
    refusal: str = ""  # ... and what it would be told
    dedup_by: str = ""  # what a repeat is recognised by, in ledger_home: key, payload, request_id
    matched: str = ""  # the rule that matched; empty if none did
    waits_for: str = ""  # what would hold it back there: paused, or that nobody runs it


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Answer to a cancel. `requested`: it runs, and its worker was told but has not confirmed."""

    cancelled: bool
    requested: bool
    task: TaskView


def receipt_of(reply: router_pb2.SubmitTaskResponse) -> Receipt:
    """Read a router's receipt."""
    return Receipt(
        task_id=reply.task_id,
        region=reply.region,
        partition=reply.partition,
        state=state_of(reply.state) or State.PENDING,
        duplicate=reply.duplicate,
        possible_duplicate=reply.possible_duplicate,
        replication_unconfirmed=reply.replication_unconfirmed,
        rule=reply.rule,
        waits_for=reply.waits_for,
    )


def task_of(task: task_pb2.Task) -> TaskView:
    """Read a task as a router sent it."""
    spec = task.spec
    return TaskView(
        task_id=task.task_id,
        name=spec.name,
        queue=spec.queue or "default",
        state=state_of(task.state) or State.PENDING,
        region=task.region,
        partition=task.partition,
        settled=task.settled,
        attempts=task.attempts,
        crashes=task.crashes,
        hops=_stays(task),
        priority=short_name(task_pb2.Priority.Name(spec.priority or task_pb2.PRIORITY_NORMAL)),
        fence=tuple(task.fence),
        fingerprint=task.fingerprint,
        payload=spec.payload,
        content_type=spec.content_type or JSON_TYPE,
        created_at=_maybe(task, "created_at", task.created_at),
        started_at=_maybe(task, "started_at", task.started_at),
        finished_at=_maybe(task, "finished_at", task.finished_at),
        next_attempt_at=_maybe(task, "next_attempt_at", task.next_attempt_at),
        result=_decoded(task.result, task.result_content_type),
        result_content_type=task.result_content_type,
        result_omitted=task.result_omitted,
        payload_omitted=task.payload_omitted,
        error=_failure(task),
        progress=Progress(task.progress.fraction, task.progress.note)
        if task.HasField("progress")
        else None,
        failover=task.failover,
        cancel_requested=task.cancel_requested,
        affinity_key=spec.affinity_key,
        tenant=spec.tenant,
        labels=dict(spec.labels),
        idempotency_key=spec.idempotency_key,
        origin_region=spec.origin_region,
        pin_region=spec.pin_region,
        residency=tuple(spec.residency),
        timeout=duration(spec.timeout) if spec.HasField("timeout") else None,
        max_attempts=spec.max_attempts,
        expires_at=moment(spec.expires_at) if spec.HasField("expires_at") else None,
        waits_for=task.waits_for,
    )


def route_of(decision: task_pb2.RouteDecision) -> Route:
    """Read a routing decision."""
    return Route(
        region=decision.region,
        rule=decision.rule,
        candidates=tuple(_candidate(each) for each in decision.candidates),
        ledger_home=decision.ledger_home,
        partition=decision.partition,
        policy_version=decision.policy_version,
        step=decision.step,
        home=decision.home,
        spills=decision.spills,
        fence=tuple(decision.fence),
        fence_by=FenceAuthors(
            rule=decision.fence_by.rule,
            rule_residency=tuple(decision.fence_by.rule_residency),
            task_residency=tuple(decision.fence_by.task_residency),
            pin_region=decision.fence_by.pin_region,
        ),
        bypassed=decision.bypassed,
        refused=code_pb2.Code.Name(code) if (code := decision.refusal.code) else "",
        refusal=decision.refusal.message,
        dedup_by=decision.dedup_by,
        matched=decision.matched,
        waits_for=decision.waits_for,
    )


def cancellation_of(reply: router_pb2.CancelTaskResponse) -> Cancellation:
    """Read the answer to a cancel."""
    return Cancellation(reply.cancelled, reply.requested, task_of(reply.task))


def _candidate(each: task_pb2.Candidate) -> Candidate:
    parts = each.parts
    return Candidate(
        region=each.region,
        eligible=each.eligible,
        excluded_by=each.excluded_by,
        rtt_ms=milliseconds(each.rtt),
        expected_wait_s=seconds(each.expected_wait),
        score_s=round(each.score, _PLACES),
        share=round(each.share, _PLACES),
        reasons=tuple(each.reasons),
        parts=ScoreParts(
            rtt_s=round(parts.rtt, _PLACES),
            wait_s=round(parts.wait, _PLACES),
            cost_s=round(parts.cost, _PLACES),
            success_rate=round(parts.success_rate, _PLACES),
            ramp=round(parts.ramp, _PLACES),
            health_factor=round(parts.health_factor, _PLACES),
        )
        if each.HasField("parts")
        else None,
        age_s=seconds(each.age) if each.HasField("age") else None,
        health=short_name(task_pb2.Health.Name(each.health)) if each.health else "",
        details=dict(each.details),
        trial=each.trial,
    )


def _stays(task: task_pb2.Task) -> tuple[Stay, ...]:
    """Read the stays: a router tells when each ended, and of the present one when it began."""
    found: list[Stay] = []
    began = _maybe(task, "created_at", task.created_at)
    for number, hop in enumerate(task.hops, 1):
        at = moment(hop.at) if hop.HasField("at") else None
        state = state_of(hop.state)
        if number < len(task.hops):
            ended = at
        else:
            ended = _maybe(task, "finished_at", task.finished_at)
            if began and ended and ended < began:
                # One that came as the dead letter it was rests here; else the clocks differ.
                rests = state is State.DEAD_LETTER and not hop.attempts
                ended = None if rests else began
        found.append(Stay(hop.region, state, hop.attempts, hop.reason, at, began, ended))
        began = ended
    return tuple(found)


def _failure(task: task_pb2.Task) -> TaskFailure | None:
    if not task.HasField("error"):
        return None
    return TaskFailure(task.error.kind, task.error.message, task.error.traceback)


def _decoded(result: bytes, content_type: str) -> Any:
    if not result:
        return None if content_type in {"", JSON_TYPE} else b""
    return json.loads(result) if content_type == JSON_TYPE else result


def _maybe(task: task_pb2.Task, name: str, value: Timestamp) -> datetime | None:
    return moment(value) if task.HasField(name) else None
