"""Keeping partitions in order, and signs of life (ports Upkeep and Vitals)."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from tradewind.limits import (
    COURIER_LEASE_MS,
    MAX_EXPIRE,
    MAX_PROMOTE,
    WORKER_GONE_MS,
)
from tradewind.state import Event, State
from tradewind.task import Heartbeat, LiveWorker, Probe, Reaped, Swept
from tradewind.testing.memory.cells import Cell
from tradewind.testing.memory.role import Role

PURGE_PER_SWEEP: Final = 64  # as store.upkeep
_WAITING: Final = (State.PENDING, State.SCHEDULED, State.FAILED)


class UpkeepRole(Role):
    """See ports.Upkeep and ports.Vitals."""

    async def wait(
        self,
        queues: Sequence[str],
        partitions: Sequence[int],
        *,
        ready: bool = True,
        suspects: bool = False,
        cold: Collection[int] = (),
        timeout_s: float,
    ) -> int | None:
        """Block until one of `partitions` has work; None after `timeout_s` of real time."""
        kinds = {"wake": partitions if ready else (), "suspects": partitions if suspects else ()}
        kinds["others"] = [partition for partition in partitions if partition not in cold]
        wanted = [
            [(kind, partition, queue) for partition in places for queue in queues]
            for kind, places in kinds.items()
        ]
        try:
            async with asyncio.timeout(timeout_s):
                return await self.room.hints.take(wanted)
        except TimeoutError:
            return None

    async def sweep(
        self, partition: int, *, worker_id: str, queues: Sequence[str], courier: bool
    ) -> Swept:
        """Promote what is due, purge, set hints anew, end what expired."""
        room, now_ms = self.room, self.room.now_ms
        promoted, next_due_ms = room.promote(partition, MAX_PROMOTE)
        self._purge(partition)
        for cell in room.cells(partition, State.PENDING):
            if cell.queue in queues and cell.is_parked:
                room.hints.give("others", partition, cell.queue)
            elif cell.queue in queues:
                room.hints.set(cell)
        dead = room.cells(partition, State.DEAD_LETTER)
        running = room.cells(partition, State.PROCESSING)
        expired = self._expire(partition)
        return Swept(
            depth=room.depth(partition),
            promoted=promoted,
            expired_leases=sum(cell.lease_until_ms <= now_ms for cell in running),
            next_due_ms=next_due_ms,
            outbox=sum(_is_due(cell.move_at_ms, now_ms) for cell in dead),
            moving=len(room.cells(partition, State.MOVING)),
            unsettled_imports=len(room.imports(partition)),
            courier=courier and self._carries(partition, worker_id),
            now_ms=now_ms,
            expired=expired,
            hooks=sum(_is_due(cell.notice_at_ms, now_ms) for cell in dead),
            dead=len(dead),
        )

    def _purge(self, partition: int) -> None:
        past = [
            cell
            for cell in self.room.cells(partition, State.DEAD_LETTER)
            if cell.dead_until_ms <= self.room.now_ms
        ]
        past.sort(key=lambda cell: cell.dead_until_ms)
        for cell in past[:PURGE_PER_SWEEP]:
            self.room.drop(cell)

    def _expire(self, partition: int) -> int:
        over = [
            cell
            for cell in self.room.cells(partition, *_WAITING)
            if cell.has_expired(self.room.now_ms)
        ]
        over.sort(key=lambda cell: cell.expires_ms)
        for cell in over[:MAX_EXPIRE]:
            cell.go(Event.EXPIRE)
            self.room.end(cell, cell.expired_keep_ms)
        return len(over[:MAX_EXPIRE])

    def _carries(self, partition: int, worker_id: str) -> bool:
        holder, until_ms = self.room.couriers.get(partition, ("", 0))
        if until_ms > self.room.now_ms and holder != worker_id:
            return False
        self.room.couriers[partition] = (worker_id, self.room.now_ms + COURIER_LEASE_MS)
        return True

    async def reap(self, partition: int, *, limit: int) -> list[Reaped]:
        """Take back expired leases, oldest first."""
        lost = [
            cell
            for cell in self.room.cells(partition, State.PROCESSING)
            if cell.lease_until_ms <= self.room.now_ms
        ]
        lost.sort(key=lambda cell: (cell.lease_until_ms, cell.task_id))
        return [self._reap(cell) for cell in lost[:limit]]

    def _reap(self, cell: Cell) -> Reaped:
        policy, worker_id = self.room.policy(cell.queue), cell.worker_id
        moves = "crashed" in policy.failover.on
        state = self.room.crash(
            cell,
            f"worker {worker_id} was lost: its lease ended without a word",
            retention_ms=policy.retention.dead_ms,
            move_after_ms=self.room.fleet.failover.dead_after_ms if moves else None,
            failover="" if moves else "tasks of this queue that crashed are not moved",
        )
        return Reaped(cell.task_id, worker_id, state, cell.queue)

    async def heartbeat(self, beat: Heartbeat) -> None:
        """Say that this worker lives."""
        self.room.beats[beat.worker_id] = (self.room.now_ms, beat)

    async def farewell(self, worker_id: str) -> None:
        """Say that this worker is gone."""
        self.room.beats.pop(worker_id, None)

    # --- Vitals

    async def probe(self) -> Probe:
        """Memory answers at once."""
        return Probe(0.0)

    def now_ms(self) -> int | None:
        """The region's time."""
        return self.room.now_ms

    async def workers(self) -> list[LiveWorker]:
        """Live workers of the region."""
        ages = [(beat, self.room.now_ms - at_ms) for at_ms, beat in self.room.beats.values()]
        return [
            LiveWorker(beat, max(0, age_ms))
            for beat, age_ms in ages
            if abs(age_ms) < WORKER_GONE_MS
        ]


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms
