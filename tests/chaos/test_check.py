"""The checker sees every kind of broken promise, and calls nothing broken that is allowed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.chaos.check import judge
from tests.chaos.faults import Fault, Strike
from tests.chaos.history import End, History, Line, Struck, Told
from tests.chaos.load_plan import Kind, Operation

A, B = "task-a", "task-b"
EU, US = "eu-west", "us-east"
DONE = End("COMPLETED", EU, '["eu-west", 1, 7]', is_settled=True)


def operation(kind: Kind = Kind.PLAIN, **more: Any) -> Operation:
    return Operation(0, 0.0, kind, 0, EU, 0.1, **more)


def told(task_id: str = A, call: str = "submit", at: float = 10.0, **more: Any) -> Told:
    return Told(0, call, at, at + 0.1, task_id=task_id, region=EU if task_id else "", **more)


def line(event: str, at: float, task_id: str = A, **more: Any) -> Line:
    facts: dict[str, Any] = {"attempt": 1, "token": 100, "region": EU, "pid": 7, **more}
    return Line(event, 0, task_id, at=at, **facts)


def ran(start: float, end: float = 0.0, event: str = "done", **more: Any) -> list[Line]:
    """A run; without an end nobody heard of it any more."""
    lines = [line("start", start, **more)]
    return [*lines, line(event, end, **more)] if end else lines


def struck(fault: Fault, began: float, ended: float, region: str = EU, what: str = "") -> Struck:
    return Struck(Strike(0, fault, region, 0.0, ended - began, 0.0), began, ended, what)


def history(
    lines: Sequence[Line] = (),
    answers: Sequence[Told] = (told(),),
    ends: Mapping[str, Sequence[End]] | None = None,
    operations: Sequence[Operation] = (operation(),),
    faults: Sequence[Struck] = (),
    **more: Any,
) -> History:
    given: dict[str, Any] = {
        "first_seen": {},
        "owners": {A: [EU]},
        "marks": {},
        "untidy": {},
        **more,
    }
    found = {A: (DONE, DONE)} if ends is None else ends
    return History(operations, answers, lines, faults, found, **given)


ONCE = ran(11.0, 11.1)
AGAIN = [*ran(11.0), *ran(15.0, 15.1, token=200)]
GONE: Mapping[str, Sequence[End]] = {A: (End(""), End(""))}
KILLED = struck(Fault.KILL_PRIMARY, 10.5, 14.0)

ALLOWED: dict[str, History] = {
    "a task that runs once": history(ONCE),
    "a start after the worker was killed": history(
        AGAIN, faults=[struck(Fault.KILL_WORKER, 12.0, 13.0)]
    ),
    "a start after the way to its region went silent": history(
        AGAIN, faults=[struck(Fault.SILENT_LINK, 12.0, 13.0, US, "worker-eu-west-0 -> us-east")]
    ),
    "attempts after failures": history(
        [*ran(11.0, 11.1, "failed"), *ran(12.0, 12.1, token=101)],
        operations=[operation(Kind.FLAKY, fails=1)],
    ),
    "a dead task that always fails": history(
        ran(11.0, 11.1, "failed"),
        operations=[operation(Kind.BROKEN, broken_in=EU)],
        ends={A: (End("DEAD_LETTER", EU, is_settled=True, died_of="exhausted"),) * 2},
    ),
    "a primary that forgot what it had just answered": history(ends=GONE, faults=[KILLED]),
    "a task that the queue keeps on a replica, and was told of as unconfirmed": history(
        answers=[told(is_unconfirmed=True)],
        operations=[operation(Kind.SAFE)],
        ends=GONE,
        faults=[KILLED],
    ),
    "a repeat that gets the first id": history(
        ONCE, [told(), told(call="again", at=12.0)], operations=[operation(Kind.KEYED, again_s=1)]
    ),
    "a repeat that was said to be doubtful": history(
        [*ONCE, *ran(12.5, 12.6, task_id=B)],
        [told(), told(B, "again", 12.0, is_doubtful=True)],
        operations=[operation(Kind.KEYED, again_s=1)],
        ends={A: (DONE, DONE), B: (DONE, DONE)},
    ),
    "a task of a submit whose outcome is unknown": history(
        ONCE, [told("", error="OUTCOME_UNKNOWN")], ends={}
    ),
    "a confirmed cancel of what had run before": history(
        ran(11.0),
        [told(), told(call="cancel", at=12.0, is_cancelled=True)],
        ends={A: (End("CANCELLED", EU, is_settled=True),) * 2},
    ),
    "a copy under the same key that got the first one's result and did not run": history(
        ONCE,
        [told(), told(B, "again", is_doubtful=True)],
        ends={A: (DONE, DONE), B: (DONE, DONE)},
        operations=[operation(Kind.KEYED, again_s=5.0)],
    ),
    "a result that was overtaken where the claim was forgotten": history(
        [*ran(11.0, 16.0), *ran(15.0, token=200)], faults=[KILLED]
    ),
}

BROKEN: dict[str, tuple[int, History]] = {
    "an accepted task that nobody knows": (1, history(ends=GONE)),
    "one that its primary forgot long after its answer": (
        1,
        history(ends=GONE, faults=[struck(Fault.KILL_PRIMARY, 60.0, 64.0)]),
    ),
    "one that a replica should have kept": (
        1,
        history(operations=[operation(Kind.SAFE)], ends=GONE, faults=[KILLED]),
    ),
    "one that a failover on request forgot": (
        1,
        history(ends=GONE, faults=[struck(Fault.FAILOVER, 10.0, 10.5)]),
    ),
    "a task that never comes to rest": (1, history(ends={A: (End("PENDING", EU),) * 2})),
    "a dead task that never failed": (
        1,
        history(ends={A: (End("DEAD_LETTER", EU, is_settled=True, died_of="damaged"),) * 2}),
    ),
    "a task that two regions have": (2, history(ONCE, owners={A: [EU, US]})),
    "routers that differ": (2, history(ONCE, ends={A: (DONE, End("PENDING", US))})),
    "a second start without any fault": (2, history(AGAIN)),
    "a second start with a fault in another region": (
        2,
        history(AGAIN, faults=[struck(Fault.KILL_WORKER, 12.0, 13.0, US)]),
    ),
    "a second start with a fault that ended before the first": (
        2,
        history(AGAIN, faults=[struck(Fault.KILL_WORKER, 8.0, 10.0)]),
    ),
    "a second start beside a fault that interrupts nothing": (
        2,
        history(AGAIN, faults=[struck(Fault.RESHARD, 12.0, 13.0)]),
    ),
    "a second start of what was done": (
        2,
        history([*ONCE, *ran(15.0, 15.1, token=200)]),
    ),
    "a result of another task, that no key joins": (
        3,
        history(ONCE, [told(), told(B, "again")], ends={A: (DONE, DONE), B: (DONE, DONE)}),
    ),
    "a result that no run has": (3, history(ran(11.0, 11.1, pid=8))),
    "a result of a run that had lost its task": (
        3,
        history(
            [*ran(11.0, 16.0), *ran(15.0, token=200)],
            faults=[struck(Fault.PAUSE_WORKER, 11.5, 15.5)],
        ),
    ),
    "a result that was ready in time, and was told after the next run had begun": (
        3,
        history(
            [*ran(11.0, 11.5), *ran(18.0, 18.1, token=200, pid=8)],
            faults=[struck(Fault.SILENT_LINK, 11.2, 19.0)],
        ),
    ),
    "a state that changes after the end": (
        3,
        history(ONCE, first_seen={A: End("EXPIRED", EU, is_settled=True)}),
    ),
    "a token that goes backwards": (
        3,
        history(
            [*ran(11.0), *ran(15.0, 15.1, token=99)],
            faults=[struck(Fault.KILL_WORKER, 12.0, 13.0)],
        ),
    ),
    "work after a confirmed cancel": (
        3,
        history(
            ran(11.0, 13.0),
            [told(), told(call="cancel", at=12.0, is_cancelled=True)],
            ends={A: (End("CANCELLED", EU, is_settled=True),) * 2},
        ),
    ),
    "a confirmed cancel of what completed": (
        3,
        history(ONCE, [told(), told(call="cancel", at=12.0, is_cancelled=True)]),
    ),
    "a mark outside its fence": (4, history(ONCE, marks={0: ["a log"]})),
    "a repeat that makes a second task": (
        5,
        history(
            [*ONCE, *ran(12.5, 12.6, task_id=B)],
            [told(), told(B, "again", 12.0)],
            operations=[operation(Kind.KEYED, again_s=1)],
            ends={A: (DONE, DONE), B: (DONE, DONE)},
        ),
    ),
    "a task of a refused submit": (
        6,
        history(ONCE, [told("", error="REGIONS_FULL", is_nothing_kept=True)], ends={}),
    ),
    "a second task of one submit": (6, history([*ONCE, *ran(12.5, 12.6, task_id=B)])),
    "a key without an owner": (8, history(ONCE, untidy={EU: ["tw:{0}:t:x has no owner"]})),
}


@pytest.mark.parametrize("seen", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_is_no_violation(seen: History) -> None:
    assert judge(seen).violations == ()


@pytest.mark.parametrize(("invariant", "seen"), BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_seen(invariant: int, seen: History) -> None:
    assert invariant in {one.invariant for one in judge(seen).violations}


def test_a_violation_is_told_by_all_that_concerns_it_in_order() -> None:
    seen = history(AGAIN, faults=[struck(Fault.RESHARD, 12.0, 13.0, what="5 slots")])
    (violation,) = judge(seen).violations
    story = [text.split(" s  ", 1)[1] for text in seen.story(0, violation.task_ids)]
    assert story == [
        "submit #0 asked",
        f"submit #0 told {A} {EU}",
        f"start {A} attempt 1 in {EU}, pid 7, token 100",
        "reshard: 5 slots begins",
        "reshard: 5 slots is over",
        f"start {A} attempt 1 in {EU}, pid 7, token 200",
        f"done {A} attempt 1 in {EU}, pid 7, token 200",
    ]
