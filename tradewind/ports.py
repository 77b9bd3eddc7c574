"""What each part needs of a region's store, one small interface per user.

Implementations: `store.RegionStore` on Redis and `testing.MemoryStore`. Every method may raise
StoreUnavailable, StoreMoving, StoreFull (writes that create) or IdentityMismatch; batched methods
answer item by item, in order, with an error in the place of an item that failed.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Literal, Protocol

from tradewind.errors import StoreError
from tradewind.state import State
from tradewind.task import (
    Bury,
    Cancel,
    CancelOutcome,
    Claim,
    ClaimBatch,
    EnqueueOutcome,
    Exported,
    Finish,
    Heartbeat,
    LedgerHit,
    LedgerMark,
    LiveWorker,
    NewTask,
    Pointer,
    Priority,
    Progress,
    QueueCounts,
    Reaped,
    Record,
    Release,
    Renewed,
    RetryAt,
    Settled,
    Stored,
    Swept,
)


class Intake(Protocol):
    """Storing new tasks in one region (router)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def enqueue(
        self, tasks: Sequence[NewTask], *, timeout_s: float
    ) -> tuple[list[EnqueueOutcome | StoreError], Mapping[int, int]]:
        """Store each task unless its id, or its ledger entry, is known.

        Returns outcomes in order, and ready depth by partition as seen by the scripts (the load
        report). Nothing is stored after min(timeout_s, NOT_AFTER_MS) from now by the store's clock.
        """
        ...

    async def refuse(self, task_id: str, epoch: int) -> Stored | None:
        """Leave a tombstone, so that `task_id` cannot be stored here at `epoch` or a lower one.

        Returns the task instead if it is already here; then nothing changed.
        """
        ...


class Ledger(Protocol):
    """Who already submitted this: entries whose home is this region (router)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def reserve(
        self, mark: LedgerMark, task_id: str, region: str, epoch: int
    ) -> LedgerHit | None:
        """Reserve `mark` for (task_id, region, epoch); None means reserved.

        A hit that is unconfirmed and past its lease is adopted: the hit says so, and the
        lease is this caller's. For the reservation's own task_id with a higher epoch, the
        entry moves on to (epoch, region).
        """
        ...

    async def confirm(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        """The task is stored. False if the entry no longer says (task_id, epoch)."""
        ...

    async def unreserve(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        """Take an unconfirmed reservation of (task_id, epoch) back. False if it is not there."""
        ...

    async def forget(self, mark: LedgerMark, task_id: str) -> bool:
        """The task was cancelled: its key is free again. False if the entry is another task's."""
        ...


class Cancels(Protocol):
    """Ending tasks of one region before they are done (router)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def cancel(self, task_id: str, *, retention_ms: int) -> CancelOutcome | None:
        """End a task that waits or is dead; ask the holder of one that runs. None: not here.

        `retention_ms`: for how long its record stays readable once it has ended. A second call
        gives the same answer, or Cancelled once a request was confirmed.
        """
        ...


class DeadLetters(Protocol):
    """Reviving or removing dead tasks of one region (router). `epoch` as the caller read it."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def redrive(self, task_id: str, epoch: int) -> bool:
        """State PENDING: attempts, crashes and moves afresh, history kept. False: not dead so."""
        ...

    async def purge(self, task_id: str, epoch: int) -> bool:
        """Remove the task for good. False if it is not dead at this epoch: nothing changed."""
        ...


class Reads(Protocol):
    """Reading tasks of one region (router)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def read(self, task_id: str) -> Record | Pointer | None:
        """The task, what is left of it, or None."""
        ...

    async def watch(self, task_id: str) -> Record | Pointer | None:
        """As `read`; from now on `changes` yields the id after each change of the task."""
        ...

    def changes(self) -> AsyncIterator[str]:
        """Ids of watched tasks that changed. An empty string: some may have been missed."""
        ...

    async def dead_page(
        self, partition: int, *, after: str, limit: int
    ) -> tuple[list[Record], str]:
        """Dead tasks of a partition, oldest first, behind cursor `after` ("" is the start).

        Returns records and the next cursor, "" at the end.
        """
        ...

    async def dead_total(self) -> int:
        """How many dead tasks the region holds."""
        ...

    async def counts(self) -> Mapping[str, QueueCounts]:
        """Tasks by queue, summed over all partitions."""
        ...

    async def oldest(self) -> Mapping[tuple[str, Priority], int]:
        """For how long, in ms, the longest waiting ready task of (queue, priority) has waited.

        One round trip; places without ready tasks are left out.
        """
        ...


class Vitals(Protocol):
    """Signs of life of one region (census)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def probe(self) -> float:
        """Write, read and delete on every primary; returns the slowest round trip in ms."""
        ...

    async def workers(self) -> list[LiveWorker]:
        """Live workers of the region, one round trip."""
        ...


