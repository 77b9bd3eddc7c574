"""What a worker's log says of tasks: never a message of the app, which may quote a payload."""

import logging
from typing import Final

from tradewind.attempts.describe import name_of, where
from tradewind.task import Bury, Claim, Crash, RetryAt, Settlement
from worker.run import Ran

_log = logging.getLogger(__name__)
GOES_ON: Final = (
    "a handler runs on although it was told to stop: another attempt may run beside it, and its "
    "slot stays taken until it ends"
)
STUCK: Final = (
    "a handler runs on past its time limit; its slot stays taken, and the task waits, until it "
    "ends (isolate=True makes a process of it that can be killed)"
)
_DEAD: Final = "task failed and is dead-lettered"


def tell_failure(settlement: Settlement, ran: Ran, took_s: float) -> None:
    """One line for an attempt that failed."""
    if isinstance(settlement, Crash):
        tell(
            settlement.claim,
            "a handler's process died",
            how=settlement.message,
            took_s=round(took_s, 3),
        )
    if not isinstance(settlement, RetryAt | Bury):
        return
    is_dead = isinstance(settlement, Bury)
    tell(
        settlement.claim,
        _DEAD if is_dead else "an attempt failed and will be repeated",
        kind=settlement.failure.kind,
        error=ran.error,
        where=ran.where,
        took_s=round(took_s, 3),
    )


def tell_crash(settlement: Crash, outcome: str) -> None:
    """What became of the task: the store counts its crashes."""
    claim = settlement.claim
    crashes = claim.crashes + (not claim.suspect)  # of a suspect it was booked
    if outcome == "dead":
        how = settlement.message
        tell(claim, _DEAD, kind="crashed", crashes=crashes, how=how)
    elif outcome == "retried":
        tell(claim, "a task that crashed goes on as a suspect", crashes=crashes)


def tell_fault(claim: Claim, error: BaseException) -> None:
    """An error that is ours, at a task."""
    marks = {"task_id": claim.task_id, "error": name_of(error), "where": where(error)}
    _log.error("the worker failed at a task; the attempt counts as failed", extra=marks)


def tell(claim: Claim, what: str, **more: str | float) -> None:
    """Say `what` of a task, and `more` beside it."""
    extra = {"task_id": claim.task_id, "task": claim.name, "attempt": claim.attempt, **more}
    _log.warning(what, extra=extra)
