"""Child processes of a measurement: leashed to it, timed, and ended by their pids."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tradewind.local.leash import leashed

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000

_GRACE_S = 10.0
_KILL_S = 5.0
_TAIL_BYTES = 1_500


class BenchError(RuntimeError):
    """A measurement cannot be taken. The message says why."""


class Child:
    """A running command with a log. CPU and memory are of it and all its descendants."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        home: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        """Start it. Standard output and error go to a log in `home`."""
        self.name = name
        self.log = home / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                leashed(argv),
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C comes to us, and we end them in order
            )
        self._ps = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        """Of the command itself."""
        return self._process.pid

    def check(self) -> None:
        """Raise BenchError with the end of its log if it has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"{self.name} ended with {self._process.returncode}: {self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()

    def cpu_s(self) -> float:
        """Seconds of CPU so far, user and system, children that have ended included."""
        total_s = 0.0
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total_s += sum(process.cpu_times()[:4])
        return total_s

    def rss_mb(self) -> float:
        """Resident memory now, pages that processes share counted in each."""
        total = 0
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total / MEGABYTE

    def until(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until it is ready. Raises BenchError if it ends, or is not in time."""
        give_up_s = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > give_up_s:
                raise BenchError(f"{self.name}: nothing in {timeout_s:.0f} s: {self.tail()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it and its descendants. SIGTERM to it, SIGKILL to what is left after a grace."""
        tree = self._tree()
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()  # by psutil's handle: not a pid that is another process by now
        self._process.wait(_KILL_S)
        psutil.wait_procs(tree, _KILL_S)

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self._ps, *self._ps.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@contextlib.contextmanager
def running(
    name: str,
    argv: Sequence[str],
    home: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> Generator[Child]:
    """Run a command while the block runs."""
    child = Child(name, argv, home, env=env, cwd=cwd)
    try:
        yield child
    finally:
        child.stop()


def answer(
    name: str,
    argv: Sequence[str],
    home: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    timeout_s: float = 600.0,
) -> dict[str, Any]:
    """Run a command to its end and read the JSON object in its last line of output.

    Raises BenchError with the end of its log if it fails.
    """
    with (home / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            leashed(argv),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        out, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{name} took more than {timeout_s:.0f} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        said = (home / f"{name}.log").read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        raise BenchError(f"{name} ended with {process.returncode}: {said.strip()}")
    return json.loads(out.decode().strip().splitlines()[-1])


def module(name: str, *options: str) -> list[str]:
    """The command that runs one of the project's modules."""
    return [sys.executable, "-m", name, *options]
