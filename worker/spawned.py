"""One child process, as its worker sees it."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from worker import frames, kernel
from worker.frames import Frame, NoFrame

_log = logging.getLogger(__name__)
_LEAVE_S: Final = 2.0  # until a child that was asked to leave is killed; it takes at most half
_DRAIN_S: Final = 1.0  # for what a dead child has said; only its own children could delay the end
_GONE_S: Final = 10.0  # from the kill to the end: more is a device that the kernel waits for
_POLL_S: Final = 0.1  # where nothing tells of an end; a task waits for that much longer


class Child:
    """One child process, as its worker sees it."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        leash: int,
    ) -> None:
        """`streams` are our end of its socket; `leash` is ours, and ends it when it is closed."""
        self._process, self._leash = process, leash
        self._reader, self._writer = streams
        self._reading: asyncio.Task[Frame | None] | None = None
        self._killed = ""  # why, if we did
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int | None] = loop.create_future()
        # Not by SIGCHLD, nor by waiting: a handler in this process may do either.
        self._pidfd = kernel.watch(self.pid)
        if self._pidfd is None:
            self._look()
        else:
            loop.add_reader(self._pidfd, self._look)

    @property
    def pid(self) -> int:
        """Its process id, and that of the group it leads."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        return self._ended.done()

    @property
    def is_dying(self) -> bool:
        """Whether we have killed it and it has not ended yet."""
        return bool(self._killed) and not self.is_gone

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL has ended it, ours or another's."""
        return self.is_gone and self._ended.result() == -signal.SIGKILL

    def say(self, frame: bytes) -> None:
        """Send it. A child that is gone does not hear it."""
        if not self._writer.is_closing():
            self._writer.write(frame)

    async def hear(self) -> Frame | None:
        """What it says next; None once it has ended or hung up, or said what makes no sense."""
        reading = self._next()
        first = asyncio.FIRST_COMPLETED
        # Its death counts, not the end of the socket: its own children may hold that open.
        await asyncio.wait({reading, self._ended}, return_when=first)
        if not reading.done():
            await asyncio.wait({reading}, timeout=_DRAIN_S)
        if not reading.done():
            return None
        self._reading = None
        if (frame := reading.result()) is None:  # It may be about to end: by itself, then.
            await asyncio.wait({self._ended}, timeout=_DRAIN_S)
        else:
            self._next()  # or `rest` would not see what has arrived together with it
        return frame

    def rest(self, on_word: Callable[[], object]) -> bool:
        """Nobody is to hear from it until it gets its next task; `on_word` if somebody does.

        False if it cannot have one: it has ended, or said more than it was asked.
        """
        reading = self._next()
        if self.is_gone or self._writer.is_closing() or reading.done():
            return False
        reading.add_done_callback(lambda _: on_word())
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether it lives and has nothing to say, as one should that rests."""
        return not self.is_gone and (self._reading is None or not self._reading.done())

    def _next(self) -> "asyncio.Task[Frame | None]":
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return self._reading

    async def _read(self) -> Frame | None:
        try:
            sizes = frames.lengths(await self._reader.readexactly(frames.LENGTHS.size))
            head, body = [await self._reader.readexactly(size) for size in sizes]
            return frames.unpack(head, body)
        except (OSError, asyncio.IncompleteReadError):
            return None
        except NoFrame as error:
            _log.error("a child said what makes no sense", extra={"reason": str(error)})
            self.kill("it had said what makes no sense")
            return None

    def kill(self, why: str) -> None:
        """End it at once, and what it has started; `why`, for people: "its ...", "it ..."."""
        if not self.is_gone:
            self._killed = self._killed or why
            kernel.kill_group(self.pid)
        self._writer.close()

    async def gone(self) -> str:
        """Wait until the process has ended. Returns how it did."""
        await asyncio.wait({self._ended}, timeout=_GONE_S)
        self._writer.close()
        if not self.is_gone:  # It runs no code of an app any more, only the kernel's.
            _log.error("a killed child does not end", extra={"child": self.pid})
            return "does not end although it was killed"
        return _how(self._ended.result(), self._killed)

    async def leave(self) -> None:
        """Have it leave, and see to it."""
        self._writer.close()
        await asyncio.wait({self._ended}, timeout=_LEAVE_S)
        self.kill("it did not leave")
        await self.gone()

    def _look(self) -> None:
        """See whether it has ended, and end what it has started while the group is still its."""
        loop = asyncio.get_running_loop()
        if self._pidfd is None:
            has_ended, status = kernel.reap(self.pid)
            if not has_ended:
                loop.call_later(_POLL_S, self._look)
                return
            kernel.kill_group(self.pid)
        else:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            kernel.kill_group(self.pid)
            _, status = kernel.reap(self.pid)
        self._process.returncode = status or 0  # for its own books
        os.close(self._leash)
        self._ended.set_result(status)


async def spawn(command: Sequence[str], env: Mapping[str, str], directory: Path) -> Child:
    """Start a child with `command`, which learns of its ends of what connects us. Raises OSError.

    The connection is a socket, and the leash a pipe: see kernel.die_with.
    """
    ours, theirs = socket.socketpair()
    with theirs, contextlib.ExitStack() as always, contextlib.ExitStack() as undo:
        undo.callback(ours.close)
        # Whatever an app has made the default of new sockets.
        ours.setblocking(False)  # noqa: FBT003
        theirs.setblocking(True)  # noqa: FBT003
        held, leash = os.pipe()
        always.callback(os.close, held)
        undo.callback(os.close, leash)
        streams = await asyncio.open_unix_connection(sock=ours)
        undo.callback(streams[1].close)
        ends = ("--fd", str(theirs.fileno()), "--leash", str(held), "--worker", str(os.getpid()))
        process = _begin([*command, *ends], (theirs.fileno(), held), env, directory)
        undo.pop_all()
    return Child(process, streams, leash)


def _begin(
    command: Sequence[str], fds: Sequence[int], env: Mapping[str, str], directory: Path
) -> "subprocess.Popen[bytes]":
    """Not asyncio's, which learns of an end by waiting for it: see Child."""
    return subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=fds,
        env=env,
        cwd=directory,
        # A session of its own: a Ctrl-C is for us, and a kill takes what it has started along.
        start_new_session=True,
    )


def _how(status: int | None, killed: str) -> str:
    """How a process ended, for people."""
    if killed and status in (None, -signal.SIGKILL):
        return f"was killed by its worker: {killed}"
    if status is None:
        return "ended; how is not known, since something in the worker waits for any process"
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        name = f"signal {-status}"
    hint = ", as the kernel does when memory is short" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
