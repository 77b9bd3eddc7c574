"""The parent of several routers: it starts processes, and asks them by gRPC how they are."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from router.processes import PARENT, reload_all
from tradewind.errors import ConfigError
from tradewind.policy_file import PolicyFile

_ROOT: Final = Path(__file__).parents[2]
_STARTS: Final = 150
_PARENT = f"""
import asyncio, threading
import router.processes as parent
from tradewind.policy_file import PolicyFile
from tradewind.startup import run_parent

async def main():
    policy = PolicyFile("regions.yaml", "eu-west")
    pool = parent.Processes(["--version"], 1, "127.0.0.1:0", policy)
    over = threading.Event()
    def ask():
        while not over.is_set():
            pool.ready()
    threading.Thread(target=ask).start()
    for _ in range({_STARTS}):
        child = await asyncio.create_subprocess_exec("/bin/true")
        assert await child.wait() == 0
    over.set()

run_parent(main())
"""


def test_a_parent_survives_that_it_asks_while_it_starts_processes() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _PARENT],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Who got which signal from us."""
    signals: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        signals.append((pid, number))

    monkeypatch.setattr("router.processes.os.kill", kill)
    return signals


async def test_a_child_that_reloads_has_its_parent_tell_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[tuple[int, int]]
) -> None:
    file = tmp_path / "regions.yaml"
    file.write_text((_ROOT / "regions.yaml").read_text())
    policy = PolicyFile(str(file), "eu-west")
    monkeypatch.setenv(PARENT, str(os.getppid()))

    assert (await reload_all(policy)).version == policy.fleet.version
    assert told == [(os.getppid(), signal.SIGHUP)]

    file.write_text("version: [")
    with pytest.raises(ConfigError):
        await reload_all(policy)
    assert len(told) == 1


async def test_a_child_whose_parent_has_died_signals_no_stranger(
    monkeypatch: pytest.MonkeyPatch, told: list[tuple[int, int]]
) -> None:
    policy = PolicyFile(str(_ROOT / "regions.yaml"), "eu-west")
    monkeypatch.setenv(PARENT, str(os.getpid()))  # not the one that there is

    await reload_all(policy)

    assert told == []
