"""A child of a worker: makes one attempt after the other, in a process that may die of it.

    python -m worker.child --fd N --leash N --worker PID --region R --app MODULE:NAME

Started by the worker (see children), with one end of a socket. It imports the app as the worker
did, and knows of its tasks only what a handler is told: no region, no store, no address of either.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Final

from tradewind import logs
from tradewind.attempts.describe import cut, name_of, text, where
from tradewind.attempts.job import Job, prepare
from tradewind.attempts.settle import FAULT, Failed, HandedBack
from tradewind.attempts.threads import Threads
from tradewind.clock import SystemClock
from tradewind.errors import SetupError
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import App, Signals
from tradewind.limits import KIB
from tradewind.startup import run
from tradewind.task import Failure
from worker import frames, kernel, streams
from worker.apps import load_app
from worker.frames import Frame
from worker.run import Ran, attempt
from worker.slot import Halt

_log = logging.getLogger(__name__)
UNABLE: Final = 2  # exit status, of wrong usage: the app cannot be loaded here
_NOTE_BYTES: Final = 1 * KIB  # as the worker cuts it
_TELL_EVERY_S: Final = 0.1  # progress: the worker passes it on every 0.25 s
_LEAVE_S: Final = 1.0  # for what the app does at the exit of an idle child
_MISSING: Final = (
    "the app has no handler {} in a child process: register it where the module is imported"
)
_NOBODY: Final = Fleet(regions={}, default_queue=QueuePolicy())


class Parent:
    """The worker's end of the socket, as seen from here. `send` may be called in any thread."""

    def __init__(self, end: socket.socket, pid: int) -> None:
        """`end` is this process's own; `pid` is the worker's."""
        self._end = end
        self._lock = threading.Lock()
        # A copy of the worker that one of its handlers has made may hold the socket open: so its
        # end counts as well, where it can be seen.
        self._worker = kernel.watch(pid)
        self._look = select.poll()
        self._look.register(end, select.POLLIN)
        if self._worker is not None:
            self._look.register(self._worker, select.POLLIN)

    def send(self, *parts: bytes) -> None:
        """Send frames, one after the other. A worker that is gone is noticed by `receive`."""
        with self._lock, contextlib.suppress(OSError):
            self._end.sendall(b"".join(parts))

    def receive(self) -> Frame | None:
        """The next frame; None once the worker is gone."""
        with contextlib.suppress(OSError, EOFError, frames.NoFrame):
            head, body = frames.lengths(self._exactly(frames.LENGTHS.size))
            return frames.unpack(self._exactly(head), self._exactly(body))
        return None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            if any(fd == self._worker for fd, _ in self._look.poll()):
                raise EOFError
            if not (chunk := self._end.recv(size - len(data))):
                raise EOFError
            data += chunk
        return bytes(data)


class Progress:
    """What the handler says of its progress: the newest only, from a thread of its own.

    So a coroutine that blocks its loop is heard, and one that says a lot is not held up.
    """

    def __init__(self, parent: Parent) -> None:
        """Starts the thread."""
        self._parent = parent
        self._lock = threading.Lock()
        self._newest = b""
        self._told = threading.Event()
        threading.Thread(target=self._work, name="progress", daemon=True).start()

    def of(self, mark: str, signals: Signals) -> Callable[[float, str], None]:
        """What the attempt `mark` with `signals` reports with; silent once it has ended."""

        def tell(fraction: float, note: str) -> None:
            said = cut(text(note), _NOTE_BYTES)
            with self._lock:
                if signals.report is not tell:
                    return
                self._newest = frames.of(mark, "progress", fraction=fraction, note=said)
            self._told.set()

        return tell

    def last(self, signals: Signals) -> bytes:
        """What was not sent yet, of an attempt that has ended: its last words go before its end."""
        with self._lock:
            signals.report = _ignore
            newest, self._newest = self._newest, b""
        return newest

    def _work(self) -> None:
        while True:
            self._told.wait()
            self._told.clear()
            with self._lock:  # sent under it: an older report must not follow the end
                self._parent.send(self._newest)
                self._newest = b""
            time.sleep(_TELL_EVERY_S)


@dataclass(slots=True)
class _Under:
    """The attempt under way."""

    mark: str
    signals: Signals
    halt: Halt | None = None


