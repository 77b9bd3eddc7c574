from dataclasses import replace

import pytest

from tradewind.attempts.settle import (
    FAULT,
    CalledOff,
    Died,
    Failed,
    HandedBack,
    Rejected,
    RetryAsked,
    Success,
    Terms,
    TimedOut,
    Unkeepable,
    Unreadable,
    Verdict,
    after_fault,
    settle,
)
from tradewind.fleet import Backoff, Dedup, FailoverKind, QueueFailover, QueuePolicy, Retention
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    Crash,
    Failure,
    Finish,
    Priority,
    Release,
    RetryAt,
    Settlement,
)

CLAIM = Claim(
    task_id="t1",
    region="eu",
    partition=0,
    queue="mail",
    name="send",
    priority=Priority.NORMAL,
    token=7,
    epoch=1,
    attempt=1,
    crashes=0,
    packed=b"",
    hops=b"",
    created_ms=0,
    ready_ms=0,
    claimed_ms=0,
    hop_count=0,
)
LAST = CLAIM._replace(attempt=3)
MOVED = LAST._replace(hop_count=1)
POLICY = QueuePolicy(
    backoff=Backoff(initial_ms=1000, factor=2.0, max_ms=5000),
    retention=Retention(completed_ms=10, dead_ms=20),
    dedup=Dedup(window_ms=15),
    failover=QueueFailover(on=("exhausted", "timeout"), max_hops=1),
)
TERMS = Terms(attempts=3, timeout_ms=1000, move_after_ms=5)
ERROR, LATE, NO, BAD = (Failure(kind) for kind in ("error", "timeout", "rejected", "damaged"))
ASKED = Failure("error", "the handler asked for another attempt")

CASES: dict[str, tuple[Claim, Verdict, Terms, Settlement]] = {
    "success is recorded for its retention": (
        CLAIM,
        Success(b"1", "application/json"),
        TERMS,
        Finish(CLAIM, b"1", "application/json", 10),
    ),
    "a deduplicated result outlives the window": (
        CLAIM,
        Success(b"1", "application/json"),
        replace(TERMS, deduplicated=True),
        Finish(CLAIM, b"1", "application/json", 15),
    ),
    "a result outlives the repeats of its submit": (
        CLAIM,
        Success(b"1", "application/json"),
        replace(TERMS, by_request=True),
        Finish(CLAIM, b"1", "application/json", 900_000),
    ),
    "a death of its process is counted by the store": (
        CLAIM,
        Died("it exited"),
        TERMS,
        Crash(
            CLAIM,
            "it exited",
            20,
            may_move=False,
            failover="failover.on of queue mail does not list crashed",
        ),
    ),
    "one that is pinned stays, whatever the file moves": (
        CLAIM,
        Died("it exited"),
        replace(TERMS, pinned_to="eu", deduplicated=True),
        Crash(CLAIM, "it exited", 20, may_move=False, failover="pinned to region eu"),
    ),
    "a failure with attempts left waits": (CLAIM, Failed(ERROR), TERMS, RetryAt(CLAIM, 500, ERROR)),
    "the wait doubles": (
        CLAIM._replace(attempt=2),
        Failed(ERROR),
        TERMS,
        RetryAt(CLAIM._replace(attempt=2), 1000, ERROR),
    ),
    "a time-out with attempts left waits": (
        CLAIM,
        TimedOut(LATE),
        TERMS,
        RetryAt(CLAIM, 500, LATE),
    ),
    "a handler's own wait is a floor": (
        CLAIM,
        RetryAsked(60_000),
        TERMS,
        RetryAt(CLAIM, 60_000, ASKED),
    ),
    "a short wait that a handler asks for does not undercut the backoff": (
        CLAIM,
        RetryAsked(1),
        TERMS,
        RetryAt(CLAIM, 500, ASKED),
    ),
    "the last failure is a death of exhaustion": (
        LAST,
        Failed(ERROR),
        TERMS,
        Bury(LAST, "exhausted", ERROR, 20, may_move=True, move_after_ms=5),
    ),
    "a last attempt that timed out is a death of time": (
        LAST,
        TimedOut(LATE),
        TERMS,
        Bury(LAST, "timeout", LATE, 20, may_move=True, move_after_ms=5),
    ),
    "asking for more than there is exhausts": (
        LAST,
        RetryAsked(0),
        TERMS,
        Bury(LAST, "exhausted", ASKED, 20, may_move=True, move_after_ms=5),
    ),
    "a rejected task dies at once and stays": (
        CLAIM,
        Rejected(NO),
        TERMS,
        Bury(
            CLAIM,
            "rejected",
            NO,
            20,
            may_move=False,
            failover="failover.on of queue mail does not list rejected",
        ),
    ),
    "a damaged task dies at once and stays": (
        CLAIM,
        Unreadable(BAD),
        TERMS,
        Bury(
            CLAIM,
            "damaged",
            BAD,
            20,
            may_move=False,
            failover="failover.on of queue mail does not list damaged",
        ),
    ),
    "a pinned task stays": (
        LAST,
        Failed(ERROR),
        replace(TERMS, pinned_to="eu"),
        Bury(LAST, "exhausted", ERROR, 20, may_move=False, failover="pinned to region eu"),
    ),
    "a task that has moved often enough stays": (
        MOVED,
        Failed(ERROR),
        TERMS,
        Bury(
            MOVED,
            "exhausted",
            ERROR,
            20,
            may_move=False,
            failover="moved once, failover.max_hops is 1",
        ),
    ),
    "a task that has moved more often says how often": (
        LAST._replace(hop_count=2),
        Failed(ERROR),
        TERMS,
        Bury(
            LAST._replace(hop_count=2),
            "exhausted",
            ERROR,
            20,
            may_move=False,
            failover="moved 2 times, failover.max_hops is 1",
        ),
    ),
    "what was not started is handed back": (CLAIM, HandedBack(), TERMS, Release(CLAIM)),
    "what was called off is cancelled, also at its last attempt": (
        LAST,
        CalledOff(),
        TERMS,
        Cancel(LAST, 10),
    ),
    "a deduplicated cancel outlives the window": (
        CLAIM,
        CalledOff(),
        replace(TERMS, deduplicated=True),
        Cancel(CLAIM, 15),
    ),
}


