"""Emptying a region: an order in the control document, which couriers carry out; watched here.

Whoever watches may leave: the order stands until the region is ACTIVE again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from router.control import Orders
from router.lookup import SILENT_AFTER_S
from router.vote import Wish
from tradewind.clock import Clock
from tradewind.control import Evacuation, evacuate
from tradewind.errors import RegionSilent, StoreError
from tradewind.fleet import Fleet
from tradewind.ports import Evacuations, Outbox, Reads
from tradewind.relocation import RUNNING, Situation, empties
from tradewind.task import DEAD, Evacuated, QueueCounts
from tradewind.v1 import admin_pb2
from tradewind.view import RegionView

_LOOK_AT: Final = 10_000  # tasks that a dry run asks after; of more it says that it did not look
_PART: Final = 128  # of them in one call
_EVERY_S: Final = 0.5  # between two looks at the source's counters


class EvacuationPorts(Evacuations, Outbox, Reads, Protocol):
    """What this needs of one region."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come; `kept`: what stays, by reason. `done`: nothing is left to move.

    Of a dry run `remaining` is what was not looked at.
    """

    moved: int
    remaining: int
    kept: Mapping[str, int]
    done: bool


class Evacuator:
    """Orders evacuations, and watches them."""

    def __init__(
        self,
        fleet: Fleet,
        orders: Orders,
        stores: Mapping[str, EvacuationPorts],
        view: Callable[[str], RegionView],
        clock: Clock,
    ) -> None:
        """`stores` by region name, `view` of a region. `clock`: the regions'."""
        self._fleet, self._orders, self._stores, self._clock = fleet, orders, stores, clock
        self._view = view

    def wish(self, region: str, rate_per_s: float, by: str) -> Wish | None:
        """The change that has the region emptied. None: it is ordered already, at that rate.

        To apply it raises InvalidTask and RegionTakesWork.
        """
        standing = self._standing(region)
        if standing is not None and standing.rate_per_s == rate_per_s:
            return None
        order = partial(
            evacuate,
            fleet=self._fleet,
            region=region,
            rate_per_s=rate_per_s,
            by=by,
            at_ms=self._clock.now_ms(),
        )
        return Wish(order, region)

    async def watch(self, region: str) -> AsyncIterator[Progress]:
        """Tell how far it has come, until nothing is left to move or the order is taken back.

        Raises RegionSilent.
        """
        while (order := self._standing(region)) is not None:
            progress = await self._look(region, order.at_ms)
            yield progress
            if progress.done:
                return
            await asyncio.sleep(_EVERY_S)

    async def would(self, region: str) -> Progress:
        """Say what an order would move, and what would stay. Raises RegionSilent.

        Looks at the first 10,000 tasks that wait or are dead, and answers for no others.
        """
        before = await self._look(region, 0)
        kept: Counter[str] = Counter()
        left = _LOOK_AT
        try:
            for partition in range(self._fleet.partitions):
                left -= await self._stay(region, partition, left, kept)
                if left <= 0:
                    break
        except (StoreError, TimeoutError):
            raise RegionSilent([region]) from None
        unseen = max(0, before.remaining - (_LOOK_AT - left)) if left <= 0 else 0
        moved = max(0, before.remaining - unseen - kept.total())
        return Progress(moved, unseen, {**before.kept, **kept}, done=True)

    async def _stay(self, region: str, partition: int, most: int, kept: Counter[str]) -> int:
        """Count, by reason, what would stay of a partition; returns how many were looked at."""
        store, seen = self._stores[region], 0
        others = [self._view(name) for name in self._fleet.regions if name != region]
        async with asyncio.timeout(SILENT_AFTER_S):
            lanes = await store.lanes(partition)
        for lane in (*lanes, DEAD):
            offset, more = 0, True
            while more and seen < most:
                async with asyncio.timeout(SILENT_AFTER_S):
                    part = await store.stranded(partition, lane, offset=offset, limit=_PART)
                now = Situation(region, self._fleet, others, self._orders.control, part.now_ms)
                where = [empties(record, now) for record in part.records]
                kept.update(one.reason for one in where if not one.target)
                offset, more, seen = offset + part.seen, part.more, seen + len(where)
        return seen

    async def _look(self, region: str, order_ms: int) -> Progress:
        """Read the region's counters, for the order of that time. Raises RegionSilent."""
        store = self._stores[region]
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                told, counts = await asyncio.gather(store.evacuated(order_ms), store.counts())
        except (StoreError, TimeoutError):
            raise RegionSilent([region]) from None
        return _progress(told, counts)

    def _standing(self, region: str) -> Evacuation | None:
        return self._orders.control.evacuations.get(region)


def _progress(told: Evacuated, counts: Mapping[str, QueueCounts]) -> Progress:
    kept = Counter(told.kept)
    kept[RUNNING] = sum(queue.processing for queue in counts.values())
    return Progress(told.moved, told.remaining, +kept, done=not told.remaining)


def evacuation(progress: Progress) -> admin_pb2.EvacuateRegionResponse:
    """The progress as a message."""
    return admin_pb2.EvacuateRegionResponse(
        moved=progress.moved,
        remaining=progress.remaining,
        kept=[admin_pb2.Kept(reason=why, count=n) for why, n in sorted(progress.kept.items())],
        done=progress.done,
    )
