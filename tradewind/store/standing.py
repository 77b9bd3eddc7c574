"""Waits on many slots that outlive the call that began them.

In a Cluster a blocking call names keys of one slot, so that waiting on all partitions takes one
for each. To end them all whenever one of them hears of work, and to begin them anew, would be some
two hundred commands for each task of an idle region.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Final

from tradewind.errors import StoreError

STAND_S: Final = 20.0  # of one blocking call: an idle worker of 64 partitions makes 3 a second
# How long they go on with nobody waiting. A hint that one takes meanwhile is followed by the next
# wait or given back, so for no longer than a claim takes, and what goes before the next wait.
_GRACE_S: Final = 0.1
_AGAIN_S: Final = 0.5  # until what could not be reached is tried again


@dataclass(frozen=True, slots=True, eq=False)
class Hint:
    """A partition may have work; the marker that said so."""

    partition: int
    marker: str


Block = Callable[[list[int], Mapping[str, int], float], Awaitable[Hint | None]]


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """On the markers of one partition."""

    markers: Mapping[str, int]
    task: "asyncio.Task[Hint | None]"


class Standing:
    """The waits of one process on one region, by partition."""

    def __init__(
        self,
        block: Block,
        *,
        give_back: Callable[[Hint], Awaitable[None]],
        ask: Callable[[list[int]], Awaitable[None]],
        aside: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`block` waits on one partition; cancelled, it gives back what it was handed.

        `give_back` sets a hint anew. `ask` raises StoreError if no node of these partitions
        answers. `aside` sees work to its end.
        """
        self._block, self._give_back, self._ask, self._aside = block, give_back, ask, aside
        self._kept: dict[int, _Wait] = {}
        self._grace: asyncio.TimerHandle | None = None
        self._turn = 0

    async def first(self, wanted: Mapping[int, Mapping[str, int]], timeout_s: float) -> Hint | None:
        """The first hint, by the markers of each partition. Raises StoreError if none answers.

        What cannot be reached is no end to waiting for the rest.
        """
        waits = self._take()
        try:
            hint = await self._wait(waits, wanted, timeout_s)
        except BaseException:
            self._aside(self._dismiss(waits))
            raise
        self._keep(waits)
        return hint

    def leave(self) -> None:
        """End them; `aside` has that."""
        self._aside(self._dismiss(self._take()))

    def _take(self) -> dict[int, _Wait]:
        """Those that go on. Whoever comes next, at the same time, has none and begins its own."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        kept, self._kept = self._kept, {}
        return kept

    def _keep(self, waits: dict[int, _Wait]) -> None:
        if self._kept:
            self._aside(self._dismiss(waits))
            return
        self._kept = waits
        self._grace = asyncio.get_running_loop().call_later(_GRACE_S, self.leave)

    async def _wait(
        self,
        waits: dict[int, _Wait],
        wanted: Mapping[int, Mapping[str, int]],
        timeout_s: float,
    ) -> Hint | None:
        clock = asyncio.get_running_loop().time
        until_s, answered = clock() + timeout_s, False
        lost: dict[int, tuple[StoreError, float]] = {}  # with the time for another try
        self._drop_others(waits, wanted)
        while True:
            lost = {p: (error, at_s) for p, (error, at_s) in lost.items() if at_s > clock()}
            for partition in wanted.keys() - waits.keys() - lost.keys():
                waits[partition] = self._begun(partition, wanted[partition])
            for partition in self._done(waits):
                try:
                    hint = waits.pop(partition).task.result()
                except StoreError as error:
                    lost[partition] = (error, clock() + _AGAIN_S)
                    continue
                answered = True
                if hint is not None:
                    return hint
            if len(lost) == len(wanted):
                raise next(iter(lost.values()))[0]
            left_s = until_s - clock()
            if left_s <= 0:
                if not answered:
                    await self._ask([p for p in wanted if p not in lost])
                return None
            tasks = [wait.task for wait in waits.values()]
            pause_s = min(left_s, _AGAIN_S) if lost else left_s
            await asyncio.wait(tasks, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)

    def _drop_others(
        self, waits: dict[int, _Wait], wanted: Mapping[int, Mapping[str, int]]
    ) -> None:
        """End those on other markers than are wanted."""
        others = {p: wait for p, wait in waits.items() if wanted.get(p) != wait.markers}
        for partition in others:
            del waits[partition]
        if others:
            self._aside(self._dismiss(others))

    def _begun(self, partition: int, markers: Mapping[str, int]) -> _Wait:
        return _Wait(markers, asyncio.ensure_future(self._block([partition], markers, STAND_S)))

    def _done(self, waits: Mapping[int, _Wait]) -> list[int]:
        """Partitions whose waits have ended, by turns: each comes first once."""
        done = sorted(partition for partition, wait in waits.items() if wait.task.done())
        self._turn += 1
        turn = self._turn % len(done) if done else 0
        return done[turn:] + done[:turn]

    async def _dismiss(self, waits: Mapping[int, _Wait]) -> None:
        tasks = [wait.task for wait in waits.values()]
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Hint):
                await self._give_back(ended)