@pytest.mark.parametrize(("claim", "verdict", "terms", "expected"), CASES.values(), ids=CASES)
def test_settle(claim: Claim, verdict: Verdict, terms: Terms, expected: Settlement) -> None:
    assert settle(claim, verdict, POLICY, terms, jitter=0.0) == expected


@pytest.mark.parametrize("on", [("exhausted",), ("rejected",)])
def test_a_result_that_cannot_be_kept_is_a_death_at_once_wherever_the_file_moves_rejected_tasks(
    on: tuple[FailoverKind, ...],
) -> None:
    policy = replace(POLICY, failover=QueueFailover(on=on, max_hops=1))
    large = Failure("result-too-large")
    why = "its handler has run, only the result could not be kept"
    expected = Bury(CLAIM, "rejected", large, 20, may_move=False, failover=why)
    assert settle(CLAIM, Unkeepable(large), policy, TERMS, jitter=0.0) == expected


def test_a_handlers_reason_for_another_attempt_is_kept() -> None:
    settlement = settle(LAST, RetryAsked(0, "no stock yet"), POLICY, TERMS, jitter=0.0)
    assert isinstance(settlement, Bury)
    message = "the handler asked for another attempt: no stock yet"
    assert settlement.failure == Failure("error", message)


def test_a_rejected_task_moves_where_the_file_says_so() -> None:
    policy = replace(POLICY, failover=QueueFailover(on=("rejected",), max_hops=1))
    settlement = settle(CLAIM, Rejected(NO), policy, TERMS, jitter=0.0)
    assert isinstance(settlement, Bury)
    assert settlement.may_move


def test_a_fault_of_the_worker_uses_an_attempt_and_kills_after_the_last() -> None:
    deduplicated = replace(TERMS, deduplicated=True)
    long = replace(POLICY, dedup=Dedup(window_ms=99))
    assert [after_fault(c, long, deduplicated) for c in (CLAIM, LAST)] == [
        RetryAt(CLAIM, 1000, FAULT),
        Bury(LAST, "exhausted", FAULT, 99, may_move=False, failover="the worker failed at it"),
    ]


def test_what_crashed_too_often_moves_where_the_file_says_so() -> None:
    on: tuple[FailoverKind, ...] = ("crashed",)
    policy = replace(POLICY, failover=QueueFailover(on=on, max_hops=1))
    crash = Crash(CLAIM, "it exited", 20, may_move=True, move_after_ms=5)
    assert settle(CLAIM, Died("it exited"), policy, TERMS, jitter=0) == crash
