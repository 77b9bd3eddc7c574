"""A pool of processes: what one of them does, or suffers, costs the others nothing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flow.lab import Lab, ended_with, free_address
from tests.harness.receiver import SECRET
from tradewind.errors import SetupError
from tradewind.local import metrics_dir
from tradewind.local.metrics_dir import MetricsDir
from tradewind.state import State

APP = ("--app", f"{Path(__file__).with_name('pool_app.py')}:app")
POOL = (*APP, "--processes", "2")


@pytest.fixture
def ended_at_last() -> Iterator[list[int]]:
    """Processes that a handler has left behind."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def living(lab: Lab) -> set[int]:
    """The processes whose heartbeats are heard."""
    workers = await lab.stores["eu-west"].workers()
    return {int(w.heartbeat.worker_id.split("/")[2]) for w in workers}


async def all_ready(lab: Lab, address: str) -> None:
    async def is_ready() -> bool:
        with contextlib.suppress(OSError):
            ready = await lab.page(address, "/readyz") == "ready\n"
            return ready and len(await living(lab)) >= 2
        return False

    await lab.until(is_ready)


@pytest.mark.parametrize("how", ["start.sleeper", "fork.sleeper"])
async def test_a_killed_process_is_replaced_whatever_it_has_started_lives_on(
    lab: Lab, ended_at_last: list[int], how: str
) -> None:
    address = free_address()
    lab.start("eu-west", *POOL, "--http", address)
    await all_ready(lab, address)
    before = await living(lab)
    killed, sleeper = json.loads((await lab.ended(await lab.submit(how, {}))).result)
    ended_at_last.append(sleeper)
    os.kill(killed, signal.SIGKILL)

    async def is_replaced() -> bool:
        return len(await living(lab) - before) == 1

    await lab.until(is_replaced)
    os.kill(sleeper, 0)  # it lives
    await all_ready(lab, address)


async def test_what_a_handler_writes_to_every_pipe_ends_nobody(lab: Lab) -> None:
    address = free_address()
    parent = lab.start("eu-west", *POOL, "--http", address)
    await all_ready(lab, address)
    size = 256 * 1024  # more than a pipe holds: the parent has to read on
    writer = json.loads(
        (await lab.ended(await lab.submit("write.everywhere", {"size": size}))).result
    )
    before = await living(lab)
    os.kill(writer, signal.SIGKILL)

    async def is_replaced() -> bool:
        return len(await living(lab) - before) == 1

    await lab.until(is_replaced)
    await all_ready(lab, address)
    assert parent.poll() is None


async def test_a_secret_that_cannot_be_read_for_a_moment_costs_no_process(
    tmp_path: Path, make_lab: Callable[..., Lab]
) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    hook = "{webhook: 'http://127.0.0.1:9/', secret_file: secret}"
    lab = make_lab(f"{{lease: 1s, on_dead: {hook}}}")
    address = free_address()
    parent = lab.start("eu-west", *POOL, "--http", address)
    await all_ready(lab, address)
    other, killed = sorted(await living(lab))
    file = tmp_path / "secret"
    content = file.read_text()
    file.write_text(": [")
    os.kill(killed, signal.SIGKILL)

    async def has_failed() -> bool:
        return '"status": 2' in lab.logs()

    await lab.until(has_failed)
    file.write_text(content)
    await all_ready(lab, address)
    assert parent.poll() is None
    assert other in await living(lab)


async def test_a_process_that_dies_while_the_file_is_broken_comes_back_by_the_last_good_one(
    lab: Lab,
) -> None:
    address = free_address()
    parent = lab.start("eu-west", *POOL, "--http", address)
    await all_ready(lab, address)
    other, killed = sorted(await living(lab))
    content = lab.config.read_text()
    lab.config.write_text(": [")
    os.kill(killed, signal.SIGKILL)

    async def is_back() -> bool:
        return len(await living(lab) - {killed}) == 2

    await lab.until(is_back)
    await all_ready(lab, address)
    lab.config.write_text(content)
    parent.send_signal(signal.SIGHUP)  # to all of them, and it ends none
    assert (await lab.ended(await lab.submit("sleep", {"seconds": 0}))).state is State.COMPLETED
    assert parent.poll() is None
    assert other in await living(lab)


async def test_a_file_that_was_never_right_ends_the_pool(
    tmp_path: Path, make_lab: Callable[..., Lab]
) -> None:
    """Here one that only the children read: the parent has seen the rest."""
    lab = make_lab()
    app = tmp_path / "app.py"
    app.write_text(
        "import os\nfrom tradewind import App\n"
        "assert 'PROMETHEUS_MULTIPROC_DIR' not in os.environ\napp = App()\n"
        "@app.task('t')\ndef t() -> None: ...\n"
    )
    parent = lab.start("eu-west", *POOL, "--app", f"{app}:app")
    assert await ended_with(parent) == 2


def directories() -> set[str]:
    return set(map(str, Path(tempfile.gettempdir()).glob("tradewind-metrics-*")))


async def test_a_killed_parent_leaves_no_directory_behind(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    parent = lab.start("eu-west", *POOL)

    async def has_begun() -> bool:
        return len(await living(lab)) == 2

    await lab.until(has_begun)
    assert len(directories()) == 1
    parent.kill()

    async def is_clean() -> bool:
        return not directories()

    await lab.until(is_clean)  # by its children, which end in order


@pytest.mark.parametrize("lives", [True, False], ids=["a living parent", "a dying one"])
def test_a_child_that_ends_leaves_the_directory_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    """A dying one is a zombie, whose lock goes a moment after its child has first asked for it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = MetricsDir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as parent:
        # The test is who asks, so its own parent is the one that it says.
        monkeypatch.setattr(metrics_dir.os, "getppid", lambda: parent.pid)
        if not lives:
            parent.kill()
            os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
        held = os.open(directory.path, os.O_RDONLY)
        letting_go = threading.Timer(0.0 if lives else 0.2, os.close, (directory._held,))  # pyright: ignore[reportPrivateUsage]

        def until_then(_s: float) -> None:
            letting_go.join()

        monkeypatch.setattr(metrics_dir.time, "sleep", until_then)
        if not lives:
            letting_go.start()
        metrics_dir._leave(directory.path, held, parent.pid)  # pyright: ignore[reportPrivateUsage]
        assert Path(directory.path).exists() is lives
        parent.kill()
    os.close(held)


def test_what_nobody_holds_goes_when_the_next_pool_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = MetricsDir()
    left_behind = tmp_path / "tradewind-metrics-x"
    left_behind.mkdir()
    (left_behind / "counter_1.db").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "tradewind-metrics-y").symlink_to(elsewhere)
    own = MetricsDir()
    assert not left_behind.exists()
    assert Path(held.path).exists()
    assert elsewhere.exists()
    held.close()
    own.close()
    assert directories() == {str(tmp_path / "tradewind-metrics-y")}


def test_without_a_directory_for_temporary_files_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(SetupError, match="set TMPDIR"):
        MetricsDir()
