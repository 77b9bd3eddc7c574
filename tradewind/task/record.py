"""As a region holds it, and how it may be ended."""

from dataclasses import dataclass
from typing import Literal

from tradewind.state import Mark, State

DeathKind = Literal["exhausted", "timeout", "crashed", "rejected", "damaged"]


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
    result_omitted: bool = False  # it went since memory was tight
    payload_omitted: bool = False  # likewise, from `packed`
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
    hop_count: int = 0  # moves after a death, since its submit or redrive


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
class QueueCounts:
    """Tasks of one queue in one region, by state."""

    pending: tuple[int, int, int] = (0, 0, 0)  # high, normal, low
    scheduled: int = 0
    processing: int = 0
    failed: int = 0
    moving: int = 0
    dead: int = 0
