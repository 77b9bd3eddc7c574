"""What a router needs of a region: taking tasks in, answering for them, ending them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from tradewind.errors import StoreError
from tradewind.fleet import Durability
from tradewind.state import State
from tradewind.task import (
    CancelOutcome,
    EnqueueOutcome,
    LedgerHit,
    LedgerMark,
    LiveWorker,
    NewTask,
    Pointer,
    Priority,
    Probe,
    QueueCounts,
    Record,
    Stored,
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

        Returns outcomes in order, and the ready tasks of each partition before these (the load
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

    async def forget(self, mark: LedgerMark, task_id: str, *, ended: State | None = None) -> bool:
        """Its key is free again. False if the entry is another task's, or freed already.

        `ended`: it was cancelled, or purged when it was dead. For REQUEST_ID_WINDOW_MS a repeat of
        its very submit still meets the entry, with this state. None: no region knows the task.
        """
        ...


class Durables(Protocol):
    """Whether what one region has stored outlives a crash of its node (router)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def lacks(self) -> Mapping[Durability, str]:
        """Which durabilities the region's Redis cannot give as it is run now, and why."""
        ...

    async def tasks_safe(
        self, durability: Durability, task_ids: Sequence[str], *, timeout_s: float
    ) -> Sequence[bool]:
        """Wait until tasks that were stored here before are as durable as that; in their order.

        False: not in time, or it cannot be known, or the task is not here. Raises nothing.
        """
        ...

    async def entry_safe(
        self, durability: Durability, mark: LedgerMark, task_id: str, *, timeout_s: float
    ) -> bool:
        """The same of a ledger entry whose home is this region; `task_id` is the entry's."""
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

        Returns records and the next cursor, "" at the end. A cursor is `died_ms:task_id` of any
        dead task, also of another partition or region, or of one that is gone.
        """
        ...

    async def dead_total(self) -> int:
        """How many dead tasks the region holds."""
        ...

    async def counts(self) -> Mapping[str, QueueCounts]:
        """Tasks by queue, summed over all partitions."""
        ...

    async def parked(self) -> Mapping[tuple[str, str], int]:
        """Ready tasks by queue and handler that were put aside by workers that do not run them."""
        ...

    async def oldest(self) -> Mapping[tuple[str, Priority], int]:
        """For how long, in ms, the longest waiting task of (queue, priority) could have started.

        Ready ones, suspects and parked ones included, and overdue ones that nobody has made ready.
        One round trip; places without any are left out.
        """
        ...


class Vitals(Protocol):
    """Signs of life of one region (census)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def probe(self) -> Probe:
        """Write, read and delete on every primary; a full one does so, too."""
        ...

    def now_ms(self) -> int | None:
        """The store's clock, ms since 1970, by the last answer that told it; None before one."""
        ...

    async def workers(self) -> list[LiveWorker]:
        """Live workers of the region, one round trip."""
        ...
