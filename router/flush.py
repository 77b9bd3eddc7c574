"""Group flush: submits to one region that come together travel in one call.

Nothing waits while the region is idle. While a call is under way, or has begun less than
FLUSH_WAIT_MS ago, the next one leaves FLUSH_WAIT_MS after the first that waits for it, since a call
costs as much as many more tasks in it; or as soon as ENOUGH wait, so a message of many waits for
nobody. It has at most MAX_FLUSH tasks or MAX_BATCH_BYTES. At a router so busy that others came
meanwhile it waits as long again, FLUSH_LONGEST_MS in all: there a submit waits for its turn far
longer anyway, and a call with two or three costs each of them more than all else. What came in one
message stays together as far as these limits allow. A submit whose caller left before its call
began is dropped; a call that has begun runs to its end. One timer watches over the deadlines of
all: a timer for each would cost 15 us.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from tradewind.errors import StoreError, StoreUnavailable
from tradewind.limits import (
    FLUSH_LONGEST_MS,
    FLUSH_WAIT_MS,
    MAX_BATCH_BYTES,
    MAX_FLUSH,
    SECOND_MS,
)
from tradewind.ports import Intake
from tradewind.task import EnqueueOutcome, NewTask

#: Tasks that wait for no company: a call of so many costs each of them little more than a call of
#: MAX_FLUSH would, and while it waited its sender might have nothing else to do.
ENOUGH: Final = 32
MAX_CALLS: Final = 4  # under way at once per region; more only queue up inside Redis


class Listener(Protocol):
    """Whoever wants to know what flushing tells about a region."""

    def sent(self, region: str, names: Mapping[str, int]) -> None:
        """So many tasks of each name are on their way, from when they were given to the flush."""
        ...

    def dropped(self, region: str, names: Mapping[str, int]) -> None:
        """They are not any more: their callers left before the call."""
        ...

    def answered(
        self,
        region: str,
        names: Mapping[str, int],
        depths: Mapping[int, int],
        error: StoreError | None,
        took_ms: float | None = None,
    ) -> None:
        """The call that carried them ended; `took_ms` if it was answered."""
        ...


class _Nobody:
    """A Listener that wants to know nothing."""

    def sent(self, region: str, names: Mapping[str, int]) -> None: ...
    def dropped(self, region: str, names: Mapping[str, int]) -> None: ...
    def answered(
        self,
        region: str,
        names: Mapping[str, int],
        depths: Mapping[int, int],
        error: StoreError | None,
        took_ms: float | None = None,
    ) -> None: ...


Outcomes = list[EnqueueOutcome | StoreError]  # in the order of the tasks


@dataclass(slots=True, eq=False)
class _Waiting:
    tasks: Sequence[NewTask]
    size: int  # bytes
    until_s: float  # by the loop's clock
    answer: asyncio.Future[Outcomes]


class Flush:
    """The way into one region for all submits of this router."""

    def __init__(self, intake: Intake, listener: Listener) -> None:
        """`listener` hears of every call."""
        self._intake, self._listener = intake, listener
        self._waiting: deque[_Waiting] = deque()
        self._count = 0  # of the tasks that wait
        self._calls: dict[asyncio.Task[None], list[_Waiting]] = {}
        self._timer: asyncio.Handle | None = None
        self._is_leaving = False  # it ends with this turn of the loop
        self._company = 0  # tasks that waited when the timer was set
        self._longest_s = 0.0  # until when it may be set anew, by the loop's clock
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_s = math.inf  # the first deadline, by the loop's clock
        self._began_s = -math.inf  # the latest call, by the loop's clock

    def send(self, tasks: Sequence[NewTask], *, timeout_s: float) -> asyncio.Future[Outcomes]:
        """Store tasks, at most MAX_FLUSH. The future ends with what Intake.enqueue says of each.

        Without an answer in time it says that they may be stored. Whoever cancels it while it waits
        takes them back.
        """
        loop = asyncio.get_running_loop()
        size = sum([len(task.packed) for task in tasks])
        waiting = _Waiting(tasks, size, loop.time() + timeout_s, loop.create_future())
        self._waiting.append(waiting)
        self._count += len(tasks)
        # Counted now: the next decision of the same moment must see that these go there.
        self._listener.sent(self._intake.region, _names(tasks))
        if waiting.until_s < self._alarm_s:
            self._set_alarm(waiting.until_s)
        self._arm(loop)
        return waiting.answer

    def unheard(self) -> None:
        """Tell the listener of nothing any more."""
        self._listener = _Nobody()

    async def drain(self) -> None:
        """Return once nothing waits, and every call under way has ended."""
        while self._waiting or self._calls:
            self._start()
            if self._calls:
                await asyncio.wait(self._calls)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if len(self._calls) >= MAX_CALLS:
            return  # the next call to end starts the next one
        if self._count >= MAX_FLUSH:
            self._start()
        elif self._timer is None:
            now_s, wait_s = loop.time(), FLUSH_WAIT_MS / SECOND_MS
            is_busy = self._calls or now_s < self._began_s + wait_s
            if is_busy and self._count < ENOUGH:
                self._company = self._count
                self._longest_s = now_s + FLUSH_LONGEST_MS / SECOND_MS
                self._timer = loop.call_later(wait_s, self._ripen)
            else:
                self._leave(loop)
        elif self._count >= ENOUGH and not self._is_leaving:
            self._timer.cancel()
            self._leave(loop)

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a call at the end of this turn of the loop: whatever is ready now comes along."""
        self._timer, self._is_leaving = loop.call_soon(self._start), True

    def _ripen(self) -> None:
        """Begin a call, unless others came meanwhile: then more of them will."""
        loop, wait_s = asyncio.get_running_loop(), FLUSH_WAIT_MS / SECOND_MS
        if self._count > self._company and loop.time() + wait_s <= self._longest_s:
            self._company = self._count
            self._timer = loop.call_later(wait_s, self._ripen)
        else:
            self._start()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._is_leaving = None, False
        while len(self._calls) < MAX_CALLS and (batch := self._take()):
            self._began_s = asyncio.get_running_loop().time()
            call = asyncio.get_running_loop().create_task(self._call(batch))
            self._calls[call] = batch
            call.add_done_callback(self._ended)

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        tasks, room = MAX_FLUSH, MAX_BATCH_BYTES
        while self._waiting:
            first = self._waiting[0]
            is_gone = first.answer.done()  # its caller is
            tasks, room = tasks - len(first.tasks), room - first.size
            if not is_gone and batch and (tasks < 0 or room < 0):
                break
            self._waiting.popleft()
            self._count -= len(first.tasks)
            if is_gone:
                tasks, room = tasks + len(first.tasks), room + first.size
                self._listener.dropped(self._intake.region, _names(first.tasks))
            else:
                batch.append(first)
        return batch

    def _ended(self, call: asyncio.Task[None]) -> None:
        del self._calls[call]
        if self._waiting:
            self._arm(asyncio.get_running_loop())

    def _set_alarm(self, at_s: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_s = at_s
        self._alarm = asyncio.get_running_loop().call_at(at_s, self._ring)

    def _ring(self) -> None:
        """Answer those whose deadline has passed: what began may yet be stored."""
        now_s = asyncio.get_running_loop().time()
        self._alarm, self._alarm_s = None, math.inf
        late = StoreUnavailable(self._intake.region, "no answer in time", sent=True)
        first_s = math.inf
        for waiting in chain(self._waiting, *self._calls.values()):
            if waiting.answer.done():
                continue
            if waiting.until_s <= now_s:
                waiting.answer.set_result([late] * len(waiting.tasks))
            else:
                first_s = min(first_s, waiting.until_s)
        if first_s < math.inf:
            self._set_alarm(first_s)

    async def _call(self, batch: list[_Waiting]) -> None:
        region = self._intake.region
        tasks = batch[0].tasks
        if len(batch) > 1:
            tasks = [task for waiting in batch for task in waiting.tasks]
        clock = asyncio.get_running_loop().time
        began_s = clock()
        timeout_s = max(0.001, max([waiting.until_s for waiting in batch]) - began_s)
        depths: Mapping[int, int] = {}
        failure: StoreError | None = None
        outcomes: Sequence[EnqueueOutcome | StoreError]
        try:
            outcomes, depths = await self._intake.enqueue(tasks, timeout_s=timeout_s)
        except StoreError as error:
            failure = error
            outcomes = [error] * len(tasks)
        except BaseException as error:
            self._listener.answered(region, _names(tasks), {}, None)
            _refuse(batch, error)
            if not isinstance(error, Exception):
                raise
            return
        if failure is None:
            failure = next((found for found in outcomes if isinstance(found, StoreError)), None)
        took_ms = None if failure else (clock() - began_s) * SECOND_MS
        self._listener.answered(region, _names(tasks), depths, failure, took_ms)
        begin = 0
        for waiting in batch:
            end = begin + len(waiting.tasks)
            if not waiting.answer.done():
                waiting.answer.set_result(list(outcomes[begin:end]))
            begin = end


def _names(tasks: Sequence[NewTask]) -> Mapping[str, int]:
    """How many there are of each name."""
    if len(tasks) == 1:
        return {tasks[0].name: 1}
    return Counter([task.name for task in tasks])


def _refuse(batch: list[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            if isinstance(error, Exception):
                waiting.answer.set_exception(error)
            else:
                waiting.answer.cancel()
