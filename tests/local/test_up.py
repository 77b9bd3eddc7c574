"""`tradewind up` as a person runs it: what it says, and how it ends."""

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import PATIENCE_S
from tradewind import Client, State
from tradewind.cli import up as module
from tradewind.cli.up import STARTER
from tradewind.local.freeports import free_ports
from tradewind.regions import load


@asynccontextmanager
async def up(place: Path, *arguments: str) -> AsyncGenerator[Process, None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tradewind.cli.main", "up", *arguments),
        cwd=place,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(stream: asyncio.StreamReader | None, text: str) -> str:
    assert stream is not None
    async with asyncio.timeout(PATIENCE_S):
        while line := (await stream.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"it ended without saying {text!r}")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_an_app_that_cannot_be_imported_is_one_sentence_before_anything_starts(
    place: Path,
) -> None:
    (place / "tasks.py").write_text("print('hello')\nimport nosuch\n")
    command = [sys.executable, "-m", "tradewind.cli.main", "up", "--app", "./tasks.py:app"]
    ended = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("Error: --app ./tasks.py:app: ")
    assert f"{place / 'tasks.py'}:2" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (place / ".tradewind").exists()


async def test_a_long_start_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    class Slow:
        log_dir, missing = Path("/logs"), "router-eu-west, worker-eu-west"
        prepared = asyncio.Event()

        async def start(self) -> None:
            await asyncio.sleep(0)
            assert capsys.readouterr().err == "", "what cannot even begin is one sentence"
            self.prepared.set()
            while len(said) < 3:
                await asyncio.sleep(0.001)
                said.extend(capsys.readouterr().err.splitlines())

        async def until_served(self) -> None:
            pass

    monkeypatch.setattr(module, "_TELL_EVERY_S", 0.001)
    fleet: Any = Slow()
    await module.start(fleet, ["us-east", "eu-west"])
    assert said[0] == "starting us-east, eu-west; what they log is in /logs"
    assert said[1] == "starting for 0 s; still waiting for: router-eu-west, worker-eu-west"


async def test_it_tells_where_the_logs_are_routes_at_once_and_a_second_ctrl_c_shortens_the_stop(
    place: Path,
) -> None:
    [port] = free_ports(1)
    # The built-in regions: their Redis ports may well be taken here.
    async with up(place, "--port", str(port), "--wan") as process:
        ready = await line_with(process.stdout, "ready ")
        assert ready.startswith(f"ready grpc=127.0.0.1:{port} http=127.0.0.1:")
        logs = await line_with(process.stderr, "logs: ")
        assert logs == f"logs: {place}/.tradewind/logs; Ctrl-C stops\n"

        first, *others = load(STARTER).regions
        async with Client(f"127.0.0.1:{port}") as client:
            route = await client.explain("sleep")
            assert {each.region for each in route.candidates if each.eligible} == {first, *others}
            assert route.policy_version == load(STARTER).version  # that of `policy check`
            receipt = await client.submit("sleep", {"seconds": 3_600})
            assert (receipt.region, receipt.rule) == (first, "home")
            async for view in client.watch(receipt.task_id):
                if view.state is State.PROCESSING:
                    break

        process.send_signal(signal.SIGHUP)  # reads the file again, and ends nothing
        said = await line_with(process.stderr, "policy ")
        assert said == f"policy {load(STARTER).version} is in force within seconds\n"

        process.send_signal(signal.SIGINT)
        said = await line_with(process.stderr, "stopping")
        assert said == "stopping; waiting up to 15 s for running tasks (Ctrl-C again: now)\n"
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0
    log = (place / ".tradewind" / "logs" / f"worker-{first}.log").read_text()
    assert log.count("worker started") == 1
    assert "worker stopped" in log  # it handed its task back, and was not killed
