"""How long a command waits, and what it says when it stops."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_real_router import tradewind
from tests.harness.heldback import held_back
from tests.rpc import labour
from tests.rpc.running import Running, running
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Fleet


def task_id_in(text: str) -> str:
    return next(word for word in text.split() if len(word) == 26 and word.startswith("0"))


async def finish(serving: Running, task_id: str) -> None:
    [store] = [each for each in serving.stores.values() if await each.real.read(task_id)]
    await labour.finish(store, await labour.claim(store, task_id), b'{"sent": 1}')


async def test_a_wait_for_what_nobody_runs_ends_when_it_was_told_to(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        await serving.staff(handlers=("email.send",))
        nobody = ("submit", "nosuch", "{}", "--wait-timeout", "1s")

        assert await tradewind(run, serving, *nobody) == 1
        said = capsys.readouterr()
        task_id = task_id_in(said.err)
        assert said.out == ""
        assert f"Error: task {task_id} did not end within 1 s; it is kept" in said.err
        assert f"`tradewind watch {task_id}` waits on" in said.err
        assert "Ctrl-C" not in said.err  # there is a limit
        assert (await serving.get(task_id)).settled is False

        assert await tradewind(run, serving, "watch", task_id, "--wait-timeout", "50ms") == 1
        said = capsys.readouterr()
        assert said.out.startswith("PENDING")
        assert f"task {task_id} did not end within 0.05 s" in said.err


async def test_what_ends_in_time_is_waited_for(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(fleet) as serving:
        await serving.staff(handlers=("email.send",))
        command = ("submit", "email.send", "{}", "--wait-timeout", "1h")
        waiting = asyncio.create_task(tradewind(run, serving, *command))
        said = ""
        while " in eu-west" not in said:
            await asyncio.sleep(0.01)
            said += capsys.readouterr().err
        await finish(serving, task_id_in(said))

        assert await waiting == 0
        assert json.loads(capsys.readouterr().out) == {"sent": 1}
        assert await tradewind(run, serving, "watch", task_id_in(said), "--wait-timeout", "1h") == 0


async def test_a_file_is_waited_for_task_by_task(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "nosuch"}\n')
    async with running(fleet) as serving:
        command = ("submit", "--from", str(source), "--wait-timeout", "1s")
        assert await tradewind(run, serving, *command) == 1
        assert "did not end within 1 s" in capsys.readouterr().out
        assert await tradewind(run, serving, *command, "--json") == 1
        assert task_id_in(json.loads(capsys.readouterr().out)["task_id"])


@pytest.mark.parametrize("is_file", [False, True], ids=["a task", "a file"])
async def test_the_limit_is_of_the_submit_too(
    run: Run, fleet: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, is_file: bool
) -> None:
    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "email.send"}\n')
    what = ("--from", str(source)) if is_file else ("email.send",)
    async with running(fleet) as serving:
        for name, store in serving.stores.items():
            store.fail("enqueue", *[StoreUnavailable(name, "silent", sent=False)] * 999)
        command = ("submit", *what, "--wait-timeout", "1s")
        async with asyncio.timeout(20):  # it would be repeated for 30
            assert await tradewind(run, serving, *command) == 1
    said = capsys.readouterr()
    assert "no permitted region" in said.err + said.out


@pytest.mark.parametrize("command", ["submit", "watch", "a file"])
async def test_who_stops_a_wait_is_told_what_becomes_of_the_task(
    fleet: Fleet, command: str, tmp_path: Path
) -> None:
    source = tmp_path / "tasks.jsonl"
    source.write_text('{"name": "nosuch"}\n')
    async with running(fleet) as serving:
        await serving.staff(handlers=("email.send",))
        task_id = (await serving.submit()).task_id
        arguments = {
            "submit": ("submit", "nosuch", "{}", "--wait"),
            "watch": ("watch", task_id),
            "a file": ("submit", "--from", str(source), "--wait"),
        }[command]
        waiting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "tradewind.cli.main", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "TRADEWIND_ROUTER": serving.server.address},
        )
        assert waiting.stdout is not None
        first = (await waiting.stdout.readline()).decode()
        if command == "submit":
            first += (await waiting.stdout.readline()).decode()
            assert "Ctrl-C stops waiting, `tradewind cancel 0" in first
        waiting.send_signal(signal.SIGINT)
        rest = (await waiting.stdout.read()).decode()

        assert await waiting.wait() == 130
        if command == "a file":
            assert "Stopped; 1 of 1 tasks were accepted, and go on." in rest
        else:
            stopped = task_id_in(first) if command == "submit" else task_id
            assert f"Stopped waiting for task {stopped}; it is kept" in rest
            assert f"`tradewind cancel {stopped}` ends it" in rest


@pytest.mark.parametrize("command", [("get", "0" * 26), ("submit", "x"), ("regions",)])
async def test_a_slow_answer_gets_a_word(
    run: Run,
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setattr("tradewind.cli.session._QUIET_S", 0.02)
    async with running(fleet) as serving, held_back(serving.server.address, 0.3) as way:
        await asyncio.to_thread(run, *command, "--router", way.address)
    assert capsys.readouterr().err.count("Still ") >= 1
