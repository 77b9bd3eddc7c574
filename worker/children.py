"""Child processes: started when a task needs one, kept warm for the next, ended when idle.

Spawned, never forked: a copy of this process would hold its locks, connections and threads.
"""

import asyncio
import logging
import os
import sys
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from tradewind.errors import TradewindError
from worker.spawned import Child, spawn

_log = logging.getLogger(__name__)
_START_TIMEOUT_S: Final = 60.0  # to import the app; some bring models along
_IDLE_S: Final = 60.0  # a start costs far less than memory that is held for an hour
_AGAIN_S: Final = 0.05  # between two looks at children that were about to start
# What belongs to this process alone: where it tells of its readiness and leaves its metrics.
_NOT_FOR_CHILDREN: Final = ("TRADEWIND_READY_FD", "PROMETHEUS_MULTIPROC_DIR")


class NoChild(TradewindError):
    """A child process cannot be used with this app; the message says why."""

    reason = "NO_CHILD"


class NoChildNow(NoChild):
    """None can be started for the time being: nothing that the app or a task is to blame for."""


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
        self._starting: set[asyncio.Task[Child]] = set()  # as many as there are processors
        self._waiting: dict[asyncio.Future[None], None] = {}  # for a turn to start one, or an idle
        self._closing = False
        self._leaving: set[asyncio.Task[object]] = set()
        self._all: weakref.WeakSet[Child] = weakref.WeakSet()

    async def take(self) -> Child:
        """A child that waits for work, an idle one or a new one. Raises NoChild, NoChildNow.

        As many start at once as there are processors; the others wait for their turn, or until one
        is idle. Cancelled, a child that is about to start is kept for the next one who asks.
        """
        while (child := self._pop()) is None:
            if self._closing:
                raise NoChildNow("the worker is about to end")
            if len(self._starting) < _PROCESSORS:
                return await self._started()
            await self._turn()
        return child

    def give_back(self, child: Child) -> bool:
        """It has made its attempt; False if it is not as good as new: the caller kills it."""
        if self._closing or not child.rest(lambda: self._spoke(child)):
            return False
        later = asyncio.get_running_loop().call_later(_IDLE_S, self._dismiss, child)
        self._idle[child] = later
        self._wake()
        return True

    def _pop(self) -> Child | None:
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if child.is_quiet:
                return child
            child.kill(_UNASKED)
        return None

    def _spoke(self, child: Child) -> None:
        """It is idle and not quiet: it has ended, or what it says is of an earlier task."""
        if (timer := self._idle.pop(child, None)) is not None:
            timer.cancel()
            _log.warning("an idle child has ended, or spoken unasked", extra={"child": child.pid})
            child.kill(_UNASKED)

    async def _turn(self) -> None:
        """Return when it may be worth looking again."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await turn
        finally:
            self._waiting.pop(turn, None)

    def _wake(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)

    async def _started(self) -> Child:
        start = asyncio.get_running_loop().create_task(self._start())
        self._starting.add(start)
        start.add_done_callback(self._has_started)
        try:
            return await asyncio.shield(start)
        except asyncio.CancelledError:
            start.add_done_callback(self._keep)
            raise

    def _has_started(self, start: "asyncio.Task[Child]") -> None:
        self._starting.discard(start)
        self._wake()

    def _keep(self, start: "asyncio.Task[Child]") -> None:
        if not start.cancelled() and start.exception() is None:
            child = start.result()
            if not self.give_back(child):
                child.kill(_UNASKED)

    async def close(self) -> None:
        """End those that are idle or about to start; whoever has taken one kills it.

        Returns once all that were killed are gone.
        """
        self._closing = True
        self._wake()
        while self._starting:  # not cancelled: a process half made would be nobody's
            for child in self._young:
                child.kill("the worker ends")
            await asyncio.wait(self._starting, timeout=_AGAIN_S)
        for child, timer in self._idle.items():
            timer.cancel()
            self._aside(child.leave())
        self._idle.clear()
        for child in self._all:
            if child.is_dying:
                self._aside(child.gone())
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _dismiss(self, child: Child) -> None:
        if self._idle.pop(child, None) is not None:
            self._aside(child.leave())

    def _aside(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _start(self) -> Child:
        env = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_CHILDREN}
        try:
            child = await spawn(self._command, env, self._directory)
        except OSError as error:
            raise NoChildNow(f"a child process cannot be started ({error.strerror})") from error
        self._young.add(child)
        self._all.add(child)
        slow = ""
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                frame = await child.hear()
        except TimeoutError:
            frame, slow = None, f"it was not ready within {_START_TIMEOUT_S:g} s"
        finally:
            self._young.discard(child)
        if frame is not None and frame.say == "ready":
            return child
        child.kill(slow or "it could not be used")
        how = await child.gone()
        if frame is None and child.was_killed:  # no time or memory for it: more may be left later
            raise NoChildNow(f"a child process {how}; what does the app do when it is imported?")
        why = frame.facts.get("why", "") if frame is not None else ""
        raise NoChild(f"the app cannot be used in a child process: {why or f'it {how}'}")


def _processors() -> int:
    """How many this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_PROCESSORS: Final = _processors()  # more starts at once would only be slower, each of them
_UNASKED: Final = "it spoke although nobody had asked it to"
