"""Storing one task in one region, until the outcome is certain or the deadline has passed."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from router.flush import Flush
from router.job import Deadline
from tradewind.errors import (
    OutcomeUnknown,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from tradewind.ports import Intake
from tradewind.task import LedgerHit, NewTask, Stored, Tombstoned, TooLate

_FIRST_PAUSE_S: Final = 0.05  # a connection is opened anew in less
_MAX_PAUSE_S: Final = 1.0


class Refused(Exception):
    """The region has not stored the task and, after this answer, will not."""

    def __init__(self, region: str, error: StoreError, *, tombstone: bool = False) -> None:
        """`error` says why. `tombstone`: at this epoch it has been made impossible for good."""
        self.region, self.error, self.tombstone = region, error, tombstone
        super().__init__(str(error))


class Storing:
    """Stores tasks by way of each region's flush."""

    def __init__(self, intakes: Mapping[str, Intake], flushes: Mapping[str, Flush]) -> None:
        """Both by region name."""
        self._intakes, self._flushes = intakes, flushes

    async def store(self, region: str, task: NewTask, deadline: Deadline) -> Stored | LedgerHit:
        """Return the outcome. Raises Refused after a definite refusal.

        Raises OutcomeUnknown at the deadline if the task may be there, StoreContractBroken as it
        comes.
        """
        sent = False  # whether an attempt whose answer is missing may have stored it
        for pause_s in _pauses():
            try:
                outcome = await self._attempt(region, task, deadline)
            except StoreContractBroken:
                raise
            except StoreError as error:
                if not sent and not _may_have_stored(error):
                    raise Refused(region, error) from None
                sent = True
                if isinstance(error, StoreFull):
                    return await self._settle(region, task, error, deadline)
            else:
                if outcome is not None:
                    return outcome
            if deadline.is_over:
                break
            await asyncio.sleep(min(pause_s, deadline.left_s()))
        if sent:
            raise OutcomeUnknown(task.task_id, deadline_passed=deadline.is_callers)
        raise Refused(region, StoreUnavailable(region, "the deadline passed", sent=False))

    async def _attempt(
        self, region: str, task: NewTask, deadline: Deadline
    ) -> Stored | LedgerHit | None:
        """Return None if nothing was stored because it came too late by the store's clock."""
        left_s = deadline.left_s()
        try:
            async with asyncio.timeout(left_s):
                outcome = await self._flushes[region].submit(task, timeout_s=left_s)
        except TimeoutError:  # it may have been flushed
            raise StoreUnavailable(region, "no answer in time", sent=True) from None
        if isinstance(outcome, Tombstoned):
            left = StoreUnavailable(region, "this submit has left it", sent=False)
            raise Refused(region, left, tombstone=True)
        return None if isinstance(outcome, TooLate) else outcome

    async def _settle(
        self, region: str, task: NewTask, full: StoreFull, deadline: Deadline
    ) -> Stored:
        """End the doubt about an earlier attempt in a region that takes nothing new any more."""
        try:
            async with asyncio.timeout(deadline.left_s()):
                stored = await self._intakes[region].refuse(task.task_id, task.epoch)
        except (StoreError, TimeoutError):
            raise OutcomeUnknown(task.task_id, deadline_passed=False) from None
        if stored is None:
            raise Refused(region, full)
        return stored


def _may_have_stored(error: StoreError) -> bool:
    return isinstance(error, StoreUnavailable) and error.sent


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(_MAX_PAUSE_S, pause_s * 2)
