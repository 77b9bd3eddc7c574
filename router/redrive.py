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
from router.server_clock import region_now_ms
from tradewind import wire
from tradewind.errors import NoRegionPermitted, StoreError, StoreFull
from tradewind.fleet import Fleet
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.policy.rules import resolve
from tradewind.ports import DeadLetters
from tradewind.state import State
from tradewind.task import Record

_AT_ONCE: Final = 16  # partitions side by side, as for a list
_PAGE: Final = 100  # dead tasks of a partition held at a time
_TIMEOUT_S: Final = 5.0  # of one region's answer


class DeadPorts(DeadReads, DeadLetters, Protocol):
    """What this needs of one region."""


@dataclass(slots=True)
class Done:
    """Tasks changed, or in a dry run to be changed, and regions that did not answer."""

    count: int = 0
    silent: set[str] = field(default_factory=set[str])


_Act = Callable[[DeadPorts, Record], Awaitable[bool]]


class DeadWork:
    """Changes the dead letters of all regions."""

    def __init__(self, fleet: Fleet, stores: Mapping[str, DeadPorts], keys: Keys) -> None:
        """`stores` by region name. The clock of each judges `older_than`."""
        self._fleet, self._stores, self._keys = fleet, stores, keys

    async def redrive(self, wanted: Filter, *, dry_run: bool, deadline: Deadline) -> Done:
        """Make dead tasks ready again where they are; one that may no longer be there stays dead.

        Raises StoreFull if a region has no room; what was redriven before stays so.
        """

        async def act(store: DeadPorts, record: Record) -> bool:
            if not self._is_permitted(record):
                return False
            return dry_run or await store.redrive(record.task_id, record.epoch)

        return await self._all(wanted, act, deadline)

    async def purge(self, wanted: Filter, *, dry_run: bool, deadline: Deadline) -> Done:
        """Remove dead tasks for good; their keys are free again.

        A silent home of such a key is named, too: the next submit with the key frees it.
        """
        homes: set[str] = set()

        async def act(store: DeadPorts, record: Record) -> bool:
            if dry_run:
                return True
            if not await store.purge(record.task_id, record.epoch):
                return False
            homes.update(await self._keys.free(record))  # not before: what lives keeps its key
            died_ms_ago = await region_now_ms(store) - record.finished_ms
            if died_ms_ago < REQUEST_ID_WINDOW_MS:  # its submit may be repeated
                await self._keys.leave_word(record)
            return True

        done = await self._all(wanted, act, deadline)
        done.silent |= homes
        return done

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

    async def _all(self, wanted: Filter, act: _Act, deadline: Deadline) -> Done:
        done, room = Done(), asyncio.Semaphore(_AT_ONCE)

        async def one(region: str, partition: int) -> None:
            async with room:
                if region in done.silent or deadline.is_over:
                    return
                try:
                    await self._partition(region, partition, wanted, act, deadline, done)
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
        return done

    async def _partition(
        self,
        region: str,
        partition: int,
        wanted: Filter,
        act: _Act,
        deadline: Deadline,
        done: Done,
    ) -> None:
        store, taken, after, more = self._stores[region], set[str](), "", True
        while more and not deadline.is_over:
            async with asyncio.timeout(_TIMEOUT_S):
                records, after = await store.dead_page(partition, after=after, limit=_PAGE)
                now_ms = await region_now_ms(store)
            for record in records:
                dead = record.state is State.DEAD_LETTER and record.task_id not in taken
                if not dead or not wanted.matches(record, now_ms):
                    continue
                async with asyncio.timeout(_TIMEOUT_S):
                    if await act(store, record):
                        taken.add(record.task_id)
                        done.count += 1
            more = bool(after)
