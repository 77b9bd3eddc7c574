"""Cancelling a task where it is: at its owner, after a move in doubt ended.

What waits or is dead ends at once, and its key is free again. What runs is asked to stop, and the
answer waits a moment for its holder's word. A move under way is ended first, one way or the other.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from router.failures import report
from router.job import Deadline
from router.keys import Keys, stored_spec
from router.lookup import SILENT_AFTER_S, Lookup
from router.watch import Watches
from tradewind import wire
from tradewind.errors import (
    NoRegionReachable,
    RegionSilent,
    StoreError,
    TradewindError,
)
from tradewind.fleet import Fleet
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.ports import Cancels, Inbox, Outbox
from tradewind.state import State
from tradewind.task import (
    Cancelled,
    CancelRequested,
    Pointer,
    Record,
    TooLateToCancel,
)

CONFIRMED_WITHIN_S: Final = 2.0  # a handler that takes longer to stop is answered as `requested`
_PAUSE_S: Final = 0.02  # before a task that was on its way is looked for again
_BACK_AFTER_MS: Final = 1_000  # a move that we ended and did not cancel begins again after this
_LATER: Final = 256  # keys of running tasks that are freed without another cancel
_REASON: Final = "a cancel ended the move"


class EndingPorts(Cancels, Outbox, Inbox, Protocol):
    """What cancelling needs of one region."""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What came of it, and the task afterwards."""

    record: Record
    cancelled: bool
    requested: bool


class Canceller:
    """Cancels tasks wherever they are."""

    def __init__(
        self,
        fleet: Fleet,
        stores: Mapping[str, EndingPorts],
        keys: Keys,
        lookup: Lookup,
        watches: Watches,
    ) -> None:
        """`stores` by region name."""
        self._fleet, self._stores, self._keys = fleet, stores, keys
        self._lookup, self._watches = lookup, watches
        self._held: set[asyncio.Task[Cancellation]] = set()
        self._later: set[asyncio.Task[None]] = set()

    async def cancel(self, task_id: str, deadline: Deadline) -> Cancellation:
        """End the task, or ask its holder to. Doing it twice gives the same answer.

        It goes on if the caller is gone, so that no cancelled task keeps its key. A key whose home
        is silent is freed by the next submit that meets the cancelled task (router.carry).
        Raises InvalidTask and UnknownTask as a read does, and RegionSilent if the owner, or the
        target of a move under way, does not answer.
        """
        work = asyncio.get_running_loop().create_task(self._cancel(task_id, deadline))
        self._held.add(work)
        work.add_done_callback(self._let_go)
        return await asyncio.shield(work)

    async def drain(self) -> None:
        """Return once every cancel has ended. Watches must have been closed before."""
        while self._held or self._later:
            await asyncio.wait({*self._held, *self._later})

    async def _cancel(self, task_id: str, deadline: Deadline) -> Cancellation:
        while True:
            record = await self._lookup.find(task_id, deadline=deadline)
            outcome = await self._at_owner(record)
            if isinstance(outcome, Cancelled):
                return await self._ended(await self._lookup.find(task_id))
            if isinstance(outcome, CancelRequested):
                return await self._confirmed(record, deadline)
            if outcome is not None:
                ended = await self._lookup.find(task_id, deadline=deadline)
                return Cancellation(ended, cancelled=False, requested=False)
            if deadline.is_over:
                raise RegionSilent([record.target or record.region])
            await asyncio.sleep(_PAUSE_S)

    def _let_go(self, work: asyncio.Task[Cancellation]) -> None:
        self._held.discard(work)
        if not work.cancelled():
            work.exception()  # seen, if nobody waits for it any more

    async def _at_owner(self, record: Record) -> Cancelled | CancelRequested | State | None:
        """Ask the owner: cancelled, requested, or the state it ended in; None: look again."""
        if record.state is State.MOVING and not await self._called_back(record):
            return None  # it has arrived, or somebody else has settled the move
        retention = self._fleet.queue(_queue(record)).retention
        # A late repeat of its submit must find that it was cancelled.
        keep_ms = max(retention.completed_ms, REQUEST_ID_WINDOW_MS)
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                outcome = await self._stores[record.region].cancel(
                    record.task_id, retention_ms=keep_ms
                )
        except (StoreError, TimeoutError):
            raise RegionSilent([record.region]) from None
        if isinstance(outcome, Pointer):
            return None
        if isinstance(outcome, TooLateToCancel):
            return None if outcome.state is State.MOVING else outcome.state
        return outcome

    async def _called_back(self, record: Record) -> bool:
        """End a move whose target has not seen the task. False: it has, or the move is over.

        The target promises never to take it, then the source has it as before. A crash of this
        router between the two leaves the move to the courier, which finds the promise.
        """
        target = record.target
        if target not in self._stores:
            raise RegionSilent([target])
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                answer = await self._stores[target].refuse_import(record.task_id, record.epoch)
        except (StoreError, TimeoutError):
            raise RegionSilent([target]) from None
        if answer == "imported":
            return False
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                state = await self._stores[record.region].abort_export(
                    record.task_id,
                    record.epoch,
                    target,
                    reason=_REASON,
                    retry_after_ms=_BACK_AFTER_MS,
                )
        except (StoreError, TimeoutError):
            raise RegionSilent([record.region]) from None
        return state is not None

    async def _confirmed(self, record: Record, deadline: Deadline) -> Cancellation:
        """Wait a moment for the holder's word: it has stopped, or was done before."""
        last = record
        try:
            async with asyncio.timeout(min(deadline.left_s(), CONFIRMED_WITHIN_S)):
                async for seen in self._watches.follow(record.task_id):
                    last = seen
        except (TimeoutError, NoRegionReachable, RegionSilent):
            pass  # it was asked for, and that stays
        if last.settled:
            return await self._ended(last)
        if self._keys.has_one(last) and len(self._later) < _LATER:
            freeing = asyncio.create_task(self._free_later(last.task_id))
            self._later.add(freeing)
            freeing.add_done_callback(self._later.discard)
        return Cancellation(last, cancelled=False, requested=True)

    async def _free_later(self, task_id: str) -> None:
        """Free the key once the holder has stopped. What fails here, the next submit does."""
        try:
            async for seen in self._watches.follow(task_id):
                if seen.settled:
                    await self._ended(seen)
        except TradewindError:
            pass
        except Exception as error:  # noqa: BLE001 - nobody waits for this task to see its error
            report("CancelTask", error)

    async def _ended(self, record: Record) -> Cancellation:
        if record.state is not State.CANCELLED:
            return Cancellation(record, cancelled=False, requested=False)
        await self._keys.free(record)
        return Cancellation(record, cancelled=True, requested=False)


def _queue(record: Record) -> str:
    stored = stored_spec(record)
    return stored.spec.queue if stored else wire.DEFAULT_QUEUE
