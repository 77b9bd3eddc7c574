"""Our values as messages of the contract, and a checked TaskSpec as a Draft."""

import contextlib
import math
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from tradewind import codec, ids
from tradewind.admission import admit
from tradewind.audit import AuditRecord
from tradewind.codec import STATES, DamagedRecord
from tradewind.control import RegionState
from tradewind.fingerprint import Body
from tradewind.fleet import Fleet
from tradewind.limits import DAY_MS
from tradewind.policy.filters import details
from tradewind.policy.rules import DEFAULT_RULE, UNSERVED
from tradewind.state import State
from tradewind.task import Draft, Failure, LiveWorker, Priority, QueueCounts, Record
from tradewind.v1 import admin_pb2, router_pb2, task_pb2
from tradewind.view import Candidate, Decision, FenceAuthors, RegionView, known_for_s

#: Initial metadata of a health Check: the region that the router stands in.
REGION_METADATA = "tradewind-region"
#: The same: ms since 1970 by the clocks of the regions; absent before one has told its time.
NOW_METADATA = "tradewind-now-ms"
#: Request metadata of AdminService: who asks, by their own word. It stands beside their address.
OPERATOR_METADATA = "tradewind-operator"
DEFAULT_QUEUE = "default"
JSON = "application/json"

_PRIORITIES = {
    task_pb2.PRIORITY_HIGH: Priority.HIGH,
    task_pb2.PRIORITY_NORMAL: Priority.NORMAL,
    task_pb2.PRIORITY_LOW: Priority.LOW,
}
_HEALTH = {
    "HEALTHY": task_pb2.HEALTH_HEALTHY,
    "DEGRADED": task_pb2.HEALTH_DEGRADED,
    "DOWN": task_pb2.HEALTH_DOWN,
    "RECOVERING": task_pb2.HEALTH_RECOVERING,
    "UNKNOWN": task_pb2.HEALTH_UNKNOWN,
}
_REGION_STATES: dict[RegionState, task_pb2.RegionState] = {
    "ACTIVE": task_pb2.REGION_STATE_ACTIVE,
    "CORDONED": task_pb2.REGION_STATE_CORDONED,
    "DRAINING": task_pb2.REGION_STATE_DRAINING,
}
_LONGEST_MS = 10_000 * 365 * DAY_MS  # what a Duration holds, almost
#: What a failed attempt of a task that lives on is called. The other kinds are deaths.
_ATTEMPT_KINDS = {"timeout": "timeout", "worker-lost": "crashed"}


def draft(
    spec: task_pb2.TaskSpec, *, delay_ms: int, timeout_ms: int, not_before_ms: int = 0
) -> Draft:
    """Return a checked spec as a Draft. Fills the defaults in, in `spec` itself, too."""
    spec.queue = spec.queue or DEFAULT_QUEUE
    spec.content_type = spec.content_type or JSON
    spec.priority = spec.priority or task_pb2.PRIORITY_NORMAL
    return Draft(
        name=spec.name,
        queue=spec.queue,
        payload=spec.payload,
        content_type=spec.content_type,
        priority=_PRIORITIES[spec.priority],
        affinity_key=spec.affinity_key,
        tenant=spec.tenant,
        labels=dict(spec.labels),
        idempotency_key=spec.idempotency_key,
        request_id=spec.request_id,
        residency=tuple(spec.residency),
        pin_region=spec.pin_region,
        delay_ms=delay_ms,
        not_before_ms=not_before_ms,
        expires_ms=spec.expires_at.ToMilliseconds() if spec.HasField("expires_at") else 0,
        timeout_ms=timeout_ms,
        max_attempts=spec.max_attempts,
        origin_region=spec.origin_region,
        spec=spec.SerializeToString(),
    )


def admitted(spec: task_pb2.TaskSpec, fleet: Fleet, *, now_ms: int) -> tuple[Draft, Body]:
    """Check a spec; return it as a Draft, and its payload, read. Raises what `admit.check` does."""
    found = admit.check(spec, fleet, now_ms=now_ms)
    checked = draft(
        spec,
        delay_ms=found.delay_ms,
        not_before_ms=found.not_before_ms,
        timeout_ms=found.timeout_ms,
    )
    return checked, found.body


def receipt(
    into: router_pb2.SubmitTaskResponse,
    task_id: str,
    *,
    region: str,
    state: State,
    duplicate: bool,
    rule: str,
    possible_duplicate: bool = False,
) -> router_pb2.SubmitTaskResponse:
    """Fill `into`, an empty message, with the answer to a submit whose task is stored."""
    into.task_id = task_id
    into.region = region
    into.partition = ids.birth_partition(task_id)
    into.state = STATES[state]
    into.rule = rule
    if duplicate:
        into.duplicate = True
    if possible_duplicate:
        into.possible_duplicate = True
    return into


