"""How waiting workers and watchers hear of something."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from tradewind import ids
from tradewind.clock import Clock
from tradewind.limits import MINUTE_MS
from tradewind.testing.memory.cells import Cell

Hint = tuple[str, int, str]  # kind, partition, queue
HINT_MS: Final = MINUTE_MS  # as lib/wake.lua


class News:
    """Task ids, told to whoever listens."""

    def __init__(self) -> None:
        """Nobody listens."""
        self._listeners: list[asyncio.Queue[str]] = []

    def tell(self, task_id: str) -> None:
        """Everybody hears of it."""
        for listener in self._listeners:
            listener.put_nowait(task_id)

    async def listen(self) -> AsyncIterator[str]:
        """Ids from now on; an empty one says from when."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            yield ""
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove(queue)


class Hints:
    """That a partition may have work for a queue: `wake`, `suspects`, or `others` for parked work.

    At most one of a kind at a time; whoever takes it claims, and claim sets it anew.
    """

    def __init__(self, clock: Clock) -> None:
        """By `clock` a hint that nobody takes is gone after HINT_MS."""
        self._clock = clock
        self._until_ms: dict[Hint, int] = {}
        self._served: dict[int, int] = {}  # by partition: the number of its last turn
        self._waiting: list[asyncio.Event] = []

    def set(self, cell: Cell) -> None:
        """A task is ready."""
        partition = ids.parse(cell.task_id).partition
        self.give("suspects" if cell.is_suspect else "wake", partition, cell.queue)

    def give(self, kind: str, partition: int, queue: str) -> None:
        """Wake one who waits for that."""
        self._until_ms.setdefault((kind, partition, queue), self._clock.now_ms() + HINT_MS)
        for waiting in self._waiting:
            waiting.set()

    async def take(self, kinds: Sequence[Sequence[Hint]]) -> int:
        """Wait for one of these hints, the first kind before the next; returns its partition."""
        news = asyncio.Event()
        self._waiting.append(news)
        try:
            while (partition := self._taken(kinds)) is None:
                news.clear()
                await news.wait()
            return partition
        finally:
            self._waiting.remove(news)

    def _taken(self, kinds: Sequence[Sequence[Hint]]) -> int | None:
        for wanted in kinds:
            found = [hint for hint in wanted if self._is_set(hint)]
            if found:
                # Who was served longest ago has its turn.
                hint = min(found, key=lambda hint: self._served.get(hint[1], 0))
                self._served[hint[1]] = 1 + max(self._served.values(), default=0)
                del self._until_ms[hint]
                return hint[1]
        return None

    def _is_set(self, hint: Hint) -> bool:
        if self._until_ms.get(hint, self._clock.now_ms()) > self._clock.now_ms():
            return True
        self._until_ms.pop(hint, None)
        return False
