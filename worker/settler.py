"""Sends settlements: what ended while one batch was under way leaves with the next."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from tradewind import metrics
from tradewind.attempts.describe import name_of, where
from tradewind.attempts.settle import in_our_words
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.ports import Claims
from tradewind.state import State
from tradewind.task import Bury, Cancel, Crash, Finish, Release, RetryAt, Settled, Settlement
from worker.guard import Guard
from worker.patience import MOVING_MS, Patience, is_partial
from worker.reach import Reach

_log = logging.getLogger(__name__)


S = TypeVar("S", Finish, RetryAt, Bury, Release, Cancel, Crash)
Answer = Settled | Exception
Send = Callable[[Sequence[S]], Awaitable[list[Settled | StoreError]]]


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
        on_settled: Callable[[Sequence[tuple[Settlement, str]]], None],
    ) -> None:
        """`on_settled` hears of all answers, with an outcome each: see metrics.PROCESS_OUTCOMES."""
        self._store, self._fleet, self._guard, self._reach = store, fleet, guard, reach
        self._on_settled = on_settled
        self._waiting: list[Settlement] = []
        self._sending = 0
        self._aside = 0  # of partitions that move, until these are asked again
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet."""
        self._fleet = fleet

    @property
    def backlog(self) -> int:
        """Settlements that the store has not answered yet."""
        return len(self._waiting) + self._sending + self._aside

    def put(self, settlements: Sequence[Settlement]) -> None:
        """Send them, soon."""
        self._guard.reported(settlement.claim for settlement in settlements)
        self._waiting += settlements
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
            try:
                unsent = await self._send(batch)
            except Exception:  # a fault of ours: their leases may end, so that others hear of them
                self._guard.drop(settlement.claim for settlement in batch)
                self._rest()
                raise
            finally:
                self._sending = 0
            if unsent:
                self._waiting = [*unsent, *self._waiting]
                self._wake.set()
                await patience.wait()
            else:
                patience.reset()
            self._rest()

    def _rest(self) -> None:
        if not (self._waiting or self._aside):
            self._idle.set()

    def _set_aside(self, settlements: list[Settlement]) -> None:
        """Send them again in a moment. What ended elsewhere does not wait for that."""
        self._aside += len(settlements)
        loop = asyncio.get_running_loop()
        loop.call_later(MOVING_MS / 1000, self._take_up, settlements)

    def _take_up(self, settlements: list[Settlement]) -> None:
        self._aside -= len(settlements)
        self._waiting += settlements
        self._wake.set()

    async def _send(self, batch: Sequence[Settlement]) -> list[Settlement]:
        """Send all of `batch` side by side; return what the store did not answer."""
        kinds: dict[type[Settlement], list[Any]] = {}
        for settlement in batch:
            kinds.setdefault(type(settlement), []).append(settlement)
        calls = [_call(self._call_of(kind), items) for kind, items in kinds.items()]
        answered: list[tuple[Settlement, Settled]] = []
        unsent: list[Settlement] = []
        moving: list[Settlement] = []
        # Most of the time all have completed: one call needs no task of its own.
        groups = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        for items, answers in zip(kinds.values(), groups, strict=True):
            for settlement, answer in zip(items, answers, strict=True):
                if isinstance(answer, Settled):
                    answered.append((settlement, answer))
                elif isinstance(answer, StoreError) and is_partial(answer):
                    self._reach.failed(answer)
                    moving.append(settlement)
                elif isinstance(answer, StoreError) and answer.retryable:
                    self._reach.failed(answer)
                    extra = {"task_id": settlement.claim.task_id, "reason": str(answer)}
                    _log.warning("a settlement was not answered and will be repeated", extra=extra)
                    unsent.append(settlement)
                else:
                    unsent += self._instead(settlement, answer)
        self._answered(answered)
        if moving:
            self._set_aside(moving)
        return unsent

    def _call_of(self, kind: type[Settlement]) -> "Send[Any]":
        store = self._store
        calls: dict[type[Settlement], Send[Any]] = {
            Finish: store.finish,
            RetryAt: store.retry,
            Bury: store.bury,
            Release: store.release,
            Cancel: store.confirm_cancel,
            Crash: store.crashed,
        }
        return calls[kind]

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
            self._guard.drop((claim,))
            _log.error("a settlement cannot be sent", extra=extra)
            return []
        _log.error("a settlement cannot be sent as it is; the task fails instead", extra=extra)
        return [instead]

    def _answered(self, answered: Sequence[tuple[Settlement, Settled]]) -> None:
        self._guard.drop(settlement.claim for settlement, _ in answered)
        self._reach.reached({settlement.claim.partition for settlement, _ in answered})
        processed: Counter[tuple[str, str, str]] = Counter()
        settled: list[tuple[Settlement, str]] = []
        for settlement, result in answered:
            outcome = _outcome_of(settlement, result)
            claim = settlement.claim
            processed[claim.region, claim.queue, outcome] += 1
            if outcome != "completed":
                self._tell(settlement, result, outcome)
            settled.append((settlement, outcome))
        if settled:
            self._on_settled(settled)
        for (region, queue, outcome), number in processed.items():
            label = metrics.queue_label(self._fleet, queue)
            metrics.TASKS_PROCESSED.labels(region, label, outcome).inc(number)

    def _tell(self, settlement: Settlement, result: Settled, outcome: str) -> None:
        claim = settlement.claim
        marks = (claim.region, metrics.queue_label(self._fleet, claim.queue))
        if outcome == "refused":
            _log.warning(
                "a late report was refused: the task has another holder, or has ended",
                extra={"task_id": claim.task_id, "state": result.state},
            )
        elif isinstance(settlement, RetryAt | Bury) and outcome != "cancelled":
            metrics.TASKS_FAILED.labels(*marks, settlement.failure.kind).inc()
        elif isinstance(settlement, Crash) and outcome != "cancelled":
            metrics.TASKS_FAILED.labels(*marks, "worker-lost").inc()


def _outcome_of(settlement: Settlement, result: Settled) -> str:
    """One of metrics.PROCESS_OUTCOMES: the store may have ended the task otherwise than asked."""
    if result.lost:
        return "refused"
    return _ENDED_INSTEAD.get(result.state) or _OUTCOMES[type(settlement)]


async def _call(send: Send[S], items: Sequence[S]) -> Sequence[Answer]:
    """One call for settlements of one kind; answers in their order.

    A StoreError of the whole call is each item's. Any other is one item's fault: they are sent one
    by one, since saying it twice is harmless, and only that one keeps the error.
    """
    try:
        return await send(items)
    except StoreError as error:
        return [error] * len(items)
    except Exception as error:  # noqa: BLE001 - judged by the caller
        if len(items) == 1:
            return [error]
    return [answer for item in items for answer in await _call(send, [item])]


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
