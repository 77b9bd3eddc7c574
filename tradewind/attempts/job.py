"""From a claim to what can be run: handler, arguments and terms."""

from dataclasses import dataclass
from datetime import UTC, datetime

from tradewind import codec
from tradewind.attempts.settle import HandedBack, Terms, Unreadable
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import App, Context, Handler, Signals
from tradewind.limits import MAX_TIMEOUT_MS
from tradewind.task import Claim, Failure
from tradewind.v1.task_pb2 import TaskSpec


@dataclass(frozen=True, slots=True)
class Job:
    """A claim that can be run: handler, arguments and terms are known."""

    claim: Claim
    policy: QueuePolicy
    terms: Terms
    handler: Handler
    spec: TaskSpec
    fingerprint: str
    signals: Signals


def prepare(
    claim: Claim, app: App, fleet: Fleet, signals: Signals
) -> Job | Unreadable | HandedBack:
    """Read what is stored. HandedBack: this worker does not have the handler after all."""
    policy = fleet.queue(claim.queue)
    handler = app.handlers.get(claim.name)
    if handler is None:
        return HandedBack()
    try:
        stored = codec.unpack(claim.packed)
    except codec.DamagedRecord as error:
        return Unreadable(Failure("damaged", str(error)))
    spec = stored.spec
    terms = Terms(
        attempts=spec.max_attempts or handler.attempts or policy.attempts,
        timeout_ms=_timeout_ms(spec) or handler.timeout_ms or policy.timeout_ms,
        pinned_to=spec.pin_region,
        deduplicated=stored.deduplicated,
        by_request=bool(spec.request_id),
        move_after_ms=fleet.failover.dead_after_ms,
    )
    return Job(claim, policy, terms, handler, spec, stored.fingerprint.hex(), signals)


def context_of(job: Job, now_ms: int) -> Context:
    """What the handler is told. `now_ms` is this host's time: the deadline is for display."""
    claim = job.claim
    return Context(
        task_id=claim.task_id,
        attempt=claim.attempt,
        region=claim.region,
        fingerprint=job.fingerprint,
        fencing_token=claim.token,
        deadline=datetime.fromtimestamp((now_ms + job.terms.timeout_ms) / 1000, UTC),
        labels=dict(job.spec.labels),
        tenant=job.spec.tenant,
        name=claim.name,
        queue=claim.queue,
        signals=job.signals,
    )


def _timeout_ms(spec: TaskSpec) -> int:
    if not spec.HasField("timeout"):
        return 0
    return min(max(spec.timeout.ToMilliseconds(), 1), MAX_TIMEOUT_MS)
