"""Orders from the command line: what they print, what they send, and how they fail."""

import asyncio
import json

import pytest

from tests.cli.conftest import Run
from tests.rpc.running import running
from tests.rpc.test_control import held
from tests.rpc.test_dead_work import bury
from tradewind.fleet import Fleet


def test_an_order_says_what_holds_now_in_one_line(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    for command in ("drain", "cordon", "activate"):
        assert run(command, "eu-west", "--router", router) == 0
        said.append(capsys.readouterr().out)
    assert [text.partition(":")[0] for text in said] == [
        "eu-west is DRAINING (epoch 7)",
        "eu-west is CORDONED (epoch 7)",
        "eu-west is ACTIVE (epoch 7)",
    ]
    assert run("pause", "default", "--router", router, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"queue": "default", "paused": True, "epoch": 8, "stood": False}


def test_a_refusal_is_one_sentence_that_says_what_to_do(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("drain", "us-east", "--router", router) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "last one that takes new work for rule eu (eu)" in said.err
    assert "--force" in said.err
    assert run("drain", "us-east", "--force", "--router", router) == 0
    capsys.readouterr()
    assert run("pause", "unlucky", "--router", router) == 1
    assert "ap-south, us-east" in capsys.readouterr().err


def test_pausing_a_queue_that_nobody_has_heard_of_is_done_and_hinted_at(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pause", "nosuch", "--router", router) == 0
    assert "known are default" in capsys.readouterr().err
    assert run("pause", "default", "--router", router) == 0
    assert capsys.readouterr().err == ""


async def test_a_real_router_takes_them_and_lists_show_them(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:

        async def tradewind(*arguments: str) -> int:
            return await asyncio.to_thread(run, *arguments, "--router", serving.server.address)

        assert await tradewind("cordon", "us-east", "--reason", "upgrade") == 0
        assert await tradewind("pause", "default") == 0
        assert await tradewind("regions") == 0
        assert await tradewind("queues") == 0
        shown = capsys.readouterr().out
        assert "CORDONED" in shown
        assert "default (paused)" in shown
        order = (await held(serving))["eu-west"].regions["us-east"]
        assert order.reason == "upgrade"
        assert "@" in order.by, "who sat at the command line"
        assert await tradewind("drain", "mars") == 2
        assert "'mars' is not a region" in capsys.readouterr().err


async def test_each_order_is_on_record_with_who_and_why(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:

        async def tradewind(*arguments: str) -> str:
            status = await asyncio.to_thread(run, *arguments, "--router", serving.server.address)
            assert status == 0
            return capsys.readouterr().out

        await tradewind("cordon", "us-east")
        await tradewind("pause", "mail", "--reason", "provider is down")
        await tradewind("resume", "mail", "--reason", "it is back")
        await tradewind("evacuate", "us-east", "--reason", "new disks")
        for verb in ("redrive", "purge"):
            await bury(serving)
            await tradewind("dlq", verb, "--yes")
        records = json.loads(await tradewind("audit", "--json"))["records"]
    found = {each["deed"]: each["why"] for each in records}
    assert found == {
        "state": "",
        "pause": "provider is down",
        "resume": "it is back",
        "evacuate": "new disks",
        "redrive": "",
        "purge": "",
    }
    assert all("@" in each["who"] for each in records)


async def test_an_order_that_changes_nothing_says_so(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:

        async def tradewind(*arguments: str) -> tuple[str, str]:
            status = await asyncio.to_thread(run, *arguments, "--router", serving.server.address)
            assert status == 0
            said = capsys.readouterr()
            return said.out, said.err

        out, err = await tradewind("resume", "nosuch")
        assert out.startswith("nosuch was not paused (epoch ")
        assert "no region holds tasks of a queue 'nosuch'" in err
        for already in ("", ", as it was already"):
            out, _ = await tradewind("cordon", "us-east")
            assert out.startswith(f"us-east is CORDONED{already} (epoch ")
            out, _ = await tradewind("pause", "mail")
            assert out.startswith(f"mail is paused in every region{already} (epoch ")
        out, _ = await tradewind("resume", "mail")
        assert out.startswith("mail starts tasks again (epoch ")
