import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tradewind.local.freeports import free_ports
from tradewind.local.leash import leashed
from tradewind.local.redis_server import find_server, redis_args, serves

# A parent that starts its leashed children, tells their pids, and waits to be killed.
PARENT = """
import json, subprocess, sys
from tradewind.local.leash import leashed
commands, poll = json.loads(sys.argv[1])
children = [subprocess.Popen(leashed(command, poll=poll), start_new_session=True)
            for command in commands]
print(json.dumps([child.pid for child in children]), flush=True)
for child in children: child.wait()
"""
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def family() -> Iterator[list[psutil.Process]]:
    """Processes that must be gone after the test, whatever happened."""
    members: list[psutil.Process] = []
    yield members
    for member in members:
        if member.is_running():
            member.kill()


def start_parent(
    commands: list[list[str]], *, poll: bool
) -> tuple[subprocess.Popen[str], list[int]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps([commands, poll])],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    return parent, json.loads(parent.stdout.readline())


@pytest.mark.parametrize("poll", [False, True], ids=["the kernel watches", "the leash watches"])
def test_kill_of_the_parent_ends_its_children(
    poll: bool, tmp_path: Path, family: list[psutil.Process]
) -> None:
    port = free_ports(1)[0]
    redis = [str(find_server().path), *redis_args(port, tmp_path)]
    parent, pids = start_parent([redis, SLEEP], poll=poll)
    family.extend(psutil.Process(pid) for pid in pids)
    while not serves(port, tmp_path):
        assert parent.poll() is None
    if poll:
        # The leashes' own children; the kernel's way has none.
        for leash in family[:]:
            while not (commands := leash.children()):
                assert parent.poll() is None
            family.extend(commands)
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


def test_a_parent_that_died_first_is_noticed() -> None:
    # The race: the child asks for the death signal after the death.
    stranger = "1" if os.getpid() != 1 else "2"
    argv = leashed(SLEEP)
    argv[argv.index("--parent") + 1] = stranger
    assert subprocess.run(argv, check=False, timeout=10).returncode == 125


@pytest.mark.parametrize("poll", [False, True], ids=["exec", "poll"])
def test_a_command_that_is_not_there_is_one_sentence(poll: bool) -> None:
    argv = leashed(["/nonexistent/command", "x"], poll=poll)
    run = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=10)
    assert run.returncode == 126
    assert run.stderr == "cannot start /nonexistent/command: No such file or directory\n"


@pytest.mark.parametrize("poll", [False, True], ids=["exec", "poll"])
def test_the_exit_status_is_the_commands_own(poll: bool) -> None:
    argv = leashed([sys.executable, "-c", "raise SystemExit(7)"], poll=poll)
    assert subprocess.run(argv, check=False, timeout=10).returncode == 7


def test_the_watching_leash_passes_signals_on() -> None:
    code = "import signal; print('up', flush=True); signal.sigwait([signal.SIGTERM])"
    block = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "
    argv = leashed([sys.executable, "-c", block + code], poll=True)
    leash = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert leash.stdout is not None
    assert leash.stdout.readline() == "up\n"
    leash.send_signal(signal.SIGTERM)
    leash.communicate(timeout=10)
    assert leash.returncode == 0


def test_the_module_runs_by_name_too() -> None:
    argv = [sys.executable, "-m", "tradewind.local.leash", "--", sys.executable, "-c", "print(1)"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(argv, check=True, capture_output=True, env=env).stdout == b"1\n"


def test_no_command_is_wrong_usage() -> None:
    assert subprocess.run(leashed([]), check=False, stderr=subprocess.DEVNULL).returncode == 2
