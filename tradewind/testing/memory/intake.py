"""Storing new tasks, and the ledger of who already submitted them.

Ports Intake, Ledger and Durables.
"""

from collections.abc import Mapping, Sequence

from tradewind import ids
from tradewind.errors import StoreError
from tradewind.fleet import Durability
from tradewind.limits import REQUEST_ID_WINDOW_MS, RESERVATION_LEASE_MS, TOMBSTONE_MS
from tradewind.state import Mark, State
from tradewind.task import (
    EnqueueOutcome,
    LedgerHit,
    LedgerMark,
    NewTask,
    Stored,
    Tombstoned,
)
from tradewind.testing.memory.cells import Cell, Entry, Stub
from tradewind.testing.memory.role import Role


class IntakeRole(Role):
    """See ports.Intake, ports.Ledger and ports.Durables."""

    async def enqueue(
        self, tasks: Sequence[NewTask], *, timeout_s: float
    ) -> tuple[list[EnqueueOutcome | StoreError], Mapping[int, int]]:
        """Store each task unless its id or ledger entry is known. Nothing is ever late here."""
        del timeout_s
        places = {ids.parse(task.task_id).partition for task in tasks}
        ready = {place: self.room.depth(place) for place in places}
        return [self._enqueued(task) for task in tasks], ready

    def _enqueued(self, task: NewTask) -> EnqueueOutcome:
        found = self.room.find(task.task_id)
        if isinstance(found, Stub) and found.mark is Mark.REFUSED and found.epoch >= task.epoch:
            return Tombstoned(task.task_id)
        if found is not None and not (isinstance(found, Stub) and found.mark is Mark.REFUSED):
            return _known(found)
        start_ms = max(self.room.now_ms + task.delay_ms, task.not_before_ms)
        if task.mark is not None:
            hit = self._hit(task, task.mark)
            if hit is not None:
                return hit
        cell = self.room.cell_of(task, start_ms)
        self.room.put(cell)
        self._begin(cell, start_ms)
        if task.mark is not None:
            self._enter(task, task.mark, start_ms)
        return Stored(task.task_id, cell.state, created=True)

    def _begin(self, cell: Cell, start_ms: int) -> None:
        """The first state of a task."""
        now_ms = self.room.now_ms
        if cell.has_expired(now_ms):
            cell.state = State.EXPIRED
            self.room.end(cell, cell.expired_keep_ms)
        elif start_ms > now_ms:
            cell.state, cell.due_ms = State.SCHEDULED, start_ms
            self.room.delay(cell)
        else:
            self.room.ready(cell, now_ms)

    def _hit(self, task: NewTask, mark: LedgerMark) -> LedgerHit | None:
        entry = self._entry(mark, task.task_id, own_place=True)
        if entry is None:
            return None
        is_ours = entry.task_id == task.task_id and task.epoch >= entry.epoch
        hit = self._answer(entry, mark)
        if hit is not None and is_ours and not hit.confirmed:
            return None  # our own reservation: carry on
        return hit

    def _enter(self, task: NewTask, mark: LedgerMark, start_ms: int) -> None:
        place = ids.parse(task.task_id).partition
        self.room.entries[place, mark.key] = Entry(
            task.task_id,
            self.room.region,
            task.epoch,
            is_confirmed=True,
            lease_until_ms=0,
            digest=mark.digest,
            request_tag=mark.request_tag,
            gone_at_ms=max(start_ms, self.room.now_ms) + mark.window_ms,
        )

    async def refuse(self, task_id: str, epoch: int) -> Stored | None:
        """Leave a tombstone, or answer the task that is here."""
        found = self.room.find(task_id)
        if found is not None and not (isinstance(found, Stub) and found.mark is Mark.REFUSED):
            return _known(found)
        at_epoch = max(epoch, found.epoch if found is not None else 0)
        until_ms = self.room.now_ms + TOMBSTONE_MS
        self.room.put(Stub(task_id, Mark.REFUSED, at_epoch, gone_at_ms=until_ms))
        return None

    # --- ledger

    async def reserve(
        self, mark: LedgerMark, task_id: str, region: str, epoch: int
    ) -> LedgerHit | None:
        """Reserve `mark` for (task_id, region, epoch); a hit if another submit was faster."""
        entry, now_ms = self._entry(mark, task_id), self.room.now_ms
        if entry is not None:
            is_ours = entry.task_id == task_id and not entry.is_confirmed and not entry.freed
            is_repeat = is_ours and (entry.epoch, entry.region) == (epoch, region)
            moves_on = is_ours and epoch == entry.epoch + 1
            if not is_repeat and not moves_on and (hit := self._answer(entry, mark)) is not None:
                return hit
        self.room.entries[self._place(mark, task_id), mark.key] = Entry(
            task_id,
            region,
            epoch,
            is_confirmed=False,
            lease_until_ms=now_ms + RESERVATION_LEASE_MS,
            digest=mark.digest,
            request_tag=mark.request_tag,
            gone_at_ms=max(now_ms, mark.not_before_ms) + mark.window_ms,
        )
        return None

    async def confirm(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        """The reserved task is stored."""
        entry = self._entry(mark, task_id)
        if entry is None or entry.freed or (entry.task_id, entry.epoch) != (task_id, epoch):
            return False
        entry.is_confirmed = True
        return True

    async def unreserve(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        """Take an unconfirmed reservation back."""
        entry = self._entry(mark, task_id)
        if entry is None or entry.is_confirmed or entry.freed:
            return False
        if (entry.task_id, entry.epoch) != (task_id, epoch):
            return False
        del self.room.entries[self._place(mark, task_id), mark.key]
        return True

    async def forget(self, mark: LedgerMark, task_id: str, *, ended: State | None = None) -> bool:
        """The task's key is free again."""
        entry = self._entry(mark, task_id)
        if entry is None or entry.task_id != task_id or entry.freed:
            return False
        if ended and entry.request_tag:
            entry.freed = ended
            entry.gone_at_ms = self.room.now_ms + REQUEST_ID_WINDOW_MS
            return True
        del self.room.entries[self._place(mark, task_id), mark.key]
        return True

    # --- Durables

    async def lacks(self) -> Mapping[Durability, str]:
        """Memory can give what it gives."""
        return {}

    async def tasks_safe(
        self, durability: Durability, task_ids: Sequence[str], *, timeout_s: float
    ) -> Sequence[bool]:
        """Nothing here outlives the object: whether they are here."""
        del durability, timeout_s
        return [self.room.find(task_id) is not None for task_id in task_ids]

    async def entry_safe(
        self, durability: Durability, mark: LedgerMark, task_id: str, *, timeout_s: float
    ) -> bool:
        """The same."""
        del durability, timeout_s
        return self._entry(mark, task_id) is not None

    def _answer(self, entry: Entry, mark: LedgerMark) -> LedgerHit | None:
        """What an entry says; past its lease the caller adopts an unconfirmed one.

        None: its key was freed, and this is no repeat of the submit that it stood for.
        """
        left_ms, adopted = 0, False
        same = entry.digest == mark.digest
        mine = mark.request_tag != b"" and entry.request_tag == mark.request_tag
        if entry.freed and not mine:
            return None
        if not entry.is_confirmed and not entry.freed:
            left_ms = max(0, entry.lease_until_ms - self.room.now_ms)
            adopted = left_ms == 0 and same
            if adopted:
                entry.lease_until_ms = self.room.now_ms + RESERVATION_LEASE_MS
        return LedgerHit(
            entry.task_id,
            entry.region,
            entry.epoch,
            confirmed=entry.is_confirmed or entry.freed is not None,
            lease_left_ms=left_ms,
            mine=mine,
            same_payload=same,
            adopted=adopted,
            state=entry.freed,
        )

    def _entry(self, mark: LedgerMark, task_id: str, *, own_place: bool = False) -> Entry | None:
        place = ids.parse(task_id).partition if own_place else self._place(mark, task_id)
        entry = self.room.entries.get((place, mark.key))
        if entry is None or entry.gone_at_ms > self.room.now_ms:
            return entry
        del self.room.entries[place, mark.key]
        return None

    def _place(self, mark: LedgerMark, task_id: str) -> int:
        """A business key is found whatever id a repeat brings; a request_id with its task."""
        if mark.business:
            return ids.partition_of(mark.key, self.room.fleet.partitions)
        return ids.parse(task_id).partition


def _known(found: Cell | Stub) -> Stored:
    """The task is here, or has been: one that was moved on counts as under way."""
    if isinstance(found, Cell):
        state = found.state
    else:
        state = State.DEAD_LETTER if found.mark is Mark.PURGED else State.MOVING
    return Stored(found.task_id, state, created=False)
