"""Taking work (port Claims, first half)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tradewind import ids
from tradewind.limits import MAX_CLAIM
from tradewind.state import Event, State
from tradewind.task import Claim, ClaimBatch, Priority
from tradewind.testing.memory.cells import Cell
from tradewind.testing.memory.role import Role

PROMOTE_PER_CLAIM: Final = 16  # as store.claims: sweeps do the rest
_COPY_KEEP_MS: Final = 60_000  # at least, of a copy that got its first's result


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Who claims, and what."""

    partition: int
    worker_id: str
    lease_ms: Mapping[str, int]
    handlers: frozenset[str]
    patience_ms: Mapping[str, int]


class TakingRole(Role):
    """`claim` of ports.Claims."""

    async def claim(
        self,
        partition: int,
        *,
        worker_id: str,
        lease_ms: Mapping[str, int],
        handlers: Sequence[str],
        limit: int,
        suspects: int = 0,
        starvation_ms: Mapping[str, int] | None = None,
    ) -> ClaimBatch:
        """Claim up to `limit` tasks of one partition, and up to `suspects` suspects."""
        wanted = _Wanted(
            partition, worker_id, lease_ms, frozenset(handlers), dict(starvation_ms or {})
        )
        limit, suspects = min(limit, MAX_CLAIM), min(suspects, MAX_CLAIM)
        most = min(max(limit, PROMOTE_PER_CLAIM), MAX_CLAIM)
        _, next_due_ms = self.room.promote(partition, most)
        self._unpark(wanted, limit + suspects)
        claims = [*self._taken(wanted, limit, suspect=False)]
        claims += self._taken(wanted, suspects, suspect=True)
        parked = self._pass_hints_on(wanted)
        return ClaimBatch(
            claims=tuple(claims),
            depth=self.room.depth(partition),
            next_due_ms=next_due_ms,
            now_ms=self.room.now_ms,
            parked=parked,
        )

    def _taken(self, wanted: _Wanted, limit: int, *, suspect: bool) -> Iterator[Claim]:
        """Claims, in order, until there are `limit`. What can only end on the way, ends."""
        if limit == 0:
            return
        for cell in self._in_order(wanted, suspect=suspect):
            if cell.has_expired(self.room.now_ms):
                cell.go(Event.EXPIRE)
                self.room.end(cell, cell.expired_keep_ms)
            elif (first := self._first_done(wanted.partition, cell)) is not None:
                self._end_copy(cell, *first)
            elif cell.name not in wanted.handlers:
                cell.is_parked = True
            else:
                lease_ms = wanted.lease_ms[cell.queue]
                yield self.take(cell, worker_id=wanted.worker_id, lease_ms=lease_ms)
                limit -= 1
                if limit == 0:
                    return

    def _in_order(self, wanted: _Wanted, *, suspect: bool) -> list[Cell]:
        """What has waited too long, the list with the oldest head first; then high to low."""
        now_ms = self.room.now_ms
        lists = [
            self._list(wanted.partition, queue, priority, suspect=suspect)
            for priority in Priority
            for queue in wanted.lease_ms
        ]
        starved: list[list[Cell]] = []
        for cells in lists:
            patience_ms = wanted.patience_ms.get(cells[0].queue) if cells else None
            if patience_ms is None or now_ms - cells[0].ready_ms <= patience_ms:
                continue
            # As far as that holds: a released task at the head may hide younger ones only.
            too_long: list[Cell] = []
            for cell in cells:
                if cell.ready_ms >= now_ms - patience_ms:
                    break
                too_long.append(cell)
            starved.append(too_long)
        starved.sort(key=lambda cells: cells[0].ready_ms)
        ordered = [cell for cells in [*starved, *lists] for cell in cells]
        return list({cell.task_id: cell for cell in ordered}.values())

    def _list(self, partition: int, queue: str, priority: Priority, *, suspect: bool) -> list[Cell]:
        ready = [
            cell
            for cell in self.room.cells(partition, State.PENDING)
            if (cell.queue, cell.priority) == (queue, priority)
            and cell.is_suspect is suspect
            and not cell.is_parked
        ]
        return sorted(ready, key=lambda cell: cell.place)

    def take(self, cell: Cell, *, worker_id: str, lease_ms: int) -> Claim:
        """State PROCESSING, with a lease and a new token."""
        now_ms = self.room.now_ms
        cell.go(Event.CLAIM)
        cell.token = max(cell.token + 1, now_ms * 1000)
        cell.attempts += 1
        cell.failover = ""  # why it had not left
        cell.worker_id, cell.started_ms = worker_id, now_ms
        cell.lease_until_ms = now_ms + lease_ms
        suspect = cell.is_suspect
        if suspect:  # the crash is booked now, or a death that takes all would not be
            cell.crashes, cell.is_booked = cell.crashes + 1, True
        self.room.changed(cell)
        return Claim(
            task_id=cell.task_id,
            region=self.room.region,
            partition=ids.parse(cell.task_id).partition,
            queue=cell.queue,
            name=cell.name,
            priority=cell.priority,
            token=cell.token,
            epoch=cell.epoch,
            attempt=cell.attempts,
            crashes=cell.crashes,
            packed=cell.packed,
            hops=cell.hops,
            created_ms=cell.created_ms,
            ready_ms=cell.ready_ms,
            claimed_ms=now_ms,
            hop_count=cell.hop_count,
            suspect=suspect,
        )

    def _first_done(self, partition: int, cell: Cell) -> tuple[str, int] | None:
        """Whose completed fingerprint the task's is, and until when that is known."""
        if not cell.done_key or cell.done_until_ms <= self.room.now_ms:
            return None  # past its own window it is nobody's copy
        found = self.room.done.get((partition, cell.done_key))
        if found is None or found[1] <= self.room.now_ms or found[0] == cell.task_id:
            return None
        return found

    def _end_copy(self, cell: Cell, first_id: str, until_ms: int) -> None:
        """It is not run: it gets the first's result."""
        first = self.room.cell(first_id)
        if first is not None:
            cell.result, cell.content_type = first.result, first.content_type
        cell.go(Event.COPY_DONE)
        self.room.end(cell, max(until_ms - self.room.now_ms, _COPY_KEEP_MS))

    def _unpark(self, wanted: _Wanted, most: int) -> None:
        """What was put aside for want of a handler that this caller has, is in its list again."""
        aside = [cell for cell in self._parked(wanted) if cell.name in wanted.handlers]
        aside.sort(key=lambda cell: cell.place)
        for queue, name in {(cell.queue, cell.name) for cell in aside}:
            for cell in [c for c in aside if (c.queue, c.name) == (queue, name)][:most]:
                cell.is_parked = False

    def _parked(self, wanted: _Wanted) -> list[Cell]:
        cells = self.room.cells(wanted.partition, State.PENDING)
        return [cell for cell in cells if cell.is_parked and cell.queue in wanted.lease_ms]

    def _pass_hints_on(self, wanted: _Wanted) -> bool:
        """Wake the next worker for what is left. Returns whether something stays put aside."""
        parked = False
        for cell in self.room.cells(wanted.partition, State.PENDING):
            if cell.queue in wanted.lease_ms:
                parked = parked or cell.is_parked
                if cell.is_parked:
                    self.room.hints.give("others", wanted.partition, cell.queue)
                else:
                    self.room.hints.set(cell)
        return parked
