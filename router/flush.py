"""Group flush: submits to one region that come together travel in one call.

Nothing waits while the region is idle. While a call is under way others gather, for at most
FLUSH_WAIT_MS, MAX_FLUSH tasks or MAX_BATCH_BYTES. A submit whose caller left before its call began
is dropped; a call that has begun runs to its end.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tradewind.errors import StoreError
from tradewind.limits import FLUSH_WAIT_MS, MAX_BATCH_BYTES, MAX_FLUSH, SECOND_MS
from tradewind.ports import Intake
from tradewind.task import EnqueueOutcome, NewTask

MAX_CALLS: Final = 4  # under way at once per region; more only queue up inside Redis


class Listener(Protocol):
    """Whoever wants to know what flushing tells about a region."""

    def sent(self, region: str, tasks: int) -> None:
        """Tasks are on their way, from the moment they were given to the flush."""
        ...

    def dropped(self, region: str, tasks: int) -> None:
        """They are not any more: their callers left before the call."""
        ...

    def answered(
        self, region: str, tasks: int, depths: Mapping[int, int], error: StoreError | None
    ) -> None:
        """The call that carried them ended."""
        ...


@dataclass(slots=True)
class _Waiting:
    task: NewTask
    until_s: float  # by the loop's clock
    answer: asyncio.Future[EnqueueOutcome]


class Flush:
    """The way into one region for all submits of this router."""

    def __init__(self, intake: Intake, listener: Listener) -> None:
        """`listener` hears of every call."""
        self._intake, self._listener = intake, listener
        self._waiting: deque[_Waiting] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None

    async def submit(self, task: NewTask, *, timeout_s: float) -> EnqueueOutcome:
        """Store a task. Raises what Intake.enqueue answers or raises for it."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(task, loop.time() + timeout_s, loop.create_future())
        self._waiting.append(waiting)
        # Counted now: the next decision of the same moment must see that this one goes there.
        self._listener.sent(self._intake.region, 1)
        self._arm(loop)
        return await waiting.answer

    async def drain(self) -> None:
        """Return once every call under way has ended."""
        self._start()
        while self._calls:
            await asyncio.wait(self._calls)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if len(self._calls) >= MAX_CALLS:
            return  # the next call to end starts the next one
        if self._calls and len(self._waiting) < MAX_FLUSH:
            if self._timer is None:
                self._timer = loop.call_later(FLUSH_WAIT_MS / SECOND_MS, self._start)
        elif not self._calls and self._timer is None:
            # At the end of this turn of the loop, so that whatever is ready now comes along.
            self._timer = loop.call_soon(self._start)
        elif self._calls:
            self._start()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while len(self._calls) < MAX_CALLS and (batch := self._take()):
            call = asyncio.get_running_loop().create_task(self._call(batch))
            self._calls.add(call)
            call.add_done_callback(self._ended)

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        room = MAX_BATCH_BYTES
        while self._waiting and len(batch) < MAX_FLUSH:
            if self._waiting[0].answer.done():  # its caller is gone
                self._waiting.popleft()
                self._listener.dropped(self._intake.region, 1)
                continue
            room -= len(self._waiting[0].task.packed)
            if room < 0 and batch:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._waiting:  # also before their time: the region has just become free
            self._start()

    async def _call(self, batch: list[_Waiting]) -> None:
        region, count = self._intake.region, len(batch)
        now_s = asyncio.get_running_loop().time()
        timeout_s = max(0.001, max(waiting.until_s for waiting in batch) - now_s)
        depths: Mapping[int, int] = {}
        failure: StoreError | None = None
        try:
            outcomes, depths = await self._intake.enqueue(
                [waiting.task for waiting in batch], timeout_s=timeout_s
            )
        except StoreError as error:
            failure = error
            outcomes = [error] * count
        except BaseException as error:
            self._listener.answered(region, count, {}, None)
            _refuse(batch, error)
            if not isinstance(error, Exception):
                raise
            return
        errors = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
        self._listener.answered(region, count, depths, failure or (errors[0] if errors else None))
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.answer.done():
                continue
            if isinstance(outcome, StoreError):
                waiting.answer.set_exception(outcome)
            else:
                waiting.answer.set_result(outcome)


def _refuse(batch: list[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            if isinstance(error, Exception):
                waiting.answer.set_exception(error)
            else:
                waiting.answer.cancel()
