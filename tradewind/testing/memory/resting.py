"""What a dead letter takes along that leaves as one, as store.resting."""

from tradewind.state import State
from tradewind.task import Record, Resting
from tradewind.testing.memory.cells import Cell


def resting_of(cell: Cell, now_ms: int) -> Resting:
    """Of one on its way."""
    notice_ms = None if cell.notice_at_ms is None else max(0, cell.notice_at_ms - now_ms)
    return Resting(max(0, cell.dead_until_ms - now_ms), notice_ms, cell.notice_tries)


def lay(cell: Cell, record: Record, resting: Resting, now_ms: int) -> None:
    """It is the dead letter that it was."""
    cell.state, cell.is_settled = State.DEAD_LETTER, True
    cell.death, cell.failure, cell.failover = record.death, record.failure, record.failover
    cell.started_ms, cell.finished_ms = record.started_ms, record.finished_ms
    cell.progress, cell.note = record.progress, record.progress_note
    cell.dead_until_ms = now_ms + resting.left_ms
    cell.notice_tries = resting.notice_tries
    if resting.notice_ms is not None:
        cell.notice_at_ms = now_ms + resting.notice_ms
