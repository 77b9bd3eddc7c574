import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness.patience import until
from tradewind.local import supervisor as module
from tradewind.local.errors import LocalSetupError
from tradewind.local.supervisor import (
    RESTART_CAP_S,
    RESTART_FIRST_S,
    ProcessSpec,
    Supervisor,
    restart_delay_s,
)

# Says when it is up, notes its end in the order file, and leaves on SIGTERM unless stubborn.
CHILD = """
import pathlib, signal, sys
name, place, stubborn = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
pathlib.Path(place, name).touch()
signal.sigwait([signal.SIGTERM])
with open(pathlib.Path(place, "ends"), "a") as ends:
    print(name, file=ends, flush=True)
if stubborn == "stubborn":
    signal.pause()
"""


def child(place: Path, name: str, *, stubborn: bool = False, grace_s: float = 10) -> ProcessSpec:
    async def up() -> bool:
        return (place / name).exists()

    how = "stubborn" if stubborn else "kind"
    return ProcessSpec(
        name=name,
        argv=[sys.executable, "-S", "-c", CHILD, name, str(place), how],
        log_path=place / "logs" / f"{name}.log",
        ready=up,
        stop_grace_s=grace_s,
    )


def failing(place: Path, code: str) -> ProcessSpec:
    async def never() -> bool:
        return False

    argv = [sys.executable, "-S", "-c", code]
    return ProcessSpec("broken", argv, place / "broken.log", ready=never, ready_timeout_s=20)


def ends(place: Path) -> list[str]:
    return (place / "ends").read_text().split()


def own_children() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


async def test_stages_stop_in_reverse_order_and_leave_nobody(tmp_path: Path) -> None:
    before = own_children()
    stages = [[child(tmp_path, "redis")], [child(tmp_path, "a"), child(tmp_path, "b")]]
    supervisor = Supervisor(stages)
    await supervisor.start()
    assert all(supervisor.pid_of(name) for name in ("redis", "a", "b"))
    await supervisor.stop()
    assert sorted(ends(tmp_path)[:2]) == ["a", "b"]
    assert ends(tmp_path)[2:] == ["redis"]
    assert [supervisor.pid_of(name) for name in ("redis", "a", "b")] == [None, None, None]
    # A zombie would still be listed.
    assert own_children() <= before


async def test_what_a_start_waits_for_is_known(tmp_path: Path) -> None:
    a, b = child(tmp_path, "a"), child(tmp_path, "b")
    go = asyncio.Event()

    async def held() -> bool:
        return go.is_set()

    supervisor = Supervisor([[a, dataclasses.replace(b, ready=held)]])
    assert supervisor.unready == ()
    starting = asyncio.create_task(supervisor.start())
    await until(lambda: supervisor.unready == ("b",), "a is ready and b is not")
    go.set()
    await starting
    assert supervisor.unready == ()
    await supervisor.stop()


async def test_stop_may_be_called_twice_at_once_and_again_later(tmp_path: Path) -> None:
    supervisor = Supervisor([[child(tmp_path, "a")]])
    await supervisor.start()
    await asyncio.gather(supervisor.stop(), supervisor.stop())
    await supervisor.stop()
    assert ends(tmp_path) == ["a"]


async def test_stop_before_start_does_nothing(tmp_path: Path) -> None:
    await Supervisor([[child(tmp_path, "a")]]).stop()


async def test_a_stop_that_is_given_up_still_stops(tmp_path: Path) -> None:
    supervisor = Supervisor([[child(tmp_path, "a")]])
    await supervisor.start()
    impatient = asyncio.create_task(supervisor.stop())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    await supervisor.stop()
    assert supervisor.pid_of("a") is None


async def test_a_child_that_ignores_the_stop_signal_is_killed_after_the_grace(
    tmp_path: Path,
) -> None:
    exits: list[str] = []
    spec = child(tmp_path, "a", stubborn=True, grace_s=0.2)
    supervisor = Supervisor([[spec]], on_exit=lambda name, _code: exits.append(name))
    await supervisor.start()
    process = psutil.Process(supervisor.pid_of("a"))
    await supervisor.stop()
    assert not process.is_running()
    # An end that was asked for is no event.
    assert exits == []


