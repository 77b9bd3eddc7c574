"""Moving tasks between regions (ports Outbox and Inbox)."""

from collections.abc import Callable, Sequence
from typing import Literal

from tradewind.limits import IMPORT_MEMORY_MS
from tradewind.ports import ImportAnswer
from tradewind.state import Event, Mark, State
from tradewind.task import Exported, Record
from tradewind.testing.memory.cells import Cell, Memory, Stub
from tradewind.testing.memory.role import Role

_UNSETTLED_PAGE = 128  # as store.moves


class OutboxRole(Role):
    """See ports.Outbox."""

    async def outbox(self, partition: int, *, limit: int) -> list[Record]:
        """Dead tasks that may move now, longest waiting first."""
        due = [
            (cell.move_at_ms, cell.task_id, cell)
            for cell in self.room.cells(partition, State.DEAD_LETTER)
            if cell.move_at_ms is not None and cell.move_at_ms <= self.room.now_ms
        ]
        due.sort(key=lambda each: each[:2])
        return [cell.record(self.room.region) for _, _, cell in due[:limit]]

    async def keep(self, record: Record, *, reason: str, retry_after_ms: int | None) -> bool:
        """It stays for now, or for good, and says why."""
        cell = self.room.cell(record.task_id)
        if cell is None or cell.state is not State.DEAD_LETTER or cell.is_settled:
            return False
        if cell.epoch != record.epoch:
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

    async def moving(self, partition: int, *, limit: int) -> list[Exported]:
        """Moves that have begun and not ended, oldest first."""
        cells = self.room.cells(partition, State.MOVING)
        cells.sort(key=lambda cell: (cell.moving_since_ms, cell.task_id))
        return [self._exported(cell) for cell in cells[:limit]]

    async def begin_export(
        self, record: Record, target: str, *, groups: Sequence[str]
    ) -> Exported | None:
        """State MOVING: epoch + 1 and `target` written down."""
        cell = self.room.cell(record.task_id)
        if cell is None or (cell.fence and not set(cell.fence).intersection(groups)):
            return None
        if cell.state is State.MOVING and (cell.target, cell.epoch) == (target, record.epoch + 1):
            return self._exported(cell)
        if cell.state is not State.DEAD_LETTER or cell.epoch != record.epoch or cell.is_settled:
            return None
        cell.go(Event.BEGIN_EXPORT)
        cell.epoch += 1
        cell.target, cell.moving_since_ms, cell.move_at_ms = target, self.room.now_ms, None
        self.room.changed(cell)
        return self._exported(cell)

    async def ack_export(self, task_id: str, epoch: int, target: str, *, keep_ms: int) -> bool:
        """The target has it: what is left here is a pointer."""
        found = self.room.find(task_id)
        if found is None or (found.epoch, found.target) != (epoch, target):
            return False
        if not isinstance(found, Cell):
            return found.mark is Mark.FORWARDED
        if found.state is not State.MOVING:
            return False
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

    async def abort_export(
        self, task_id: str, epoch: int, target: str, *, reason: str, retry_after_ms: int | None
    ) -> State | None:
        """The target fenced it: dead again since the same moment, with the reason."""
        cell = self.room.cell(task_id)
        if cell is None or cell.state is not State.MOVING:
            return None
        if (cell.epoch, cell.target) != (epoch, target):
            return None
        cell.go(Event.ABORT_TO_DEAD)
        cell.target, cell.moving_since_ms = "", 0
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
        )


class InboxRole(Role):
    """See ports.Inbox."""

    async def import_task(
        self,
        task: Exported,
        *,
        hops: bytes,
        timeout_s: float,
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
            hop_count=task.hop_count + 1,
            token=task.record.token,
            expires_ms=task.record.expires_ms,
            expired_keep_ms=room.kept_ms(task.queue, task.done_key),
        )
        room.put(cell)
        if cell.has_expired(room.now_ms):
            cell.state = State.EXPIRED
            room.end(cell, cell.expired_keep_ms)
        else:
            room.ready(cell, room.now_ms)
        return "imported"

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
