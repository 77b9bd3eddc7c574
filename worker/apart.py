"""One attempt in a child process: it can be ended whatever it does, and may die by itself."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tradewind.attempts.job import Job
from tradewind.attempts.settle import CalledOff, Died, Failed, HandedBack, Verdict
from tradewind.handlers import Flag
from tradewind.task import Failure
from worker import frames
from worker.children import Children, NoChild, NoChildNow
from worker.run import Ran, too_long
from worker.slot import Halt
from worker.spawned import Child

_log = logging.getLogger(__name__)
_GRACE_S: Final = 1.0  # for what a handler does when it is told to stop; then it is killed
_PAUSE_S: Final = 2.0  # a host without memory, descriptors or time is not asked all the time
_FIRST = asyncio.FIRST_COMPLETED
_OVER: Final = "its attempt was over"


async def attempt(
    job: Job, children: Children, halt: Halt, may_begin: Callable[[], bool] = lambda: True
) -> Ran:
    """Run the handler within its time limit, or until one of `halt`.

    Handed back if there is a process for it and it may not begin any more.

    It is told to stop first; a little later it is killed, and no verdict is given before its
    process is gone. Died if the process ended by itself; that needs no report of its own. Handed
    back, after a pause, if this host has no process for it: that uses no attempt.
    """
    why = "its child processes died before the handler began"
    for _ in range(2):  # An idle child may have died since: that is nobody's fault.
        try:
            child = await _taken(children, halt)
        except NoChildNow as error:
            why = str(error)
            break
        except NoChild as error:
            return Ran(Failed(Failure("error", str(error))), error=type(error).__name__)
        halted = _halted(halt) or (None if may_begin() else HandedBack())
        if halted is not None:
            if child is not None and not children.give_back(child):
                child.kill(_OVER)
            return Ran(halted)
        if child is not None and (ran := await _in(child, job, children, halt)) is not None:
            return ran
    marks = {"task_id": job.claim.task_id, "task": job.claim.name, "reason": why}
    _log.warning("no child process for an attempt; its task is handed back", extra=marks)
    # Later: whoever takes the task next may well be we, and fares no better now.
    await asyncio.wait({halt.stop, halt.cancel}, timeout=_PAUSE_S, return_when=_FIRST)
    return Ran(_halted(halt) or HandedBack())


async def _taken(children: Children, halt: Halt) -> Child | None:
    """A child; None if the attempt is not to begin any more. Raises NoChild."""
    starting = asyncio.ensure_future(children.take())
    try:
        await asyncio.wait({starting, halt.stop, halt.cancel}, return_when=_FIRST)
    finally:
        if not starting.done():
            starting.cancel()
    return starting.result() if starting.done() else None


async def _in(child: Child, job: Job, children: Children, halt: Halt) -> Ran | None:
    """The attempt in `child`; None if that died before it began."""
    talk = _Talk(child, job)
    loop = asyncio.get_running_loop()
    doubtful = job.signals.doubtful.is_set()
    job.signals.doubtful = _Relay(
        doubtful, lambda is_set: loop.call_soon_threadsafe(talk.doubt, is_set)
    )
    child.say(frames.run(job.claim, job.terms.timeout_ms, doubtful=doubtful))
    ended = asyncio.ensure_future(talk.listen())
    verdict, kept = None, False
    try:
        waits = {ended, halt.stop, halt.cancel}
        await asyncio.wait(waits, timeout=job.terms.timeout_ms / 1000, return_when=_FIRST)
        if not ended.done():
            verdict = _halted(halt) or too_long(job)
            talk.say(_word(verdict))
            await asyncio.wait({ended}, timeout=_GRACE_S)
        if not ended.done():
            _log.warning("a handler does not stop; it is killed", extra=_marks(job, child))
            child.kill(_OVER)
        ran = await ended
        kept = ran is not None and children.give_back(child)
    finally:
        if not kept:
            ended.cancel()
            child.kill(talk.fault or _OVER)
    if kept:
        return ran
    how = await child.gone()
    if ran is not None:
        return ran
    if verdict is not None:
        return Ran(verdict)
    return Ran(Died(f"the process that ran the handler {how}")) if talk.has_begun else None


class _Talk:
    """What a worker and a child say of one attempt."""

    def __init__(self, child: Child, job: Job) -> None:
        self._child, self._signals = child, job.signals
        self._mark = frames.mark_of(job.claim)
        self.has_begun = False
        self.fault = "it had hung up"  # why it is killed if it falls silent

    async def listen(self) -> Ran | None:
        """Hear it out. None if it ended without a report, or with one that makes no sense."""
        try:
            return await self._listen()
        except Exception as error:  # noqa: BLE001 - whatever a handler has written to its socket
            _log.error("a child said what makes no sense", extra={"reason": _said(error)})
            self.fault = "it had said what makes no sense"
            return None

    async def _listen(self) -> Ran | None:
        while (frame := await self._child.hear()) is not None:
            if frame.facts.get("of") != self._mark:
                raise frames.NoFrame(f"{frame.say} of another attempt")
            match frame.say:
                case "started":
                    self.has_begun = True
                case "progress":
                    self._signals.report(frame.facts["fraction"], frame.facts["note"])
                case "ended":
                    return frames.ran_in(frame)
                case other:
                    raise frames.NoFrame(f"{other} from a child")
        return None

    def say(self, word: str) -> None:
        """Have the handler stop, for the reason that `word` is."""
        self._child.say(frames.of(self._mark, word))

    def doubt(self, is_set: bool) -> None:  # noqa: FBT001 - a callback
        """The lease is doubtful, or no longer."""
        self._child.say(frames.of(self._mark, "doubt", **{"is": is_set}))


class _Relay(Flag):
    """A signal that is passed on when it changes. Set and cleared by the guard's thread."""

    def __init__(self, is_set: bool, pass_on: Callable[[bool], object]) -> None:  # noqa: FBT001
        super().__init__()
        self._pass_on = pass_on
        if is_set:  # as whoever it is passed on to has been told
            super().set()

    def set(self) -> None:
        if not self.is_set():
            super().set()
            self._tell(True)  # noqa: FBT003

    def clear(self) -> None:
        if self.is_set():
            super().clear()
            self._tell(False)  # noqa: FBT003

    def _tell(self, is_set: bool) -> None:  # noqa: FBT001
        try:
            self._pass_on(is_set)
        except RuntimeError:  # the loop has closed
            _log.debug("nobody is left to hear of a lease")


def _halted(halt: Halt) -> Verdict | None:
    """How an attempt ends that is not to go on."""
    if halt.stop.done():
        return HandedBack()
    return CalledOff() if halt.cancel.done() else None


def _word(verdict: Verdict) -> str:
    if isinstance(verdict, HandedBack):
        return "stop"
    return "cancel" if isinstance(verdict, CalledOff) else "limit"


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, frames.NoFrame) else type(error).__name__


def _marks(job: Job, child: Child) -> dict[str, object]:
    return {"task_id": job.claim.task_id, "task": job.claim.name, "child": child.pid}