async def test_a_hurried_stop_signals_again_and_does_not_wait_for_the_grace(
    tmp_path: Path,
) -> None:
    # The stop signal is taken; the second one finds the handler of the system, which ends it.
    unblock = "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])"
    code = CHILD.replace("signal.pause()", f"{unblock}; signal.pause()")
    spec = child(tmp_path, "a", stubborn=True, grace_s=3_600)
    spec = dataclasses.replace(spec, argv=[*spec.argv[:3], code, *spec.argv[4:]])
    supervisor = Supervisor([[spec]])
    await supervisor.start()
    stopping = asyncio.create_task(supervisor.stop())
    await until((tmp_path / "ends").exists, "the first signal was taken")
    supervisor.hurry()
    await stopping
    assert supervisor.pid_of("a") is None


async def test_a_hurried_child_that_ignores_every_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HURRY_S", 0.1)
    supervisor = Supervisor([[child(tmp_path, "a", stubborn=True, grace_s=3_600)]])
    await supervisor.start()
    supervisor.hurry()
    await supervisor.stop()
    assert supervisor.pid_of("a") is None


async def test_a_killed_child_comes_back_as_another_process(tmp_path: Path) -> None:
    exits: list[int] = []
    restarted: asyncio.Queue[int] = asyncio.Queue()
    supervisor = Supervisor(
        [[child(tmp_path, "a")]],
        on_exit=lambda _, code: exits.append(code),
        on_restart=lambda _, pid: restarted.put_nowait(pid),
    )
    await supervisor.start()
    first = supervisor.pid_of("a")
    supervisor.kill("a")
    second = await restarted.get()
    assert exits == [-signal.SIGKILL]
    assert second == supervisor.pid_of("a") != first
    await supervisor.stop()


async def test_a_child_without_restart_stays_away_until_revived(tmp_path: Path) -> None:
    ended = asyncio.Event()
    restarts: list[str] = []
    supervisor = Supervisor(
        [[child(tmp_path, "a")]],
        on_exit=lambda _name, _code: ended.set(),
        on_restart=lambda name, _pid: restarts.append(name),
    )
    await supervisor.start()
    supervisor.disable_restart("a")
    supervisor.kill("a", signal.SIGTERM)
    await ended.wait()
    assert supervisor.pid_of("a") is None
    (tmp_path / "a").unlink()
    await supervisor.revive("a")
    assert supervisor.pid_of("a") is not None
    assert restarts == []
    await supervisor.stop()


async def test_revive_during_the_wait_for_a_restart_waits_for_it(tmp_path: Path) -> None:
    ended = asyncio.Event()
    supervisor = Supervisor([[child(tmp_path, "a")]], on_exit=lambda _name, _code: ended.set())
    await supervisor.start()
    (tmp_path / "a").unlink()
    supervisor.kill("a")
    await ended.wait()
    await supervisor.revive("a")
    assert supervisor.pid_of("a") is not None
    await supervisor.stop()
    with pytest.raises(LocalSetupError, match="being stopped"):
        await supervisor.revive("a")


async def test_stop_during_the_wait_for_a_restart_ends_at_once(tmp_path: Path) -> None:
    ended = asyncio.Event()
    supervisor = Supervisor([[child(tmp_path, "a")]], on_exit=lambda _name, _code: ended.set())
    await supervisor.start()
    supervisor.kill("a")
    await ended.wait()
    await supervisor.stop()
    assert supervisor.pid_of("a") is None


async def test_a_child_that_ends_at_start_stops_the_others_and_shows_its_log(
    tmp_path: Path,
) -> None:
    spec = failing(tmp_path, "raise SystemExit('port 7070 is taken')")
    supervisor = Supervisor([[child(tmp_path, "a")], [spec, child(tmp_path, "b")]])
    with pytest.raises(LocalSetupError) as caught:
        await supervisor.start()
    assert "broken ended at start (exit status 1)" in str(caught.value)
    assert "port 7070 is taken" in str(caught.value)
    assert supervisor.pid_of("a") is None
    assert supervisor.pid_of("b") is None


