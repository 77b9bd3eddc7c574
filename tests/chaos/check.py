"""Judging a run from outside: is every promise of docs/invariants.md kept? Pure.

What a fault may do is said in faults.EFFECTS; whatever else differs from the promise is a
violation. An extra start is excused only by a fault that interrupts runs and was in force, in the
region of the run that it repeats, at some moment between the two starts.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.chaos.faults import EFFECTS
from tests.chaos.history import End, History, Run, Struck, Told
from tests.chaos.load_plan import Kind

# What a primary that ends at once may forget of what it had answered: appendfsync everysec and
# asynchronous replication; docs/durability.md has the figures.
FORGETS_S: Final = 2.0
# Between a fault and the entry that says so, and between an answer and its entry.
SLACK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which invariant, what of, and what is wrong."""

    invariant: int
    number: int  # of the operation; -1: of none
    task_ids: frozenset[str]
    wrong: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All violations, and how much of what is allowed happened."""

    violations: tuple[Violation, ...]
    forgotten: int  # tasks that a primary forgot, within what its queue's durability allows
    repeated: int  # starts more than planned, each excused by a fault


def judge(history: History) -> Verdict:
    """Look for every kind of violation."""
    found = [violation for check in _CHECKS for violation in check(history)]
    return Verdict(
        tuple(found),
        forgotten=sum(1 for told in _gone(history) if _may_be_forgotten(history, told)),
        repeated=sum(1 for _, _, excused in _extra(history) if excused),
    )


def kept(history: History) -> Iterator[Violation]:
    """Invariant 1: what was accepted is there, and comes to its end."""
    for told in _gone(history):
        if not _may_be_forgotten(history, told):
            yield _of(1, told, "was accepted, and no router knows of it")
    for told in history.accepted():
        ends = history.ends.get(told.task_id, ())
        unsettled = {end.state for end in ends if end.state and not end.is_settled}
        if unsettled:
            yield _of(1, told, f"is still {', '.join(sorted(unsettled))} long after all is well")
        dead = {end.died_of for end in ends if end.died_of}
        fails = history.operations[told.number].kind in {Kind.BROKEN, Kind.FLAKY}
        if dead and not (fails and dead == {"exhausted"}):
            yield _of(1, told, f"is dead of {', '.join(sorted(dead))}, and has no reason to be")


def owned(history: History) -> Iterator[Violation]:
    """Invariant 2: one region has it, and every router finds the same."""
    numbers = _numbers(history)
    for task_id, regions in history.owners.items():
        if len(regions) > 1:
            wrong = f"is kept in {', '.join(sorted(regions))}"
            yield Violation(2, numbers.get(task_id, -1), frozenset({task_id}), wrong)
    for task_id, ends in history.ends.items():
        if len(set(ends)) > 1:
            wrong = f"routers differ: {'; '.join(map(_short, ends))}"
            yield Violation(2, numbers.get(task_id, -1), frozenset({task_id}), wrong)


def repeated(history: History) -> Iterator[Violation]:
    """Invariant 2: a task that only waited is started once."""
    for before, again, excused in _extra(history):
        if not excused:
            line = again.started
            wrong = (
                f"was started again in {line.region} though its run in {before.started.region} "
                f"{'was done' if before.ended == 'done' else 'went on'} and no fault was there"
            )
            yield Violation(2, line.number, frozenset({line.task_id}), wrong)


def one_result(history: History) -> Iterator[Violation]:
    """Invariant 3: the result is that of a run that came to its end, and never changes."""
    numbers = _numbers(history)
    for task_id, ends in history.ends.items():
        this = numbers.get(task_id, -1)
        for end in ends[:1]:
            first = history.first_seen.get(task_id)
            may_change = this >= 0 and _was_forgotten(history, task_id)
            if (
                first
                and end.state
                and not may_change
                and (first.state, first.result)
                != (
                    end.state,
                    end.result,
                )
            ):
                wrong = f"was {_short(first)}, and is {_short(end)}"
                yield Violation(3, this, frozenset({task_id}), wrong)
            if end.state == "COMPLETED" and not _is_a_runs(history, task_id, end):
                wrong = f"has the result {end.result}, which no run of it has"
                yield Violation(3, this, frozenset({task_id}), wrong)
            elif end.state == "COMPLETED" and _is_overtaken(history, task_id, end):
                wrong = f"has the result {end.result}, of a run that had lost it to a later one"
                yield Violation(3, this, frozenset({task_id}), wrong)


def fenced_tokens(history: History) -> Iterator[Violation]:
    """Invariant 3: whoever starts later has the greater token."""
    for task_id, runs in history.runs.items():
        for before, after in pairwise(runs):
            if after.started.token <= before.started.token and not _was_forgotten(history, task_id):
                wrong = f"token {after.started.token} after {before.started.token}"
                yield Violation(3, after.started.number, frozenset({task_id}), wrong)


def fenced(history: History) -> Iterator[Violation]:
    """Invariant 4: nothing of a fenced task is outside its fence."""
    for number, places in history.marks.items():
        if places:
            yield Violation(4, number, frozenset(), f"is found in {', '.join(places)}")


def once(history: History) -> Iterator[Violation]:
    """Invariant 5: a repeat gets the first task's id, and nothing runs beside it."""
    for operation in history.operations:
        if operation.again_s is None:
            continue
        told = [one for one in history.accepted() if one.number == operation.number]
        ids = frozenset(one.task_id for one in told)
        certain = [one for one in told if not one.is_doubtful]
        if len({one.task_id for one in certain}) > 1 and not any(
            _may_be_forgotten(history, one) for one in certain
        ):
            wrong = f"is {len(ids)} tasks for the same submit"
            yield Violation(5, operation.number, ids, wrong)


