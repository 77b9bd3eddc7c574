"""Keeps a region's partitions in order: promotes, reaps, wakes couriers.

The region's live workers share the partitions by rendezvous hashing: when one comes or goes only
its own share changes hands. Two that disagree for a moment sweep the same partition twice, which
is harmless.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, Protocol

from tradewind import metrics
from tradewind.clock import Clock
from tradewind.errors import StoreError, StoreMoving
from tradewind.fleet import Fleet
from tradewind.limits import (
    COURIER_LEASE_MS,
    HEARTBEAT_EVERY_MS,
    MAX_EXPIRE,
    MAX_REAP,
    MINUTE_MS,
    SECOND_MS,
    SWEEP_AFTER_LOSS_MS,
    SWEEP_EVERY_MS,
)
from tradewind.ports import Upkeep, Vitals
from tradewind.state import State
from tradewind.task import Swept
from tradewind.ticks import tick
from worker.courier import Courier
from worker.couriers.imports import Imports
from worker.pool import Pool
from worker.reach import Reach

_log = logging.getLogger(__name__)
_ALERT_MS: Final = 1 * MINUTE_MS  # sweeps come faster for this long after a loss
_ROLL_CALL_MS: Final = 2 * HEARTBEAT_EVERY_MS
# Three heartbeats missed: others take over its share. If it lives after all, both sweep: harmless.
_MISSING_MS: Final = 3.5 * HEARTBEAT_EVERY_MS
_SIDE_BY_SIDE: Final = 16  # partitions swept at the same time; they leave in one write
_TOGETHER_MS: Final = 500  # sweeps of a round: a third of the wake-ups of an idle worker
_SETTLE_MS: Final = 10 * MINUTE_MS  # between two looks at imports that are an hour old
_REAP_JITTER_S: Final = 0.25  # spreads what a lost worker held over the survivors' next claims
_BACK: Final = "the task is taken back"
_TAKEN: Final = {
    State.DEAD_LETTER: "the task crashed too often and is dead-lettered",
    State.CANCELLED: "the task is cancelled, as it was to be",
}


class Kept(Upkeep, Vitals, Protocol):
    """What upkeep needs of its region's store."""


def share_of(worker_id: str, workers: Sequence[str], partitions: int) -> list[int]:
    """Partitions for which `worker_id` ranks first among `workers`."""

    def rank(worker: str, partition: int) -> bytes:
        return blake2b(f"{partition}:{worker}".encode(), digest_size=8).digest()

    rivals = {*workers, worker_id}
    return [p for p in range(partitions) if max(rivals, key=lambda w: rank(w, p)) == worker_id]


def longest_lease_ms(fleet: Fleet) -> int:
    """How long a partition must be in reach before a lease in it counts as expired."""
    return max(policy.lease_ms for policy in (fleet.default_queue, *fleet.queues.values()))