class Claims(Protocol):
    """Taking and settling work of one region (worker). All by token: see Settled, Renewed."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def claim(
        self,
        partition: int,
        *,
        worker_id: str,
        lease_ms: Mapping[str, int],
        handlers: Sequence[str],
        limit: int,
        starvation_ms: Mapping[str, int] | None = None,
    ) -> ClaimBatch:
        """Claim up to `limit` tasks of the queues in `lease_ms`, high before normal before low.

        What has been ready for longer than its queue's `starvation_ms` goes before all else, oldest
        head first: so a lower priority waits about that long behind higher ones, then in line with
        whatever else has waited that long. Without it the order is strict. A ticket whose handler
        is not in `handlers` is parked for a worker that has it; a task past its expiry ends.
        """
        ...

    async def renew(
        self, claims: Sequence[Claim], lease_ms: Mapping[str, int]
    ) -> list[Renewed | StoreError]:
        """Extend leases, by queue, counted from the store's now; learn of requested cancels."""
        ...

    async def finish(self, items: Sequence[Finish]) -> list[Settled | StoreError]:
        """Record success. Saying it twice is harmless."""
        ...

    async def retry(self, items: Sequence[RetryAt]) -> list[Settled | StoreError]:
        """State FAILED until due; EXPIRED if it may not start any more.

        This, `bury`, `release` and a reaped lease end a task CANCELLED whose cancel was asked for;
        the answer's `state` says so.
        """
        ...

    async def bury(self, items: Sequence[Bury]) -> list[Settled | StoreError]:
        """State DEAD_LETTER."""
        ...

    async def release(self, items: Sequence[Release]) -> list[Settled | StoreError]:
        """State PENDING again, at the head of its list."""
        ...

    async def confirm_cancel(self, items: Sequence[Cancel]) -> list[Settled | StoreError]:
        """State CANCELLED: the attempt has stopped. Saying it twice is harmless."""
        ...

    def cancels(self) -> AsyncIterator[str]:
        """Ids of running tasks whose cancel was asked for; "": some may have been missed.

        `renew` tells of those as well.
        """
        ...

    async def progress(self, items: Sequence[Progress]) -> list[Settled | StoreError]:
        """How far attempts have come, for whoever watches. Gone with the next attempt.

        Costs a write each: at most a few a second for a task. A full store refuses it.
        """
        ...


class Upkeep(Protocol):
    """Keeping one region's partitions in order (worker)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions the region has."""
        ...

    async def wait(
        self,
        queues: Sequence[str],
        partitions: Sequence[int],
        *,
        cold: Collection[int] = (),
        timeout_s: float,
    ) -> int | None:
        """Block until one of `partitions` has ready work for `queues`; None after `timeout_s`.

        The answer is a hint: whoever takes it claims, and claim passes the hint on. Parked work has
        a hint of its own, for workers with other handlers: a caller whose claim said `parked` and
        brought nothing names that partition in `cold` for a second or more, and hears of its ready
        work only.
        """
        ...

    async def sweep(
        self, partition: int, *, worker_id: str, queues: Sequence[str], courier: bool
    ) -> Swept:
        """Promote what is due, end what expired, set hints anew, purge what is past retention.

        Takes or extends the courier lease if `courier`.
        """
        ...

    async def reap(self, partition: int, *, limit: int) -> list[Reaped]:
        """Take back expired leases, oldest first."""
        ...

    async def heartbeat(self, beat: Heartbeat) -> None:
        """Say that this worker lives."""
        ...

    async def farewell(self, worker_id: str) -> None:
        """Say that this worker is gone."""
        ...


class Outbox(Protocol):
    """The source's side of a move (courier). Answers "stale" as None: somebody else was faster."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def outbox(self, partition: int, *, limit: int) -> list[Record]:
        """Dead tasks that may move now, longest waiting first."""
        ...

    async def keep(self, record: Record, *, reason: str, retry_after_ms: int | None) -> bool:
        """It stays for now, or for good (None: settled), and says why in `failover`."""
        ...

    async def moving(self, partition: int, *, limit: int) -> list[Exported]:
        """Moves that have begun and not ended, oldest first."""
        ...

    async def begin_export(
        self, record: Record, target: str, *, groups: Sequence[str]
    ) -> Exported | None:
        """State MOVING: epoch + 1 and `target` written down. `groups`: the caller's own."""
        ...

    async def ack_export(self, task_id: str, epoch: int, target: str, *, keep_ms: int) -> bool:
        """The target has it: what is left here is a pointer, kept for `keep_ms`."""
        ...

    async def abort_export(
        self, task_id: str, epoch: int, target: str, *, reason: str, retry_after_ms: int | None
    ) -> State | None:
        """The target fenced it: back to the state before, with the reason."""
        ...


ImportAnswer = Literal["imported", "known", "refused", "late"]


class Inbox(Protocol):
    """The target's side of a move (courier)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def import_task(self, task: Exported, *, hops: bytes, timeout_s: float) -> ImportAnswer:
        """Store a moved task; idempotent by id and epoch. `hops` includes the stay it leaves."""
        ...

    async def settle_import(self, task_id: str, epoch: int) -> bool:
        """The source has let go: the memory of this import may now expire."""
        ...

    async def refuse_import(self, task_id: str, epoch: int) -> Literal["imported", "fenced"]:
        """Make sure that this import can no longer happen, or learn that it has."""
        ...

    async def unsettled(self, partition: int, *, older_than_ms: int) -> list[tuple[str, int]]:
        """Imports (id, epoch) that no courier has settled yet."""
        ...