def refused(history: History) -> Iterator[Violation]:
    """Invariants 5 and 6: no task but those that clients were told of, or may have been."""
    ran: dict[int, set[str]] = {}
    for line in history.lines:
        ran.setdefault(line.number, set()).add(line.task_id)
    for number, ids in ran.items():
        told = [one for one in history.told if one.number == number and one.call != "cancel"]
        strangers = ids - {one.task_id for one in told}
        unknown = [one for one in told if not one.task_id and not one.is_nothing_kept]
        # Of an operation that was sent twice each may have had its own, if one was forgotten.
        if len(strangers) > len(unknown):
            yield Violation(6, number, frozenset(ids), "ran though its submit was refused")


def cancelled(history: History) -> Iterator[Violation]:
    """A task whose cancel was confirmed does nothing afterwards, and stays cancelled."""
    for told in history.told:
        if not told.is_cancelled:
            continue
        forgotten = _was_forgotten(history, told.task_id)
        late = [
            line
            for line in history.lines
            if line.task_id == told.task_id and line.at > told.told_at
        ]
        if late and not forgotten:
            yield _of(3, told, f"was cancelled, and wrote {late[0].event!r} afterwards")
        states = {end.state for end in history.ends.get(told.task_id, ())}
        if states - {"CANCELLED", ""} and not forgotten:
            yield _of(3, told, f"was cancelled, and is {', '.join(sorted(states))}")


def tidy(history: History) -> Iterator[Violation]:
    """Invariants 1 and 8: counts are right, and no key stays without an owner."""
    for region, what in history.untidy.items():
        if what:
            yield Violation(8, -1, frozenset(), f"{region}: {'; '.join(what)}")


_CHECKS: Final[tuple[Callable[[History], Iterator[Violation]], ...]] = (
    kept,
    owned,
    repeated,
    one_result,
    fenced_tokens,
    fenced,
    once,
    refused,
    cancelled,
    tidy,
)


def _gone(history: History) -> Iterator[Told]:
    """Accepted, and unknown to every router."""
    for told in history.accepted():
        ends = history.ends.get(told.task_id, ())
        if not any(end.state for end in ends):
            yield told


def _may_be_forgotten(history: History, told: Told) -> bool:
    """Whether a primary forgot it within what its queue's durability allows."""
    operation = history.operations[told.number]
    if operation.kind is Kind.SAFE and not told.is_unconfirmed:
        return False
    return _was_forgotten(history, told.task_id)


def _was_forgotten(history: History, task_id: str) -> bool:
    """Whether a primary ended at once just after something of it was written there."""
    written = [
        moment
        for told in history.told
        if told.task_id == task_id
        for moment in (told.asked_at, told.told_at)
    ]
    written += [
        moment
        for run in history.runs.get(task_id, ())
        for moment in (run.started.at, min(run.ended_at, run.started.at + FORGETS_S))
    ]
    return any(
        one.began_at - FORGETS_S <= moment <= one.ended_at + SLACK_S
        for one in history.struck
        if EFFECTS[one.strike.fault].forgets
        for moment in written
    )


def _extra(history: History) -> Iterator[tuple[Run, Run, bool]]:
    """Each start that repeats a run which had not failed: (that run, the start, is it excused)."""
    for runs in history.runs.values():
        for before, again in pairwise(runs):
            if before.ended == "failed":
                continue
            yield before, again, _is_excused(history, before, again)


def _is_excused(history: History, before: Run, again: Run) -> bool:
    return any(
        EFFECTS[one.strike.fault].interrupts and _touches(one, before.started.region)
        for one in history.between(before.started.at - SLACK_S, again.started.at)
    )


def _touches(one: Struck, region: str) -> bool:
    """Whether a fault is in a region, or of a link that one of its processes uses."""
    viewer, arrow, _ = one.what.partition(" -> ")
    return one.strike.region == region or (bool(arrow) and f"-{region}" in viewer)


def _is_a_runs(history: History, task_id: str, end: End) -> bool:
    """Whether a run has it: its own, or of a copy under one key the first one's: docs/dedup.md."""
    if _runs_with(history, task_id, end.result):
        return True
    number = _numbers(history).get(task_id, -1)
    is_copied = number >= 0 and history.operations[number].again_s is not None
    copies = {told.task_id for told in history.accepted() if told.number == number}
    return is_copied and any(_runs_with(history, copy, end.result) for copy in copies)


def _is_overtaken(history: History, task_id: str, end: End) -> bool:
    """Whether every run with that result had lost its task: another one was started after it.

    A later start has a greater token, and was only possible while no result was stored; from then
    on no earlier run may store one, whenever it was done. Only a primary that forgot the later
    start could have let it.
    """
    if _was_forgotten(history, task_id):
        return False
    runs = _runs_with(history, task_id, end.result)
    last = max((run.started.token for run in history.runs.get(task_id, ())), default=0)
    return bool(runs) and all(run.started.token < last for run in runs)


def _runs_with(history: History, task_id: str, result: str) -> list[Run]:
    return [
        run
        for run in history.runs.get(task_id, ())
        if run.ended == "done"
        and json.dumps([run.started.region, run.started.attempt, run.started.pid]) == result
    ]


def _numbers(history: History) -> Mapping[str, int]:
    found = {line.task_id: line.number for line in history.lines}
    return found | {told.task_id: told.number for told in history.told if told.task_id}


def _of(invariant: int, told: Told, wrong: str) -> Violation:
    return Violation(invariant, told.number, frozenset({told.task_id}), wrong)


def _short(end: End) -> str:
    return f"{end.state or 'unknown'} {end.region} {end.result}".strip()
