"""Storing tasks in one region, until their outcome is certain or the deadline has passed."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from router.failures import report
from router.flush import Flush, Outcomes
from router.job import Deadline
from tradewind.errors import (
    OutcomeUnknown,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
)
from tradewind.ports import Intake
from tradewind.task import EnqueueOutcome, LedgerHit, NewTask, Stored, Tombstoned, TooLate

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

    def send(
        self, region: str, tasks: Sequence[NewTask], deadline: Deadline
    ) -> asyncio.Future[Outcomes]:
        """Make a first attempt, for tasks that came together; see Flush.send."""
        return self._flushes[region].send(tasks, timeout_s=deadline.left_s())

    async def store(
        self,
        region: str,
        task: NewTask,
        deadline: Deadline,
        first: EnqueueOutcome | StoreError | None = None,
        *,
        await_slot: bool = True,
    ) -> Stored | LedgerHit:
        """Return the outcome. `first`: what came of the first attempt, if it has been made.

        A partition that moves is waited for, unless without `await_slot` another one will do.
        Raises Refused after a definite refusal. Raises OutcomeUnknown if the task may be there: at
        the deadline, or at once where asking again does not help.
        """
        sent = False  # whether an attempt whose answer is missing may have stored it
        outcome = first
        for pause_s in _pauses():
            if outcome is None:
                (outcome,) = await self.send(region, (task,), deadline)
            if isinstance(outcome, Stored | LedgerHit):
                return outcome
            moves = isinstance(outcome, StoreMoving)
            if not (moves and await_slot) or deadline.is_over:
                _raise_refusal(region, outcome, sent=sent)
            if isinstance(outcome, StoreError) and not moves:
                sent = True
                if isinstance(outcome, StoreContractBroken):
                    report(f"enqueue in {region}", outcome)  # perhaps a bug of ours, too
                if not _may_do_better(outcome):
                    return await self._settle(region, task, outcome, deadline)
            if deadline.is_over:
                break
            await asyncio.sleep(min(pause_s, deadline.left_s()))
            outcome = None
        if sent:
            over = deadline.is_callers
            raise OutcomeUnknown(task.task_id, deadline_passed=over, region=region)
        raise Refused(region, StoreUnavailable(region, "the deadline passed", sent=False))

    async def _settle(
        self, region: str, task: NewTask, why: StoreError, deadline: Deadline
    ) -> Stored:
        """End the doubt about an attempt in a region where another one would not help.

        With a tombstone in its place the task can be stored elsewhere; raises Refused with `why`.
        """
        try:
            async with asyncio.timeout(deadline.left_s()):
                stored = await self._intakes[region].refuse(task.task_id, task.epoch)
        except (StoreError, TimeoutError):
            raise OutcomeUnknown(task.task_id, deadline_passed=False, region=region) from None
        if stored is None:
            if isinstance(why, StoreContractBroken):
                why = StoreUnavailable(region, "its Redis fails our scripts", sent=False)
            raise Refused(region, why)
        return stored


def is_partial(error: StoreError) -> bool:
    """Whether other partitions of the region may take what this one cannot."""
    if isinstance(error, StoreFull | StoreUnavailable):
        return error.partly
    return isinstance(error, StoreMoving)


def _raise_refusal(region: str, outcome: Tombstoned | TooLate | StoreError, *, sent: bool) -> None:
    """Raise Refused unless asking again may help: what came too late has stored nothing."""
    if isinstance(outcome, Tombstoned):
        left = StoreUnavailable(region, "this submit has left it", sent=False)
        raise Refused(region, left, tombstone=True)
    if isinstance(outcome, StoreError) and not sent and not _may_have_stored(outcome):
        raise Refused(region, outcome)


def _may_have_stored(error: StoreError) -> bool:
    # A script that failed may have run half-way.
    if isinstance(error, StoreContractBroken):
        return True
    return isinstance(error, StoreUnavailable) and error.sent


def _may_do_better(error: StoreError) -> bool:
    """Whether the same call may succeed soon: not on foreign data, or without a permission."""
    if isinstance(error, StoreUnavailable):
        return not error.failed
    return not isinstance(error, StoreFull | StoreContractBroken)


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(_MAX_PAUSE_S, pause_s * 2)
