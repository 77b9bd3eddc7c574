"""Why a task was not taken, or may not have been."""

from collections.abc import Sequence
from dataclasses import dataclass

from tradewind.errors.base import TradewindError


@dataclass(frozen=True, slots=True)
class Violation:
    """One field of a request that cannot be accepted, and why."""

    field: str
    problem: str


class InvalidTask(TradewindError):
    """The request itself is wrong; each violation names a field."""

    reason = "INVALID_TASK"

    def __init__(self, violations: Sequence[Violation]) -> None:
        """Keep the violations; the message lists them all."""
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.field}: {v.problem}" for v in self.violations))

    @classmethod
    def field(cls, field: str, problem: str) -> "InvalidTask":
        """Shorthand for a single violation."""
        return cls([Violation(field, problem)])


class IdempotencyKeyReused(TradewindError):
    """The idempotency key already stands for a task with another payload."""

    reason = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self, first_id: str) -> None:
        """`first_id` is the task that owns the key."""
        self.first_id = first_id
        super().__init__(
            f"idempotency_key already belongs to task {first_id} with another payload; "
            "use a new key, or send the same payload",
        )


class PayloadTooLarge(TradewindError):
    """The payload is over the limit; waiting does not help."""

    reason = "PAYLOAD_TOO_LARGE"

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        """Sizes in bytes."""
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes
        super().__init__(
            f"payload has {size_bytes} bytes, the limit is {limit_bytes}; "
            "store the body elsewhere and send a reference",
        )


class BatchTooLarge(TradewindError):
    """A batch is over the limit in all, though each of its tasks may be within its own."""

    reason = "BATCH_TOO_LARGE"

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        """Sizes in bytes."""
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes
        super().__init__(
            f"the batch has {size_bytes} bytes, the limit is {limit_bytes}; send it in parts",
        )


class NoRegionPermitted(TradewindError):
    """Fence and pin leave no region at all, however healthy they are."""

    reason = "NO_REGION_PERMITTED"


class NoRegionReachable(TradewindError):
    """Permitted regions exist, none can take the task now."""

    retryable = True
    reason = "NO_REGION_REACHABLE"
    retry_after_ms = 0  # when to ask again; 0: as all errors of this kind say


class RegionsFull(TradewindError):
    """Every permitted region refuses new work: backlog, wait or memory limit."""

    retryable = True
    reason = "REGIONS_FULL"


class OutcomeUnknown(TradewindError):
    """The task may have been stored; repeating with the same request_id or key is safe."""

    retryable = True
    reason = "OUTCOME_UNKNOWN"

    def __init__(self, task_id: str, *, deadline_passed: bool, region: str = "") -> None:
        """`deadline_passed` chooses DEADLINE_EXCEEDED over UNAVAILABLE; `region` did not say."""
        self.task_id, self.deadline_passed, self.region = task_id, deadline_passed, region
        where = f" in region {region}" if region else ""
        super().__init__(
            f"task {task_id} may have been stored{where}; repeat with the same request_id "
            "or idempotency_key to find out",
        )


class SubmitInFlight(TradewindError):
    """An identical submit holds the reservation; repeat in a moment."""

    retryable = True
    reason = "SUBMIT_IN_FLIGHT"

    def __init__(self, first_id: str, retry_after_ms: int) -> None:
        """`retry_after_ms` is what is left of the other submit's lease."""
        self.first_id, self.retry_after_ms = first_id, retry_after_ms
        super().__init__(f"an identical submit (task {first_id}) is in flight; repeat shortly")


class HomeUnreachable(TradewindError):
    """The region that keeps the ledger entry does not answer, so a duplicate cannot be excluded."""

    retryable = True
    reason = "HOME_UNREACHABLE"

    def __init__(self, region: str) -> None:
        """`region` keeps the entry."""
        self.region = region
        super().__init__(
            f"region {region}, which keeps the record of this submit, does not answer; retry later",
        )
