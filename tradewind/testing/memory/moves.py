"""Moving tasks between regions (ports Outbox and Inbox)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from tradewind import ids
from tradewind.limits import IMPORT_MEMORY_MS, TELL_FIRST_MS
from tradewind.ports import ImportAnswer
from tradewind.state import Event, Mark, State
from tradewind.task import (
    DEAD,
    Evacuated,
    Exported,
    Lane,
    LanePart,
    MoveReason,
    Priority,
    Record,
)
from tradewind.testing.memory.cells import Cell, Memory, Stub, Tally
from tradewind.testing.memory.resting import lay, resting_of
from tradewind.testing.memory.role import Role

_UNSETTLED_PAGE: Final = 128  # as store.moves
_DELAYED: Final = (State.SCHEDULED, State.FAILED)
_WAITS: Final = (State.PENDING, *_DELAYED)
_BACK: Final = {
    State.PENDING: Event.ABORT_TO_PENDING,
    State.SCHEDULED: Event.ABORT_TO_SCHEDULED,
    State.FAILED: Event.ABORT_TO_FAILED,
    State.DEAD_LETTER: Event.ABORT_TO_DEAD,
}


class OutboxRole(Role):
    """See ports.Outbox."""

    async def outbox(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Record]:
        """Dead tasks that may move now, longest waiting first."""
        due = [
            (cell.move_at_ms, cell.task_id, cell)
            for cell in self.room.cells(partition, State.DEAD_LETTER)
            if cell.move_at_ms is not None and cell.move_at_ms <= self.room.now_ms
        ]
        due.sort(key=lambda each: each[:2])
        cells = [cell for _, _, cell in due[offset : offset + limit]]
        return [cell.record(self.room.region) for cell in cells if _inside(cell, groups)]

    async def lanes(self, partition: int) -> list[Lane]:
        """Where tasks wait, ready, parked or until they are due."""
        found = {_lane_of(cell) for cell in self.room.cells(partition, *_WAITS)}
        return sorted(found, key=lambda lane: (lane.kind, lane.queue, lane.name, lane.priority))

    async def stranded(
        self,
        partition: int,
        lane: Lane,
        *,
        offset: int,
        limit: int,
        older_than_ms: int | None = None,
        groups: Sequence[str] | None = None,
        pools: Sequence[str] = (),
    ) -> LanePart:
        """What waits among `limit` entries of a lane from `offset` on. No ticket is stale here."""
        states = (*_WAITS, State.DEAD_LETTER)
        cells = [cell for cell in self.room.cells(partition, *states) if _lane_of(cell) == lane]
        cells.sort(key=lambda cell: (cell.due_ms, cell.place, cell.finished_ms, cell.task_id))
        if older_than_ms is not None and lane.kind == "due":
            cells = [c for c in cells if c.due_ms <= self.room.now_ms - older_than_ms]
        seen = cells[offset : offset + limit]
        found = [
            cell.record(self.room.region)
            for cell in seen
            if _inside(cell, groups)
            and (older_than_ms is None or self.room.now_ms - cell.ready_ms >= older_than_ms)
        ]
        unseen = sum(not _inside(cell, groups) and not _inside(cell, pools) for cell in seen)
        return LanePart(tuple(found), len(seen), len(seen) == limit, self.room.now_ms, unseen)

    async def keep(self, record: Record, *, reason: str, retry_after_ms: int | None) -> bool:
        """It stays for now, or for good, and says why."""
        cell = self.room.cell(record.task_id)
        if cell is None or cell.epoch != record.epoch:
            return False
        if cell.state in _WAITS and cell.state is record.state:
            cell.failover = reason
            return True
        if cell.state is not State.DEAD_LETTER or cell.is_settled:
            return False
        if retry_after_ms is None:
            cell.failover = reason
            self.room.settle(cell, self.room.now_ms)
        else:
            cell.move_at_ms = self.room.now_ms + retry_after_ms
            if cell.failover == reason:
                return True
            cell.failover = reason
        self.room.changed(cell)
        return True

    async def moving(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Exported]:
        """Moves that have begun and not ended, oldest first."""
        cells = self.room.cells(partition, State.MOVING)
        cells.sort(key=lambda cell: (cell.moving_since_ms, cell.task_id))
        seen = cells[offset : offset + limit]
        return [self._exported(cell) for cell in seen if _inside(cell, groups)]

    async def begin_export(
        self,
        record: Record,
        target: str,
        *,
        groups: Sequence[str],
        reason: MoveReason | None = None,
    ) -> Exported | None:
        """State MOVING: epoch + 1 and `target` written down."""
        cell = self.room.cell(record.task_id)
        if cell is None or not _inside(cell, groups):
            return None
        if cell.state is State.MOVING and (cell.target, cell.epoch) == (target, record.epoch + 1):
            return self._exported(cell)
        if cell.state not in _BACK or cell.state is not record.state:
            return None
        rests = cell.state is State.DEAD_LETTER and reason is not None
        if cell.epoch != record.epoch or cell.is_settled is not rests:
            return None
        untold_ms = None if cell.notice_tries else cell.notice_at_ms
        if rests and untold_ms is not None and untold_ms + TELL_FIRST_MS > self.room.now_ms:
            return None
        cell.former = cell.state
        cell.move_reason = reason or ""
        cell.go(Event.BEGIN_EXPORT)
        cell.epoch += 1
        cell.target, cell.moving_since_ms, cell.move_at_ms = target, self.room.now_ms, None
        self.room.changed(cell)
        return self._exported(cell)

    async def seal(self, partition: int) -> bool:
        """Nothing here outlives the object."""
        del partition
        return True

    async def is_moving(self, task_id: str, epoch: int, target: str) -> bool:
        """Whether this move has begun and not ended."""
        cell = self.room.cell(task_id)
        if cell is None or cell.state is not State.MOVING:
            return False
        return (cell.epoch, cell.target) == (epoch, target)

    async def ack_export(
        self, task_id: str, epoch: int, target: str, *, keep_ms: int, order_ms: int = 0
    ) -> bool:
        """The target has it: what is left here is a pointer."""
        found = self.room.find(task_id)
        if found is None or (found.epoch, found.target) != (epoch, target):
            return False
        if not isinstance(found, Cell):
            return found.mark is Mark.FORWARDED
        if found.state is not State.MOVING:
            return False
        if found.move_reason == "evacuation" and order_ms:
            self._evacuated(ids.parse(task_id).partition, order_ms).moved += 1
        left = Stub(
            task_id,
            Mark.FORWARDED,
            epoch,
            target,
            gone_at_ms=self.room.now_ms + keep_ms,
        )
        self.room.put(left)
        self.room.changed(left)
        return True

    async def passed(self, partition: int, order_ms: int, kept: Mapping[str, int]) -> None:
        """A courier of the evacuation has looked at all that waits."""
        self._evacuated(partition, order_ms).kept = dict(kept)

    async def evacuated(self, order_ms: int) -> Evacuated:
        """How far an evacuation has come."""
        moved, remaining, kept = 0, 0, Counter[str]()
        for partition in range(self.room.fleet.partitions):
            tally = self.room.tallies.get(partition)
            if tally is None or tally.order_ms != order_ms:
                tally = Tally(order_ms)
            waits = len(self.room.cells(partition, *_BACK, State.MOVING))
            moved += tally.moved
            remaining += max(0, waits - sum(tally.kept.values()))
            kept.update(tally.kept)
        return Evacuated(moved, remaining, kept)

    def _evacuated(self, partition: int, order_ms: int) -> Tally:
        found = self.room.tallies.get(partition)
        if found is None or found.order_ms != order_ms:
            found = self.room.tallies[partition] = Tally(order_ms)
        return found

    async def abort_export(
        self, task_id: str, epoch: int, target: str, *, reason: str, retry_after_ms: int | None
    ) -> State | None:
        """The target fenced it: dead again since the same moment, or waiting as before."""
        cell = self.room.cell(task_id)
        if cell is None or cell.state is not State.MOVING:
            return None
        if (cell.epoch, cell.target) != (epoch, target):
            return None
        former, rests = cell.former, cell.former is State.DEAD_LETTER and cell.move_reason
        cell.go(_BACK[former])
        cell.target, cell.moving_since_ms, cell.move_reason = "", 0, ""
        if rests:
            self.room.changed(cell)
            return former
        if former in _WAITS:
            cell.failover = reason
            if former is State.PENDING:
                self.room.ready(cell, self.room.now_ms, at_head=True)
            else:
                self.room.delay(cell)
            return former
        self.room.bury(
            cell,
            cell.death,
            died_ms=cell.finished_ms,
            until_ms=cell.dead_until_ms,
            move_after_ms=retry_after_ms,
            failover=reason,
        )
        return cell.state

    def _exported(self, cell: Cell) -> Exported:
        rests = cell.former is State.DEAD_LETTER and cell.move_reason
        return Exported(
            cell.record(self.room.region),
            cell.queue,
            cell.name,
            cell.priority,
            cell.epoch,
            cell.target,
            cell.hop_count,
            cell.max_crashes,
            f"{cell.done_key.hex()}:{cell.done_until_ms}".encode() if cell.done_key else b"",
            cell.former,
            cell.move_reason or cell.death,
            cell.moving_since_ms,
            max(0, cell.due_ms - self.room.now_ms) if cell.former in _DELAYED else 0,
            resting_of(cell, self.room.now_ms) if rests else None,
        )


def _inside(cell: Cell, groups: Sequence[str] | None) -> bool:
    return groups is None or not cell.fence or bool(set(cell.fence).intersection(groups))


def _lane_of(cell: Cell) -> Lane:
    if cell.state is State.DEAD_LETTER:
        return DEAD
    if cell.state is not State.PENDING:
        return Lane("due", cell.priority)
    if cell.is_parked:
        return Lane("parked", Priority.NORMAL, cell.queue, cell.name)
    return Lane("ready", cell.priority, cell.queue, suspect=cell.is_suspect)


class InboxRole(Role):
    """See ports.Inbox."""

    async def import_task(
        self,
        task: Exported,
        *,
        hops: bytes,
        timeout_s: float,
        delay_ms: int = 0,
        is_fresh: Callable[[], bool] = lambda: True,
    ) -> ImportAnswer:
        """Store a moved task; idempotent by id and epoch. Late is only what is not fresh."""
        del timeout_s
        if not is_fresh():
            return "late"
        task_id, epoch, room = task.record.task_id, task.epoch, self.room
        memory, found = self._memory(task_id), room.find(task_id)
        if memory.came >= epoch:
            return "known"
        if memory.refused >= epoch:
            return "refused"
        if found is not None and found.epoch >= epoch:
            is_tombstone = isinstance(found, Stub) and found.mark is Mark.REFUSED
            return "refused" if is_tombstone else "known"
        if isinstance(found, Cell) or (found is not None and found.mark is Mark.PURGED):
            return "refused"
        room.memories[task_id] = Memory(came=epoch, imported_ms=room.now_ms)
        done_key, _, until_ms = task.done_key.decode().partition(":")
        died = task.former is State.DEAD_LETTER
        cell = Cell(
            task_id,
            task.queue,
            task.name,
            task.priority,
            task.record.packed,
            epoch,
            created_ms=task.record.created_ms,
            fence=task.record.fence,
            max_crashes=task.max_crashes,
            done_key=bytes.fromhex(done_key),
            done_until_ms=int(until_ms or 0),
            hops=hops,
            hop_count=task.hop_count + task.is_revived,
            crashes=0 if died else task.record.crashes,
            token=task.record.token,
            expires_ms=task.record.expires_ms,
            expired_keep_ms=room.kept_ms(task.queue, task.done_key),
        )
        room.put(cell)
        if task.resting is not None:
            lay(cell, task.record, task.resting, room.now_ms)
            room.changed(cell)
        elif cell.has_expired(room.now_ms):
            cell.state = State.EXPIRED
            room.end(cell, cell.expired_keep_ms)
        elif delay_ms:
            cell.state, cell.due_ms = State.SCHEDULED, room.now_ms + delay_ms
            room.delay(cell)
        else:
            room.ready(cell, room.now_ms)
        return "imported"

    async def remembered(self, task_id: str) -> tuple[int, int]:
        """Epochs of the last import that came, and of the last one that was refused; -1: none."""
        memory, found = self._memory(task_id), self.room.find(task_id)
        is_tombstone = isinstance(found, Stub) and found.mark is Mark.REFUSED
        here = -1 if found is None or is_tombstone else found.epoch
        return max(memory.came, here), memory.refused

    async def settle_import(self, task_id: str, epoch: int) -> bool:
        """The source has let go: the memory of this import may now expire."""
        memory = self._memory(task_id)
        if memory.came != epoch:
            return False
        memory.imported_ms, memory.gone_at_ms = None, self.room.now_ms + IMPORT_MEMORY_MS
        return True

    async def refuse_import(self, task_id: str, epoch: int) -> Literal["imported", "fenced"]:
        """Make sure that this import can no longer happen, or learn that it has."""
        memory, found = self._memory(task_id), self.room.find(task_id)
        if memory.came >= epoch:
            return "imported"
        is_tombstone = isinstance(found, Stub) and found.mark is Mark.REFUSED
        if found is not None and not is_tombstone and found.epoch >= epoch:
            return "imported"
        memory.refused = max(memory.refused, epoch)
        if memory.imported_ms is None:
            memory.gone_at_ms = self.room.now_ms + IMPORT_MEMORY_MS
        self.room.memories[task_id] = memory
        return "fenced"

    async def unsettled(self, partition: int, *, older_than_ms: int) -> list[tuple[str, int]]:
        """Imports (id, epoch) that no courier has settled yet."""
        before_ms = self.room.now_ms - older_than_ms
        imports = self.room.imports(partition)
        found = [(task_id, epoch) for at_ms, task_id, epoch in imports if at_ms <= before_ms]
        return found[:_UNSETTLED_PAGE]

    def _memory(self, task_id: str) -> Memory:
        memory = self.room.memories.get(task_id)
        if memory is None:
            return Memory()
        if memory.gone_at_ms is not None and memory.gone_at_ms <= self.room.now_ms:
            del self.room.memories[task_id]
            return Memory()
        return memory
