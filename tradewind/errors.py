"""Every error that Tradewind raises, each with an answer to whether asking again can help.

Nobody parses messages: an error carries its facts as fields, and a stable `reason` that
travels to clients as google.rpc.ErrorInfo (domain `tradewind`). Codes are in `statuses.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class TradewindError(Exception):
    """Base of all errors. `retryable` says whether the same call may succeed later."""

    retryable: ClassVar[bool] = False
    reason: ClassVar[str] = "UNSPECIFIED"


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


class UnknownTask(TradewindError):
    """Every region said that it does not know the task."""

    reason = "UNKNOWN_TASK"

    def __init__(self, task_id: str) -> None:
        """`task_id` as asked for."""
        self.task_id = task_id
        super().__init__(f"no region knows task {task_id}; it may be past its retention")


class RegionSilent(TradewindError):
    """A question needs every region's answer and some did not answer."""

    retryable = True
    reason = "REGION_SILENT"

    def __init__(self, regions: Sequence[str]) -> None:
        """`regions` that did not answer."""
        self.regions = tuple(regions)
        super().__init__(f"no answer from region {', '.join(self.regions)}; retry later")


class NotServedYet(TradewindError):
    """The method is part of the contract but not of this release."""

    reason = "NOT_SERVED_YET"


class StoreError(TradewindError):
    """Base of what can go wrong between a process and one region's Redis."""

    region: str = ""


class StoreUnavailable(StoreError):
    """The region did not answer. `sent` is False only if certainly no byte was written."""

    retryable = True
    reason = "STORE_UNAVAILABLE"

    def __init__(self, region: str, cause: str, *, sent: bool, failed: bool = False) -> None:
        """`cause` is ours, never raw Redis text. `failed`: a script did, and will again."""
        self.region, self.cause, self.sent, self.failed = region, cause, sent, failed
        super().__init__(f"region {region} does not answer ({cause})")


class StoreFull(StoreError):
    """Redis refuses writes since its memory is full. Nothing was stored."""

    retryable = True
    reason = "STORE_FULL"

    def __init__(self, region: str) -> None:
        """`region` that is full."""
        self.region = region
        super().__init__(f"region {region} is out of memory and refuses new work")


class StoreMoving(StoreError):
    """The partition's slot is between two nodes. Nothing was changed; repeat shortly."""

    retryable = True
    reason = "STORE_MOVING"

    def __init__(self, region: str, partition: int) -> None:
        """`partition` whose slot moves."""
        self.region, self.partition = region, partition
        super().__init__(f"partition {partition} of region {region} is moving; repeat shortly")


class StoreContractBroken(StoreError):
    """A script answered something that its header does not list: a bug, or foreign data."""

    reason = "STORE_CONTRACT_BROKEN"


class IdentityMismatch(StoreError):
    """The Redis behind a URL belongs to another deployment, region or format."""

    reason = "IDENTITY_MISMATCH"

    def __init__(self, region: str, field: str, found: str, expected: str) -> None:
        """`field` of the identity that differs."""
        self.region, self.field, self.found, self.expected = region, field, found, expected
        super().__init__(
            f"the Redis configured for region {region} says {field}={found}, expected {expected}; "
            + (
                "finish its tasks with the version that stored them, or give an empty one"
                if field == "format"
                else "correct the address in regions.yaml"
            ),
        )


class ConfigError(TradewindError):
    """A file cannot be used; the message gives place and remedy in one sentence."""

    reason = "CONFIG_INVALID"

    def __init__(
        self,
        path: str,
        problem: str,
        *,
        key: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        """`line` and `column` count from 1."""
        self.path, self.problem, self.key = path, problem, key
        self.line, self.column = line, column
        place = path if line is None else f"{path}:{line}:{column}"
        super().__init__(f"{place}: {key + ': ' if key else ''}{problem}")


class ConfigErrors(ConfigError):
    """Several mistakes in one file. Place, key and problem are those of the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        """`errors` in the order of the file, at least one; the message has a line for each."""
        first = errors[0]
        super().__init__(
            first.path, first.problem, key=first.key, line=first.line, column=first.column
        )
        self.errors = tuple(errors)
        self.args = ("\n".join(map(str, errors)),)


class PolicyRefused(TradewindError):
    """A policy file was read again and cannot be used: the one before stays in force."""

    reason = "POLICY_REFUSED"


class SetupError(TradewindError):
    """A process cannot start: a port in use, a missing server, an app that cannot be imported."""

    reason = "SETUP"


class RouterUnreachable(TradewindError):
    """No router answers at the address; asking again may help once one runs there."""

    retryable = True
    reason = "ROUTER_UNREACHABLE"

    def __init__(self, target: str, cause: str = "") -> None:
        """`target` is the address as given, `cause` what the connection said."""
        self.target, self.cause = target, cause
        said = f" ({cause})" if cause else ""
        super().__init__(
            f"no router answers at {target}{said}; start one with `tradewind up`, "
            "or name another with --router, TRADEWIND_ROUTER or Client(target)",
        )


class TaskEnded(TradewindError):
    """A task that was waited for ended without a result."""

    reason = "TASK_ENDED"

    def __init__(self, task_id: str, region: str, problem: str) -> None:
        """`region` owned the task in the end."""
        self.task_id, self.region = task_id, region
        super().__init__(f"task {task_id} {problem}")


class TaskDead(TaskEnded):
    """The task was given up, and nothing will move it on; only a redrive revives it."""

    reason = "TASK_DEAD"

    def __init__(self, task_id: str, region: str, kind: str, message: str) -> None:
        """`kind` is the closed kind of death, `message` what the handler or the worker said."""
        self.kind, self.message = kind, message
        super().__init__(task_id, region, f"died in {region} ({kind}): {message}")


class TaskCancelled(TaskEnded):
    """The task was cancelled before a handler finished it."""

    reason = "TASK_CANCELLED"

    def __init__(self, task_id: str, region: str) -> None:
        """As TaskEnded."""
        super().__init__(task_id, region, "was cancelled")


class TaskExpired(TaskEnded):
    """The task's `expires_at` passed while it waited."""

    reason = "TASK_EXPIRED"

    def __init__(self, task_id: str, region: str) -> None:
        """As TaskEnded."""
        super().__init__(task_id, region, "expired before an attempt could start")


class NoAnswer(TradewindError, TimeoutError):
    """The router did not answer in time. A submit may have been stored."""

    retryable = True
    reason = "NO_ANSWER"

    def __init__(self, target: str, waited_s: float, *, request_id: str = "") -> None:
        """`request_id` names the submit that is without an answer; empty for other calls."""
        self.target, self.waited_s, self.request_id = target, waited_s, request_id
        advice = (
            f"the task may have been stored: submit again with request_id={request_id} to find out"
            if request_id
            else "ask again later"
        )
        super().__init__(f"no answer from {target} within {waited_s:g} s; {advice}")


class WaitOver(TradewindError, TimeoutError):
    """The task did not end within the time that its waiter gave it. It goes on."""

    retryable = True
    reason = "WAIT_OVER"

    def __init__(self, task_id: str, waited_s: float) -> None:
        """`waited_s` as given to `wait`."""
        self.task_id, self.waited_s = task_id, waited_s
        super().__init__(f"task {task_id} did not end within {waited_s:g} s; it goes on")
