"""Errors name the flags that were typed, not the fields that they fill."""

import re
from datetime import timedelta
from pathlib import Path

import click
import pytest

from tests.cli.conftest import TASK_ID, Run
from tests.cli.test_real_router import tradewind
from tests.rpc import labour
from tests.rpc.running import running
from tradewind.cli import dlq, explain, submit, tasks
from tradewind.cli.flags import FLAGS, typed
from tradewind.cli.session import Duration
from tradewind.errors import IdempotencyKeyReused, InvalidTask, NoAnswer, OutcomeUnknown
from tradewind.fleet import Fleet
from tradewind.regions.units import duration_ms
from tradewind.v1 import admin_pb2, task_pb2

# What is no field of a task or a filter.
_NO_FIELD = {"source", "wait", "wait_timeout", "router", "as_json", "dry_run", "yes"}
# Fields that no flag fills: `--delay` says the same.
_NO_FLAG = {"not_before"}


def flags_of(command: click.Command) -> dict[str, set[str]]:
    return {each.name or "": set(each.opts) for each in command.params}


@pytest.mark.parametrize("command", [submit.submit, explain.explain], ids=["submit", "explain"])
def test_every_flag_that_fills_a_field_of_a_task_has_its_row(command: click.Command) -> None:
    flags = flags_of(command)
    for name in flags.keys() - _NO_FIELD - {"name", "payload"}:  # those two are arguments
        assert FLAGS[name] in flags[name], name
    fields = {field.name for field in task_pb2.TaskSpec.DESCRIPTOR.fields}
    assert fields - _NO_FLAG <= FLAGS.keys()
    given = {flag for opts in flags.values() for flag in opts}
    assert {FLAGS[name] for name in fields - _NO_FLAG - {"name", "payload"}} <= given


@pytest.mark.parametrize("command", [dlq.list_dead, dlq.redrive, dlq.purge], ids=lambda c: c.name)
def test_every_flag_that_fills_a_field_of_a_filter_has_its_row(command: click.Command) -> None:
    fields = {field.name for field in admin_pb2.DeadTaskFilter.DESCRIPTOR.fields}
    given = {flag for opts in flags_of(command).values() for flag in opts}
    for name in fields - {"task_ids"}:
        assert FLAGS[f"filter.{name}"] in given, name
    assert FLAGS["filter.task_ids"] == "ID"


def test_the_other_fields_that_a_question_has_are_named_by_their_flags() -> None:
    assert FLAGS["page_size"] in flags_of(dlq.list_dead)["limit"]
    assert FLAGS["page_token"] in flags_of(dlq.list_dead)["page_token"]
    for command in (tasks.get, tasks.watch, tasks.cancel):
        [argument] = [each for each in command.params if isinstance(each, click.Argument)]
        assert argument.metavar == FLAGS["task_id"]


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a region of dead tasks": (("dlq", "redrive", "--region", "mars"), "--region: 'mars'"),
    "a region of queues": (("queues", "--region", "mars"), "--region: 'mars'"),
    "a region of workers": (("workers", "--region", "mars"), "--region: 'mars'"),
    "a pin": (("submit", "x", "--region", "mars"), "--region: 'mars'"),
    "an origin": (("explain", "x", "--origin", "mars"), "--origin: 'mars'"),
    "a group": (("submit", "x", "--residency", "mars"), "--residency: 'mars'"),
    "a delay": (("submit", "x", "--delay", "31d"), "--delay: may be"),
    "an expiry": (("submit", "x", "--expires", "3000000d"), "--expires: "),
    "a limit": (("submit", "x", "--timeout", "3000000d"), "--timeout: may be"),
    "attempts": (("submit", "x", "--attempts", "99999"), "--attempts: is 99999"),
    "a key": (("submit", "x", "--key", "k" * 5_000), "--key: "),
    "a label": (("submit", "x", "--label", "a=" + "v" * 5_000), "--label: "),
    "a name": (("submit", "a b"), "NAME: may hold"),
    "an id": (("get", "foo"), "ID: 'foo' is not a task id"),
    "an id that is watched": (("watch", "foo"), "ID: 'foo' is not a task id"),
    "an id that is cancelled": (("cancel", "foo"), "ID: 'foo' is not a task id"),
    "ids of dead tasks": (("dlq", "purge", "foo"), "ID: holds a text that is not a task id"),
    "a region that is to be drained": (("drain", "mars"), "REGION: 'mars' is not a region"),
    "a region that is to be cordoned": (("cordon", "mars"), "REGION: 'mars'"),
    "a region that is to work again": (("activate", "mars"), "REGION: 'mars'"),
    "a region that is to be emptied": (("evacuate", "mars"), "REGION: 'mars'"),
    "a region that would be emptied": (("evacuate", "mars", "--dry-run"), "REGION: 'mars'"),
    "a queue that is to pause": (("pause", "a b"), "QUEUE: 'a b' is no name"),
    "a queue that is to go on": (("resume", "a b"), "QUEUE: 'a b' is no name"),
    "a reason": (("drain", "us-east", "--reason", "x" * 1_001), "--reason: has"),
    "a region of moves": (("moves", "list", "--region", "mars"), "--region: 'mars'"),
    "a move": (("moves", "retarget", "foo"), "ID: 'foo' is not a task id"),
    "a region of records": (("audit", "--region", "mars"), "--region: 'mars'"),
    "a place in a list": (("dlq", "list", "--page-token", "?"), "--page-token: is not"),
}
_WIRE = re.compile(r"[a-z]_[a-z]|filter\.|Task\b|Tasks\b|timedelta")