class Child:
    """Makes attempts as the worker asks for them."""

    def __init__(self, parent: Parent, target: str) -> None:
        """`target` is the app, as for --app."""
        self._parent, self._target = parent, target
        self._progress = Progress(parent)
        self._threads, self._clock = Threads(), SystemClock()
        self._under: _Under | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        self._app = App()

    def main(self) -> int:
        """Serve until the worker has hung up. Returns the exit status."""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()
        try:
            self._app = load_app(self._target)
        except SetupError as error:
            self._parent.send(frames.pack("unable", {"why": str(error)}))
            return UNABLE
        run(self._serve())
        return 0

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        kernel.end_copies(self._loop)
        self._parent.send(frames.pack("ready"))
        await self._leaving.wait()

    # --- in the thread that listens: also while a handler blocks the event loop

    def _listen(self) -> None:
        try:
            while (frame := self._parent.receive()) is not None:
                self._heard(frame)
        finally:  # Whatever went wrong: nobody would hear the worker any more.
            if self._under is not None or self._loop is None:
                kernel.end_group()
            self._loop.call_soon_threadsafe(self._leaving.set)
            time.sleep(_LEAVE_S)
            kernel.end_group()

    def _heard(self, frame: Frame) -> None:
        mark = frame.facts["of"]
        if frame.say == "run":
            under = self._under = _Under(mark, Signals())
            if frame.facts["doubt"]:
                under.signals.doubtful.set()
            self._parent.send(frames.of(mark, "started"))
            self._soon(lambda: self._begin(under, frame))
        elif (under := self._under) is None or under.mark != mark:
            pass  # what was said of an attempt that has just ended
        elif frame.say == "doubt":
            (under.signals.doubtful.set if frame.facts["is"] else under.signals.doubtful.clear)()
        else:
            under.signals.cancelled.set()
            self._soon(lambda: _interrupt(under, frame.say))

    def _soon(self, step: Callable[[], object]) -> None:
        assert self._loop is not None  # noqa: S101 - nothing but an end is said before `ready`
        self._loop.call_soon_threadsafe(step)

    # --- in the event loop

    def _begin(self, under: _Under, frame: Frame) -> None:
        under.halt = Halt()
        self._running = asyncio.get_running_loop().create_task(
            self._attempt(under, under.halt, frame)
        )

    async def _attempt(self, under: _Under, halt: Halt, frame: Frame) -> None:
        signals = under.signals
        signals.report = self._progress.of(under.mark, signals)
        try:
            ran = await self._run(signals, halt, frame)
            if ran.leftover is not None:  # The attempt ends with the process that makes it.
                await asyncio.wait({ran.leftover})
            end = frames.ended(under.mark, ran)
        except BaseException as error:  # noqa: BLE001 - a fault of ours: no report is a crash
            marks = {"error": name_of(error), "where": where(error)}
            _log.error("a child failed at a task; the attempt counts as failed", extra=marks)
            end = frames.ended(under.mark, Ran(Failed(FAULT)))
        streams.flush()  # what the handler printed: a child that is killed later has no time for it
        self._under = None
        self._parent.send(self._progress.last(signals), end)

    async def _run(self, signals: Signals, halt: Halt, frame: Frame) -> Ran:
        claim, timeout_ms = frames.claim_in(frame)
        job = prepare(claim, self._app, _NOBODY, signals)
        if isinstance(job, HandedBack):  # Its worker has it; handed back, it would come again.
            return Ran(Failed(Failure("error", _MISSING.format(claim.name))))
        if not isinstance(job, Job):
            return Ran(job)
        job = job._replace(terms=replace(job.terms, timeout_ms=timeout_ms))
        return await attempt(job, self._threads, halt, self._clock)


def _interrupt(under: _Under, word: str) -> None:
    """`limit` needs no more than the word: the attempt keeps its own time."""
    if under.halt is None:
        return
    if word == "cancel":
        under.halt.call_off()
    elif word == "stop":
        under.halt.end()


def _ignore(_fraction: float, _note: str) -> None:
    """Nobody listens to an attempt that has ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Be a child until the worker has hung up."""
    parser = argparse.ArgumentParser(prog="worker.child", description="Started by a worker.")
    parser.add_argument("--fd", required=True, type=int)
    parser.add_argument("--leash", required=True, type=int)
    parser.add_argument("--worker", required=True, type=int)
    parser.add_argument("--region", required=True)
    parser.add_argument("--app", required=True)
    arguments = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGINT):
        # The worker decides when it ends, also if a supervisor signals the whole group. Not
        # SIG_IGN, which programs that a handler starts would inherit.
        signal.signal(number, _not_for_us)
    # A worker that ignores it, as a handler there may have it, hands that down.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for held in (arguments.fd, arguments.leash):
        os.set_inheritable(held, False)  # noqa: FBT003
    kernel.die_with(arguments.leash)
    logs.setup("worker", region=arguments.region)
    end = socket.socket(fileno=arguments.fd)
    end.setblocking(True)  # noqa: FBT003 - whatever is the default
    try:
        return Child(Parent(end, arguments.worker), arguments.app).main()
    finally:
        streams.let_go()


def _not_for_us(_number: int, _frame: FrameType | None) -> None:
    """Let it pass."""


if __name__ == "__main__":
    sys.exit(main())
