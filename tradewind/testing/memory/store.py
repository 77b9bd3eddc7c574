"""Every port of one region, in memory."""

from tradewind.clock import Clock, SystemClock
from tradewind.fleet import Fleet
from tradewind.state import State
from tradewind.task import Claim
from tradewind.testing.memory.audit import AuditRole
from tradewind.testing.memory.claims import TakingRole
from tradewind.testing.memory.control import RegisterRole
from tradewind.testing.memory.endings import EndingsRole
from tradewind.testing.memory.intake import IntakeRole
from tradewind.testing.memory.moves import InboxRole, OutboxRole
from tradewind.testing.memory.reads import ReadsRole
from tradewind.testing.memory.repairs import RepairsRole
from tradewind.testing.memory.room import Room
from tradewind.testing.memory.settling import SettlingRole
from tradewind.testing.memory.upkeep import UpkeepRole


class MemoryStore(
    IntakeRole,
    EndingsRole,
    ReadsRole,
    TakingRole,
    SettlingRole,
    UpkeepRole,
    OutboxRole,
    InboxRole,
    RepairsRole,
    RegisterRole,
    AuditRole,
):
    """Implements every interface of ports.py with dictionaries, by the same rules as the scripts.

    Every change of state goes through the table of state.py: an illegal one raises. Time is what
    `clock` says, so a ManualClock makes leases, due times and windows pass. Belongs to one event
    loop; nothing is shared between processes, and nothing outlives the object.
    """

    def __init__(self, region: str, fleet: Fleet, clock: Clock | None = None) -> None:
        """`region` is a name of `fleet`; `clock` stands for the clock of the region's Redis."""
        super().__init__(Room(region, fleet, clock or SystemClock()))

    async def start(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to disconnect."""

    # --- no port: for the test client

    def claim_one(self, task_id: str, *, worker_id: str, lease_ms: int) -> Claim | None:
        """Claim this task, whatever stands before it. None: it is not ready."""
        cell = self.room.cell(task_id)
        if cell is None or cell.state is not State.PENDING:
            return None
        return self.take(cell, worker_id=worker_id, lease_ms=lease_ms)

    def next_ms(self) -> int | None:
        """The next moment at which a waiting task becomes due or expires; None: there is none."""
        waiting = self.room.all_cells(State.PENDING, State.SCHEDULED, State.FAILED)
        moments = [at_ms for cell in waiting for at_ms in (cell.due_ms, cell.expires_ms)]
        return min((at_ms for at_ms in moments if at_ms > self.room.now_ms), default=None)
