"""Keeping tasks in order, and moving them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from tradewind.state import State
from tradewind.task.record import Record
from tradewind.task.submit import Priority


@dataclass(frozen=True, slots=True)
class Swept:
    """What upkeep of one partition found and did."""

    depth: int
    promoted: int
    expired_leases: int  # waiting to be reaped
    next_due_ms: int
    outbox: int  # dead tasks that a courier should look at now
    moving: int
    unsettled_imports: int
    courier: bool  # this caller holds the partition's courier lease
    now_ms: int
    expired: int = 0  # waiting tasks that ended EXPIRED
    hooks: int = 0  # dead tasks whose queue's on_dead is to hear of them now
    dead: int = 0  # dead tasks, settled ones included


@dataclass(frozen=True, slots=True)
class Reaped:
    """A lease that ended without a word from its holder."""

    task_id: str
    worker_id: str
    state: State  # PENDING again, DEAD_LETTER after too many crashes, CANCELLED if asked for
    queue: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A task that is dead for good, of which its queue's on_dead has not heard yet.

    `record.token` tells this death from one after a redrive.
    """

    record: Record
    queue: str
    name: str
    tries: int  # that failed so far
    now_ms: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """A part of what a node or an index holds; an empty `cursor`: there is no more."""

    task_ids: Mapping[int, Collection[str]]  # by partition
    cursor: str
    keys: int  # that the whole holds, about


@dataclass(frozen=True, slots=True)
class Probe:
    """What a look at a region's Redis shows."""

    rtt_ms: float  # of the slowest primary
    memory: float = 0.0  # used of what there may be, of the fullest primary; 0: no limit
    full: bool = False  # every primary is
    evicts: str = ""  # the policy by which one of them would delete tasks; empty: none does


@dataclass(frozen=True, slots=True)
class Repair:
    """Something of a partition did not say what its records say; it does now."""

    kind: str  # metrics.REPAIRS
    of: str  # task id; a field of counts


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What became of some tasks. `unsearched`: too many tickets lie where theirs may be."""

    repairs: tuple[Repair, ...]
    unsearched: tuple[str, ...]
    ready_queues: frozenset[str]


#: Why a task is moved that waits, or a dead letter as it is.
MoveReason = Literal["evacuation", "unserved"]


@dataclass(frozen=True, slots=True)
class Lane:
    """Where tasks of a partition wait: tickets that are ready, or parked, or a set of due times.

    A set of due times holds those of all queues; so does that of the dead.
    """

    kind: Literal["ready", "parked", "due", "dead"]
    priority: Priority
    queue: str = ""
    name: str = ""  # parked ones only
    suspect: bool = False  # ready ones only


#: The dead letters of a partition, by when they died.
DEAD: Final = Lane("dead", Priority.NORMAL)


@dataclass(frozen=True, slots=True)
class LanePart:
    """A part of a lane: the tasks that were asked for, and how many entries were looked at."""

    records: tuple[Record, ...]
    seen: int
    more: bool  # there may be others behind them
    now_ms: int
    unseen: int = 0  # tasks that no pool which lives may see, whatever they were asked for


@dataclass(frozen=True, slots=True)
class Resting:
    """What a dead letter that leaves as one still has: when that was read, ms."""

    left_ms: int  # of its retention
    notice_ms: int | None = None  # until its queue's on_dead is to hear of it, if that is due
    notice_tries: int = 0  # that failed

    def after(self, passed_ms: int) -> Self:
        """What is left of it so much later."""
        notice_ms = None if self.notice_ms is None else max(0, self.notice_ms - passed_ms)
        return replace(self, left_ms=max(0, self.left_ms - passed_ms), notice_ms=notice_ms)


@dataclass(frozen=True, slots=True)
class Evacuated:
    """How far an evacuation has come: tasks that left, that are still to leave, that stay and why.

    What stays is as couriers found it when they last looked at all that waits.
    """

    moved: int
    remaining: int
    kept: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Exported:
    """A task under way: all that the target needs. `epoch` is the new one."""

    record: Record
    queue: str
    name: str
    priority: Priority
    epoch: int
    target: str
    hop_count: int
    max_crashes: int
    done_key: bytes = b""  # as the record has it: KEY:UNTIL, see store/lua/lib/done.lua
    former: State = State.DEAD_LETTER  # in which it left
    reason: str = ""  # MoveReason, or the kind of its death
    begun_ms: int = 0  # by the source's clock
    delay_ms: int = 0  # SCHEDULED, FAILED: until it was due, when this was read
    resting: Resting | None = None  # a dead letter that is to be one there, too

    @property
    def is_revived(self) -> bool:
        """Whether it died, and is to run in the next region."""
        return self.former is State.DEAD_LETTER and self.resting is None
