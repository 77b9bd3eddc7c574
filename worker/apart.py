"""One attempt in a child process: it can be ended whatever it does, and may die by itself."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tradewind.attempts.job import Job
from tradewind.attempts.settle import CalledOff, Died, Failed, HandedBack, Verdict
from tradewind.handlers import Flag, Signals
from tradewind.task import Failure
from worker import frames
from worker.children import Child, Children, NoChild
from worker.run import Ran, too_long
from worker.slot import Halt

_log = logging.getLogger(__name__)
_GRACE_S: Final = 1.0  # for what a handler does when it is told to stop; then it is killed
_FIRST = asyncio.FIRST_COMPLETED


async def attempt(job: Job, children: Children, halt: Halt) -> Ran:
    """Run the handler within its time limit, or until one of `halt`.

    It is told to stop first; a little later it is killed, and no verdict is given before its
    process is gone. Died if the process ended by itself; that needs no report of its own.
    """
    for _ in range(2):  # An idle child may have died since: that is nobody's fault.
        try:
            child = await _taken(children, halt)
        except NoChild as error:
            return Ran(Failed(Failure("error", str(error))), error=type(error).__name__)
        if (halted := _halted(halt)) is not None:
            if child is not None:
                children.give_back(child)
            return Ran(halted)
        if child is not None and (ran := await _in(child, job, children, halt)) is not None:
            return ran
    return Ran(Failed(Failure("error", "its child processes died before the handler began")))


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
    talk = _Talk(child, job.signals)
    loop = asyncio.get_running_loop()
    job.signals.doubtful = _Relay(
        job.signals.doubtful.is_set(), lambda is_set: loop.call_soon_threadsafe(talk.doubt, is_set)
    )
    child.say(frames.run(job.claim, job.terms.timeout_ms))
    ended = asyncio.ensure_future(talk.listen())
    try:
        waits = {ended, halt.stop, halt.cancel}
        await asyncio.wait(waits, timeout=job.terms.timeout_ms / 1000, return_when=_FIRST)
        verdict = None
        if not ended.done():
            verdict = _halted(halt) or too_long(job)
            child.say(frames.pack(_word(verdict)))
            await asyncio.wait({ended}, timeout=_GRACE_S)
        if not ended.done():
            _log.warning("a handler does not stop; it is killed", extra=_marks(job, child))
            child.kill()
        ran = await ended
    finally:
        if not ended.done():
            child.kill()
            ended.cancel()
    if ran is not None and not child.is_gone:
        children.give_back(child)
        return ran
    child.kill()
    how = await child.gone()
    if ran is not None:
        return ran
    if verdict is not None:
        return Ran(verdict)
    return Ran(Died(f"the process that ran the handler {how}")) if talk.has_begun else None


class _Talk:
    """What a child says of one attempt."""

    def __init__(self, child: Child, signals: Signals) -> None:
        self._child, self._signals = child, signals
        self.has_begun = False

    async def listen(self) -> Ran | None:
        """Hear it out. None if it ended without a report, or with one that makes no sense."""
        try:
            return await self._listen()
        except frames.NoFrame as error:
            _log.error("a child said what makes no sense", extra={"reason": str(error)})
            return None

    async def _listen(self) -> Ran | None:
        while (frame := await self._child.hear()) is not None:
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

    def doubt(self, is_set: bool) -> None:  # noqa: FBT001 - a callback
        """The lease is doubtful, or no longer."""
        self._child.say(frames.pack("doubt", {"is": is_set}))


class _Relay(Flag):
    """A signal that is passed on when it changes. Set and cleared by the guard's thread."""

    def __init__(self, is_set: bool, pass_on: Callable[[bool], object]) -> None:  # noqa: FBT001
        super().__init__()
        self._pass_on = pass_on
        if is_set:
            self.set()

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


def _marks(job: Job, child: Child) -> dict[str, object]:
    return {"task_id": job.claim.task_id, "task": job.claim.name, "child": child.pid}
