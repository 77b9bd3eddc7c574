"""What the tables look like on a terminal of a given width."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from tests.cli.conftest import TASK_ID, done_task, hostile_task
from tradewind.cli import dlq, overview, tasks
from tradewind.cli.explain import fence_text
from tradewind.cli.held import remedy_text
from tradewind.cli.route_sheet import route_sheet
from tradewind.cli.sheet import Column, Facts, Sheet
from tradewind.cli.show import task_json
from tradewind.client import QueueStatus, RegionStatus, Route, WorkerStatus
from tradewind.client.views import task_of
from tradewind.state import State
from tradewind.v1 import task_pb2
from tradewind.view import Candidate, FenceAuthors

DIED = datetime(2026, 3, 1, 23, 59, 59, 250_000, tzinfo=UTC)
WORKER_ID = "ap-south/worker-7c9f/12239/01469a3f"


def rendered(shown: object, width: int = 80) -> list[str]:
    out = io.StringIO()
    # As on a terminal, without its colours.
    Console(file=out, width=width, force_terminal=True, color_system=None, markup=False).print(
        shown
    )
    return out.getvalue().splitlines()


HERE = RegionStatus("eu-west", "ACTIVE", "HEALTHY", 2.0, 3.0, 7, 8, 2, 1, age_s=0.5)


def regions() -> Sheet:
    far = RegionStatus(
        "northamerica-east1", "DRAINING", "RECOVERING", 214.0, 7_200.0, 99_999, 1, 1, 1
    )
    near = RegionStatus("eu-west", "ACTIVE", "HEALTHY", None, None, 0, 1_000, 100, 1)
    return overview.regions_sheet([far, near])


def queues(**counts: int) -> Sheet:
    given: dict[str, Any] = dict.fromkeys(
        ("pending_high", "pending_normal", "pending_low", "pending", "scheduled"), 0
    )
    given |= dict.fromkeys(("processing", "failed", "moving", "dead"), 0) | counts
    return overview.queues_sheet(
        [QueueStatus("northamerica-east1", "thumbnails", **given, oldest_age_s=7_200, paused=True)]
    )


def workers() -> Sheet:
    handlers = tuple(f"orders.step-{number}" for number in range(12))
    worker = WorkerStatus(WORKER_ID, "ap-south", ("default",), handlers, 128, 100, DIED, "1")
    return overview.workers_sheet([worker])


def dead() -> Sheet:
    spec = task_pb2.TaskSpec(name="orders.reconcile.with-a-long-name", queue="reconciliation")
    state = task_pb2.TASK_STATE_DEAD_LETTER
    cause = task_pb2.TaskError(kind="exhausted", message="the relay refused " * 9)
    stays = "no other permitted region"
    task = done_task(spec=spec, state=state, error=cause, attempts=3, failover=stays)
    task.finished_at.FromDatetime(DIED)
    return dlq.dead_sheet([task_of(task)])


def hops() -> Sheet:
    task = done_task(region="northamerica-east1")
    task.created_at.FromDatetime(DIED - timedelta(days=1))
    task.hops[0].at.FromDatetime(DIED)
    task.hops[1].at.FromDatetime(DIED)
    task.finished_at.FromDatetime(DIED + timedelta(milliseconds=500))
    return tasks.hops_sheet(task_of(task))


def route() -> Sheet:
    return route_sheet(
        Route(
            "northamerica-east1",
            "spill",
            (
                Candidate("northamerica-east1", True, "", 214.4, 0.2, 118.0, 1.0),
                Candidate("eu-west", False, "no worker for handler", 0.0, 0.0, 0.0, 0.0),
            ),
            "",
            3,
            "abc",
        )
    )


WHOLE: dict[str, tuple[Sheet, tuple[str, ...]]] = {
    "regions": (regions(), ("northamerica-east1", "DRAINING", "RECOVERING", "99,999", "2.0 h")),
    "an idle queue": (queues(), ("northamerica-east1", "thumbnails (paused)", "2.0 h")),
    "a busy queue": (
        queues(pending_high=12_345, pending_low=1, scheduled=1, failed=1, moving=1, dead=1),
        ("northamerica-east1", "thumbnails (paused)", "12,345"),
    ),
    "workers": (workers(), (WORKER_ID, "ap-south", "100/128", "orders.step-11")),
    "dead tasks": (dead(), (TASK_ID, "eu-west", "exhausted at attempt 3", "stays: no other")),
    "hops": (hops(), ("us-east", "DEAD_LETTER", "COMPLETED", "exhausted")),
    "a route": (route(), ("northamerica-east1", "no worker for handler", "214 ms")),
}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(("shown", "kept"), list(WHOLE.values()), ids=list(WHOLE))
def test_what_people_copy_is_whole_at_any_width(
    shown: Sheet, kept: tuple[str, ...], width: int
) -> None:
    lines = rendered(shown, width)
    assert max(map(len, lines)) <= width
    for text in kept:
        assert any(text in line for line in lines), text
    assert "…" not in "".join(lines)


def test_zero_columns_give_way_as_far_as_needed_and_columns_with_numbers_stay() -> None:
    head, _rule, row = rendered(queues(pending_low=3))
    assert head.split() == ["region", "queue", "normal", "low", "running", "dead", "oldest"]
    assert row.split()[-6:] == ["0", "3", "0", "0", "2.0", "h"]


def test_where_there_is_room_zero_columns_stay() -> None:
    head, _rule, _row = rendered(queues(), 120)
    assert {"high", "low", "delayed", "retry", "moving"} <= set(head.split())


def test_a_dead_task_has_its_cause_and_why_it_stays_on_lines_of_their_own() -> None:
    lines = rendered(dead(), 120)
    assert lines[2].startswith(TASK_ID)
    assert lines[3].startswith("    exhausted at attempt 3: the relay refused")
    assert lines[-1] == "    stays: no other permitted region"


def test_each_stay_shows_when_it_began_and_ended() -> None:
    head, _rule, first, last = rendered(hops())
    arrived, ended = head.index("since"), head.index("until")
    day = DIED - timedelta(days=1)
    assert first[arrived:].startswith(f"{day.astimezone():%Y-%m-%d %H:%M:%S}")
    assert first[ended:] == f"{DIED.astimezone():%Y-%m-%d %H:%M:%S}"  # another day: with its date
    assert last[arrived:].startswith(f"{DIED.astimezone():%Y-%m-%d %H:%M:%S}")
    assert last[ended:] == f"{DIED.astimezone():%H:%M:%S}"


def test_the_end_of_a_stay_that_lasts_is_left_open() -> None:
    task = done_task(state=task_pb2.TASK_STATE_PROCESSING)
    task.created_at.FromDatetime(DIED)
    *_, last = rendered(tasks.hops_sheet(task_of(task)))
    assert last.endswith("-")


def test_each_stay_says_when_it_began_and_ended_to_programs_too() -> None:
    task = done_task()
    task.created_at.FromDatetime(DIED - timedelta(days=1))
    task.hops[0].at.FromDatetime(DIED)
    task.hops[1].at.FromDatetime(DIED)
    first, last = task_json(task_of(task))["hops"]
    assert (first["began_at"], first["ended_at"]) == (
        "2026-02-28T23:59:59.250000Z",
        "2026-03-01T23:59:59.250000Z",
    )
    assert (last["began_at"], last["ended_at"]) == (first["ended_at"], None)


def test_a_task_that_is_held_back_says_by_what_and_what_ends_it() -> None:
    text = "\n".join(rendered(tasks.facts(task_of(waiting("paused"))), 120))
    assert "waits     queue mail is paused, in every region; `tradewind resume mail`" in text
    text = "\n".join(rendered(tasks.facts(task_of(waiting("draining"))), 120))
    assert "waits     region eu-west is draining; nothing starts there until" in text


@pytest.mark.parametrize("pinned", [False, True])
def test_of_a_draining_region_only_what_holds_for_every_task_is_said(*, pinned: bool) -> None:
    said = remedy_text("draining", queue="mail", region="eu-west", pinned=pinned)
    assert said.startswith("nothing starts there until `tradewind activate eu-west`")
    assert ("`tradewind evacuate eu-west` moves what may go elsewhere" in said) is not pinned


HEALTHS: dict[str, tuple[dict[str, Any], str]] = {
    "well": ({}, "HEALTHY"),
    "out": ({"health": "DOWN", "reasons": ("down",)}, "DOWN"),
    "on trial": ({"health": "DOWN", "trial": True, "reasons": ("half-open",)}, "HALF_OPEN"),
    "out for long": ({"health": "DOWN", "reasons": ("kept out", "full")}, "KEPT_OUT"),
    "on its way back": ({"health": "RECOVERING"}, "RECOVERING"),
}


@pytest.mark.parametrize(("fields", "shown"), HEALTHS.values(), ids=HEALTHS)
def test_the_health_of_a_region_is_named_as_explain_has_it(
    fields: dict[str, Any], shown: str
) -> None:
    region = replace(HERE, **fields)
    assert overview.health_text(region) == shown
    assert rendered(overview.regions_sheet([region]))[2].split()[2] == shown


def test_what_is_known_of_a_region_that_is_silent_is_not_shown_as_if_it_held() -> None:
    down = replace(HERE, health="DOWN", age_s=95.0, reasons=("down", "wait over limit"))
    _head, _rule, row, below = rendered(overview.regions_sheet([down], ["eu-west"]))
    assert row.split()[-9:] == ["DOWN", "2.0", "ms", "-", "-", "-", "-", "95.0", "s"]
    assert below.strip() == "takes no new tasks: wait over limit"
    _head, _rule, row = rendered(overview.regions_sheet([HERE]))
    assert row.split()[-7:] == ["3.0", "s", "7", "8", "2", "500", "ms"]


NOTES: dict[str, tuple[dict[str, str], list[str]]] = {
    "what keeps all out": (
        {"backlog over limit": "170 of 198 ready tasks are paused or run by nobody"},
        ["takes no new tasks: backlog over limit (170 of 198 ready tasks are paused or run by no"],
    ),
    "what keeps some out, and why": (
        {"durability": "replica: no replica is connected"},
        ["takes no tasks of queues with durability replica: no replica is connected; see `tra"],
    ),
    "for how much longer it is out": (
        {"kept out": "it went down again and again; for 24 min more"},
        ["kept out (it went down again and again; for 24 min more)"],
    ),
    "nothing where nothing more is known of what the row shows": ({"down": ""}, []),
}


@pytest.mark.parametrize(("details", "notes"), NOTES.values(), ids=NOTES)
def test_under_a_region_stands_what_the_row_does_not_say(
    details: dict[str, str], notes: list[str]
) -> None:
    known = {reason: said for reason, said in details.items() if said}
    region = replace(HERE, reasons=tuple(details), details=known)
    below = rendered(overview.regions_sheet([region]), 200)[3:]
    assert [line.strip()[: len(note)] for line, note in zip(below, notes, strict=True)] == notes


def test_a_task_shows_when_with_date_and_zone() -> None:
    task = done_task()
    task.finished_at.FromDatetime(DIED)
    local = DIED.astimezone()
    text = "\n".join(rendered(tasks.facts(task_of(task))))
    assert f"{local:%Y-%m-%d %H:%M:%S}.250 {local:%Z}" in text


def test_hostile_text_is_harmless_on_a_terminal() -> None:
    state = task_pb2.TASK_STATE_DEAD_LETTER
    view = task_of(hostile_task(state=state))
    for shown in (tasks.facts(view), dlq.dead_sheet([view]), tasks.change(view)):
        text = "\n".join(rendered(shown, 200))
        assert "bad [/foo] list[int], [red]not[/red] ␛[31mred␇" in text
        assert not {"\x1b", "\x07", "\x9b"} & set(text)


def failed(kind: str, state: "task_pb2.TaskState.ValueType", **fields: Any) -> task_pb2.Task:
    error = task_pb2.TaskError(kind=kind, message="no such host\nat line 1")
    spec = task_pb2.TaskSpec(name="echo", max_attempts=3)
    return done_task(spec=spec, state=state, error=error, result=b"", **fields)


def waiting(why: str) -> task_pb2.Task:
    state = task_pb2.TASK_STATE_PENDING
    spec = task_pb2.TaskSpec(name="echo", queue="mail")
    return done_task(spec=spec, state=state, attempts=0, hops=[], waits_for=why)


CHANGES: dict[str, tuple[task_pb2.Task, str]] = {
    "a retry is announced": (
        failed("", task_pb2.TASK_STATE_FAILED, attempts=1),
        "FAILED       eu-west  attempt 1 of 3 failed: no such host; runs again at ",
    ),
    "an attempt that ran too long has a kind": (
        failed("timeout", task_pb2.TASK_STATE_FAILED, attempts=2),
        "FAILED       eu-west  timeout at attempt 2 of 3: no such host; runs again at ",
    ),
    "a running attempt says nothing of the last one": (
        failed("", task_pb2.TASK_STATE_PROCESSING, attempts=2),
        "PROCESSING   eu-west  attempt 2 of 3",
    ),
    "a death has its kind": (
        failed("exhausted", task_pb2.TASK_STATE_DEAD_LETTER, attempts=3),
        "DEAD_LETTER  eu-west  exhausted at attempt 3 of 3: no such host",
    ),
    "an end shows its result": (
        done_task(attempts=2),
        'COMPLETED    eu-west  attempt 2: {"said": "hi"}',
    ),
    "what only waits has no attempt": (
        done_task(state=task_pb2.TASK_STATE_PENDING, attempts=0, hops=[]),
        "PENDING      eu-west",
    ),
    "what has moved says from where and why": (
        done_task(state=task_pb2.TASK_STATE_PENDING, attempts=0),
        "PENDING      eu-west  from us-east (exhausted)",
    ),
    "what its queue holds back says so": (
        waiting("paused"),
        "PENDING      eu-west  waits: queue mail is paused, in every region",
    ),
    "what its region holds back says so": (
        waiting("draining"),
        "PENDING      eu-west  waits: region eu-west is draining",
    ),
    "what nobody runs says so": (
        waiting("no live worker"),
        "PENDING      eu-west  waits: no live worker: nothing in eu-west runs echo from queue mail",
    ),
}


@pytest.mark.parametrize(("task", "line"), list(CHANGES.values()), ids=list(CHANGES))
def test_each_change_of_a_watched_task_is_a_line(task: task_pb2.Task, line: str) -> None:
    view = task_of(task)
    if view.state is State.FAILED:
        task.next_attempt_at.FromDatetime(DIED)
        line += f"{DIED.astimezone():%H:%M:%S}"
    assert tasks.change(task_of(task)).plain.rstrip() == line


OUTSIDE = "outside the fence"
RULE = FenceAuthors("acme", ("eu", "apac"))
BOTH = replace(RULE, task_residency=("eu",))


def fenced(by: FenceAuthors, *fence: str) -> Route:
    candidate = Candidate("region-0", False, f"{OUTSIDE}: none is left", 0.0, 0.0, 0.0, 0.0)
    return Route("", "acme", (candidate,), "", 0, "abc", fence=fence, fence_by=by)


FENCES: dict[str, tuple[Route, str]] = {
    "a rule's": (fenced(RULE, "apac", "eu"), "The fence [apac, eu]: by rule acme."),
    "the task's": (
        fenced(FenceAuthors(task_residency=("us", "eu")), "eu", "us"),
        "The fence [eu, us]: by the task's own residency.",
    ),
    "of both": (
        fenced(BOTH, "eu"),
        "The fence [eu]: by rule acme [eu, apac] and the task's own residency [eu].",
    ),
    "of both, and nothing is left": (
        fenced(BOTH),
        "The fence: by rule acme [eu, apac] and the task's own residency [eu].",
    ),
    "with a pin": (
        fenced(replace(RULE, pin_region="eu-west"), "eu"),
        "The fence [eu]: by rule acme. Pinned to eu-west.",
    ),
    "there is none": (fenced(FenceAuthors()), ""),
    "there is none but a pin": (fenced(FenceAuthors(pin_region="eu-west")), "Pinned to eu-west."),
}


@pytest.mark.parametrize(("decided", "said"), list(FENCES.values()), ids=list(FENCES))
def test_explain_says_who_drew_the_fence(decided: Route, said: str) -> None:
    assert fence_text(decided) == said


def test_a_region_that_was_not_measured_has_a_dash_for_its_round_trip() -> None:
    *_, row = rendered(route_sheet(fenced(RULE)))
    assert row.split(maxsplit=6) == ["region-0", "-", "-", "-", "-", "-", OUTSIDE]


def test_free_text_is_folded_the_widest_first() -> None:
    shown = Sheet(Column("id"), Column("a", folds=True), Column("b", folds=True))
    shown.add("x" * 20, "words " * 10, "few words")
    lines = rendered(shown, 60)
    assert lines[2].startswith("x" * 20 + "  words words words")
    assert lines[2].endswith("few words")
    assert lines[3].startswith(" " * 22 + "words")


def test_a_terminal_that_is_too_narrow_gets_a_block_for_each_row() -> None:
    shown = Sheet(Column("id"), Column("size", right=True))
    shown.add("x" * 20, "5", below=["why"])
    assert rendered(shown, 22) == ["id    xxxxxxxxxxxxxxxx", "      xxxx", "size  5", "    why", ""]


def test_a_row_with_a_cell_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Sheet(Column("id")).add("a", "b")


def test_facts_leave_out_what_is_empty_and_fold_under_the_value() -> None:
    made = Facts()
    made.add("empty", "")
    made.add("unknown", None)
    made.add("error", "one two three four five six\nseven")
    assert rendered(made, 24) == [
        "error  one two three",
        "       four five six",
        "       seven",
    ]
