"""Child processes: started when a task needs one, kept warm for the next, ended when idle.

Spawned, never forked: a copy of this process would hold its locks, connections and threads.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from tradewind.errors import TradewindError
from worker import frames, kernel
from worker.frames import Frame, NoFrame

_log = logging.getLogger(__name__)
_START_TIMEOUT_S: Final = 60.0  # to import the app; some bring models along
_IDLE_S: Final = 60.0  # a start costs far less than memory that is held for an hour
_LEAVE_S: Final = 2.0  # until a child that was asked to leave is killed; it takes at most half
_AGAIN_S: Final = 0.05  # between two looks at children that were about to start
_DRAIN_S: Final = 1.0  # for what a dead child has said; only its own children could delay the end
# What belongs to this process alone: where it tells of its readiness and leaves its metrics.
_NOT_FOR_CHILDREN: Final = ("TRADEWIND_READY_FD", "PROMETHEUS_MULTIPROC_DIR")


class NoChild(TradewindError):
    """A child process cannot be started, or not with this app; the message says why."""

    reason = "NO_CHILD"


class Child:
    """One child process, as its worker sees it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """`reader` and `writer` are our end of the socket."""
        self._process, self._reader, self._writer = process, reader, writer
        self._exit = asyncio.create_task(process.wait())

    @property
    def pid(self) -> int:
        """Its process id, and that of the group it leads."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        return self._exit.done()

    def say(self, frame: bytes) -> None:
        """Send it. A child that is gone does not hear it."""
        if not self._writer.is_closing():
            self._writer.write(frame)

    async def hear(self) -> Frame | None:
        """What it says next; None once it has ended, or said what makes no sense."""
        reading = asyncio.ensure_future(self._read())
        try:
            # Its death counts, not the end of the socket: its own children may hold that open.
            await asyncio.wait({reading, self._exit}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait({reading}, timeout=_DRAIN_S)
        finally:
            if not reading.done():
                reading.cancel()
        return reading.result() if reading.done() and not reading.cancelled() else None

    async def _read(self) -> Frame | None:
        try:
            sizes = frames.lengths(await self._reader.readexactly(frames.LENGTHS.size))
            head, body = [await self._reader.readexactly(size) for size in sizes]
            return frames.unpack(head, body)
        except (OSError, asyncio.IncompleteReadError):
            return None
        except NoFrame as error:
            _log.error("a child said what makes no sense", extra={"reason": str(error)})
            return None

    def kill(self) -> None:
        """End it at once, and what it has started, also if it has just ended itself."""
        kernel.kill_group(self.pid)
        self._writer.close()

    async def gone(self) -> str:
        """Wait until the process has ended. Returns how it did."""
        code = await asyncio.shield(self._exit)
        self._writer.close()
        return _how(code)

    async def leave(self) -> None:
        """Have it leave, and see to it."""
        self._writer.close()
        await asyncio.wait({self._exit}, timeout=_LEAVE_S)
        if not self.is_gone:
            self.kill()
        await self.gone()


class Children:
    """The children of one worker process. None is started before a task needs it."""

    def __init__(self, target: str, *, region: str, directory: Path) -> None:
        """`target` is the app, as for --app, seen from `directory`: where the worker found it."""
        self._command = [
            *(sys.executable, "-P", "-m", "worker.child"),
            *("--region", region, "--app", target),
        ]
        self._directory = directory
        self._idle: dict[Child, asyncio.TimerHandle] = {}  # the last one used is used first
        self._young: set[Child] = set()  # not ready yet
        self._starting: set[asyncio.Task[Child]] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def take(self) -> Child:
        """A child that waits for work, an idle one or a new one. Raises NoChild.

        Cancelled, a child that is about to start is kept for the next one who asks.
        """
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if not child.is_gone:
                return child
        start = asyncio.get_running_loop().create_task(self._start())
        self._starting.add(start)
        start.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(start)
        except asyncio.CancelledError:
            start.add_done_callback(self._keep)
            raise

    def give_back(self, child: Child) -> None:
        """It has made its attempt and is as good as new."""
        later = asyncio.get_running_loop().call_later(_IDLE_S, self._dismiss, child)
        self._idle[child] = later

    def _keep(self, start: "asyncio.Task[Child]") -> None:
        if not start.cancelled() and start.exception() is None:
            self.give_back(start.result())

    async def close(self) -> None:
        """End those that are idle or about to start; whoever has taken one ends it."""
        while self._starting:  # not cancelled: a process half made would be nobody's
            for child in self._young:
                child.kill()
            await asyncio.wait(self._starting, timeout=_AGAIN_S)
        for child, timer in self._idle.items():
            timer.cancel()
            self._aside(child.leave())
        self._idle.clear()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _dismiss(self, child: Child) -> None:
        if self._idle.pop(child, None) is not None:
            self._aside(child.leave())

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _start(self) -> Child:
        ours, theirs = socket.socketpair()
        env = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_CHILDREN}
        try:
            # A session of its own: a Ctrl-C is for us, and a kill takes what it has started along.
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *("--fd", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=env,
                cwd=self._directory,
                start_new_session=True,
            )
        except BaseException as error:
            ours.close()
            if not isinstance(error, OSError):
                raise
            raise NoChild(f"a child process cannot be started ({error.strerror})") from error
        finally:
            theirs.close()
        child = Child(process, *await asyncio.open_unix_connection(sock=ours))
        self._young.add(child)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                frame = await child.hear()
        except TimeoutError:
            child.kill()
            await child.gone()
            message = f"a child process was not ready within {_START_TIMEOUT_S:g} s"
            raise NoChild(f"{message}; what does the app do when it is imported?") from None
        finally:
            self._young.discard(child)
        if frame is not None and frame.say == "ready":
            return child
        child.kill()
        how = await child.gone()
        why = frame.facts.get("why", "") if frame is not None else ""
        raise NoChild(f"the app cannot be used in a child process: {why or f'it {how}'}")


def _how(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    hint = ", as the kernel does when memory is short" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
