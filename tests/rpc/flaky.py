"""A store whose calls fail on command, before or after they did their work."""

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tradewind.errors import StoreError, StoreFull, StoreUnavailable
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import EnqueueOutcome, LedgerHit, LedgerMark, NewTask, Pointer, Record, Stored


@dataclass(frozen=True, slots=True)
class Fault:
    """Raised by the next call of `method`; `late`: after the store did it."""

    method: str
    error: StoreError
    late: bool = False


#: How a call may fail by dice: (after its work was done, `sent`; None: the store is full).
_WAYS: dict[str, list[tuple[bool, bool | None]]] = {
    "enqueue": [(False, False), (False, True), (True, True), (False, None)],
    "reserve": [(False, False), (False, True), (True, True)],
    "refuse": [(False, False), (False, True)],
    "confirm": [(False, True)],
    "unreserve": [(False, False), (False, True)],
}


@dataclass(frozen=True, slots=True)
class Pause:
    """The next call of a method says `reached`, and goes on once it is `over`.

    It has done its work by then, or with `before` has not begun.
    """

    before: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class FlakyStore:
    """A real store, for what the router asks of it, with faults in their order."""

    real: RegionStore
    faults: deque[Fault] = field(default_factory=deque[Fault])
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    pauses: dict[str, Pause] = field(default_factory=dict[str, Pause])
    dice: random.Random | None = None
    share: float = 0.0

    @property
    def region(self) -> str:
        return self.real.region

    def now_ms(self) -> int | None:
        return self.real.now_ms()

    def fail(self, method: str, *errors: StoreError, late: bool = False) -> None:
        self.faults.extend(Fault(method, error, late) for error in errors)

    def roll(self, dice: random.Random, share: float) -> None:
        """From now on this `share` of submits' calls fails, in one of the ways of its method."""
        self.dice, self.share = dice, share

    def pause(self, method: str, *, before: bool = False) -> Pause:
        return self.pauses.setdefault(method, Pause(before=before))

    async def _rest(self, method: str, *, before: bool = False) -> None:
        pause = self.pauses.get(method)
        if pause is not None and pause.before == before:
            del self.pauses[method]
            pause.reached.set()
            await pause.over.wait()

    def _next(self, method: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method:
                self.faults.remove(fault)
                return fault
        if self.dice is None or method not in _WAYS or self.dice.random() >= self.share:
            return None
        late, sent = self.dice.choice(_WAYS[method])
        if sent is None:
            return Fault(method, StoreFull(self.region))
        return Fault(method, StoreUnavailable(self.region, "by dice", sent=sent), late)

    async def enqueue(
        self, tasks: Sequence[NewTask], *, timeout_s: float
    ) -> tuple[list[EnqueueOutcome | StoreError], Mapping[int, int]]:
        self.calls.append(("enqueue", [task.task_id for task in tasks]))
        fault = self._next("enqueue")
        if fault is not None and not fault.late:
            raise fault.error
        await self._rest("enqueue", before=True)
        answer = await self.real.enqueue(tasks, timeout_s=timeout_s)
        await self._rest("enqueue")
        if fault is not None:
            raise fault.error
        return answer

    async def refuse(self, task_id: str, epoch: int) -> Stored | None:
        self.calls.append(("refuse", task_id))
        if fault := self._next("refuse"):
            raise fault.error
        await self._rest("refuse", before=True)
        stored = await self.real.refuse(task_id, epoch)
        await self._rest("refuse")
        return stored

    async def reserve(
        self, mark: LedgerMark, task_id: str, region: str, epoch: int
    ) -> LedgerHit | None:
        self.calls.append(("reserve", (task_id, region, epoch)))
        fault = self._next("reserve")
        if fault is not None and not fault.late:
            raise fault.error
        await self._rest("reserve", before=True)
        hit = await self.real.reserve(mark, task_id, region, epoch)
        await self._rest("reserve")
        if fault is not None:
            raise fault.error
        return hit

    async def confirm(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        self.calls.append(("confirm", (task_id, epoch)))
        if fault := self._next("confirm"):
            raise fault.error
        await self._rest("confirm", before=True)
        return await self.real.confirm(mark, task_id, epoch)

    async def unreserve(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        self.calls.append(("unreserve", (task_id, epoch)))
        if fault := self._next("unreserve"):
            raise fault.error
        await self._rest("unreserve", before=True)
        return await self.real.unreserve(mark, task_id, epoch)

    async def forget(self, mark: LedgerMark, task_id: str, *, ended: State | None = None) -> bool:
        self.calls.append(("forget", task_id))
        if fault := self._next("forget"):
            raise fault.error
        await self._rest("forget", before=True)
        return await self.real.forget(mark, task_id, ended=ended)

    async def read(self, task_id: str) -> Record | Pointer | None:
        if fault := self._next("read"):
            raise fault.error
        found = await self.real.read(task_id)
        await self._rest("read")
        return found

    async def watch(self, task_id: str) -> Record | Pointer | None:
        if fault := self._next("watch"):
            raise fault.error
        return await self.real.watch(task_id)

    async def dead_page(
        self, partition: int, *, after: str, limit: int
    ) -> tuple[list[Record], str]:
        if fault := self._next("dead_page"):
            raise fault.error
        return await self.real.dead_page(partition, after=after, limit=limit)

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self.real, name)
        if not any(fault.method == name for fault in self.faults):
            return plain

        async def faulty(*args: Any, **kwargs: Any) -> Any:
            fault = self._next(name)
            if fault is None or fault.late:
                answer = await plain(*args, **kwargs)
                if fault is None:
                    return answer
            raise fault.error

        return faulty