async def test_a_child_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    spec = dataclasses.replace(child(tmp_path, "a"), cwd=tmp_path / "missing")
    with pytest.raises(LocalSetupError, match=r"a cannot be started: .*No such file"):
        await Supervisor([[spec]]).start()


async def test_stop_during_the_start_leaves_nobody(tmp_path: Path) -> None:
    before = own_children()
    supervisor = Supervisor([[child(tmp_path, "a")], [child(tmp_path, "b")]])
    starting = asyncio.create_task(supervisor.start())
    await asyncio.sleep(0)
    await supervisor.stop()
    with pytest.raises(LocalSetupError):
        await starting
    assert own_children() <= before


LOOPS = {"asyncio": "asyncio.run", "uvloop": "uvloop.run"}


@pytest.mark.parametrize("run", LOOPS.values(), ids=LOOPS)
def test_kill_of_the_supervisor_ends_every_child(run: str, tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib, sys, uvloop
from tradewind.local.supervisor import ProcessSpec, Supervisor

async def main():
    argv = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    log = pathlib.Path(sys.argv[1])
    supervisor = Supervisor([[ProcessSpec("a", argv, log)], [ProcessSpec("b", argv, log)]])
    await supervisor.start()
    print(supervisor.pid_of("a"), supervisor.pid_of("b"), flush=True)
    await asyncio.Event().wait()

{run}(main())
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs(children, timeout=10)
    for child_left in alive:
        child_left.kill()
    assert alive == []


async def test_only_the_last_run_is_shown(tmp_path: Path) -> None:
    (tmp_path / "broken.log").write_text("an old story\n")
    with pytest.raises(LocalSetupError) as caught:
        await Supervisor([[failing(tmp_path, "print('new')")]]).start()
    assert "an old story" not in str(caught.value)
    assert "new" in str(caught.value)


async def test_a_child_that_is_never_ready_is_an_error_after_its_time(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    argv = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    spec = ProcessSpec("slow", argv, tmp_path / "log", ready=never, ready_timeout_s=0.2)
    supervisor = Supervisor([[spec]])
    with pytest.raises(LocalSetupError, match=r"slow was not ready after 0\.2 s"):
        await supervisor.start()
    assert supervisor.pid_of("slow") is None


async def test_children_have_sessions_of_their_own_and_the_given_surroundings(
    tmp_path: Path,
) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.environ['COLOUR'], os.getcwd())"
    log = tmp_path / "log"

    async def printed() -> bool:
        return log.read_text().endswith("\n")

    argv = [
        sys.executable,
        "-S",
        "-c",
        code + "\nimport sys, signal; sys.stdout.flush()\nsignal.pause()",
    ]
    spec = ProcessSpec("a", argv, log, env={"COLOUR": "red"}, cwd=tmp_path, ready=printed)
    supervisor = Supervisor([[spec]])
    await supervisor.start()
    await supervisor.stop()
    assert log.read_text() == f"True red {tmp_path}\n"
    assert "COLOUR" not in os.environ


DELAYS = {
    "the first restart is quick": (1, 0.0, RESTART_FIRST_S / 2),
    "jitter fills the upper half": (1, 0.999_999, pytest.approx(RESTART_FIRST_S, rel=1e-3)),
    "each failure doubles it": (3, 0.0, RESTART_FIRST_S * 2),
    "it is capped": (7, 0.0, RESTART_CAP_S / 2),
    "it never overflows": (10**6, 0.0, RESTART_CAP_S / 2),
}


@pytest.mark.parametrize(("failures", "jitter", "delay_s"), DELAYS.values(), ids=DELAYS)
def test_restart_delay(failures: int, jitter: float, delay_s: float) -> None:
    assert restart_delay_s(failures, jitter) == delay_s
