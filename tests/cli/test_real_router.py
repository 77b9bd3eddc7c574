"""The command line against a real router over real Redis servers."""

import asyncio
import json
from dataclasses import replace

import pytest

from tests.cli.conftest import HOSTILE, Run
from tests.rpc import labour
from tests.rpc.running import Running, running
from tradewind.fleet import Fleet, Match, Rule

SHOWN = "bad [/foo] list[int], [red]not[/red] ␛[31mred␇"


async def tradewind(run: Run, serving: Running, *arguments: str) -> int:
    # A command has an event loop of its own; the router lives in the test's.
    return await asyncio.to_thread(run, *arguments, "--router", serving.server.address)


async def test_a_death_with_hostile_text_is_shown_as_it_is(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        receipt = await serving.submit()
        await labour.bury(serving.stores[receipt.region], receipt.task_id, message=HOSTILE)

        assert await tradewind(run, serving, "get", receipt.task_id) == 0
        assert SHOWN in capsys.readouterr().out
        assert await tradewind(run, serving, "dlq", "list", "--kind", "exhausted") == 0
        listed = capsys.readouterr().out
        assert SHOWN in listed
        assert receipt.task_id in listed


async def test_a_name_that_nobody_runs_is_warned_of_and_explained_by_region(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        await serving.staff(handlers=("email.send",))

        assert await tradewind(run, serving, "submit", "email.sned", "{}") == 0
        said = capsys.readouterr()
        assert "no live worker runs 'email.sned' in queue default" in said.err
        assert "email.send" in said.err

        assert await tradewind(run, serving, "explain", "email.sned") == 0
        text = capsys.readouterr().out
        assert "unserved (no live worker runs it)" in text
        assert text.count("no worker for handler") == len(fleet.regions)

        assert await tradewind(run, serving, "submit", "email.send", "{}") == 0
        assert capsys.readouterr().err == ""


async def test_fences_that_exclude_each_other_are_both_named(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = Rule("acme-germany", Match(tenants=("acme-*",)), residency=("eu",))
    async with running(replace(fleet, rules=(rule,))) as serving:
        await serving.staff()
        task = ("explain", "email.send", "--tenant", "acme-de")

        assert await tradewind(run, serving, *task) == 0
        assert "The fence: by rule acme-germany." in capsys.readouterr().out

        assert await tradewind(run, serving, *task, "--residency", "us") == 1
        text = capsys.readouterr().out
        assert "[eu] by rule acme-germany and [us] by the task" in text

        assert await tradewind(run, serving, *task, "--residency", "us", "--json") == 1
        assert json.loads(capsys.readouterr().out)["region"] == ""
