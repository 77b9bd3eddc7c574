"""Apps and handlers that do to their processes what nobody would expect, and hosts that fail."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.worker.apart_world import TOO_LONG, World, gone, result_of, until_gone
from tradewind.attempts.settle import CalledOff, Died, Failed, HandedBack, Success, TimedOut
from tradewind.task import Failure
from worker import apart, frames, kernel
from worker.run import Ran
from worker.slot import Halt

MARK = "t1/7"  # of an attempt here; the one before it was t1/6
FORGED = Ran(Success(b'"forged"', "application/json"))
SILENT = "the process that ran the handler was killed by its worker"


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    monkeypatch.setattr("worker.apart._PAUSE_S", 0.01)
    world = World()
    yield world
    await world.children.close()


# --- what is said over a child's socket

NONSENSE = {
    "the end of another attempt": frames.ended("t1/6", FORGED),
    "an end of no attempt": frames.pack("ended", {"verdict": "HandedBack", "facts": {}}),
    "the progress of another": frames.of("t1/6", "progress", fraction=0.5, note=""),
    "progress without its facts": frames.of(MARK, "progress"),
    "an end without its facts": frames.of(MARK, "ended"),
    "a word that no child says": frames.of(MARK, "run"),
    "no frame": b"\0garbage" * 50,
}


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
async def test_a_child_that_says_what_makes_no_sense_is_killed(world: World, data: bytes) -> None:
    before = await world.pid()
    ran = await world.run("forges", data=data.hex())
    assert ran == Ran(Died(f"{SILENT}: it had said what makes no sense"))
    assert gone(before)
    assert world.said == []


async def test_one_that_closes_all_it_has_is_gone_at_its_limit_at_the_latest(world: World) -> None:
    before = await world.pid()
    assert isinstance((await world.run("closes.all", 1)).verdict, Died | TimedOut)
    assert gone(before)


async def test_a_child_that_says_more_than_its_end_is_not_used_again(world: World) -> None:
    before = await world.pid()
    assert await world.run("forges", data=(frames.ended(MARK, FORGED) * 2).hex()) == FORGED
    assert gone(before)
    assert await world.pid() != before


async def test_a_late_report_does_not_end_the_next_task(world: World) -> None:
    late = frames.ended(MARK, FORGED).hex()
    job = world.job("speaks.later", data=late)
    before = int(result_of(await apart.attempt(job, world.children, Halt())))
    ran = await apart.attempt(world.job("sleeps", 30, token=8), world.children, Halt())
    assert ran == Ran(Died(f"{SILENT}: it had said what makes no sense"))
    assert gone(before)


async def test_an_idle_child_that_speaks_is_ended(world: World) -> None:
    before = int(result_of(await world.run("speaks.later", data=b"a word".hex())))
    again = int(result_of(await world.run("speaks.later", data=frames.pack("ready").hex())))
    assert again == before, "it had not spoken yet"
    await until_gone(before)
    assert await world.pid() != before


# --- who else takes the ends of processes


def ignore() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def default() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def take_any() -> None:
    def take() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)

    for _ in range(2):
        threading.Thread(target=take, name="taker", daemon=True).start()


def feed_takers() -> None:
    """Those that have got nothing would take what belongs to other tests."""
    for thread in threading.enumerate():
        while thread.name == "taker" and thread.is_alive():
            with subprocess.Popen("/bin/true"):
                thread.join(0.05)


def nothing(_pid: int) -> None:
    """In the place of kernel.watch: as where there is no pidfd."""


@pytest.fixture(params=["the kernel tells", "nothing tells"])
def ends(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "nothing tells":
        monkeypatch.setattr(kernel, "watch", nothing)
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, before)
    feed_takers()


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("take", [ignore, default, take_any])
async def test_the_end_of_a_child_is_seen_whoever_else_waits_for_it(
    world: World, take: Callable[[], None]
) -> None:
    before = await world.pid()
    take()
    ran = await world.run("dies", status=3)
    assert isinstance(ran.verdict, Died)
    known, unknown = "exited with status 3" in ran.verdict.how, "not known" in ran.verdict.how
    assert known or (unknown and take is not default)
    assert gone(before)
    assert await world.run("sleeps", 0.1) == Ran(TOO_LONG)
    assert result_of(await world.run("plain", value=7)) == b"7"


async def test_a_killed_child_that_does_not_end_is_not_waited_for_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a device; here the kill itself gets lost."""
    before = await world.pid()
    with monkeypatch.context() as lost:
        lost.setattr(kernel, "kill_group", nothing)
        lost.setattr("worker.spawned._GONE_S", 0.05)
        running = asyncio.create_task(world.run("sleeps", 0.5))
        await world.spoke.wait()
        os.kill(before, signal.SIGSTOP)
        assert isinstance((await running).verdict, TimedOut)
        assert not gone(before)
    kernel.kill_group(before)
    await until_gone(before)


# --- apps that change what all of a process shares


