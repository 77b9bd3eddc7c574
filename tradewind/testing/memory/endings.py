"""Ending tasks from outside, reviving them, and word of dead ones.

Ports Cancels, DeadLetters and Notices.
"""

from tradewind.limits import TOMBSTONE_MS
from tradewind.state import FINAL, Event, Mark, State
from tradewind.task import (
    Cancelled,
    CancelOutcome,
    CancelRequested,
    Notice,
    TooLateToCancel,
)
from tradewind.testing.memory.cells import Cell, Stub
from tradewind.testing.memory.role import Role


class EndingsRole(Role):
    """See ports.Cancels, ports.DeadLetters and ports.Notices."""

    async def cancel(self, task_id: str, *, retention_ms: int) -> CancelOutcome | None:
        """End a task that waits or is dead; ask the holder of one that runs."""
        found = self.room.find(task_id)
        if found is None:
            return None
        if not isinstance(found, Cell):
            return found.pointer()
        if found.state is State.CANCELLED:
            return Cancelled(task_id)
        if found.state in FINAL or found.state is State.MOVING:
            return TooLateToCancel(task_id, found.state)
        if found.state is State.PROCESSING:
            if found.cancel_keep_ms is None:
                found.cancel_keep_ms = retention_ms
                self.room.changed(found)
            self.room.cancels.tell(task_id)
            return CancelRequested(task_id)
        found.go(Event.CANCEL)
        self.room.end(found, retention_ms)
        return Cancelled(task_id)

    async def redrive(self, task_id: str, epoch: int) -> bool:
        """State PENDING: attempts, crashes and moves afresh, history kept."""
        cell = self._dead(task_id, epoch)
        if cell is None:
            return False
        cell.go(Event.REDRIVE)
        cell.attempts, cell.crashes, cell.hop_count = 0, 0, 0
        cell.is_settled, cell.failover, cell.death, cell.finished_ms = False, "", "", 0
        cell.move_at_ms, cell.notice_at_ms, cell.notice_tries = None, None, 0
        cell.forget_progress()
        self.room.ready(cell, self.room.now_ms)
        return True

    async def purge(self, task_id: str, epoch: int) -> bool:
        """Remove the dead task for good."""
        cell = self._dead(task_id, epoch)
        if cell is None:
            return False
        self.room.changed(cell)
        until_ms = self.room.now_ms + TOMBSTONE_MS
        self.room.put(Stub(task_id, Mark.PURGED, epoch, gone_at_ms=until_ms))
        return True

    def _dead(self, task_id: str, epoch: int) -> Cell | None:
        cell = self.room.cell(task_id)
        if cell is None or cell.state is not State.DEAD_LETTER or cell.epoch != epoch:
            return None
        return cell

    # --- on_dead

    async def notices(self, partition: int, *, limit: int, hold_ms: int) -> list[Notice]:
        """Dead tasks whose queue's on_dead is to hear of them now; due again in `hold_ms`."""
        now_ms = self.room.now_ms
        due = [
            (cell.notice_at_ms, cell.task_id, cell)
            for cell in self.room.cells(partition, State.DEAD_LETTER)
            if cell.notice_at_ms is not None and cell.notice_at_ms <= now_ms
        ]
        due.sort(key=lambda each: each[:2])
        found = [cell for _, _, cell in due[:limit]]
        for cell in found:
            cell.notice_at_ms = now_ms + hold_ms
        region = self.room.region
        return [Notice(c.record(region), c.queue, c.name, c.notice_tries, now_ms) for c in found]

    async def noticed(self, notice: Notice, *, retry_after_ms: int | None) -> bool:
        """How a notice ended. False: it is about a death that is no more."""
        cell = self.room.cell(notice.record.task_id)
        if (
            cell is None
            or cell.state is not State.DEAD_LETTER
            or cell.token != notice.record.token
            or cell.notice_at_ms is None
        ):
            return False
        if retry_after_ms is None:
            cell.notice_at_ms, cell.notice_tries = None, 0
        else:
            cell.notice_at_ms = self.room.now_ms + retry_after_ms
            cell.notice_tries += 1
        return True
