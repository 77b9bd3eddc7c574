"""Sends settlements: what ended while one batch was under way leaves with the next."""

import asyncio
import functools
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from tradewind import metrics
from tradewind.attempts.describe import name_of, where
from tradewind.attempts.settle import in_our_words
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.ports import Claims
from tradewind.state import State
from tradewind.task import Bury, Cancel, Crash, Finish, Release, RetryAt, Settled, Settlement
from worker.guard import Guard
from worker.patience import Patience
from worker.reach import Reach

_log = logging.getLogger(__name__)


S = TypeVar("S", Finish, RetryAt, Bury, Release, Cancel, Crash)
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
        on_settled: Callable[[Settlement, str], None],
    ) -> None:
        """`on_settled(settlement, outcome)` hears of every answer: see metrics.PROCESS_OUTCOMES."""
        self._store, self._fleet, self._guard, self._reach = store, fleet, guard, reach
        self._on_settled = on_settled
        self._counter = functools.cache(metrics.TASKS_PROCESSED.labels)  # one look-up a series
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
        self._guard.reported(settlement.claim)
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
            _call(store.confirm_cancel, [s for s in batch if isinstance(s, Cancel)]),
            _call(store.crashed, [s for s in batch if isinstance(s, Crash)]),
        )
        unsent: list[Settlement] = []
        for settlement, answer in itertools.chain.from_iterable(groups):
            if isinstance(answer, Settled):
                self._answered(settlement, answer)
                continue
            if isinstance(answer, StoreError) and answer.retryable:
                self._reach.interrupted()
                extra = {"task_id": settlement.claim.task_id, "reason": str(answer)}
                _log.warning("a settlement was not answered and will be repeated", extra=extra)
                unsent.append(settlement)
            else:
                unsent += self._instead(settlement, answer)
        return unsent

    def _instead(self, settlement: Settlement, error: Exception) -> list[Settlement]:
        """What to send for one that would fail for ever."""
        claim = settlement.claim
        # No text of the error: it may quote what could not be sent.
        extra = {"task_id": claim.task_id, "error": name_of(error), "where": where(error)}
        instead = None
        if isinstance(error, StoreError):
            extra["reason"] = str(error)  # in our own words
        else:
            instead = in_our_words(settlement, self._fleet.queue(claim.queue))
        if instead is None:  # Let the lease end, so that others hear of the task.
            self._guard.drop(claim)
            _log.error("a settlement cannot be sent", extra=extra)
            return []
        _log.error("a settlement cannot be sent as it is; the task fails instead", extra=extra)
        return [instead]

    def _answered(self, settlement: Settlement, result: Settled) -> None:
        claim = settlement.claim
        self._guard.drop(claim)
        self._reach.reached(claim.partition)
        outcome = _outcome_of(settlement, result)
        marks = (claim.region, metrics.queue_label(self._fleet, claim.queue))
        self._counter(*marks, outcome).inc()
        if outcome == "refused":
            _log.warning(
                "a late report was refused: the task has another holder, or has ended",
                extra={"task_id": claim.task_id, "state": result.state},
            )
        elif isinstance(settlement, RetryAt | Bury) and outcome != "cancelled":
            metrics.TASKS_FAILED.labels(*marks, settlement.failure.kind).inc()
        elif isinstance(settlement, Crash) and outcome != "cancelled":
            metrics.TASKS_FAILED.labels(*marks, "worker-lost").inc()
        self._on_settled(settlement, outcome)


def _outcome_of(settlement: Settlement, result: Settled) -> str:
    """One of metrics.PROCESS_OUTCOMES: the store may have ended the task otherwise than asked."""
    if result.lost:
        return "refused"
    return _ENDED_INSTEAD.get(result.state) or _OUTCOMES[type(settlement)]


async def _call(
    send: Callable[[Sequence[S]], Awaitable[list[Settled | StoreError]]], items: Sequence[S]
) -> list[tuple[Settlement, Answer]]:
    """One call for settlements of one kind.

    A StoreError of the whole call is each item's. Any other is one item's fault: they are sent one
    by one, since saying it twice is harmless, and only that one keeps the error.
    """
    if not items:
        return []
    try:
        return list(zip(items, await send(items), strict=True))
    except StoreError as error:
        return [(item, error) for item in items]
    except Exception as error:  # noqa: BLE001 - judged by the caller
        if len(items) == 1:
            return [(items[0], error)]
    singly = [await _call(send, [item]) for item in items]
    return list(itertools.chain.from_iterable(singly))


_OUTCOMES: Final[dict[type[Settlement], str]] = {
    Finish: "completed",
    RetryAt: "retried",
    Bury: "dead",
    Release: "released",
    Cancel: "cancelled",
    Crash: "retried",
}
_ENDED_INSTEAD: Final[dict[str, str]] = {
    State.CANCELLED: "cancelled",
    State.EXPIRED: "expired",
    State.DEAD_LETTER: "dead",
}
