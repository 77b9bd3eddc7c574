"""The command line against a real router over real Redis servers."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import HOSTILE, Run
from tests.rpc import labour
from tests.rpc.running import Running, running
from tradewind.fleet import Fleet, Match, Rule
from tradewind.task import Progress

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
        assert "The fence [eu]: by rule acme-germany." in capsys.readouterr().out

        assert await tradewind(run, serving, *task, "--residency", "us") == 1
        text = capsys.readouterr().out
        assert "[eu] by rule acme-germany and [us] by the task" in text

        assert await tradewind(run, serving, *task, "--residency", "us", "--json") == 1
        assert json.loads(capsys.readouterr().out)["region"] == ""


async def test_a_cancel_says_what_came_of_it(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        waiting = await serving.submit()
        done = await serving.submit(pin_region="eu-west")
        store = serving.stores["eu-west"]
        await labour.finish(store, await labour.claim(store, done.task_id))

        for _ in range(2):
            assert await tradewind(run, serving, "cancel", waiting.task_id) == 0
            said = capsys.readouterr().out
            assert said == f"{waiting.task_id}  CANCELLED in {waiting.region}\n"
        assert await tradewind(run, serving, "get", waiting.task_id) == 0
        assert "CANCELLED" in capsys.readouterr().out
        assert await tradewind(run, serving, "cancel", done.task_id) == 1
        assert "not cancelled: COMPLETED in eu-west before" in capsys.readouterr().out


async def test_progress_and_a_requested_cancel_are_shown(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        task_id = (await serving.submit(pin_region="eu-west")).task_id
        store = serving.stores["eu-west"]
        held = await labour.claim(store, task_id)
        await store.real.progress([Progress(held, 0.25, "page 1 [of] 4")])

        assert await tradewind(run, serving, "cancel", task_id) == 0
        assert "its worker was told to stop" in capsys.readouterr().out
        assert await tradewind(run, serving, "get", task_id) == 0
        text = capsys.readouterr().out
        assert "25% page 1 [of] 4" in text
        assert "PROCESSING, cancel requested" in text
        assert await tradewind(run, serving, "get", task_id, "--json") == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["progress"] == {"fraction": 0.25, "note": "page 1 [of] 4"}
        assert shown["cancel_requested"] is True


async def test_a_task_may_be_given_its_last_start(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        await serving.staff()
        submit = ("submit", "email.send", "{}", "--json")

        assert await tradewind(run, serving, *submit, "--expires", "5m") == 0
        task_id = json.loads(capsys.readouterr().out)["task_id"]
        spec = (await serving.get(task_id)).spec
        assert spec.HasField("expires_at")
        assert await tradewind(run, serving, "get", task_id) == 0
        assert "expires" in capsys.readouterr().out

        assert await tradewind(run, serving, *submit, "--expires", "40d") == 2
        assert "30 days" in capsys.readouterr().err


async def buried(serving: Running, **fields: Any) -> str:
    receipt = await serving.submit(**fields)
    await labour.bury(serving.stores[receipt.region], receipt.task_id)
    return receipt.task_id


async def test_dead_tasks_are_counted_before_anything_is_changed(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        for region in fleet.regions:
            await buried(serving, pin_region=region)

        for verb in ("redrive", "purge"):
            assert await tradewind(run, serving, "dlq", verb, "--dry-run") == 0
            assert capsys.readouterr().err == f"3 dead tasks to {verb}\n"
            assert await tradewind(run, serving, "dlq", verb) == 2  # nobody can be asked
            assert f"nothing was changed; add --yes to {verb} 3 tasks" in capsys.readouterr().err
            assert await tradewind(run, serving, "dlq", verb, "--older-than", "1h", "--yes") == 0
            assert "0 dead tasks" in capsys.readouterr().err
        assert await serving.stored() == {}


async def test_dead_tasks_are_shown_redriven_and_purged(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        one = await buried(serving, pin_region="eu-west", payload=b'{"to":"a"}')
        other = await buried(serving, pin_region="us-east", labels={"a": "b"})

        assert await tradewind(run, serving, "dlq", "show", one) == 0
        text = capsys.readouterr().out
        assert "exhausted: boom" in text
        assert '{"to":"a"}' in text
        assert await tradewind(run, serving, "dlq", "redrive", one, "--yes") == 0
        assert capsys.readouterr().out == "1 redriven\n"
        assert await serving.stored() == {"eu-west": 1}
        assert await tradewind(run, serving, "dlq", "show", one) == 1
        assert "is not dead: it is PENDING in eu-west" in capsys.readouterr().err

        assert await tradewind(run, serving, "dlq", "purge", "--yes", "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert said == {"count": 1, "dry_run": False, "silent_regions": []}
        assert await tradewind(run, serving, "dlq", "show", other) == 4
