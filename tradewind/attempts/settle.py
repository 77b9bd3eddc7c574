"""What becomes of a task after an attempt: a pure function of the verdict and the terms.

Decided here, carried out by the loop. Reads no clock and rolls no dice: jitter comes in.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tradewind.backoff import delay_ms
from tradewind.fleet import QueuePolicy
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    Crash,
    DeathKind,
    Failure,
    Finish,
    Release,
    RetryAt,
    Settlement,
)

_HAS_RUN: Final = "its handler has run, only the result could not be kept"
#: In the place of whatever went wrong in the worker itself: the log says more.
FAULT: Final = Failure("error", "internal error of the worker; its log says where")
_UNSENDABLE: Final = Failure("error", "internal error of the worker: the report could not be sent")


class Success(NamedTuple):
    """The handler returned. A tuple, since it is made for nearly every task."""

    result: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The attempt ran past its limit."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Rejected:
    """The handler, or the check of its arguments, says that no attempt can succeed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Unkeepable:
    """The handler has done its work, but what it returned cannot be stored.

    Running it again, here or elsewhere, would repeat the effect and end the same way.
    """

    failure: Failure


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """The handler asked for another attempt, no sooner than `after_ms`."""

    after_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The stored task cannot be read: no handler can be given to it."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Not started, or interrupted by the end of the worker: somebody else is to run it."""


@dataclass(frozen=True, slots=True)
class CalledOff:
    """The handler has stopped, since the task's cancel was asked for."""


@dataclass(frozen=True, slots=True)
class Died:
    """The child process that ran the attempt has ended without a report, and nobody ended it."""

    how: str


Verdict = (
    Success
    | Failed
    | TimedOut
    | Rejected
    | Unkeepable
    | RetryAsked
    | Unreadable
    | HandedBack
    | CalledOff
    | Died
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for one task: its own wishes over its handler's, those over its queue's."""

    attempts: int
    timeout_ms: int
    pinned_to: str = ""  # region; a pinned task is never moved
    deduplicated: bool = False  # by key or payload: its record outlives the dedup window
    by_request: bool = False  # it has a request_id: its record outlives the repeats of its submit
    move_after_ms: int = 0  # regions.yaml failover.dead_after


def settle(
    claim: Claim, verdict: Verdict, policy: QueuePolicy, terms: Terms, *, jitter: float
) -> Settlement:
    """Decide how the attempt `claim` stands for ends. `jitter` is in [0, 1), see backoff."""
    match verdict:
        case Success(result, content_type):
            retention_ms = _at_least_window(policy.retention.completed_ms, policy, terms)
            return Finish(claim, result, content_type, retention_ms)
        case HandedBack():
            return Release(claim)
        case CalledOff():
            return Cancel(claim, _at_least_window(policy.retention.completed_ms, policy, terms))
        case Died(how):
            return _crash(claim, how, policy, terms)
        case Rejected(failure) | Unkeepable(failure) | Unreadable(failure):
            kind = "damaged" if isinstance(verdict, Unreadable) else "rejected"
            why_not = _HAS_RUN if isinstance(verdict, Unkeepable) else ""
            return _bury(claim, kind, failure, policy, terms, why_not=why_not)
        case TimedOut() | Failed() | RetryAsked():
            return _again(claim, verdict, policy, terms, jitter=jitter)


def after_fault(claim: Claim, policy: QueuePolicy, terms: Terms) -> RetryAt | Bury:
    """A failed attempt, where `settle` itself failed: decided without it."""
    if claim.attempt < terms.attempts:
        return RetryAt(claim, policy.backoff.initial_ms, FAULT)
    kept_ms = _at_least_window(policy.retention.dead_ms, policy, terms)
    return Bury(
        claim, "exhausted", FAULT, kept_ms, may_move=False, failover="the worker failed at it"
    )


def in_our_words(settlement: Settlement, policy: QueuePolicy) -> Settlement | None:
    """The same end without a text or result of the app, for one that cannot be sent as it is.

    None if there is nothing left to leave out.
    """
    match settlement:
        case Finish(claim, retention_ms=kept_ms):
            kept_ms = max(kept_ms, policy.retention.dead_ms)
            return Bury(claim, "rejected", _UNSENDABLE, kept_ms, may_move=False, failover=_HAS_RUN)
        case RetryAt(claim, wait_ms, failure) if failure is not _UNSENDABLE:
            return RetryAt(claim, wait_ms, _UNSENDABLE)
        case Bury(failure=failure) if failure is not _UNSENDABLE:
            return replace(settlement, failure=_UNSENDABLE)
        case _:
            return None


def _again(
    claim: Claim,
    verdict: TimedOut | Failed | RetryAsked,
    policy: QueuePolicy,
    terms: Terms,
    *,
    jitter: float,
) -> RetryAt | Bury:
    """Another attempt if one is left, else dead of what the last one ended with."""
    floor_ms = 0
    if isinstance(verdict, RetryAsked):
        asked, floor_ms = "the handler asked for another attempt", verdict.after_ms
        failure = Failure("error", f"{asked}: {verdict.reason}" if verdict.reason else asked)
    else:
        failure = verdict.failure
    if claim.attempt >= terms.attempts:
        kind = "timeout" if isinstance(verdict, TimedOut) else "exhausted"
        return _bury(claim, kind, failure, policy, terms)
    wait_ms = delay_ms(
        claim.attempt,
        initial_ms=policy.backoff.initial_ms,
        factor=policy.backoff.factor,
        max_ms=policy.backoff.max_ms,
        jitter=jitter,
        floor_ms=floor_ms,
    )
    return RetryAt(claim, wait_ms, failure)


def _bury(
    claim: Claim,
    kind: DeathKind,
    failure: Failure,
    policy: QueuePolicy,
    terms: Terms,
    *,
    why_not: str = "",
) -> Bury:
    why_not = why_not or _why_it_stays(claim, kind, policy, terms)
    return Bury(
        claim,
        kind,
        failure,
        retention_ms=_at_least_window(policy.retention.dead_ms, policy, terms),
        may_move=not why_not,
        move_after_ms=0 if why_not else terms.move_after_ms,
        failover=why_not,
    )


def _crash(claim: Claim, how: str, policy: QueuePolicy, terms: Terms) -> Crash:
    """The store counts it, and knows whether it is one too many."""
    why_not = _why_it_stays(claim, "crashed", policy, terms)
    return Crash(
        claim,
        how,
        retention_ms=_at_least_window(policy.retention.dead_ms, policy, terms),
        may_move=not why_not,
        move_after_ms=0 if why_not else terms.move_after_ms,
        failover=why_not,
    )


def _why_it_stays(claim: Claim, kind: DeathKind, policy: QueuePolicy, terms: Terms) -> str:
    """Why no courier is to look at it; empty if one is."""
    failover = policy.failover
    if terms.pinned_to:
        return f"pinned to region {terms.pinned_to}"
    if kind not in failover.on:
        return f"failover.on of queue {claim.queue} does not list {kind}"
    if claim.hop_count >= failover.max_hops:
        moves = "once" if claim.hop_count == 1 else f"{claim.hop_count} times"
        return f"moved {moves}, failover.max_hops is {failover.max_hops}"
    return ""


def _at_least_window(retention_ms: int, policy: QueuePolicy, terms: Terms) -> int:
    """A ledger entry must not outlive the task that it points to (docs/dedup.md, Window)."""
    if terms.deduplicated:
        return max(retention_ms, policy.dedup.window_ms)
    return max(retention_ms, REQUEST_ID_WINDOW_MS) if terms.by_request else retention_ms
