"""How a failure is told: in a list of dead tasks, of a task, and of one that is watched."""

import json
from datetime import datetime
from typing import Any

import pytest

from tests.cli.conftest import TASK_ID, Run, done_task
from tests.cli.test_real_router import buried, tradewind
from tests.cli.test_sheets import rendered
from tests.rpc.running import running
from tradewind.cli import tasks
from tradewind.client.views import TaskView, task_of
from tradewind.fleet import Fleet
from tradewind.v1 import task_pb2

DEAD, PENDING = task_pb2.TASK_STATE_DEAD_LETTER, task_pb2.TASK_STATE_PENDING
FAILED, MOVING = task_pb2.TASK_STATE_FAILED, task_pb2.TASK_STATE_MOVING


def failed(kind: str, state: task_pb2.TaskState = DEAD, **fields: Any) -> TaskView:
    error = task_pb2.TaskError(kind=kind, message="boom")
    given = {"attempts": 0, "state": state, "error": error, "result": b""} | fields
    return task_of(done_task(**given))


TOLD: dict[str, tuple[TaskView, str]] = {
    "crashes use no attempt": (failed("crashed", crashes=3), "crashed after 3 crashes: boom"),
    "one crash": (failed("crashed", PENDING, crashes=1), "crashed after 1 crash: boom"),
    "crashes after attempts": (
        failed("crashed", crashes=3, attempts=2),
        "crashed after 3 crashes: boom",
    ),
    "attempts": (failed("exhausted", attempts=5), "exhausted at attempt 5: boom"),
    "an attempt of a task that lives": (failed("", FAILED, attempts=1), "attempt 1 failed: boom"),
    "never tried": (failed("damaged"), "damaged: boom"),
    "on its way": (failed("crashed", MOVING, crashes=3), "crashed after 3 crashes: boom"),
}


@pytest.mark.parametrize(("view", "told"), TOLD.values(), ids=TOLD)
def test_a_failure_names_what_was_used_up(view: TaskView, told: str) -> None:
    assert tasks.failure_text(view) == told
    assert told in tasks.change(view).plain  # what `watch` prints


def test_a_redriven_task_is_not_told_by_the_failure_of_its_life_before() -> None:
    assert "boom" not in tasks.change(failed("", PENDING)).plain


def test_get_counts_crashes_beside_attempts() -> None:
    facts = rendered(tasks.facts(failed("crashed", crashes=3)))
    assert ["attempts", "0,", "and", "3", "crashes"] in [line.split() for line in facts]


async def test_what_a_submit_did_not_say_is_null(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        silent = (await serving.submit()).task_id
        said = (await serving.submit(max_attempts=3)).task_id
        assert await tradewind(run, serving, "get", silent, "--json") == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["timeout"], shown["max_attempts"]) == (None, None)
        assert await tradewind(run, serving, "get", said, "--json") == 0
        assert json.loads(capsys.readouterr().out)["max_attempts"] == 3
    assert run("get", "--help") == 0
    assert "those of the handler" in " ".join(capsys.readouterr().out.split())


async def test_a_list_of_dead_tasks_is_oldest_first_and_goes_on_by_its_token(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        regions = list(fleet.regions)
        for number in range(7):
            await buried(serving, pin_region=regions[-1 - number % 3])

        assert await tradewind(run, serving, "dlq", "list", "--json") == 0
        everything = json.loads(capsys.readouterr().out)["tasks"]
        deaths = [
            (datetime.fromisoformat(task["finished_at"]), task["task_id"]) for task in everything
        ]
        assert deaths == sorted(deaths)
        assert await tradewind(run, serving, "dlq", "list", "--limit", "4") == 0
        page = capsys.readouterr()
        assert "4 of 7 dead tasks" in page.out
        token = page.err.rpartition("--page-token ")[2].strip()
        assert await tradewind(run, serving, "dlq", "list", "--page-token", token) == 0
        rest = capsys.readouterr()
    listed = [line.split()[0] for line in (page.out + rest.out).splitlines()]
    assert [each for each in listed if len(each) == len(TASK_ID)] == [each for _, each in deaths]
    assert "--page-token" not in rest.err


def test_help_says_where_suspects_are_counted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("workers", "--help") == 0
    assert "Suspects, tasks with a crash behind them, take no slot" in " ".join(
        capsys.readouterr().out.split()
    )