class Keeper:
    """Sweeps this worker's share every SWEEP_EVERY_MS, and what it is asked to `visit`."""

    def __init__(
        self,
        store: Kept,
        pool: Pool,
        *,
        courier: Courier,
        imports: Imports,
        reach: Reach,
        clock: Clock,
        on_swept: Callable[[int, Swept], None],
        on_dead: Callable[[int], None],
    ) -> None:
        """`on_swept(partition, what it says of itself)` hears of every sweep.

        `on_dead(partition)`: somebody may have to be told of a dead task there.
        """
        self._store, self._pool, self._courier = store, pool, courier
        self._reach, self._clock, self._on_swept = reach, clock, on_swept
        self._on_dead = on_dead
        self._imports = imports
        self._settling: dict[int, asyncio.Task[None]] = {}
        self._settled_ms: dict[int, float] = {}  # when old imports were looked for
        courier.shares(self._held)
        self._live: frozenset[str] = frozenset()
        self._queues = pool.queues
        self._share: list[int] = list(range(store.partitions))
        # A worker that starts may stand in for one that was killed: whose tasks are to come back.
        self._alert_until_ms = clock.monotonic_ms() + _ALERT_MS
        # When to sweep a partition, monotonic: in our rounds, which may be early, and as asked.
        self._round_ms: dict[int, float] = {}
        self._asked_ms: dict[int, float] = {}
        self._carrying_until_ms: dict[int, float] = {}  # partitions whose courier lease is ours
        self._couriers: dict[int, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()

    @property
    def share(self) -> Sequence[int]:
        """The partitions that this worker looks after."""
        return self._share

    def visit(self, partition: int, in_ms: float = 0) -> None:
        """Sweep `partition` in `in_ms`, whosever share it is in."""
        self._sooner(partition, self._clock.monotonic_ms() + in_ms)
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._warn())
            group.create_task(self._roll_calls())
            group.create_task(self._sweeps())

    async def _warn(self) -> None:
        """Say once if what is accepted here may be deleted; routers look at it again and again."""
        with contextlib.suppress(StoreError):
            if policy := (await self._store.probe()).evicts:
                mend = "CONFIG SET maxmemory-policy noeviction"
                extra = {"policy": policy, "mend": mend}
                _log.warning("this region's Redis deletes tasks when it is full", extra=extra)

    # --- who is there

    async def _roll_calls(self) -> None:
        while True:
            try:
                workers = await self._store.workers()
            except StoreError as error:
                self._reach.failed(error)
                self._courier.served.missed()
            else:
                beats = [w.heartbeat for w in workers if w.age_ms < _MISSING_MS]
                self._courier.saw(beats)
                await self._tell()
                self._present(frozenset(beat.worker_id for beat in beats))
                named = {queue for beat in beats for queue in beat.queues}
                self._queues = tuple(sorted(named.union(self._pool.queues)))
            await tick(_ROLL_CALL_MS / SECOND_MS)

    async def _tell(self) -> None:
        try:
            await self._courier.tell()
        except StoreError as error:
            _log.warning("what was moved is not on record", extra={"reason": str(error)})

    def _present(self, live: frozenset[str]) -> None:
        """Divide the partitions among those who are there; be alert if somebody is missing."""
        me = self._pool.worker_id
        missing = self._live - live - {me}
        if missing:
            self._alert_until_ms = self._clock.monotonic_ms() + _ALERT_MS
            _log.info("a worker is gone", extra={"workers": sorted(missing)})
        if live != self._live:
            self._live = live
            self._share = share_of(me, sorted(live), self._store.partitions)
            for partition in self._share if missing else ():
                self._sooner(partition, self._clock.monotonic_ms())
            self._wake.set()

    # --- sweeping

    async def _sweeps(self) -> None:
        while True:
            now_ms = self._clock.monotonic_ms()
            for partition in self._share:
                self._round_ms.setdefault(partition, now_ms)
            due = self._due(now_ms)
            for start in range(0, len(due), _SIDE_BY_SIDE):
                await asyncio.gather(*map(self._sweep, due[start : start + _SIDE_BY_SIDE]))
            times_ms = (*self._round_ms.values(), *self._asked_ms.values())
            next_ms = min(times_ms, default=now_ms + SWEEP_EVERY_MS)
            wait_ms = min(next_ms - self._clock.monotonic_ms(), SWEEP_AFTER_LOSS_MS)
            self._wake.clear()
            try:
                async with asyncio.timeout(max(wait_ms, 1) / SECOND_MS):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _due(self, now_ms: float) -> list[int]:
        """What to sweep now. A round takes along what it would wake up for in a moment."""
        asked = [p for p, at_ms in self._asked_ms.items() if at_ms <= now_ms]
        if min(self._round_ms.values(), default=math.inf) > now_ms:
            return asked
        rounds = [p for p, at_ms in self._round_ms.items() if at_ms <= now_ms + _TOGETHER_MS]
        return [*dict.fromkeys((*asked, *rounds))]

    async def _sweep(self, partition: int) -> None:
        """One partition: sweep, reap, start a courier; then note when to come back."""
        self._round_ms.pop(partition, None)
        if self._asked_ms.get(partition, math.inf) <= self._clock.monotonic_ms():
            del self._asked_ms[partition]
        try:
            swept = await self._ask(partition, courier=False)
            wanted = await self._courier.wanted(partition, swept)
            if wanted:
                swept = await self._ask(partition, courier=True)
            self._reach.reached((partition,))
            self._on_swept(partition, swept)
            if swept.courier:
                self._start_courier(partition)
            elif wanted:  # the lease of another, who may be dead
                self._sooner(partition, self._clock.monotonic_ms() + SWEEP_AFTER_LOSS_MS)
            if swept.expired >= MAX_EXPIRE:  # as many as one sweep ends: there may be more
                self.visit(partition)
            if swept.unsettled_imports and self._may_settle(partition):
                self._settling[partition] = asyncio.create_task(self._settle(partition))
            if swept.hooks:
                self._on_dead(partition)
            if swept.expired_leases:
                await self._reap(partition)
        except StoreError as error:
            self._missed(partition, error)
        self._come_back(partition)

    def _missed(self, partition: int, error: StoreError) -> None:
        """Come back soon, as after any loss; a partition that moves is no sign of one."""
        self._reach.failed(error)
        if isinstance(error, StoreMoving):
            self._sooner(partition, self._clock.monotonic_ms() + SWEEP_AFTER_LOSS_MS)
        _log.debug("a sweep failed", extra={"partition": partition, "reason": str(error)})

    async def _ask(self, partition: int, *, courier: bool) -> Swept:
        return await self._store.sweep(
            partition, worker_id=self._pool.worker_id, queues=self._queues, courier=courier
        )

    def _come_back(self, partition: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if partition in self._share:
            # Spread, so that a pool that started together does not sweep together.
            self._round_ms[partition] = now_ms + SWEEP_EVERY_MS * random.uniform(0.9, 1.0)
        if self._carries(partition) or (partition in self._share and self._is_alert(now_ms)):
            self._sooner(partition, now_ms + SWEEP_AFTER_LOSS_MS)

    def _is_alert(self, now_ms: float) -> bool:
        return now_ms < self._alert_until_ms or self._reach.broken_for_ms() < _ALERT_MS

    def _sooner(self, partition: int, at_ms: float) -> None:
        self._asked_ms[partition] = min(self._asked_ms.get(partition, at_ms), at_ms)

    def _may_settle(self, partition: int) -> bool:
        """Whether it is time to ask after old imports."""
        now_ms = self._clock.monotonic_ms()
        is_recent = now_ms - self._settled_ms.get(partition, -math.inf) < _SETTLE_MS
        if is_recent or partition in self._settling:
            return False
        self._settled_ms[partition] = now_ms
        return True

    async def _settle(self, partition: int) -> None:
        try:
            await self._imports.settle(partition)
        except StoreError as error:
            extra = {"partition": partition, "reason": str(error)}
            _log.debug("old imports are asked for later", extra=extra)
        finally:
            del self._settling[partition]

    # --- reaping

    async def _reap(self, partition: int) -> None:
        """Take expired leases back, unless the silence may have been ours."""
        missing_ms = longest_lease_ms(self._pool.fleet) - self._reach.for_ms(partition)
        if missing_ms > 0:
            self._sooner(partition, self._clock.monotonic_ms() + missing_ms)
            return
        await asyncio.sleep(random.uniform(0, _REAP_JITTER_S))
        reaped = await self._store.reap(partition, limit=MAX_REAP)
        for one in reaped:
            queue = metrics.queue_label(self._pool.fleet, one.queue)
            metrics.TASKS_FAILED.labels(self._pool.region, queue, "worker-lost").inc()
            _log.warning(
                f"a lease ended without a word from its holder; {_TAKEN.get(one.state, _BACK)}",
                extra={"task_id": one.task_id, "holder": one.worker_id, "state": one.state},
            )
        if any(one.state is State.DEAD_LETTER for one in reaped):
            self._on_dead(partition)
        if len(reaped) == MAX_REAP:
            self._sooner(partition, self._clock.monotonic_ms() + SWEEP_AFTER_LOSS_MS)

    # --- couriers

    def _carries(self, partition: int) -> bool:
        """Whether we hold the partition's courier lease, so that nobody else can look after it."""
        return self._carrying_until_ms.get(partition, 0.0) > self._clock.monotonic_ms()

    def _held(self) -> float:
        """The part of the courier leases that is held here; at least that of one."""
        held = sum(map(self._carries, self._carrying_until_ms))
        return max(held, 1) / self._store.partitions

    def _start_courier(self, partition: int) -> None:
        self._carrying_until_ms[partition] = self._clock.monotonic_ms() + COURIER_LEASE_MS
        if partition not in self._couriers:
            self._couriers[partition] = asyncio.create_task(self._carry(partition))

    async def _carry(self, partition: int) -> None:
        try:
            await self._courier.work(partition)
            self._on_dead(partition)  # of what cannot move
        except StoreError as error:
            extra = {"partition": partition, "reason": str(error)}
            _log.warning("a courier was interrupted and will go on", extra=extra)
        except Exception:  # noqa: BLE001 - the partition is taken up again at its next sweep
            _log.exception("a courier failed and will try again", extra={"partition": partition})
        finally:
            del self._couriers[partition]
