"""Values that travel between the parts: a task on its way in, in a store, under a lease, on a move.

All frozen; only a store changes a task. Times are milliseconds since 1970 by the clock of the
Redis that holds the task, unless a name says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from tradewind.state import Mark, State

DeathKind = Literal["exhausted", "timeout", "crashed", "rejected", "damaged"]


class Priority(IntEnum):
    """Order within a queue; the number is the one stored."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


@dataclass(frozen=True, slots=True)
class Draft:
    """A submit that passed admission: every default filled in, every field within its limits."""

    name: str
    queue: str = "default"
    payload: bytes = b""
    content_type: str = "application/json"
    priority: Priority = Priority.NORMAL
    affinity_key: str = ""
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    idempotency_key: str = ""
    request_id: str = ""
    residency: tuple[str, ...] = ()
    pin_region: str = ""
    delay_ms: int = 0  # from now; `not_before` has been turned into this by admission
    expires_ms: int = 0  # 0: never
    timeout_ms: int = 0  # 0: the queue's
    max_attempts: int = 0  # 0: the queue's
    origin_region: str = ""
    spec: bytes = b""  # the TaskSpec as it came, serialised: stored as it is


@dataclass(frozen=True, slots=True)
class LedgerMark:
    """Who already submitted this: one entry, in its home region's partition of `key`."""

    key: bytes  # 32 bytes, see fingerprint.ledger_key_*
    business: bool  # idempotency key or payload; False: the entry exists for a request_id only
    digest: bytes  # 16 bytes of the canonical payload's SHA-256
    request_tag: bytes  # 16 bytes of the hashed (tenant, request_id); empty without request_id
    window_ms: int


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to store. The id carries region code and partition; `epoch` is 1 at birth."""

    task_id: str
    queue: str
    name: str
    priority: Priority
    packed: bytes  # StoredSpec, see codec.pack
    fence: tuple[str, ...] = ()
    epoch: int = 1
    delay_ms: int = 0
    expires_ms: int = 0  # no attempt starts from then on; 0: never expires
    max_crashes: int = 3
    done_key: bytes = b""  # fingerprint, where the submit was deduplicated: see design section 4
    mark: LedgerMark | None = None  # only if the entry's home is this region and partition


@dataclass(frozen=True, slots=True)
class Stored:
    """The task is in the region. `created` is False if it already was (same id)."""

    task_id: str
    state: State
    created: bool


@dataclass(frozen=True, slots=True)
class LedgerHit:
    """The ledger knows this submit. `mine`: same request_id, so a repeat and no duplicate.

    `confirmed` is False for a reservation whose task may not be stored yet; then
    `lease_left_ms` says for how long its first submitter is to be left alone, and
    `adopted` that this caller now holds the lease and is to carry it through.
    """

    task_id: str
    region: str
    epoch: int
    confirmed: bool
    lease_left_ms: int
    mine: bool
    same_payload: bool
    adopted: bool = False
    state: State | None = None  # where the task happened to be in the same partition


@dataclass(frozen=True, slots=True)
class Tombstoned:
    """This id may not be stored in this region at this epoch: its submitter left for another."""

    task_id: str


@dataclass(frozen=True, slots=True)
class TooLate:
    """`not_after` had passed when the script ran; nothing was stored."""

    task_id: str


EnqueueOutcome = Stored | LedgerHit | Tombstoned | TooLate


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt ended badly. `kind` is a closed set; texts are cut to MAX_ERROR_BYTES."""

    kind: str  # error, timeout, rejected, worker-lost, result-too-large, damaged
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A task as a region holds it."""

    task_id: str
    region: str
    state: State
    packed: bytes
    epoch: int
    token: int
    attempts: int
    crashes: int
    created_ms: int
    started_ms: int = 0
    finished_ms: int = 0
    next_attempt_ms: int = 0
    fence: tuple[str, ...] = ()
    result: bytes = b""
    result_content_type: str = ""
    result_omitted: bool = False
    death: str = ""  # DeathKind, dead tasks only
    failure: Failure | None = None
    hops: bytes = b""  # StoredHops: the stays before this one
    failover: str = ""  # why it will not move on
    settled: bool = False
    target: str = ""  # MOVING: where to
    revision: int = 0  # grows with every change at this epoch
    expires_ms: int = 0  # 0: never, or the task has ended
    cancel_requested: bool = False  # asked for while it ran
    progress: float = 0.0  # of the present or last attempt, 0..1
    progress_note: str = ""


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a region keeps of a task that left, or was never let in."""

    task_id: str
    mark: Mark
    epoch: int
    target: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The task has ended CANCELLED, now or before."""

    task_id: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The task runs; its holder was told. A success that comes first still counts."""

    task_id: str


