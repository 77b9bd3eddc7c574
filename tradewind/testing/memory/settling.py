"""Reporting on work that was taken (port Claims, second half). All by token and epoch."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from tradewind.attempts.describe import cut, text
from tradewind.errors import StoreError
from tradewind.limits import KIB, MAX_ERROR_BYTES
from tradewind.state import Event, State
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    Crash,
    Finish,
    Progress,
    Release,
    Renewed,
    RetryAt,
    Settled,
    Settlement,
)
from tradewind.testing.memory.cells import Cell
from tradewind.testing.memory.role import Role

S = TypeVar("S", bound=Settlement | Progress)
Act = Callable[[Cell, S], None]

_NOTE_BYTES = 1 * KIB  # as store.claims


class SettlingRole(Role):
    """Settlements, renewals and progress of ports.Claims."""

    async def renew(
        self, claims: Sequence[Claim], lease_ms: Mapping[str, int]
    ) -> list[Renewed | StoreError]:
        """Extend leases, counted from now; learn of requested cancels."""
        answers: list[Renewed | StoreError] = []
        for claim in claims:
            cell = self._running(claim)
            if cell is not None:
                cell.lease_until_ms = self.room.now_ms + lease_ms[claim.queue]
            asked = cell is not None and cell.cancel_keep_ms is not None
            answers.append(
                Renewed(claim.task_id, claim.token, lost=cell is None, cancel_requested=asked)
            )
        return answers

    async def finish(self, items: Sequence[Finish]) -> list[Settled | StoreError]:
        """Record success."""

        def act(cell: Cell, item: Finish) -> None:
            cell.go(Event.FINISH)
            cell.result, cell.content_type = item.result, item.content_type
            keep_ms = max(1, item.retention_ms)
            self.room.end(cell, keep_ms)
            left_ms = cell.done_until_ms - self.room.now_ms
            if cell.done_key and left_ms > 0:
                place = (item.claim.partition, cell.done_key)
                known = self.room.done.get(place)
                if known is None or known[1] <= self.room.now_ms:
                    self.room.done[place] = (
                        cell.task_id,
                        self.room.now_ms + min(keep_ms, left_ms),
                    )

        return [self._report(item, act, State.COMPLETED, or_ended=False) for item in items]

    async def retry(self, items: Sequence[RetryAt]) -> list[Settled | StoreError]:
        """State FAILED until due; EXPIRED if it may not start any more."""

        def act(cell: Cell, item: RetryAt) -> None:
            cell.failure = item.failure
            cell.forget_run()
            cell.forget_progress()
            if cell.has_expired(self.room.now_ms):
                cell.go(Event.RETRY_EXPIRED)
                self.room.end(cell, cell.expired_keep_ms)
            else:
                cell.go(Event.RETRY)
                cell.due_ms = self.room.now_ms + item.delay_ms
                self.room.changed(cell)

        return [self._report(item, act, State.FAILED) for item in items]

    async def bury(self, items: Sequence[Bury]) -> list[Settled | StoreError]:
        """State DEAD_LETTER."""

        def act(cell: Cell, item: Bury) -> None:
            cell.failure = item.failure
            cell.go(Event.BURY)
            self.room.bury(
                cell,
                item.kind,
                died_ms=self.room.now_ms,
                until_ms=self.room.now_ms + item.retention_ms,
                move_after_ms=item.move_after_ms if item.may_move else None,
                failover=item.failover,
            )

        return [self._report(item, act, State.DEAD_LETTER) for item in items]

    async def release(self, items: Sequence[Release]) -> list[Settled | StoreError]:
        """State PENDING again, at the head of its list; no attempt is used."""

        def act(cell: Cell, item: Release) -> None:
            del item
            cell.go(Event.RELEASE)
            cell.attempts -= 1
            cell.forget_run()
            cell.forget_progress()
            self.room.ready(cell, self.room.now_ms, at_head=True)

        return [self._report(item, act, State.PENDING) for item in items]

    async def confirm_cancel(self, items: Sequence[Cancel]) -> list[Settled | StoreError]:
        """State CANCELLED: the attempt has stopped."""

        def act(cell: Cell, item: Cancel) -> None:
            cell.go(Event.CANCEL)
            self.room.end(cell, item.retention_ms)

        return [self._report(item, act, State.CANCELLED, or_ended=False) for item in items]

    async def crashed(self, items: Sequence[Crash]) -> list[Settled | StoreError]:
        """The attempts' processes died."""
        return [self._crashed(item) for item in items]

    def _crashed(self, item: Crash) -> Settled:
        cell = self._running(item.claim)
        if cell is None:
            answer = self._not_running(item.claim, State.PENDING, or_ended=True)
            claim, found = item.claim, self.room.cell(item.claim.task_id)
            if (
                found is not None
                and (found.state, found.death) == (State.DEAD_LETTER, "crashed")
                and (found.token, found.epoch) == (claim.token, claim.epoch)
            ):
                return Settled(answer.task_id, lost=False, state=found.state)  # a repeat
            return answer
        state = self.room.crash(
            cell,
            cut(text(item.message), MAX_ERROR_BYTES),
            retention_ms=item.retention_ms,
            move_after_ms=item.move_after_ms if item.may_move else None,
            failover=item.failover,
        )
        return Settled(cell.task_id, lost=False, state="" if state is State.PENDING else state)

    def cancels(self) -> AsyncIterator[str]:
        """Ids of running tasks whose cancel was asked for."""
        return self.room.cancels.listen()

    async def progress(self, items: Sequence[Progress]) -> list[Settled | StoreError]:
        """How far attempts have come."""
        answers: list[Settled | StoreError] = []
        for item in items:
            cell = self._running(item.claim)
            if cell is None:
                answers.append(self._not_running(item.claim, None, or_ended=False))
                continue
            cell.progress = round(min(1.0, max(0.0, item.fraction)), 4)
            cell.note = cut(text(item.note), _NOTE_BYTES)
            self.room.changed(cell)
            answers.append(Settled(cell.task_id, lost=False))
        return answers

    def _report(
        self, item: S, act: "Act[S]", done: State, *, or_ended: bool = True
    ) -> Settled | StoreError:
        """Settle one item. `or_ended`: a requested cancel, or an expiry, may come before it."""
        cell = self._running(item.claim)
        if cell is None:
            return self._not_running(item.claim, done, or_ended=or_ended)
        if cell.is_booked:  # whoever reports is alive
            cell.crashes, cell.is_booked = cell.crashes - 1, False
        if or_ended and self.room.cancelled_instead(cell):
            return Settled(cell.task_id, lost=False, state=cell.state)
        act(cell, item)
        instead = cell.state if or_ended and cell.state is not done else ""
        return Settled(cell.task_id, lost=False, state=instead)

    def _running(self, claim: Claim) -> Cell | None:
        """The task, if this claim holds it."""
        cell = self.room.cell(claim.task_id)
        if cell is None or cell.state is not State.PROCESSING:
            return None
        return cell if (cell.token, cell.epoch) == (claim.token, claim.epoch) else None

    def _not_running(self, claim: Claim, done: State | None, *, or_ended: bool) -> Settled:
        """What to tell a claim that does not hold the task: lost, unless this is a repeat."""
        found = self.room.find(claim.task_id)
        if found is None:
            return Settled(claim.task_id, lost=True)
        if not isinstance(found, Cell):
            return Settled(claim.task_id, lost=True, state=found.mark)
        if (found.token, found.epoch) == (claim.token, claim.epoch):
            if found.state is done:
                return Settled(claim.task_id, lost=False)
            if or_ended and found.state in {State.CANCELLED, State.EXPIRED}:
                return Settled(claim.task_id, lost=False, state=found.state)
        return Settled(claim.task_id, lost=True, state=found.state)
