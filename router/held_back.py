"""How many ready tasks of paused queues the regions hold: nobody has to wait for those.

Load reports count what is ready, of whatever queue. Without this, a queue that is paused and goes
on taking tasks would make its regions look as if all others had to wait behind it.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from router.failures import report
from tradewind.errors import StoreError
from tradewind.task import QueueCounts
from tradewind.ticks import tick

_LOOK_S: Final = 5.0  # a region's counts are as many commands as it has partitions
_ANSWER_S: Final = 2.0


class Counted(Protocol):
    """What this asks of a region."""

    async def counts(self) -> Mapping[str, QueueCounts]:
        """Tasks by queue."""
        ...


class Seen(Protocol):
    """What this needs of the census."""

    def answers(self, region: str) -> bool:
        """Whether a call to it is worth while."""
        ...

    def hold_back(self, region: str, tasks: int) -> None:
        """Take so many of its ready tasks for held back."""
        ...


class HeldBack:
    """Keeps the census up to date about it, while a queue is paused."""

    def __init__(
        self, stores: Mapping[str, Counted], census: Seen, paused: Callable[[], Collection[str]]
    ) -> None:
        """`paused()`: names of the queues."""
        self._stores, self._census, self._paused = dict(stores), census, paused
        self._told: set[str] = set()  # regions of which the census knows a number

    def follow(self, stores: Mapping[str, Counted]) -> None:
        """Go on with other regions."""
        self._stores = dict(stores)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - numbers must not end a router
                report("held back tasks", error)
            await tick(_LOOK_S)

    async def look(self) -> None:
        """Count once. What is not paused any more is not held back."""
        paused = frozenset(self._paused())
        if paused:
            near = filter(self._census.answers, list(self._stores))
            await asyncio.gather(*(self._count(name, paused) for name in near))
        else:
            for name in self._told:
                self._census.hold_back(name, 0)
            self._told.clear()

    async def _count(self, name: str, paused: Collection[str]) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                counts = await self._stores[name].counts()
        except (StoreError, TimeoutError):
            return  # the last number will do
        ready = sum(sum(count.pending) for queue, count in counts.items() if queue in paused)
        self._census.hold_back(name, ready)
        self._told.add(name)
