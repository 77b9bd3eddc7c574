"""Attempts in real child processes, without a store."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import psutil
import pytest

from tests.unit.worker.apart_world import TOO_LONG, World, result_of, until_gone
from tests.unit.worker.world import APP
from tradewind.attempts.settle import (
    CalledOff,
    Died,
    Failed,
    HandedBack,
    Rejected,
    RetryAsked,
    Success,
    TimedOut,
    Unkeepable,
)
from tradewind.task import Failure
from worker import apart
from worker.run import Ran
from worker.slot import Halt


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    world = World()
    yield world
    await world.children.close()


async def test_a_child_makes_one_attempt_after_the_other(world: World) -> None:
    first, second = json.loads(result_of(await world.run("fine"))), await world.pid()
    assert first["pid"] == second != os.getpid()
    assert (first["id"], first["attempt"]) == ("t1", 2)


async def test_a_child_knows_no_more_than_the_worker_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    monkeypatch.setenv("TRADEWIND_READY_FD", "7")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")
    found = json.loads(result_of(await world.run("fine")))
    assert found["env"].items() <= os.environ.items()
    assert set(os.environ) - set(found["env"]) == {"TRADEWIND_READY_FD", "PROMETHEUS_MULTIPROC_DIR"}
    command = psutil.Process(found["pid"]).cmdline()
    assert command[1:8] == [
        *("-P", "-m", "worker.child"),
        *("--region", "eu", "--app", f"{APP}:app"),
    ]
    assert command[8] == "--fd"


async def test_what_a_handler_prints_and_logs_appears(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    assert result_of(await world.run("plain", value=7)) == b"7"
    printed, logged = capfd.readouterr()
    assert printed == "a word on stdout\n"
    line = json.loads(logged)
    assert (line["message"], line["task_id"], line["region"], line["service"]) == (
        "a word in the log",
        "t1",
        "eu",
        "worker",
    )


async def test_every_end_of_a_handler_is_what_it_is_without_a_child(world: World) -> None:
    place = APP.read_text().partition("raise Retry(")[0].count("\n") + 1
    assert await world.run("ends", how="retry") == Ran(
        RetryAsked(2000, "no stock"), error="Retry", where=f"{APP}:{place}"
    )
    rejected = await world.run("ends", how="reject")
    assert rejected.verdict == Rejected(Failure("rejected", "never"))
    missing = await world.run("ends")
    assert missing.verdict == Rejected(Failure("rejected", "argument how is missing"))
    raised = await world.run("ends", how="raise")
    assert isinstance(raised.verdict, Failed)
    failure = raised.verdict.failure
    assert failure.message == "ValueError: no such thing"
    assert failure.traceback.lstrip().startswith(f'File "{APP}"')
    quits = await world.run("ends", how="exit")
    assert isinstance(quits.verdict, Failed)
    assert quits.verdict.failure.message == "SystemExit: 3"
    too_much = await world.run("too.much")
    assert isinstance(too_much.verdict, Unkeepable)
    assert too_much.verdict.failure.kind == "result-too-large"


DEATHS: dict[str, tuple[dict[str, int], str]] = {
    "kill -9": (
        {"signal_number": signal.SIGKILL},
        "was killed by SIGKILL, as the kernel does when memory is short",
    ),
    "a crash in C": ({"signal_number": signal.SIGSEGV}, "was killed by SIGSEGV"),
    "an exit": ({"status": 3}, "exited with status 3"),
    "an exit without an error": ({"status": 0}, "exited with status 0"),
}


@pytest.mark.parametrize(("arguments", "how"), DEATHS.values(), ids=DEATHS)
async def test_a_child_that_dies_is_told_of_and_another_takes_its_place(
    world: World, arguments: dict[str, int], how: str
) -> None:
    before = await world.pid()
    ran = await world.run("dies", **arguments)
    assert ran == Ran(Died(f"the process that ran the handler {how}"))
    assert await world.pid() != before


async def test_progress_is_passed_on_the_last_word_before_the_end(world: World) -> None:
    assert result_of(await world.run("tells", times=10_000)) == b"10000"
    assert world.said[-1] == (1.0, "done")
    assert len(world.said) < 100
    fractions = [fraction for fraction, _ in world.said]
    assert fractions == sorted(fractions)


@pytest.mark.parametrize("name", ["sleeps", "burns", "blocks"])
async def test_past_its_limit_a_handler_is_killed_whatever_it_does(world: World, name: str) -> None:
    before = await world.pid()
    assert await world.run(name, 0.1) == Ran(TOO_LONG)
    assert not psutil.pid_exists(before)
    assert await world.pid() != before


@pytest.mark.parametrize("seconds", [60, 0.3], ids=["it is killed", "it dies"])
async def test_with_a_child_ends_what_it_has_started(world: World, seconds: float) -> None:
    ran = await world.run("sleeps.beside.a.program", 1, seconds=seconds)
    assert isinstance(ran.verdict, TimedOut if seconds > 1 else Died)
    ((_, pid),) = world.said
    await until_gone(int(pid))


async def test_one_that_stops_when_told_keeps_its_child(world: World) -> None:
    before = await world.pid()
    assert await world.run("looks", 0.1) == Ran(TOO_LONG)
    assert world.said[-1] == (0.2, "tidied up")
    assert await world.run("blocks.but.looks", 0.1) == Ran(TOO_LONG)
    ran = await world.run("returns.late", 0.1)
    assert ran == Ran(Success(b'"done"', "application/json"), late=True)
    assert await world.pid() == before


HALTS: dict[str, tuple[str, Callable[[Halt], None], Ran]] = {
    "a cancel, of one that stops": ("looks", Halt.call_off, Ran(CalledOff())),
    "a cancel, of one that does not": ("sleeps", Halt.call_off, Ran(CalledOff())),
    "an end, of one that stops": ("looks", Halt.end, Ran(HandedBack())),
    "an end, of one that does not": ("burns", Halt.end, Ran(HandedBack())),
}


@pytest.mark.parametrize(("name", "interrupt", "expected"), HALTS.values(), ids=HALTS)
async def test_an_interrupted_attempt_ends_when_its_handler_has(
    world: World, name: str, interrupt: Callable[[Halt], None], expected: Ran
) -> None:
    before = await world.pid()
    halt = Halt()
    running = asyncio.create_task(apart.attempt(world.job(name), world.children, halt))
    await world.spoke.wait()
    interrupt(halt)
    assert await running == expected
    assert psutil.pid_exists(before) is (name == "looks")


@pytest.mark.parametrize(
    ("interrupt", "expected"), [(Halt.call_off, CalledOff()), (Halt.end, HandedBack())]
)
async def test_nothing_begins_that_is_not_to_begin(
    world: World, interrupt: Callable[[Halt], None], expected: object
) -> None:
    halt = Halt()
    running = asyncio.create_task(apart.attempt(world.job("dies"), world.children, halt))
    await asyncio.sleep(0)
    interrupt(halt)  # while its child starts
    assert (await running).verdict == expected
    assert world.said == []


async def test_nothing_begins_once_operators_let_nothing_start_and_its_child_is_kept(
    world: World,
) -> None:
    before = await world.pid()
    ran = await apart.attempt(world.job("dies"), world.children, Halt(), lambda: False)
    assert ran.verdict == HandedBack()
    assert world.said == []
    assert await world.pid() == before


async def test_a_doubtful_lease_is_known_in_the_child(world: World) -> None:
    job = world.job("doubts")
    job.signals.doubtful.set()
    running = asyncio.create_task(apart.attempt(job, world.children, Halt()))
    await world.spoke.wait()
    job.signals.doubtful.clear()
    while (0.2, "seen") not in world.said:
        world.spoke.clear()
        await world.spoke.wait()
    job.signals.doubtful.set()
    assert result_of(await running) == b"[true,false,true]"


async def test_a_signal_that_is_not_from_the_worker_ends_no_child(world: World) -> None:
    """A supervisor that signals all processes of a unit must not make crashes of its tasks."""
    assert result_of(await world.run("signalled")) == b'"still here"'


async def test_an_idle_child_that_died_costs_its_next_task_nothing(world: World) -> None:
    before = await world.pid()
    os.kill(before, signal.SIGKILL)
    assert await world.pid() != before


async def test_an_app_that_cannot_be_loaded_is_a_failure_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    world = World(f"{tmp_path / 'broken.py'}:app")
    ran = await world.run("fine")
    assert isinstance(ran.verdict, Failed)
    message = ran.verdict.failure.message
    assert message.startswith("the app cannot be used in a child process: --app")
    assert "nothing_of_that_name" in message


async def test_an_app_is_found_from_where_the_worker_was_started(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("from tests.unit.worker.child_app import app\n")
    world = World("./here.py:app", tmp_path)
    assert await world.pid() != os.getpid()
    await world.children.close()


async def test_one_that_dies_while_it_is_loaded_is_a_failure_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text("import os\nos._exit(9)\n")
    ran = await World(f"{tmp_path / 'deadly.py'}:app").run("fine")
    assert ran.verdict == Failed(
        Failure("error", "the app cannot be used in a child process: it exited with status 9")
    )


async def test_idle_children_leave_in_order_when_the_worker_does(tmp_path: Path) -> None:
    mark = tmp_path / "left"
    app_file = tmp_path / "tidy.py"
    app_file.write_text(
        "import atexit, pathlib\nfrom tests.unit.worker.child_app import app\n"
        f"atexit.register(pathlib.Path({str(mark)!r}).touch)\n"
    )
    world = World(f"{app_file}:app")
    child = await world.pid()
    await world.children.close()
    assert (psutil.pid_exists(child), mark.exists()) == (False, True)


async def test_a_child_that_has_been_idle_for_long_leaves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.children._IDLE_S", 0.0)
    before = await world.pid()
    while psutil.pid_exists(before):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
