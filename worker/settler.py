"""Sends settlements: what ended while one batch was under way leaves with the next."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tradewind import metrics
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.ports import Claims
from tradewind.task import Bury, Finish, Release, RetryAt, Settled, Settlement
from worker.guard import Guard
from worker.patience import Patience
from worker.reach import Reach

_log = logging.getLogger(__name__)


S = TypeVar("S", Finish, RetryAt, Bury, Release)
Answer = Settled | Exception


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
        self._waiting: list[Settlement] = []
        self._sending = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def backlog(self) -> int:
        """Settlements that the store has not answered yet."""
        return len(self._waiting) + self._sending

    def put(self, settlement: Settlement) -> None:
        """Send it, soon."""
        self._waiting.append(settlement)
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

    async def _send(self, batch: Sequence[Settlement]) -> list[Settlement]:
        """Send all of `batch` side by side; return what the store did not answer."""
        store = self._store
        groups = await asyncio.gather(
            _call(store.finish, [s for s in batch if isinstance(s, Finish)]),
            _call(store.retry, [s for s in batch if isinstance(s, RetryAt)]),
            _call(store.bury, [s for s in batch if isinstance(s, Bury)]),
            _call(store.release, [s for s in batch if isinstance(s, Release)]),
        )
        unsent: list[Settlement] = []
        for settlement, answer in itertools.chain.from_iterable(groups):
            if isinstance(answer, Settled):
                self._answered(settlement, answer)
                continue
            extra = {"task_id": settlement.claim.task_id, "reason": str(answer)}
            if isinstance(answer, StoreError) and answer.retryable:
                self._reach.interrupted()
                _log.warning("a settlement was not answered and will be repeated", extra=extra)
                unsent.append(settlement)
            else:  # It would fail for ever: let the lease end, so that others hear of the task.
                self._guard.drop(settlement.claim)
                _log.error("a settlement cannot be sent", extra=extra, exc_info=answer)
        return unsent

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


async def _call(
    send: Callable[[Sequence[S]], Awaitable[list[Settled | StoreError]]], items: Sequence[S]
) -> list[tuple[Settlement, Answer]]:
    """One call for settlements of one kind; an error of the whole call is each item's."""
    if not items:
        return []
    try:
        return list(zip(items, await send(items), strict=True))
    except Exception as error:  # noqa: BLE001 - judged by the caller
        return [(item, error) for item in items]


_OUTCOMES: dict[type[Settlement], str] = {
    Finish: "completed",
    RetryAt: "retried",
    Bury: "dead",
    Release: "released",
}
