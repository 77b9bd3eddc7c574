"""Finding again what no index names (port Repairs): here every index is read off the tasks."""

from collections.abc import Collection, Sequence
from typing import Final

from tradewind import ids
from tradewind.limits import RECOUNT_MOST
from tradewind.state import FINAL, State
from tradewind.task import Reconciled, Repair, Sighting
from tradewind.testing.memory.role import Role

_LISTED: Final = (*set(State) - FINAL,)


class RepairsRole(Role):
    """See ports.Repairs. Nothing ever differs, so nothing is ever repaired."""

    async def together(self) -> list[list[int]]:
        """All partitions: there are no nodes."""
        return [list(range(self.partitions))]

    async def scan(self, partition: int, cursor: str, *, limit: int) -> Sighting:
        """Every task of the region at once, and whatever is remembered of an import."""
        del partition, cursor, limit
        found: dict[int, set[str]] = {}
        for task_id in [*self.room.known_ids(), *self.room.memories]:
            found.setdefault(ids.parse(task_id).partition, set()).add(task_id)
        return Sighting(found, "", sum(map(len, found.values())))

    async def indexed(self, partition: int, cursor: str) -> Sighting:
        """Tasks of the partition that have not ended, and unsettled imports."""
        del cursor
        named = {cell.task_id for cell in self.room.cells(partition, *_LISTED)}
        named |= {task_id for _, task_id, _ in self.room.imports(partition)}
        return Sighting({partition: named} if named else {}, "", 0)

    async def reconcile(self, partition: int, task_ids: Sequence[str]) -> Reconciled:
        """Nothing to do but to say whose queues have ready tasks."""
        ready = self.room.cells(partition, State.PENDING)
        queues = {cell.queue for cell in ready if cell.task_id in task_ids}
        return Reconciled((), (), frozenset(queues))

    async def recount(self, partition: int, queues: Collection[str]) -> list[Repair] | None:
        """Counts are counted when they are asked for."""
        del queues
        listed = self.room.cells(partition, *_LISTED)
        return None if len(listed) > RECOUNT_MOST else []
