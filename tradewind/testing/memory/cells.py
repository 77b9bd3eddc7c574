"""What a region holds, as mutable values; the rest of the package changes them."""

from dataclasses import dataclass, field, replace

from tradewind.state import FINAL, Event, Mark, State, after
from tradewind.task import Failure, Pointer, Priority, Record


@dataclass(slots=True)
class Cell:
    """A task: its record, and its places in queue, leases, dead letters and outbox, as one."""

    task_id: str
    queue: str
    name: str
    priority: Priority
    packed: bytes
    epoch: int
    created_ms: int
    state: State = State.PENDING
    fence: tuple[str, ...] = ()
    max_crashes: int = 3
    done_key: bytes = b""
    done_until_ms: int = 0  # until when a completion stops copies under `done_key`
    hops: bytes = b""
    hop_count: int = 0
    token: int = 0
    attempts: int = 0
    crashes: int = 0
    is_booked: bool = False  # the present run is in `crashes` already
    revision: int = 0
    is_watched: bool = False
    place: int = 0  # PENDING: order in its queue and priority
    ready_ms: int = 0  # PENDING: since when
    is_parked: bool = False  # PENDING: a claimer without its handler has put it aside
    due_ms: int = 0  # SCHEDULED, FAILED: until when
    worker_id: str = ""  # PROCESSING
    lease_until_ms: int = 0  # PROCESSING
    cancel_keep_ms: int | None = None  # its cancel was asked for; how long to keep it then
    started_ms: int = 0
    finished_ms: int = 0
    expires_ms: int = 0
    expired_keep_ms: int = 0  # how long to keep it once it has expired
    result: bytes = b""
    content_type: str = ""
    failure: Failure | None = None
    death: str = ""
    failover: str = ""
    is_settled: bool = False  # dead, and nothing will move it on
    dead_until_ms: int = 0
    move_at_ms: int | None = None  # when a courier should look at it
    notice_at_ms: int | None = None  # when its queue's on_dead is to hear of it
    notice_tries: int = 0
    target: str = ""  # MOVING
    moving_since_ms: int = 0
    former: State = State.PENDING  # MOVING: in which it left
    move_reason: str = ""  # MOVING, of one that waited
    progress: float = 0.0
    note: str = ""
    gone_at_ms: int | None = None  # ended: when it is forgotten

    def go(self, event: Event) -> None:
        """Change state. Raises IllegalTransition, with nothing changed."""
        self.state = after(self.state, event)

    @property
    def is_suspect(self) -> bool:
        """Whether it has crashed before."""
        return self.crashes > 0

    def has_expired(self, now_ms: int) -> bool:
        """Whether no attempt may start any more."""
        return 0 < self.expires_ms <= now_ms

    def record(self, region: str) -> Record:
        """The task as readers see it."""
        return Record(
            task_id=self.task_id,
            region=region,
            state=self.state,
            packed=self.packed,
            epoch=self.epoch,
            token=self.token,
            attempts=self.attempts,
            crashes=self.crashes - self.is_booked,
            created_ms=self.created_ms,
            started_ms=self.started_ms,
            finished_ms=self.finished_ms,
            next_attempt_ms=self.due_ms,
            fence=self.fence,
            result=self.result,
            result_content_type=self.content_type,
            death=self.death,
            failure=self.failure,
            hops=self.hops,
            failover=self.failover,
            settled=self.state in FINAL or (self.is_settled and self.state is State.DEAD_LETTER),
            target=self.target,
            revision=self.revision,
            expires_ms=self.expires_ms,
            cancel_requested=self.cancel_keep_ms is not None,
            progress=self.progress,
            progress_note=self.note,
            hop_count=self.hop_count,
        )

    def forget_run(self) -> None:
        """Whatever belonged to the present attempt only."""
        self.worker_id, self.lease_until_ms, self.is_booked = "", 0, False

    def forget_progress(self) -> None:
        """The attempt is over, and another may come."""
        self.progress, self.note = 0.0, ""

    def without_traceback(self) -> Failure | None:
        """The cause of the last failed attempt, short."""
        return replace(self.failure, traceback="") if self.failure is not None else None


@dataclass(slots=True)
class Stub:
    """What is kept of a task that left, or was never let in."""

    task_id: str
    mark: Mark
    epoch: int
    target: str = ""
    revision: int = 0
    is_watched: bool = False
    gone_at_ms: int | None = None

    def pointer(self) -> Pointer | None:
        """The stub as readers see it; None: they do not."""
        if self.mark is Mark.PURGED:
            return None
        return Pointer(self.task_id, self.mark, self.epoch, self.target)


@dataclass(slots=True)
class Entry:
    """One entry of the ledger."""

    task_id: str
    region: str
    epoch: int
    is_confirmed: bool
    lease_until_ms: int
    digest: bytes
    request_tag: bytes
    gone_at_ms: int
    freed: State | None = None  # what its task ended in


@dataclass(slots=True)
class Tally:
    """What the evacuation that was ordered then has done in a partition."""

    order_ms: int
    moved: int = 0
    kept: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class Memory:
    """What is remembered of imports of a task: epochs that came and that may not, -1 for none."""

    came: int = -1
    refused: int = -1
    imported_ms: int | None = None  # not settled yet
    gone_at_ms: int | None = None
