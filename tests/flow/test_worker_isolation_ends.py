"""What handlers leave behind ends with their process, and that with its worker, however it ends."""

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.flow.lab import Lab, ended_with
from tradewind.state import State
from worker.__main__ import WORN_OUT

APP = Path(__file__).with_name("leaving_app.py")


async def worker(lab: Lab, *options: str) -> "subprocess.Popen[bytes]":
    return await lab.worker("eu-west", "--app", f"{APP}:app", *options)


def lives(pid: int) -> bool:
    """Whether it runs; a zombie only waits to be counted by its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(lab: Lab, pid: int) -> None:
    async def is_gone() -> bool:
        return not lives(pid)

    await lab.until(is_gone)


async def program_of(lab: Lab, how: str) -> tuple[int, int]:
    """A child at work, and what it has started."""
    task_id = await lab.submit("program", {"how": how})
    (begun,) = await lab.begun(task_id)
    (program,) = psutil.Process(begun.pid).children()
    return begun.pid, program.pid


@pytest.mark.skipif(not Path("/proc").exists(), reason="the kernel does it on Linux only")
@pytest.mark.parametrize("how", ["sleep", "hold"])
async def test_what_a_child_has_started_ends_with_a_worker_that_is_killed(
    lab: Lab, how: str
) -> None:
    killed = await worker(lab)
    pids = await program_of(lab, how)
    killed.kill()
    for pid in pids:
        await gone(lab, pid)


async def test_it_ends_as_well_if_a_copy_of_the_worker_lives_on(lab: Lab) -> None:
    killed = await worker(lab)
    pids = await program_of(lab, "sleep")
    record = await lab.ended(await lab.submit("copy", {}))
    copy = int(record.result)
    try:
        killed.kill()
        for pid in pids:
            await gone(lab, pid)
        assert lives(copy)
    finally:
        os.kill(copy, signal.SIGKILL)


async def test_a_program_that_was_left_behind_ends_with_its_worker(lab: Lab) -> None:
    leaving = await worker(lab)
    record = await lab.ended(await lab.submit("program", {"how": "return"}))
    leaving.terminate()
    assert await ended_with(leaving) == 0
    await gone(lab, int(record.result))


async def test_a_copy_that_a_handler_forks_is_no_second_worker(lab: Lab) -> None:
    running = await worker(lab)
    for _ in range(2):
        record = await lab.ended(await lab.submit("fork", {}))
        assert (record.state, json.loads(record.result)) == (State.COMPLETED, 3)
    assert {line.pid for line in lab.lines(event="start")} == {running.pid}
    running.terminate()
    assert await ended_with(running) == 0


async def test_a_stdout_that_cannot_be_flushed_changes_no_exit_status(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_STDOUT", "1")
    leaving = await worker(lab)
    leaving.terminate()
    assert await ended_with(leaving) == 0
    worn_out = await worker(lab, "--concurrency", "1")
    await lab.begun(await lab.submit("stuck", {}, max_attempts=1))
    assert await ended_with(worn_out) == WORN_OUT
