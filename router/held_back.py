"""How many ready tasks the regions hold that nobody has to wait for.

Load reports count what is ready, of whatever queue and handler. Without this, a queue that is
paused and goes on taking tasks would make its regions look as if all others had to wait behind it;
and so would tasks that no live worker of their region runs, beside slots that are free.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from router.failures import report
from tradewind.errors import StoreError
from tradewind.limits import SECOND_MS
from tradewind.policy.filters import serves
from tradewind.task import QueueCounts
from tradewind.ticks import tick
from tradewind.view import RegionView

_TICK_S: Final = 1.0  # as often as heartbeats come
_LOOK_MS: Final = 5 * SECOND_MS  # a region's counts are as many calls as it has partitions
_ANSWER_S: Final = 2.0


class Counted(Protocol):
    """What this asks of a region."""

    async def counts(self) -> Mapping[str, QueueCounts]:
        """Tasks by queue."""
        ...

    async def parked(self) -> Mapping[tuple[str, str], int]:
        """Ready tasks by queue and handler, which a worker of that queue has found not to run."""
        ...


class Seen(Protocol):
    """What this needs of the census."""

    def now_ms(self) -> float:
        """A monotonic clock."""
        ...

    def answers(self, region: str) -> bool:
        """Whether a call to it is worth while."""
        ...

    def view(self, region: str) -> RegionView:
        """The region as of now."""
        ...

    def hold_back(self, region: str, tasks: int) -> None:
        """Take so many of its ready tasks for held back."""
        ...


class HeldBack:
    """Keeps the census up to date about it, where a queue is paused or tasks are ready."""

    def __init__(
        self, stores: Mapping[str, Counted], census: Seen, paused: Callable[[], Collection[str]]
    ) -> None:
        """`paused()`: names of the queues."""
        self._stores, self._census, self._paused = dict(stores), census, paused
        self._looked_ms: dict[str, float] = {}

    def follow(self, stores: Mapping[str, Counted]) -> None:
        """Go on with other regions."""
        self._stores = dict(stores)
        for name in self._looked_ms.keys() - stores.keys():
            del self._looked_ms[name]

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - numbers must not end a router
                report("held back tasks", error)
            await tick(_TICK_S)

    async def look(self) -> None:
        """Count where it is time to. What may start again is not held back any more."""
        paused = frozenset(self._paused())
        near = filter(self._census.answers, list(self._stores))
        await asyncio.gather(*(self._look_at(name, paused) for name in near))

    async def _look_at(self, name: str, paused: Collection[str]) -> None:
        view, now_ms = self._census.view(name), self._census.now_ms()
        if not view.depth and not view.held_back and not paused:
            return
        since_ms = now_ms - self._looked_ms.get(name, -math.inf)
        # Ready tasks beside free slots: nobody runs them, or a worker is about to.
        if since_ms < _LOOK_MS and not (view.free_slots and view.depth > view.held_back):
            return
        self._looked_ms[name] = now_ms
        await self._count(name, paused)

    async def _count(self, name: str, paused: Collection[str]) -> None:
        store = self._stores[name]
        try:
            async with asyncio.timeout(_ANSWER_S):
                counts, parked = await asyncio.gather(store.counts(), store.parked())
        except (StoreError, TimeoutError):
            return  # the last number will do
        self._census.hold_back(name, held_back(counts, parked, paused, self._census.view(name)))


def held_back(
    counts: Mapping[str, QueueCounts],
    parked: Mapping[tuple[str, str], int],
    paused: Collection[str],
    view: RegionView,
) -> int:
    """Count the ready tasks of paused queues, and those that no live worker of the region runs.

    Where nobody works for now, whoever comes next may run them all.
    """
    served = view.served
    held = {q for q in counts if q in paused or (served and q not in served)}
    aside = sum(
        tasks
        for (queue, name), tasks in parked.items()
        if queue not in held and served and not serves(view, queue, name)
    )
    return sum(sum(counts[queue].pending) for queue in held) + aside
