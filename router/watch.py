"""Following tasks until they are settled: stores report changes, and nothing is read without one.

A task is read once for all who watch it. What a report may have missed is read again as soon as a
region says that some may be lost; besides, one task after the other is read again, so few a second
that it makes no difference how many are watched.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from router.failures import report
from router.lookup import Lookup
from router.regional import Regional
from router.topic import Topic
from tradewind.errors import NoRegionReachable, StoreError
from tradewind.ports import Reads
from tradewind.task import Record

REREAD_S: Final = 5.0  # the longest that a missed report can hide a change of one of a few tasks
_REREAD_EVERY_S: Final = 0.2  # of all tasks together: 5 reads a second, however many are watched
_SIDE_BY_SIDE: Final = 64  # reads at the same time, when a region says that reports were lost
_RETRY_S: Final = 1.0  # after a region's reports broke off
_GAP_S: Final = 2.0  # between two readings of all tasks of a region that loses reports


class Watches:
    """All watchers of this router. Regions are listened to once somebody watches."""

    def __init__(self, reads: Mapping[str, Reads], lookup: Lookup) -> None:
        """`reads` by region name."""
        self._topics: dict[str, Topic] = {}  # by task id
        self._readings: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._wanted = asyncio.Event()
        self._closed = False
        self._listening = Regional(self._listen)
        self._reads: dict[str, Reads] = {}
        self.stand_on(reads, lookup)

    def stand_on(self, reads: Mapping[str, Reads], lookup: Lookup) -> None:
        """Go on with these regions. What is watched in one that has left is looked for again."""
        left = self._reads.keys() - reads.keys()
        self._reads, self._lookup = dict(reads), lookup
        self._listening.follow(self._reads)
        for region in left:
            self._missed(region)

    def close(self) -> None:
        """End every watch with an error that asks to watch again."""
        self._closed = True
        for topic in self._topics.values():
            topic.wake()

    async def run(self) -> None:
        """Pass the stores' reports on until cancelled."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reread())
            group.create_task(self._listening.run())

    async def follow(self, task_id: str) -> AsyncIterator[Record]:
        """Yield the task at once, then after changes, until it is settled.

        Whoever is slow gets the newest state, not every one. What was shown never goes back. A
        region that falls silent after the first answer is waited for. Raises what Lookup.find
        raises.
        """
        self._wanted.set()
        last: Record | None = None
        with self._watching(task_id) as topic:
            read = topic.ask()  # its own first answer is as fresh as its call
            while last is None or not last.settled:
                if self._closed:
                    raise NoRegionReachable("this router is shutting down; watch again")
                news = topic.news
                newer = topic.newer(last, read=read)
                if newer is not None:
                    last = newer
                    yield newer
                elif topic.is_over(read=read):
                    return
                else:
                    await news.wait()

    @contextmanager
    def _watching(self, task_id: str) -> Generator[Topic]:
        topic = self._topics.setdefault(task_id, Topic())
        topic.watchers += 1
        if task_id not in self._readings:
            self._readings[task_id] = asyncio.create_task(self._read(task_id, topic))
        try:
            yield topic
        finally:
            topic.watchers -= 1
            if not topic.watchers:
                del self._topics[task_id]
                self._readings.pop(task_id).cancel()

    async def _read(self, task_id: str, topic: Topic) -> None:
        """Read the task whenever it may have changed, while anybody watches it."""
        while True:
            try:
                async with asyncio.timeout(REREAD_S if topic.unsure else None):
                    await topic.changed.wait()
            except TimeoutError:
                pass
            async with self._turns:
                number = topic.begin()
                try:
                    topic.found(number, await self._lookup.find(task_id, watch=True))
                except Exception as error:  # noqa: BLE001 - raised to those who watch
                    topic.failed(number, error)

    # --- what tells of changes

    async def _reread(self) -> None:
        """Read one task after the other again, in case a report was lost unnoticed."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            for topic in list(self._topics.values()):
                topic.changed.set()
                await asyncio.sleep(_REREAD_EVERY_S)
            await asyncio.sleep(max(0, began_s + REREAD_S - loop.time()))

    async def _listen(self, region: str) -> None:
        reads = self._reads[region]
        gaps = _Gaps(lambda: self._missed(region))
        while True:
            try:
                async for task_id in reads.changes():
                    if task_id:
                        self._changed(task_id)
                    else:
                        gaps.seen()
            except StoreError:
                gaps.seen()
            except Exception as error:  # noqa: BLE001 - watchers must not go deaf for one bug
                report("changes", error)
            await asyncio.sleep(_RETRY_S)

    def _changed(self, task_id: str) -> None:
        topic = self._topics.get(task_id)
        if topic is not None:
            topic.changed.set()

    def _missed(self, region: str) -> None:
        """Any task of the region may have changed."""
        for topic in self._topics.values():
            if topic.may_lie_in(region):
                topic.changed.set()


class _Gaps:
    """Losses of reports, acted on soon, but at most every _GAP_S: a dead region has many."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act, self._planned = act, False
        self._not_before_s = -float("inf")

    def seen(self) -> None:
        """Reports may have been lost up to now."""
        if not self._planned:
            self._planned = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(self._not_before_s, loop.time()), self._do)

    def _do(self) -> None:
        self._planned = False
        self._not_before_s = asyncio.get_running_loop().time() + _GAP_S
        self._act()