async def test_a_refusal_names_what_was_typed(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        for arguments, said in WRONG.values():
            assert await tradewind(run, serving, *arguments) == 2, arguments
            heard = capsys.readouterr().err.replace("next_page_token", "")
            *hints, error = heard.splitlines()
            assert error.startswith(f"Error: {said}"), heard
            assert all(hint.startswith("Hint: ") for hint in hints), heard
            assert not _WIRE.search(heard), heard


ADVICE = {
    "a key that is taken": IdempotencyKeyReused(TASK_ID),
    "no answer": NoAnswer("127.0.0.1:7070", 30.0, request_id="06fk"),
    "an unknown outcome": OutcomeUnknown(TASK_ID, deadline_passed=True),
}


@pytest.mark.parametrize("error", ADVICE.values(), ids=ADVICE)
def test_advice_names_flags(error: Exception) -> None:
    said = typed(error)
    assert not _WIRE.search(said)
    assert "--request-id" in said or "--idempotency-key" in said
    assert "=" not in said


def test_a_field_without_a_flag_keeps_its_name() -> None:
    assert typed(InvalidTask.field("not_before", "is wrong")) == "not_before: is wrong"


async def test_a_file_of_payloads_is_refused_in_flags_and_one_of_tasks_in_its_own_words(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    payloads, lines = tmp_path / "payloads.jsonl", tmp_path / "tasks.jsonl"
    payloads.write_text("{}\n")
    lines.write_text('{"name": "x", "pin_region": "mars"}\n')
    async with running(fleet) as serving:
        command = ("submit", "x", "--from", str(payloads), "--region", "mars")
        assert await tradewind(run, serving, *command) == 1
        assert "task 1: --region: 'mars'" in capsys.readouterr().err
        assert await tradewind(run, serving, "submit", "--from", str(lines)) == 1
        assert "task 1: pin_region: 'mars'" in capsys.readouterr().err


# --- durations


DURATIONS = ("250ms", "30s", "5m", "24h", "14d", "1.5h", "5 m", "-1s", "1w", "", "1e3s")


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_what_it_is_in_regions_yaml(text: str) -> None:
    try:
        expected = timedelta(milliseconds=duration_ms(text))
    except ValueError as error:
        such_as = str(error).removeprefix("must be a duration such as ")
        with pytest.raises(click.BadParameter, match=f"write {such_as}"):
            Duration().convert(text, None, None)
    else:
        assert Duration().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["999999999999d", "4000000d"])
def test_a_duration_beyond_what_can_be_sent_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is too long"):
        Duration().convert(text, None, None)


# --- names that are known to nobody


async def test_a_queue_that_nobody_knows_is_hinted_at_where_nothing_matched(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        await serving.staff()
        receipt = await serving.submit(queue="mail")
        await labour.bury(serving.stores[receipt.region], receipt.task_id, queue="mail")
        for command in (
            ("dlq", "redrive", "--yes"),
            ("dlq", "purge", "--yes"),
            ("dlq", "list"),
            ("queues",),
        ):
            assert await tradewind(run, serving, *command, "--queue", "nosuch") == 0
            heard = capsys.readouterr().err
            assert "Hint: no region holds tasks of a queue 'nosuch'" in heard, command
            assert "known are default, mail." in heard
            # Known: by a worker that serves it, or by a task that it held.
            for known in ("default", "mail"):
                others = () if command == ("queues",) else ("--older-than", "1h")
                if command == ("dlq", "list"):
                    others = ("--kind", "rejected")
                called = (*command, "--queue", known, *others)
                assert await tradewind(run, serving, *called) == 0
                assert "Hint" not in capsys.readouterr().err, called
