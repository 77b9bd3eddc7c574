"""Stands in for the pools of other regions: a region's own goes first, others when none lives.

So what waits, runs out its lease or is dead where nobody works is not left there. Only tasks whose
fence holds the pool's own region are seen; ids alone are learnt of the others, and not logged.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tradewind.clock import Clock
from tradewind.control import Control
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import (
    COURIER_LEASE_MS,
    MAX_REAP,
    SECOND_MS,
    SWEEP_AFTER_LOSS_MS,
    SWEEP_EVERY_MS,
)
from tradewind.ports import Upkeep
from tradewind.task import Swept
from tradewind.ticks import tick
from worker.courier import Courier
from worker.couriers.carrier import Source, Target
from worker.pool import Pool
from worker.reach import Reach
from worker.upkeep import longest_lease_ms
from worker.views import Views

_log = logging.getLogger(__name__)
_LOOK_S: Final = 5.0  # between two looks at who lives elsewhere: 0.2 commands a second a region
_ROUND_MS: Final = SWEEP_EVERY_MS / 2  # between two rounds where nobody does: 13 commands a second
_TURN_MS: Final = COURIER_LEASE_MS - SWEEP_AFTER_LOSS_MS  # within the lease, which is not extended
_EARLY: Final = 0.75  # a look that comes a little early is not lost
_SIDE_BY_SIDE: Final = 16  # partitions visited at the same time, as at home


class Foreign(Source, Upkeep, Target, Protocol):
    """The store of another region."""


@dataclass(slots=True)
class _Neighbour:
    """Another region, as this worker stands in for it."""

    store: Foreign
    courier: Courier
    reach: Reach
    empty_since_ms: float | None = None  # monotonic: since then nobody has lived there
    visited_ms: float = -float("inf")
    held: set[int] = field(default_factory=set[int])  # partitions whose courier lease is ours
    # Where we had the last turn: couriers of other regions, whose fences differ, have the next.
    had: set[int] = field(default_factory=set[int])


class Abroad:
    """One worker's part in the upkeep of regions that have no worker of their own."""

    def __init__(
        self,
        pool: Pool,
        home: Target,
        others: Mapping[str, Foreign],
        *,
        clock: Clock,
        control: Callable[[], Control],
        share: Callable[[], Sequence[int]],
    ) -> None:
        """`share()`: the partitions that this worker looks after at home, and so elsewhere."""
        self._pool, self._home, self._clock = pool, home, clock
        self._control, self._share = control, share
        self._neighbours: dict[str, _Neighbour] = {}
        self.follow(pool.fleet, others)

    def follow(self, fleet: Fleet, others: Mapping[str, Foreign]) -> None:
        """Go on with another fleet."""
        known, self._neighbours = self._neighbours, {}
        for name, store in others.items():
            targets: dict[str, Target] = {self._home.region: self._home, **others}
            del targets[name]
            one = known.get(name)
            if one is None or one.store is not store:
                one = self._neighbour(store, fleet, targets)
            else:
                one.courier.follow(fleet, targets)
            self._neighbours[name] = one

    def _neighbour(self, store: Foreign, fleet: Fleet, targets: Mapping[str, Target]) -> _Neighbour:
        courier = Courier(
            store,
            fleet,
            targets,
            Views(
                self._pool.region,
                fleet,
                targets,
                self._clock,
                allow_eviction=self._pool.allow_eviction,
            ),
            clock=self._clock,
            control=self._control,
            of=self._pool.region,
            who=self._pool.worker_id,
        )
        one = _Neighbour(store, courier, Reach(self._clock))
        courier.shares(lambda: self._held(one))
        return one

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await tick(_LOOK_S * random.uniform(0.8, 1.2))
            await asyncio.gather(*map(self.look, list(self._neighbours)))

    async def look(self, name: str) -> None:
        """See who lives in a region; if nobody has for long, do what its own pool would."""
        if (one := self._neighbours.get(name)) is None:
            return  # it has left the file meanwhile
        now_ms = self._clock.monotonic_ms()
        try:
            workers = await one.store.workers()
        except StoreError as error:
            one.empty_since_ms = None  # nothing is known of it
            one.courier.served.missed()
            one.reach.failed(error)
            return
        one.courier.saw(worker.heartbeat for worker in workers)
        if workers:
            one.empty_since_ms = None
            return
        if one.empty_since_ms is None:
            one.empty_since_ms = now_ms
        fleet = self._pool.fleet
        if now_ms - one.empty_since_ms < fleet.failover.unserved_after_ms:
            return
        if now_ms - one.visited_ms < _ROUND_MS * _EARLY:
            return
        one.visited_ms = now_ms
        await self._tell(one)
        share = list(self._share())
        random.shuffle(share)
        for start in range(0, len(share), _SIDE_BY_SIDE):
            part = share[start : start + _SIDE_BY_SIDE]
            await asyncio.gather(*(self._visit(one, partition) for partition in part))

    async def _tell(self, one: _Neighbour) -> None:
        try:
            await one.courier.tell()
        except StoreError as error:
            extra = {"of": one.store.region, "reason": str(error)}
            _log.warning("what was moved is not on record", extra=extra)

    async def _visit(self, one: _Neighbour, partition: int) -> None:
        try:
            swept = await self._sweep(one, partition, courier=False)
            one.reach.reached((partition,))
            if swept.expired_leases:
                await self._reap(one, partition)
            if await one.courier.wanted(partition, swept):
                await self._stand_in(one, partition)
        except StoreError as error:
            one.reach.failed(error)
            extra = {"of": one.store.region, "partition": partition, "reason": str(error)}
            _log.debug("a visit failed", extra=extra)

    async def _sweep(self, one: _Neighbour, partition: int, *, courier: bool) -> Swept:
        return await one.store.sweep(
            partition, worker_id=self._pool.worker_id, queues=(), courier=courier
        )

    async def _reap(self, one: _Neighbour, partition: int) -> None:
        """Take back what its holders, all gone, will not report; unless the silence was ours."""
        if one.reach.for_ms(partition) >= longest_lease_ms(self._pool.fleet):
            await one.store.reap(partition, limit=MAX_REAP)

    async def _stand_in(self, one: _Neighbour, partition: int) -> None:
        """One turn as the partition's courier."""
        if partition in one.had:
            one.had.discard(partition)
            return
        if not (await self._sweep(one, partition, courier=True)).courier:
            return  # the turn of another
        until_ms = self._clock.monotonic_ms() + _TURN_MS
        one.held.add(partition)
        try:
            while await one.courier.work(partition):
                if self._clock.monotonic_ms() >= until_ms:
                    return
                await tick(SWEEP_AFTER_LOSS_MS / SECOND_MS)
        finally:
            one.held.discard(partition)
            one.had.add(partition)

    def _held(self, one: _Neighbour) -> float:
        return max(len(one.held), 1) / one.store.partitions
