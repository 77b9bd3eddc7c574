"""Sends settlements: what ended while one batch was under way leaves with the next."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tradewind import metrics
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.ports import Claims
from tradewind.task import Bury, Finish, Release, RetryAt, Settled, Settlement
from worker.guard import Guard
from worker.patience import Patience
from worker.reach import Reach

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pending:
    """A settlement on its way. `is_lost`: the guard has heard that the lease is somebody else's."""

    settlement: Settlement
    is_lost: Callable[[], bool]


class Settler:
    """Sends each settlement until the store answers it.

    Also past the lease: as long as nobody else has taken the task its token is still good, and
    after an outage of the store a late report saves a second run. A newer token refuses it.
    """

    def __init__(
        self,
        store: Claims,
        *,
        fleet: Fleet,
        guard: Guard,
        reach: Reach,
        on_settled: Callable[[Settlement], None],
    ) -> None:
        """`on_settled` hears of every settlement that took effect."""
        self._store, self._fleet, self._guard, self._reach = store, fleet, guard, reach
        self._on_settled = on_settled
        self._waiting: list[Pending] = []
        self._sending = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def backlog(self) -> int:
        """Settlements that the store has not answered yet."""
        return len(self._waiting) + self._sending

    def put(self, pending: Pending) -> None:
        """Send it, soon."""
        self._waiting.append(pending)
        self._idle.clear()
        self._wake.set()

    async def idle(self) -> None:
        """Return once everything has been answered."""
        await self._idle.wait()

    async def run(self) -> None:
        """Send, for ever. Cancelling loses nothing but the time: leases bring the rest back."""
        patience = Patience()
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._waiting = self._waiting, []
            self._sending = len(batch)
            unsent = await self._send(batch)
            self._sending = 0
            if unsent:
                self._waiting = [*unsent, *self._waiting]
                self._wake.set()
                await patience.wait()
            else:
                patience.reset()
            if not self._waiting:
                self._idle.set()

    async def _send(self, batch: Sequence[Pending]) -> list[Pending]:
        """Send all of `batch` side by side; return what the store did not answer."""
        live = [pending for pending in batch if not pending.is_lost()]
        kinds = (Finish, RetryAt, Bury, Release)
        groups = [[p for p in live if isinstance(p.settlement, kind)] for kind in kinds]
        answers = await asyncio.gather(*(self._send_group(group) for group in groups))
        unsent: list[Pending] = []
        for group, results in zip(groups, answers, strict=True):
            for pending, result in zip(group, results, strict=True):
                if isinstance(result, StoreError):
                    self._reach.interrupted()
                    _log.warning(
                        "a settlement was not answered and will be repeated",
                        extra={
                            "task_id": pending.settlement.claim.task_id,
                            "reason": str(result),
                        },
                    )
                    unsent.append(pending)
                else:
                    self._answered(pending.settlement, result)
        return unsent

    async def _send_group(self, group: Sequence[Pending]) -> Sequence[Settled | StoreError]:
        """One call for settlements of one kind."""
        if not group:
            return []
        items = [pending.settlement for pending in group]
        store = self._store
        try:
            match items[0]:
                case Finish():
                    return await store.finish([i for i in items if isinstance(i, Finish)])
                case RetryAt():
                    return await store.retry([i for i in items if isinstance(i, RetryAt)])
                case Bury():
                    return await store.bury([i for i in items if isinstance(i, Bury)])
                case Release():
                    return await store.release([i for i in items if isinstance(i, Release)])
        except StoreError as error:
            return [error] * len(items)

    def _answered(self, settlement: Settlement, result: Settled) -> None:
        claim = settlement.claim
        self._guard.drop(claim)
        self._reach.reached(claim.partition)
        marks = (claim.region, metrics.queue_label(self._fleet, claim.queue))
        if result.lost:
            metrics.TASKS_PROCESSED.labels(*marks, "refused").inc()
            _log.warning(
                "a late report was refused: the task has another holder, or has ended",
                extra={"task_id": claim.task_id, "state": result.state},
            )
            return
        outcome = _OUTCOMES[type(settlement)]
        metrics.TASKS_PROCESSED.labels(*marks, outcome).inc()
        if isinstance(settlement, RetryAt | Bury):
            metrics.TASKS_FAILED.labels(*marks, settlement.failure.kind).inc()
        self._on_settled(settlement)


_OUTCOMES: dict[type[Settlement], str] = {
    Finish: "completed",
    RetryAt: "retried",
    Bury: "dead",
    Release: "released",
}
