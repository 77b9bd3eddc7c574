"""Reviving and removing dead tasks, by filter: region by region, page by page.

A call works until its deadline is near and says how many tasks it changed; repeating it goes on
with the rest. A task that dies again meanwhile is not taken twice by one call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from router.dead import DeadReads, Filter
from router.job import Deadline
from router.keys import Keys, stored_spec
from router.lookup import SILENT_AFTER_S
from router.server_clock import region_now_ms
from tradewind import wire
from tradewind.errors import NoRegionPermitted, StoreError, StoreFull, StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.policy.rules import resolve
from tradewind.ports import DeadLetters
from tradewind.state import State
from tradewind.task import Record

_AT_ONCE: Final = 16  # partitions of a region side by side, as for a list
_PAGE: Final = 100  # dead tasks of a partition held at a time
_ACT_S: Final = 2 * SILENT_AFTER_S  # of one task: its region's answer, and that of its key's home
_LEAST_S: Final = 0.5  # that a call gets which begins just before the deadline


class DeadPorts(DeadReads, DeadLetters, Protocol):
    """What this needs of one region."""


@dataclass(slots=True)
class Done:
    """Tasks changed, or in a dry run to be changed, and regions that did not answer."""

    counts: dict[str, int] = field(default_factory=dict[str, int])  # by region
    silent: set[str] = field(default_factory=set[str])
    unknown: dict[str, int] = field(default_factory=dict[str, int])  # perhaps changed, by region

    @property
    def count(self) -> int:
        """Tasks of all regions."""
        return sum(self.counts.values())

    def add(self, region: str) -> bool:
        """Count a task. Returns True: it counts."""
        self.counts[region] = self.counts.get(region, 0) + 1
        return True

    async def of(self, deed: Awaitable[bool], region: str) -> bool:
        """Count what a region is asked to do, also where its answer is lost or nobody waits."""
        try:
            return await deed and self.add(region)
        except BaseException as error:
            is_known = isinstance(error, StoreUnavailable) and not error.sent
            if not (is_known or isinstance(error, StoreFull)):
                self.unknown[region] = self.unknown.get(region, 0) + 1
            raise


_Act = Callable[[DeadPorts, Record], Awaitable[bool]]


class DeadWork:
    """Changes the dead letters of all regions."""

    def __init__(self, fleet: Fleet, stores: Mapping[str, DeadPorts], keys: Keys) -> None:
        """`stores` by region name. The clock of each judges `older_than`."""
        self._fleet, self._stores, self._keys = fleet, stores, keys

    async def redrive(
        self, wanted: Filter, done: Done, *, dry_run: bool, deadline: Deadline
    ) -> None:
        """Make dead tasks ready again where they are; one that may no longer be there stays dead.

        Counts in `done`. Raises StoreFull if a region has no room; what was redriven before stays
        so, and counts.
        """

        async def act(store: DeadPorts, record: Record) -> bool:
            if not self._is_permitted(record):
                return False
            if dry_run:
                return done.add(record.region)
            return await done.of(store.redrive(record.task_id, record.epoch), record.region)

        await self._all(wanted, act, done, deadline)

    async def purge(self, wanted: Filter, done: Done, *, dry_run: bool, deadline: Deadline) -> None:
        """Remove dead tasks for good; their keys are free again. Counts in `done`.

        A silent home of such a key is named, too: the next submit with the key frees it.
        """
        homes: set[str] = set()

        async def act(store: DeadPorts, record: Record) -> bool:
            if dry_run:
                return done.add(record.region)
            died_ms_ago = await region_now_ms(store) - record.finished_ms
            if died_ms_ago < REQUEST_ID_WINDOW_MS:  # its submit may be repeated
                # Before: after a purge whose answer is lost nobody would know of the task any more.
                await self._keys.leave_word(record)
            if not await done.of(store.purge(record.task_id, record.epoch), record.region):
                return False
            homes.update(await self._keys.free(record))  # not before: what lives keeps its key
            return True

        await self._all(wanted, act, done, deadline)
        done.silent |= homes

    def _is_permitted(self, record: Record) -> bool:
        """Whether the task may run in its region by its own fence and by today's rules."""
        stored = stored_spec(record)
        if stored is None:
            return False
        try:
            resolved = resolve(wire.draft(stored.spec, delay_ms=0, timeout_ms=0), self._fleet)
        except NoRegionPermitted:
            return False
        inside = set(self._fleet.inside(record.fence)).intersection(
            self._fleet.inside(resolved.fence)
        )
        return record.region in inside and resolved.pin in {"", record.region}

    async def _all(self, wanted: Filter, act: _Act, done: Done, deadline: Deadline) -> None:
        # Each region has its own: the others go on while one is silent.
        room = {region: asyncio.Semaphore(_AT_ONCE) for region in wanted.regions}

        async def one(region: str, partition: int) -> None:
            async with room[region]:
                if region in done.silent or deadline.is_over:
                    return
                try:
                    await self._partition(region, partition, wanted, act, deadline)
                except StoreFull:
                    raise
                except (StoreError, TimeoutError):
                    done.silent.add(region)

        ends = await asyncio.gather(
            *(one(r, p) for r in wanted.regions for p in range(self._fleet.partitions)),
            return_exceptions=True,
        )
        for end in ends:
            if end is not None:
                raise end

    async def _partition(
        self,
        region: str,
        partition: int,
        wanted: Filter,
        act: _Act,
        deadline: Deadline,
    ) -> None:
        store, taken, after, more = self._stores[region], set[str](), "", True
        while more and not deadline.is_over:
            async with asyncio.timeout(_patience_s(SILENT_AFTER_S, deadline)):
                records, after = await store.dead_page(partition, after=after, limit=_PAGE)
                now_ms = await region_now_ms(store)
            for record in records:
                dead = record.state is State.DEAD_LETTER and record.task_id not in taken
                if not dead or not wanted.matches(record, now_ms):
                    continue
                try:
                    async with asyncio.timeout(_patience_s(_ACT_S, deadline)):
                        if await act(store, record):
                            taken.add(record.task_id)
                except TimeoutError:
                    if not deadline.is_over:
                        raise
                if deadline.is_over:  # the next call goes on
                    return
            more = bool(after)


def _patience_s(most_s: float, deadline: Deadline) -> float:
    """For how long to wait: what is silent is to be named while somebody still listens."""
    return min(most_s, max(_LEAST_S, deadline.left_s()))