@dataclass(frozen=True, slots=True)
class TooLateToCancel:
    """COMPLETED, EXPIRED, or MOVING: then its target has to be asked. Nothing changed."""

    task_id: str
    state: State


CancelOutcome = Cancelled | CancelRequested | TooLateToCancel | Pointer


@dataclass(frozen=True, slots=True)
class Claim:
    """A task, its lease and its fence token. Whoever shows this token and epoch may settle it."""

    task_id: str
    region: str
    partition: int
    queue: str
    name: str
    priority: Priority
    token: int
    epoch: int
    attempt: int  # 1 is the first in this region
    crashes: int
    packed: bytes
    hops: bytes
    created_ms: int
    ready_ms: int  # when it could have started: start delay is claimed_ms - ready_ms
    claimed_ms: int
    hop_count: int  # dead-letter moves so far


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """What one claim brought, and what the partition says of itself meanwhile."""

    claims: tuple[Claim, ...]
    depth: int  # ready tasks left in the partition, all queues
    next_due_ms: int  # until the next delayed task or retry is due; -1: none
    now_ms: int
    parked: bool = False  # tickets wait here that this caller has no handler for: see Upkeep.wait


@dataclass(frozen=True, slots=True)
class Finish:
    """Record success."""

    claim: Claim
    result: bytes
    content_type: str
    retention_ms: int


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Wait, then try again."""

    claim: Claim
    delay_ms: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Bury:
    """To the dead letters. `may_move`: the courier is to look at it after `move_after_ms`."""

    claim: Claim
    kind: DeathKind
    failure: Failure
    retention_ms: int
    may_move: bool
    move_after_ms: int = 0
    failover: str = ""  # if not: why


@dataclass(frozen=True, slots=True)
class Release:
    """Hand back what has not started; no attempt is used."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Cancel:
    """The attempt has stopped, since its cancel was asked for: confirm it."""

    claim: Claim
    retention_ms: int


Settlement = Finish | RetryAt | Bury | Release | Cancel


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come."""

    claim: Claim
    fraction: float  # 0..1; cut to that
    note: str = ""  # cut to MAX_NOTE_BYTES


@dataclass(frozen=True, slots=True)
class Settled:
    """Answer to a settlement. `lost`: a newer token, another state, or no task: nothing changed.

    Not lost and with a state, the task ended otherwise than the settlement says: CANCELLED, since
    that had been asked for, or EXPIRED instead of another attempt.
    """

    task_id: str
    lost: bool
    state: str = ""


@dataclass(frozen=True, slots=True)
class Renewed:
    """Answer to a renewal. `lost` is definite: the lease belongs to somebody else."""

    task_id: str
    token: int
    lost: bool
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Swept:
    """What upkeep of one partition found and did."""

    depth: int
    promoted: int
    expired_leases: int  # waiting to be reaped
    next_due_ms: int
    outbox: int  # dead tasks that a courier should look at now
    moving: int
    unsettled_imports: int
    courier: bool  # this caller holds the partition's courier lease
    now_ms: int
    expired: int = 0  # waiting tasks that ended EXPIRED


@dataclass(frozen=True, slots=True)
class Reaped:
    """A lease that ended without a word from its holder."""

    task_id: str
    worker_id: str
    state: State  # PENDING again, DEAD_LETTER after too many crashes, CANCELLED if asked for
    queue: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A task under way: all that the target needs. `epoch` is the new one."""

    record: Record
    queue: str
    name: str
    priority: Priority
    epoch: int
    target: str
    hop_count: int
    max_crashes: int
    done_key: bytes = b""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker process says of itself every second."""

    worker_id: str
    region: str
    queues: tuple[str, ...]
    handlers: tuple[str, ...]
    slots: int
    busy: int
    rate: float  # completions a second, EWMA of 10 s
    service_s: float  # mean seconds an attempt takes, EWMA; 0 until known
    started_ms: int
    version: str
    depths: Mapping[int, tuple[int, int]] = field(
        default_factory=dict[int, tuple[int, int]],
    )  # partition -> (ready tasks, server time in ms) as last seen


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A heartbeat and its age by the store's clock."""

    heartbeat: Heartbeat
    age_ms: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Tasks of one queue in one region, by state."""

    pending: tuple[int, int, int] = (0, 0, 0)  # high, normal, low
    scheduled: int = 0
    processing: int = 0
    failed: int = 0
    moving: int = 0
    dead: int = 0
