"""From a claim to what can be run: handler, arguments and terms."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from tradewind import codec
from tradewind.attempts.settle import HandedBack, Terms, Unreadable
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import App, Context, Handler, Signals
from tradewind.handlers.shape import JSON
from tradewind.limits import MAX_TIMEOUT_MS
from tradewind.task import Claim, Failure
from tradewind.v1.record_pb2 import StoredSpec
from tradewind.v1.task_pb2 import TaskSpec


class Job(NamedTuple):
    """A claim that can be run: handler, arguments and terms are known. Made for every task."""

    claim: Claim
    policy: QueuePolicy
    terms: Terms
    handler: Handler
    payload: bytes
    content_type: str
    signals: Signals

    @property
    def stored(self) -> StoredSpec:
        """The stored task, read anew: few ask for what is not said above."""
        return codec.unpack(self.claim.packed)


def prepare(
    claim: Claim, app: App, fleet: Fleet, signals: Signals
) -> Job | Unreadable | HandedBack:
    """Read what is stored. HandedBack: this worker does not have the handler after all."""
    policy = fleet.queue(claim.queue)
    handler = app.handlers.get(claim.name)
    if handler is None:
        return HandedBack()
    if claim.payload is not None:
        terms = _terms(
            handler.attempts or policy.attempts,
            handler.timeout_ms or policy.timeout_ms,
            move_after_ms=fleet.failover.dead_after_ms,
        )
        return Job(claim, policy, terms, handler, claim.payload, JSON, signals)
    if not claim.packed:
        return Unreadable(Failure("damaged", "the stored task is gone"))
    try:
        stored = codec.unpack(claim.packed)
    except codec.DamagedRecord as error:
        return Unreadable(Failure("damaged", str(error)))
    spec = stored.spec
    terms = _terms(
        spec.max_attempts or handler.attempts or policy.attempts,
        _timeout_ms(spec) or handler.timeout_ms or policy.timeout_ms,
        spec.pin_region,
        stored.deduplicated,
        bool(spec.request_id),
        fleet.failover.dead_after_ms,
    )
    return Job(claim, policy, terms, handler, spec.payload, spec.content_type, signals)


_terms = lru_cache(maxsize=1024)(Terms)  # most tasks have those of their handler


def context_of(job: Job, now_ms: int) -> Context:
    """What the handler is told. `now_ms` is this host's time: the deadline is for display."""
    return Context.over(_Facts(job, now_ms + job.terms.timeout_ms), job.signals)


class _Facts:
    """What a claim and its stored task say; see handlers.Context."""

    __slots__ = ("_claim", "_job", "_until_ms")

    def __init__(self, job: Job, until_ms: int) -> None:
        self._job, self._claim, self._until_ms = job, job.claim, until_ms

    @property
    def task_id(self) -> str:
        return self._claim.task_id

    @property
    def attempt(self) -> int:
        return self._claim.attempt

    @property
    def region(self) -> str:
        return self._claim.region

    @property
    def fingerprint(self) -> str:
        return codec.fingerprint_of(self._job.stored).hex()

    @property
    def fencing_token(self) -> int:
        return self._claim.token

    @property
    def deadline(self) -> datetime:
        return datetime.fromtimestamp(self._until_ms / 1000, UTC)

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self._job.stored.spec.labels)

    @property
    def tenant(self) -> str:
        return self._job.stored.spec.tenant

    @property
    def name(self) -> str:
        return self._claim.name

    @property
    def queue(self) -> str:
        return self._claim.queue


def _timeout_ms(spec: TaskSpec) -> int:
    if not spec.HasField("timeout"):
        return 0
    return min(max(spec.timeout.ToMilliseconds(), 1), MAX_TIMEOUT_MS)
