"""`--processes N`: the parent starts the workers, starts anew what dies, and speaks for all."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client.multiprocess import (
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType]
)

from tradewind import metrics
from tradewind.attempts.describe import cut, text
from tradewind.local import metrics_dir
from tradewind.local.leash import leashed
from tradewind.local.metrics_dir import MetricsDir
from tradewind.policy_file import LAST_GOOD, PolicyFile
from tradewind.startup import hangups_held, on_hangup
from worker.patience import Patience

_log = logging.getLogger(__name__)
READY_FD: Final = "TRADEWIND_READY_FD"  # a child writes a line to it when its readiness changes
_LINE_BYTES: Final = 1024  # of such a line; a handler may write to any file it has, and more
_HEALTHY_S: Final = 60.0  # a child that lived for so long did its work
_FAILED: Final = 1
_WRONG_USAGE: Final = 2  # before any child was ready: it will say so again


class Processes:
    """N worker processes with one face: readiness, metrics, signals, exit status."""

    def __init__(self, argv: Sequence[str], count: int, policy: PolicyFile) -> None:
        """`argv`: options of one child, without program.

        Children start with `policy` as this process has it, and each follows the file by itself.
        """
        self._argv, self._count, self._policy = tuple(argv), count, policy
        self._metrics_dir = MetricsDir()
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._states = ["starting"] * count  # "" is ready
        self._any_was_ready = False
        self._stopping = False

    def ready(self) -> tuple[bool, str]:
        """Whether every process is, and if not, why not."""
        troubles = [f"process {n}: {why}" for n, why in enumerate(self._states, 1) if why]
        return not troubles, "; ".join(troubles)

    def metrics(self) -> bytes:
        """The sum over all processes, those that have died included."""
        return metrics.shared_exposition(self._metrics_dir.path)

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT has ended all children. Returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        on_hangup(self._hung_up, self._signalled)
        following = asyncio.create_task(self._policy.run())
        try:
            codes = await asyncio.gather(*map(self._keep, range(self._count)))
        finally:
            following.cancel()
            self._metrics_dir.close()
        return max(codes)

    def _signalled(self) -> None:
        """Pass it on: each child counts its own signals."""
        self._stopping = True
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.terminate()

    def _hung_up(self) -> None:
        """Read the policy file again, here and in every child."""
        self._policy.ask()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGHUP)

    async def _keep(self, place: int) -> int:
        """One place: a child in it until we stop."""
        patience = Patience()
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            code = await self._one(place)
            if loop.time() - began_s > _HEALTHY_S:  # its end has nothing to do with earlier ones
                patience.reset()
            # Once it has worked, what is wrong came later and may pass: a file that is just being
            # replaced must not cost the processes that have read it before.
            if code == _WRONG_USAGE and not self._any_was_ready:
                self._signalled()
            if self._stopping:
                return _ending_of(code)
            self._states[place] = "starting anew"
            _log.error("a worker process ended", extra={"place": place + 1, "status": code})
            await patience.wait()
            if self._stopping:
                return 0

    async def _one(self, place: int) -> int:
        """A child from its start to its end. Returns its status."""
        try:
            child, reading = await self._start()
        except OSError as error:  # no memory, no process, no file left: it may pass
            _log.error("a worker process cannot be started", extra={"reason": str(error)})
            return _FAILED
        self._children[place] = child
        if self._stopping:
            child.terminate()

        def heard(state: str) -> None:
            self._states[place] = state
            self._any_was_ready |= not state

        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: _Words(heard), os.fdopen(reading, "rb", buffering=0)
        )
        # Until the child has ended, not the pipe: what it has started may have that, too.
        code = await child.wait()
        transport.close()
        self._states[place] = "ended"
        del self._children[place]
        mark_process_dead(child.pid, self._metrics_dir.path)
        return code

    async def _start(self) -> tuple[asyncio.subprocess.Process, int]:
        """A child, and the end of the pipe on which it tells of its readiness."""
        command = leashed([sys.executable, "-P", "-m", "worker", *self._argv])
        reading, writing = os.pipe()
        env = {
            **os.environ,
            READY_FD: str(writing),
            metrics_dir.VARIABLE: self._metrics_dir.path,
        }
        try:
            env[LAST_GOOD] = self._policy.keep_copy(self._metrics_dir.path)
            # A session of its own: a Ctrl-C must not reach it twice, by the terminal and by us.
            with hangups_held():
                child = await asyncio.create_subprocess_exec(
                    *command, pass_fds=(writing,), env=env, start_new_session=True
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return child, reading


def _ending_of(code: int) -> int:
    """What the end of a child with `code` says of a pool that was asked to end."""
    if code == -signal.SIGTERM:  # ours: it was about to start, and did not listen yet
        return 0
    return code if code >= 0 else _FAILED  # a signal ended it


class _Words(asyncio.Protocol):
    """A child's words on its readiness: the last whole line, whatever else comes."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        """`heard` takes each."""
        self._heard, self._rest = heard, b""

    def data_received(self, data: bytes) -> None:
        """Of asyncio: some bytes."""
        *lines, rest = (self._rest + data).split(b"\n")
        if lines:
            self._heard(lines[-1][-_LINE_BYTES:].decode(errors="replace").strip())
        self._rest = rest[-_LINE_BYTES:]


def readiness_line() -> Callable[[bool, str], None]:
    """What tells the parent, if there is one, of readiness. Call it once, before the app is loaded.

    Neither what the app starts nor the app itself is to have that line.
    """
    number = os.environ.pop(READY_FD, "")
    try:
        writing = int(number)
        os.set_inheritable(writing, False)  # noqa: FBT003 - of os
        os.set_blocking(writing, False)  # a parent that stands still holds up nobody
    except (OSError, ValueError):
        return lambda _ready, _why: None

    def tell(ready: bool, why: str) -> None:  # noqa: FBT001 - a callback
        line = "" if ready else cut(text(" ".join(why.split())), _LINE_BYTES) or "not ready"
        with contextlib.suppress(OSError):  # the parent has gone, and this process soon will
            os.write(writing, f"{line}\n".encode())

    return tell
