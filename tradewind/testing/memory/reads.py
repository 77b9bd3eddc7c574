"""Reading tasks (port Reads)."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping

from tradewind.state import State
from tradewind.task import Pointer, Priority, QueueCounts, Record
from tradewind.testing.memory.cells import Cell
from tradewind.testing.memory.role import Role


class ReadsRole(Role):
    """See ports.Reads."""

    async def read(self, task_id: str) -> Record | Pointer | None:
        """The task, what is left of it, or None."""
        found = self.room.find(task_id)
        if isinstance(found, Cell):
            return found.record(self.room.region)
        return None if found is None else found.pointer()

    async def watch(self, task_id: str) -> Record | Pointer | None:
        """As `read`; from now on `changes` tells of it."""
        found = self.room.find(task_id)
        if found is not None:
            found.is_watched = True
        return await self.read(task_id)

    def changes(self) -> AsyncIterator[str]:
        """Ids of watched tasks that changed."""
        return self.room.changes.listen()

    async def dead_page(
        self, partition: int, *, after: str, limit: int
    ) -> tuple[list[Record], str]:
        """Dead tasks of a partition, oldest first. A cursor is died_ms:task_id."""
        died_ms, _, last_id = after.partition(":")
        last = (int(died_ms), last_id) if after else (-1, "")
        dead = sorted(
            (
                (cell.finished_ms, cell.task_id, cell)
                for cell in self.room.cells(partition, State.DEAD_LETTER)
            ),
            key=lambda each: each[:2],
        )
        found = [each for each in dead if each[:2] > last]
        page = found[:limit]
        records = [cell.record(self.room.region) for _, _, cell in page]
        more = len(found) > limit and page
        return records, f"{page[-1][0]}:{page[-1][1]}" if more else ""

    async def dead_total(self) -> int:
        """How many dead tasks the region holds."""
        return sum(1 for _ in self.room.all_cells(State.DEAD_LETTER))

    async def counts(self) -> Mapping[str, QueueCounts]:
        """Tasks by queue."""
        queues: dict[str, list[Cell]] = {}
        for cell in self.room.all_cells(*_COUNTED):
            queues.setdefault(cell.queue, []).append(cell)
        return {queue: _counts(cells) for queue, cells in queues.items()}

    async def parked(self) -> Mapping[tuple[str, str], int]:
        """Ready tasks put aside, by queue and handler."""
        pending = self.room.all_cells(State.PENDING)
        return Counter((cell.queue, cell.name) for cell in pending if cell.is_parked)

    async def oldest(self) -> Mapping[tuple[str, Priority], int]:
        """For how long, in ms, the longest waiting task could have started."""
        now_ms, ages_ms = self.room.now_ms, dict[tuple[str, Priority], int]()
        for cell in self.room.all_cells(State.PENDING, State.SCHEDULED, State.FAILED):
            since_ms = cell.ready_ms if cell.state is State.PENDING else cell.due_ms
            place = (cell.queue, cell.priority)
            if since_ms <= now_ms:
                ages_ms[place] = max(ages_ms.get(place, 0), now_ms - since_ms)
        return ages_ms


_COUNTED = (
    State.PENDING,
    State.SCHEDULED,
    State.PROCESSING,
    State.FAILED,
    State.MOVING,
    State.DEAD_LETTER,
)


def _counts(cells: list[Cell]) -> QueueCounts:
    def of(state: State) -> int:
        return sum(cell.state is state for cell in cells)

    high, normal, low = (
        sum(cell.state is State.PENDING and cell.priority is priority for cell in cells)
        for priority in Priority
    )
    return QueueCounts(
        pending=(high, normal, low),
        scheduled=of(State.SCHEDULED),
        processing=of(State.PROCESSING),
        failed=of(State.FAILED),
        moving=of(State.MOVING),
        dead=of(State.DEAD_LETTER),
    )