async def test_a_default_timeout_of_sockets_does_not_hold_for_ours(
    world: World, tmp_path: Path
) -> None:
    app = tmp_path / "hasty.py"
    app.write_text(
        "import socket\nsocket.setdefaulttimeout(0.2)\n"
        "from tests.unit.worker.child_app import app\n"
    )
    hasty = World(f"{app}:app")
    socket.setdefaulttimeout(0.2)
    try:
        before = await hasty.pid()
        await asyncio.sleep(0.5)  # longer than the default: nobody says a word
        assert await hasty.pid() == before
    finally:
        socket.setdefaulttimeout(None)
        await hasty.children.close()


STREAMS = {
    "nothing": "None",
    "without flush": "type('Tee', (), {'write': print})()",
    "one that ends the process": "type('Tee', (), {'flush': lambda self: sys.exit(4)})()",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
async def test_whatever_stands_for_stdout_an_attempt_is_reported(
    tmp_path: Path, stream: str
) -> None:
    app = tmp_path / "odd.py"
    app.write_text(
        f"import sys\nfrom tests.unit.worker.child_app import app\nsys.stdout = {stream}\n"
    )
    world = World(f"{app}:app")
    before = await world.pid()
    assert await world.pid() == before
    await world.children.close()


async def test_a_handler_that_a_child_does_not_have_is_a_failure(tmp_path: Path) -> None:
    app = tmp_path / "other.py"
    app.write_text("from tradewind import App\napp = App()\n@app.task('other')\ndef other(): ...\n")
    world = World(f"{app}:app")
    said = "register it where the module is imported"
    assert (await world.run("fine")).verdict == Failed(
        Failure("error", f"the app has no handler fine in a child process: {said}")
    )
    await world.children.close()


@pytest.mark.parametrize(
    ("name", "how", "status"),
    [
        *(
            ("forks", how, code)
            for how, code in [("return", b"0"), ("exit", b"3"), ("raise", b"1")]
        ),
        *(("forks.async", how, code) for how, code in [("return", b"0"), ("exit", b"3")]),
        ("forks.async", "raise", b"1"),
        ("forks.async", "wait", b"0"),
    ],
)
async def test_a_copy_of_a_handler_ends_with_it(
    world: World, name: str, how: str, status: bytes
) -> None:
    before = await world.pid()
    assert result_of(await world.run(name, how=how)) == status
    assert await world.pid() == before


# --- the host has no process to give


async def test_children_start_one_by_one_where_there_is_one_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.children._PROCESSORS", 1)
    app = tmp_path / "alone.py"
    app.write_text(
        "import os, time\n"
        f"os.mkdir({str(tmp_path / 'imports')!r})\ntime.sleep(0.2)\n"
        "from tests.unit.worker.child_app import app\n"
        f"os.rmdir({str(tmp_path / 'imports')!r})\n"
    )
    world = World(f"{app}:app")
    runs = await asyncio.gather(*[world.run("fine") for _ in range(4)])
    assert {json.loads(result_of(ran))["attempt"] for ran in runs} == {2}
    await world.children.close()


async def test_one_that_waits_for_its_turn_need_not_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.children._PROCESSORS", 1)
    first = asyncio.create_task(world.run("fine"))
    halt = Halt()
    second = asyncio.create_task(apart.attempt(world.job("dies"), world.children, halt))
    await asyncio.sleep(0)
    halt.call_off()
    assert await second == Ran(CalledOff())
    assert not first.done()
    result_of(await first)


async def test_a_child_that_is_not_ready_in_time_uses_no_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.children._START_TIMEOUT_S", 0.01)
    assert await world.run("fine") == Ran(HandedBack())


async def test_one_that_cannot_be_started_uses_no_attempt(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = World(directory=tmp_path / "gone")
    assert await nowhere.run("fine") == Ran(HandedBack())
    halt = Halt()
    monkeypatch.setattr("worker.apart._PAUSE_S", 60)
    waiting = asyncio.create_task(apart.attempt(nowhere.job("fine"), nowhere.children, halt))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "no more than so often"
    halt.call_off()
    assert await waiting == Ran(CalledOff())


async def test_one_that_is_killed_while_it_starts_uses_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a kernel that is short of memory."""
    monkeypatch.setattr("worker.apart._PAUSE_S", 0.01)
    app = tmp_path / "greedy.py"
    app.write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert await World(f"{app}:app").run("fine") == Ran(HandedBack())


# --- what a handler has left behind


async def test_a_program_that_was_left_behind_ends_with_its_child(world: World) -> None:
    program = int(result_of(await world.run("leaves.a.program")))
    assert not gone(program)
    await world.children.close()
    await until_gone(program)


async def test_a_program_ends_with_an_idle_child_that_dies(world: World) -> None:
    program = int(result_of(await world.run("leaves.a.program")))
    os.kill(await world.pid(), signal.SIGTERM)  # it does not mind
    os.kill(await world.pid(), signal.SIGKILL)
    await until_gone(program)
