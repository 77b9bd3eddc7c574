"""One region in memory: its tasks, and the steps that more than one transition takes."""

from collections.abc import Iterator

from tradewind import ids
from tradewind.clock import Clock
from tradewind.control import EMPTY, NEVER
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.state import Event, State
from tradewind.task import Failure, Heartbeat, NewTask
from tradewind.testing.memory.cells import Cell, Entry, Memory, Stub, Tally
from tradewind.testing.memory.news import Hints, News


class Room:
    """Everything that a region holds, and its clock."""

    def __init__(self, region: str, fleet: Fleet, clock: Clock) -> None:
        """Empty. `clock` stands for the clock of the region's Redis."""
        self.region, self.fleet, self.clock = region, fleet, clock
        self.entries: dict[tuple[int, bytes], Entry] = {}  # by partition and ledger key
        self.done: dict[tuple[int, bytes], tuple[str, int]] = {}  # fingerprint -> task id, until
        self.memories: dict[str, Memory] = {}  # of imports
        self.couriers: dict[int, tuple[str, int]] = {}  # by partition: worker id, until
        self.beats: dict[str, tuple[int, Heartbeat]] = {}
        self.promised, self.control = NEVER, EMPTY  # of the control document
        self.audit: list[tuple[tuple[int, int], bytes]] = []  # by place, the latest last
        self.tallies: dict[int, Tally] = {}  # by partition, of the last evacuation
        self.hints = Hints(clock)
        self.changes, self.cancels = News(), News()
        self._held: dict[int, dict[str, Cell | Stub]] = {}
        self._first, self._last = 0, 0  # places at the head and at the end of the lists

    @property
    def now_ms(self) -> int:
        """The region's time."""
        return self.clock.now_ms()

    def policy(self, queue: str) -> QueuePolicy:
        """How tasks of the queue live."""
        return self.fleet.queue(queue)

    # --- what is here

    def find(self, task_id: str) -> Cell | Stub | None:
        """The task or what is left of it. Raises MalformedTaskId."""
        held = self._held.get(ids.parse(task_id).partition, {})
        found = held.get(task_id)
        if found is None or found.gone_at_ms is None or found.gone_at_ms > self.now_ms:
            return found
        del held[task_id]
        return None

    def cell(self, task_id: str) -> Cell | None:
        """The task, if it is here."""
        found = self.find(task_id)
        return found if isinstance(found, Cell) else None

    def cells(self, partition: int, *states: State) -> list[Cell]:
        """Tasks of a partition in one of `states`."""
        held = self._held.get(partition, {}).values()
        return [cell for cell in held if isinstance(cell, Cell) and cell.state in states]

    def all_cells(self, *states: State) -> Iterator[Cell]:
        """Tasks of all partitions in one of `states`."""
        for partition in self._held:
            yield from self.cells(partition, *states)

    def known_ids(self) -> list[str]:
        """Of every task, and of what is left of others."""
        held = [task_id for place in self._held.values() for task_id in place]
        return [task_id for task_id in held if self.find(task_id) is not None]

    def put(self, found: Cell | Stub) -> None:
        """Hold it, in the place of what is known by its id."""
        before = self.find(found.task_id)
        if before is not None:
            found.revision = max(found.revision, before.revision)
            found.is_watched = before.is_watched
        self._held.setdefault(ids.parse(found.task_id).partition, {})[found.task_id] = found

    def drop(self, cell: Cell) -> None:
        """Forget it."""
        del self._held[ids.parse(cell.task_id).partition][cell.task_id]

    def kept_ms(self, queue: str, done_key: bytes) -> int:
        """For how long a task stays readable once it has expired, which nobody reports.

        At least as long as a ledger entry may name it.
        """
        policy = self.policy(queue)
        window_ms = policy.dedup.window_ms if done_key else REQUEST_ID_WINDOW_MS
        return max(policy.retention.completed_ms, window_ms)

    def cell_of(self, task: NewTask, start_ms: int) -> Cell:
        """A new task that may start at `start_ms`, not held yet."""
        return Cell(
            task.task_id,
            task.queue,
            task.name,
            task.priority,
            task.packed,
            task.epoch,
            created_ms=self.now_ms,
            fence=task.fence,
            max_crashes=task.max_crashes,
            done_key=task.done_key,
            done_until_ms=start_ms + self.policy(task.queue).dedup.window_ms,
            expires_ms=task.expires_ms,
            expired_keep_ms=self.kept_ms(task.queue, task.done_key),
        )

    # --- steps

    def changed(self, found: Cell | Stub) -> None:
        """One more revision; whoever watches the task is told."""
        found.revision += 1
        if found.is_watched:
            self.changes.tell(found.task_id)

    def ready(self, cell: Cell, since_ms: int, *, at_head: bool = False) -> None:
        """PENDING, at the end of its list or at its head."""
        if at_head:
            self._first -= 1
        else:
            self._last += 1
        cell.place = self._first if at_head else self._last
        cell.ready_ms, cell.due_ms, cell.is_parked = since_ms, 0, False
        self.hints.set(cell)
        self.changed(cell)

    def delay(self, cell: Cell) -> None:
        """SCHEDULED or FAILED: of the first one that is due somebody has to know when to look."""
        partition = ids.parse(cell.task_id).partition
        others = self.cells(partition, State.SCHEDULED, State.FAILED)
        if all(cell is other or other.due_ms > cell.due_ms for other in others):
            self.hints.set(cell)
        self.changed(cell)

    def end(self, cell: Cell, keep_ms: int) -> None:
        """It has ended for good, and is readable for `keep_ms`. The last failure stays, short."""
        cell.finished_ms, cell.gone_at_ms = self.now_ms, self.now_ms + max(1, keep_ms)
        cell.failure = cell.without_traceback()
        cell.due_ms, cell.expires_ms, cell.death, cell.failover = 0, 0, "", ""
        cell.is_settled, cell.move_at_ms, cell.notice_at_ms = False, None, None
        cell.notice_tries = 0
        cell.forget_run()
        self.changed(cell)

    def bury(
        self,
        cell: Cell,
        kind: str,
        *,
        died_ms: int,
        until_ms: int,
        move_after_ms: int | None,
        failover: str,
    ) -> None:
        """DEAD_LETTER; before the courier after `move_after_ms`, or settled if that is None."""
        cell.death, cell.finished_ms, cell.failover = kind, died_ms, failover
        cell.dead_until_ms, cell.due_ms = until_ms, 0
        cell.forget_run()
        if move_after_ms is None:
            self.settle(cell, died_ms)
        else:
            cell.move_at_ms = self.now_ms + move_after_ms
        self.changed(cell)

    def settle(self, cell: Cell, at_ms: int) -> None:
        """Dead for good: who wanted to hear of that is to be told."""
        cell.is_settled, cell.move_at_ms = True, None
        if self.policy(cell.queue).on_dead is not None:
            cell.notice_at_ms = at_ms

    def crash(
        self,
        cell: Cell,
        message: str,
        *,
        retention_ms: int,
        move_after_ms: int | None,
        failover: str,
    ) -> State:
        """A run ended without a report. Returns the state that this leads to."""
        if self.cancelled_instead(cell):
            return cell.state
        cell.attempts -= 1
        cell.crashes += 0 if cell.is_booked else 1
        cell.failure = Failure("worker-lost", message)
        cell.forget_run()
        cell.forget_progress()
        if cell.crashes >= cell.max_crashes:
            cell.go(Event.CRASHED_OUT)
            self.bury(
                cell,
                "crashed",
                died_ms=self.now_ms,
                until_ms=self.now_ms + retention_ms,
                move_after_ms=move_after_ms,
                failover=failover,
            )
        else:
            cell.go(Event.LEASE_EXPIRED)
            self.ready(cell, self.now_ms, at_head=True)
        return cell.state

    def cancelled_instead(self, cell: Cell) -> bool:
        """Whatever is reported but success: a running task whose cancel was asked for ends so."""
        if cell.cancel_keep_ms is None:
            return False
        cell.go(Event.CANCEL)
        self.end(cell, cell.cancel_keep_ms)
        return True

    def promote(self, partition: int, most: int) -> tuple[int, int]:
        """What is due becomes PENDING or EXPIRED: `most` of each priority, longest due first.

        Returns how many, and in how many ms the next is due (-1: none is left).
        """
        waiting = self.cells(partition, State.SCHEDULED, State.FAILED)
        waiting.sort(key=lambda cell: (cell.priority, cell.due_ms, cell.task_id))
        due: list[Cell] = []
        for priority in sorted({cell.priority for cell in waiting}):
            of_it = [c for c in waiting if c.priority is priority and c.due_ms <= self.now_ms]
            due += of_it[:most]
        taken = {cell.task_id for cell in due}
        left = [cell.due_ms for cell in waiting if cell.task_id not in taken]
        for cell in due:
            if cell.has_expired(self.now_ms):
                cell.go(Event.EXPIRE)
                self.end(cell, cell.expired_keep_ms)
            else:
                cell.go(Event.DUE)
                self.ready(cell, cell.due_ms)
        return len(due), max(0, min(left) - self.now_ms) if left else -1

    def imports(self, partition: int) -> list[tuple[int, str, int]]:
        """Imports (imported_ms, id, epoch) that no courier has settled, oldest first."""
        return sorted(
            (memory.imported_ms, task_id, memory.came)
            for task_id, memory in self.memories.items()
            if memory.imported_ms is not None and ids.parse(task_id).partition == partition
        )

    def depth(self, partition: int) -> int:
        """Ready tasks."""
        return len(self.cells(partition, State.PENDING))
