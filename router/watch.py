"""Following a task until it is settled: its store reports changes, a slow re-read misses none."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from router.failures import report
from router.lookup import Lookup
from tradewind.errors import NoRegionReachable, RegionSilent, StoreError
from tradewind.ports import Reads
from tradewind.state import State
from tradewind.task import Record

REREAD_S: Final = 5.0  # the longest that a missed report can hide a change
_RETRY_S: Final = 1.0  # after a region's reports broke off


class Watches:
    """All watchers of this router. Regions are listened to once somebody watches."""

    def __init__(
        self, reads: Mapping[str, Reads], lookup: Lookup, *, reread_s: float = REREAD_S
    ) -> None:
        """`reads` by region name."""
        self._reads, self._lookup, self._reread_s = reads, lookup, reread_s
        self._listeners: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._wanted = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """End every watch with an error that asks to watch again."""
        self._closed = True
        self._wake_all()

    async def run(self) -> None:
        """Pass the stores' reports on until cancelled."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as group:
            for reads in self._reads.values():
                group.create_task(self._listen(reads))

    async def follow(self, task_id: str) -> AsyncIterator[Record]:
        """Yield the task at once, then after each change, until it is settled.

        What was shown never goes back. A region that falls silent after the first answer is
        waited for. Raises what Lookup.find raises.
        """
        self._wanted.set()
        last: Record | None = None
        with self._listening(task_id) as changed:
            while last is None or not last.settled:
                if self._closed:
                    raise NoRegionReachable("this router is shutting down; watch again")
                changed.clear()
                record = await self._read(task_id, last)
                if record is not None and _is_news(record, last):
                    last = record
                    yield record
                elif record is None or not record.settled:
                    await self._wait(changed)
                else:
                    return  # settled, and seen already at a newer revision

    async def _read(self, task_id: str, last: Record | None) -> Record | None:
        try:
            return await self._lookup.find(task_id, watch=True)
        except RegionSilent:
            if last is None:
                raise
            return None

    async def _wait(self, changed: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._reread_s):
                await changed.wait()
        except TimeoutError:
            return

    async def _listen(self, reads: Reads) -> None:
        loop = asyncio.get_running_loop()
        quiet_until_s = 0.0
        while True:
            try:
                async for task_id in reads.changes():
                    if task_id:
                        self._wake(task_id)
                    elif loop.time() >= quiet_until_s:  # a region that stays down says so often
                        quiet_until_s = loop.time() + self._reread_s
                        self._wake_all()
            except StoreError:
                pass  # the re-read covers the gap
            except Exception as error:  # noqa: BLE001 - watchers must not go deaf for one bug
                report("changes", error)
            await asyncio.sleep(_RETRY_S)

    def _wake(self, task_id: str) -> None:
        for changed in self._listeners.get(task_id, ()):
            changed.set()

    def _wake_all(self) -> None:
        for task_id in self._listeners:
            self._wake(task_id)

    @contextmanager
    def _listening(self, task_id: str) -> Generator[asyncio.Event]:
        changed = asyncio.Event()
        self._listeners[task_id].add(changed)
        try:
            yield changed
        finally:
            self._listeners[task_id].discard(changed)
            if not self._listeners[task_id]:
                del self._listeners[task_id]


def _is_news(record: Record, last: Record | None) -> bool:
    return last is None or _order(record) > _order(last)


def _order(record: Record) -> tuple[int, int]:
    """A task under way bears its next epoch already, but its revisions go on from the last one."""
    moving = record.state is State.MOVING
    return (record.epoch - 1 if moving else record.epoch, record.revision)