def task(record: Record, *, whole: bool) -> task_pb2.Task:
    """Return a task as its owner knows it; without payload and result unless `whole`.

    What it waits for is not known here.
    A task whose packed part cannot be read is shown without its spec.
    """
    shown = task_pb2.Task(
        task_id=record.task_id,
        state=STATES[record.state],
        region=record.region,
        partition=ids.parse(record.task_id).partition,
        attempts=record.attempts,
        crashes=record.crashes,
        result_content_type=record.result_content_type,
        result_omitted=record.result_omitted,
        payload_omitted=record.payload_omitted,
        settled=record.settled,
        failover=record.failover,
        fence=record.fence,
        cancel_requested=record.cancel_requested and record.state is State.PROCESSING,
    )
    _add_spec(shown, record.packed, whole=whole, has_payload=not record.payload_omitted)
    _add_times(shown, record)
    _add_hops(shown, record)
    if record.death or record.failure is not None:
        shown.error.CopyFrom(_error(record.death, record.failure))
    if record.progress or record.progress_note:
        shown.progress.fraction, shown.progress.note = record.progress, record.progress_note
    if whole:
        shown.result = record.result
    return shown


def decision(
    choice: Decision,
    *,
    partition: int,
    fence_by: FenceAuthors | None = None,
    refusal: Status | None = None,
    dedup_by: str = "",
    waits_for: str = "",
) -> task_pb2.RouteDecision:
    """Return a routing decision; `partition` is the one the task would take.

    `refusal`: what a submit is answered without a region. `waits_for`: see router.waits.
    """
    return task_pb2.RouteDecision(
        region=choice.region,
        rule=decided_by(choice),
        candidates=[_candidate(candidate) for candidate in choice.candidates],
        ledger_home=choice.ledger_home,
        partition=partition,
        policy_version=choice.policy_version,
        step=choice.reason if choice.region else "",
        home=choice.home,
        spills=choice.spills,
        fence=choice.fence,
        fence_by=None if fence_by is None else _authors(fence_by),
        bypassed=choice.bypassed,
        refusal=refusal,
        dedup_by=dedup_by,
        matched=_matched(choice),
        waits_for=waits_for,
    )


def _authors(of: FenceAuthors) -> task_pb2.FenceAuthors:
    return task_pb2.FenceAuthors(
        rule=of.rule,
        rule_residency=of.rule_residency,
        task_residency=of.task_residency,
        pin_region=of.pin_region,
    )


def decided_by(choice: Decision) -> str:
    """Return the name of the rule that matched, else of the built-in step that took the region.

    That nobody runs the task goes before either.
    """
    if choice.reason == UNSERVED:
        return UNSERVED
    return _matched(choice) or choice.reason


def _matched(choice: Decision) -> str:
    return "" if choice.rule == DEFAULT_RULE else choice.rule


def region(
    view: RegionView,
    *,
    expected_wait_s: float,
    workers: int,
    epoch: int = 0,
    reasons: Sequence[str] = (),
) -> admin_pb2.Region:
    """Return a region as this router sees it; `epoch` of the orders in which its state stands.

    `reasons`: what keeps new tasks out.
    """
    shown = admin_pb2.Region(
        name=view.name,
        state=_REGION_STATES[view.state],
        epoch=epoch,
        health=_HEALTH[view.health],
        rtt=_duration(view.rtt_ms),
        pending=view.depth,
        live_slots=view.slots,
        workers=workers,
        trial=view.trial,
        reasons=reasons,
        details=details(view, reasons),
    )
    if (age_s := known_for_s(view)) is not None:
        shown.age.CopyFrom(_duration(age_s * 1_000))
    if math.isfinite(expected_wait_s):
        shown.expected_wait.CopyFrom(_duration(expected_wait_s * 1_000))
    return shown


def region_state(state: task_pb2.RegionState) -> RegionState | None:
    """Return the state that a request names; None for none, or one that this version lacks."""
    return next((name for name, value in _REGION_STATES.items() if value == state), None)


def audit_record(record: AuditRecord) -> admin_pb2.AuditRecord:
    """Return what somebody did, as it is kept."""
    return admin_pb2.AuditRecord(
        region=record.region,
        at=_timestamp(record.at_ms),
        deed=record.deed,
        who=record.who,
        on=record.on,
        why=record.why,
        counts={name: max(0, count) for name, count in record.counts.items()},
        details=record.told,
    )


