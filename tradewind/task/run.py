"""Under a lease: claims, how they are settled, and who holds them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tradewind.task.record import DeathKind, Failure
from tradewind.task.submit import Priority


class Claim(NamedTuple):
    """A task, its lease and its fence token. Whoever shows this token and epoch may settle it.

    A tuple, as is Settled: made for every task, at an eighth of a frozen dataclass's cost (0.28
    against 1.72 us for 17 fields).
    """

    task_id: str
    region: str
    partition: int
    queue: str
    name: str
    priority: Priority
    token: int
    epoch: int
    attempt: int  # 1 is the first in this region
    crashes: int  # of a suspect with this run, until a report takes it back
    packed: bytes
    hops: bytes
    created_ms: int
    ready_ms: int  # when it could have started: start delay is claimed_ms - ready_ms
    claimed_ms: int
    hop_count: int  # dead-letter moves so far
    suspect: bool = False  # an earlier run of it ended without a word: to be run in a child
    payload: bytes | None = None  # what `packed` says, JSON, if it says nothing else


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """What one claim brought, and what the partition says of itself meanwhile."""

    claims: tuple[Claim, ...]
    depth: int  # ready tasks left in the partition, all queues
    next_due_ms: int  # until the next delayed task or retry is due; -1: none
    now_ms: int
    parked: bool = False  # tickets wait here that this caller has no handler for: see Upkeep.wait


class Finish(NamedTuple):
    """Record success. A tuple, since it is made for nearly every task."""

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


@dataclass(frozen=True, slots=True)
class Crash:
    """The child that ran the attempt died without a report: from the worker that started it.

    At the task's max_crashes it is dead of `crashed`; the rest says what holds then, as in Bury.
    """

    claim: Claim
    message: str  # what is known of the death, for the failure worker-lost
    retention_ms: int
    may_move: bool
    move_after_ms: int = 0
    failover: str = ""


Settlement = Finish | RetryAt | Bury | Release | Cancel | Crash


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come."""

    claim: Claim
    fraction: float  # 0..1; cut to that
    note: str = ""  # cut to MAX_NOTE_BYTES


class Settled(NamedTuple):
    """Answer to a settlement. `lost`: a newer token, another state, or no task: nothing changed.

    Not lost and with a state, the task ended otherwise than the settlement says: CANCELLED, since
    that had been asked for, EXPIRED instead of another attempt, or DEAD_LETTER at the last crash.
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


class Timing(NamedTuple):
    """How long attempts of one handler name take at a worker, or in a region."""

    mean_s: float  # seconds; no less than what those show that run now; 0 until known
    lately: float  # attempts begun in the last 10 s, older ones counting less


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker process says of itself every second."""

    worker_id: str
    region: str
    queues: tuple[str, ...]
    handlers: tuple[str, ...]
    slots: int
    busy: int
    rate: float  # completions a second, EWMA of 10 s; of tasks that take service_s
    service_s: float  # mean seconds an attempt takes of those begun lately; 0 until known
    started_ms: int
    version: str
    depths: Mapping[int, tuple[int, int]] = field(
        default_factory=dict[int, tuple[int, int]],
    )  # partition -> (ready tasks, server time in ms) as last seen
    control: int = 0  # epoch of the control document that it obeys
    timings: Mapping[str, Timing] = field(
        default_factory=dict[str, Timing],
    )  # handler name -> how long it takes; at most MAX_TIMINGS; empty from an older worker


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A heartbeat and its age by the store's clock."""

    heartbeat: Heartbeat
    age_ms: int