def worker(live: LiveWorker) -> admin_pb2.Worker:
    """Return a live worker."""
    beat = live.heartbeat
    return admin_pb2.Worker(
        worker_id=beat.worker_id,
        region=beat.region,
        queues=sorted(beat.queues),
        handlers=sorted(beat.handlers),
        slots=beat.slots,
        busy=beat.busy,
        started_at=_timestamp(beat.started_ms),
        version=beat.version,
    )


def queue_stats(
    region_name: str,
    queue: str,
    counts: QueueCounts,
    *,
    oldest_ms: int | None,
    paused: bool = False,
) -> admin_pb2.QueueStats:
    """Return the counts of one queue in one region; `oldest_ms`: None if nothing is ready."""
    high, normal, low = counts.pending
    shown = admin_pb2.QueueStats(
        region=region_name,
        queue=queue,
        pending_high=high,
        pending_normal=normal,
        pending_low=low,
        pending=high + normal + low,
        scheduled=counts.scheduled,
        processing=counts.processing,
        failed=counts.failed,
        moving=counts.moving,
        dead=counts.dead,
        paused=paused,
    )
    if oldest_ms is not None:
        shown.oldest_age.CopyFrom(_duration(oldest_ms))
    return shown


def error_kind(death: str, failure: Failure | None) -> str:
    """Return the contract's kind: of the death, else of an attempt that was cut short."""
    return death or (_ATTEMPT_KINDS.get(failure.kind, "") if failure else "")


def _add_spec(shown: task_pb2.Task, packed: bytes, *, whole: bool, has_payload: bool) -> None:
    try:
        stored = codec.unpack(packed)
    except DamagedRecord:
        return
    shown.spec.CopyFrom(stored.spec)
    # To reckon it from a payload takes longer than all the rest, and a list shows many.
    if (whole and has_payload) or stored.fingerprint or stored.spec.idempotency_key:
        with contextlib.suppress(DamagedRecord):
            shown.fingerprint = codec.fingerprint_of(stored).hex()
    if not whole:
        shown.spec.ClearField("payload")


def _add_times(shown: task_pb2.Task, record: Record) -> None:
    shown.created_at.FromMilliseconds(record.created_ms)
    if record.started_ms:
        shown.started_at.FromMilliseconds(record.started_ms)
    if record.finished_ms:
        shown.finished_at.FromMilliseconds(record.finished_ms)
    if record.next_attempt_ms and record.state in {State.SCHEDULED, State.FAILED}:
        shown.next_attempt_at.FromMilliseconds(record.next_attempt_ms)


def _add_hops(shown: task_pb2.Task, record: Record) -> None:
    """Add the stays before, and the present one, which began when the last one ended."""
    try:
        before = codec.hops(record.hops)
    except DamagedRecord:
        before = []
    shown.hops.extend(before)
    began = before[-1].at if before else shown.created_at
    shown.hops.add(region=record.region, state=shown.state, attempts=record.attempts, at=began)


def _error(death: str, failure: Failure | None) -> task_pb2.TaskError:
    last = failure or Failure("")
    return task_pb2.TaskError(
        kind=error_kind(death, failure), message=last.message, traceback=last.traceback
    )


def _candidate(candidate: Candidate) -> task_pb2.Candidate:
    shown = task_pb2.Candidate(
        region=candidate.region,
        eligible=candidate.eligible,
        excluded_by=candidate.excluded_by,
        share=candidate.share,
        reasons=candidate.reasons,
        health=_HEALTH.get(candidate.health),
        trial=candidate.trial,
        details=candidate.details,
    )
    if math.isfinite(candidate.rtt_ms):
        shown.rtt.CopyFrom(_duration(candidate.rtt_ms))
    if math.isfinite(candidate.expected_wait_s):
        shown.expected_wait.CopyFrom(_duration(candidate.expected_wait_s * 1_000))
    if math.isfinite(candidate.score_s):
        shown.score = candidate.score_s
    if parts := candidate.parts:
        made_of = task_pb2.ScoreParts(
            rtt=parts.rtt_s,
            wait=parts.wait_s,
            cost=parts.cost_s,
            success_rate=parts.success_rate,
            ramp=parts.ramp,
            health_factor=parts.health_factor,
        )
        shown.parts.CopyFrom(made_of)
    if candidate.age_s is not None:
        shown.age.CopyFrom(_duration(candidate.age_s * 1_000))
    return shown


def _duration(ms: float) -> Duration:
    span = Duration()
    span.FromNanoseconds(round(min(ms, _LONGEST_MS) * 1_000_000))
    return span


def _timestamp(ms: int) -> Timestamp:
    instant = Timestamp()
    instant.FromMilliseconds(ms)
    return instant
