"""The first steps of the line: wait, claim. Holding, running and settling are the runner's."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from tradewind.attempts.describe import name_of, where
from tradewind.clock import Clock
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import MAX_CLAIM
from tradewind.ports import Claims, Upkeep
from tradewind.task import ClaimBatch, Swept
from worker.children import Children
from worker.guard import Guard
from worker.line import CLAIM, COLD_MS, Line
from worker.patience import Patience, lasting
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.runner import Hears, Runner
from worker.timers import Timers

_log = logging.getLogger(__name__)
_WAIT_S: Final = 5.0  # a blocked wait says so little that a dead connection shows only at its end
_FIRST_WAIT_S: Final = 0.1  # after an error
_BUSY_MS: Final = 50  # between two promotions of a partition by a worker without a free slot
_FULL_S: Final = 1.0  # with all slots taken for so long a worker waits for suspects alone
_GLANCE_S: Final = 0.05  # between two waits for hints with a backlog in hand
_SIDE_BY_SIDE: Final = 4  # partitions claimed from at the same time: they leave in one write
_RELEASE_TIMEOUT_S: Final = 3.0  # for handing back at the end; leases bring back what is left


class Work(Claims, Upkeep, Protocol):
    """What the loop needs of a region's store."""


class Loop:
    """Runs tasks of one region, at most `pool.concurrency` at a time.

    `run` works until cancelled; `drain` ends it in order.
    """

    def __init__(
        self,
        store: Work,
        pool: Pool,
        *,
        children: Children,
        guard: Guard,
        pace: Pace,
        reach: Reach,
        clock: Clock,
        on_buried: Callable[[int, int], None],
    ) -> None:
        """`on_buried(partition, in_ms)` hears when a courier should look at a dead task."""
        self.worn_out = asyncio.Event()  # so many handlers are stuck: replace this process
        self._store, self._pool, self._guard = store, pool, guard
        self._pace, self._reach, self._clock = pace, reach, clock
        self._timers = Timers(self._heat)
        self._runner = Runner(
            store,
            pool,
            children=children,
            guard=guard,
            pace=pace,
            reach=reach,
            hears=Hears(self._nudge, self._due, on_buried, self.worn_out.set),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._line = Line()
        self._changed = asyncio.Event()
        self._claiming = 0
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False
        self._trouble = "no connection yet"

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, which the pool has by now. A wait under way ends by itself."""
        self._runner.follow(fleet)

    def ready(self) -> tuple[bool, str]:
        """Whether it could take a task right now, and if not, why not. From any thread."""
        if self._stopping:
            return False, "shutting down"
        return not self._trouble, self._trouble

    def swept(self, partition: int, swept: Swept) -> None:
        """Take what a sweep says of a partition."""
        self._pace.depths[partition] = (swept.depth, swept.now_ms)
        self._due(partition, swept.next_due_ms)

    async def run(self) -> None:
        """Take and run tasks until cancelled. The store has been started."""
        self._trouble = ""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(lasting(self._runner.report, "settling"))
                group.create_task(lasting(self._take, "claiming"))
                group.create_task(lasting(self._hear, "hearing of cancels"))
                group.create_task(lasting(self._runner.tell_progress, "reporting progress"))
                self._watching = group.create_task(lasting(self._watch, "waiting for work"))
        finally:
            self._runner.leave()

    async def drain(self, grace: "asyncio.Future[None]", *, but_stuck: bool = False) -> None:
        """Take nothing new; return once all has ended, or soon after `grace` is done.

        What still runs then is stopped and handed back; what is past its limit has timed out, and
        with `but_stuck` is not waited for.
        """
        self._stopping = True
        for partition in self._line.choose(self._store.partitions, self._store.partitions * CLAIM):
            self._heat(partition)  # hints that it has taken and not followed
        if self._watching is not None:  # or it takes hints that others should have
            self._watching.cancel()
        self._nudge()
        idle = asyncio.ensure_future(self._idle(but_stuck=but_stuck))
        await asyncio.wait({idle, grace}, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        if self._runner.active():
            _log.warning("what still runs is stopped", extra={"unfinished": self.running})
            self._runner.end_all()
            idle = asyncio.ensure_future(self._idle())
            await asyncio.wait({idle}, timeout=_RELEASE_TIMEOUT_S)
            idle.cancel()
        self._timers.stop()
        # Our own wait may have swallowed the hints of what was handed back.
        await asyncio.gather(*map(self._pass_on, self._runner.handed_back))

    @property
    def running(self) -> int:
        """Handlers that run, whether their attempt is over or not."""
        return self._runner.busy + len(self._runner.suspects)

    @property
    def _takes(self) -> bool:
        return not self._stopping and self._runner.backlog <= self._pool.concurrency

    @property
    def _free(self) -> int:
        return self._pool.concurrency - self._runner.busy if self._takes else 0

    @property
    def _places(self) -> int:
        """Free ones for suspects."""
        return self._runner.suspects.free if self._takes else 0

    @property
    def _has_room(self) -> bool:
        return self._free > 0 or self._places > 0

    # --- wait

    async def _watch(self) -> None:
        """Wait for hints while there is room and no hint in hand."""
        patience = Patience()
        while True:
            await self._calm()
            try:
                partition = await self._wait()
            except StoreError as error:
                self._failed(error)
                await patience.wait()
                continue
            patience.reset()
            self._trouble = ""
            if partition is not None:
                self._heat(partition)

    async def _calm(self) -> None:
        """Return once there is room that a hint could fill.

        With all slots taken that is a suspect's, but only if they stay so: a busy worker's slots
        come and go by the millisecond, and each wait costs Redis a command that names every
        partition. So it does, too, with a backlog in hand: what else there is may wait a moment.
        """
        if self._line.has_rest:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GLANCE_S):
                    await self._until(lambda: not (self._line.has_rest or self._claiming))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FULL_S):
                await self._until(lambda: self._free > 0 and not self._line.has_hint)
                return
        await self._until(lambda: self._has_room and not self._line.has_hint)

    async def _wait(self) -> int | None:
        """One blocked wait on all partitions; parked work only where it may be for us."""
        cold = self._line.cold(self._clock.monotonic_ms())
        wait_s = COLD_MS / 1000 if cold else _WAIT_S
        if self._trouble:  # ask shortly: readiness waits for the answer
            wait_s = _FIRST_WAIT_S
        ready, suspects = self._free > 0, self._places > 0
        waiting = asyncio.ensure_future(
            self._store.wait(
                self._pool.queues,
                range(self._store.partitions),
                ready=ready,
                suspects=suspects,
                cold=cold,
                timeout_s=wait_s,
            )
        )
        if ready and suspects:
            return await waiting
        more = asyncio.ensure_future(self._until(lambda: self._has_more_room(ready, suspects)))
        try:
            await asyncio.wait({waiting, more}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            more.cancel()
            if not waiting.done():
                waiting.cancel()
        return waiting.result() if waiting.done() else None

    def _has_more_room(self, ready: bool, suspects: bool) -> bool:  # noqa: FBT001 - as waited for
        """Whether there is room of a kind that there was none of."""
        return (self._free > 0 and not ready) or (self._places > 0 and not suspects)

    def _heat(self, partition: int) -> None:
        """The partition has work, or will have it after a promotion."""
        if not self._stopping:
            self._line.hinted(partition)
        if self._has_room and not self._stopping:
            self._nudge()
        else:  # A hint in a busy worker's hand wakes nobody: set it anew for an idle one.
            self._spawn(self._pass_on(partition))

    async def _pass_on(self, partition: int) -> None:
        try:
            swept = await self._store.sweep(
                partition, worker_id=self._pool.worker_id, queues=self._pool.queues, courier=False
            )
        except StoreError as error:
            self._failed(error)
        else:
            # Whoever takes the hint promotes what is left of a backlog: not at once once more.
            soon_ms = max(swept.next_due_ms, _BUSY_MS) if swept.next_due_ms >= 0 else -1
            self._due(partition, soon_ms)

    # --- claim

    async def _take(self) -> None:
        """Claim whenever there is room and a partition that may have work for it."""
        patience = Patience()
        while True:
            await self._until(self._may_take)
            free, places = self._free, self._places
            chosen = self._line.choose(min(_SIDE_BY_SIDE, free or places), free or places)
            # The first one gets a single place: who waits for it goes before who just came.
            chosen.sort(key=self._runner.suspects.in_front, reverse=True)
            limits, suspects = _shares(free, len(chosen)), self._for_suspects(places, chosen)
            claims = [*map(self._claim, chosen, limits, suspects)]
            # A single one needs no task of its own, and leaves with the reports of what has ended.
            answers = [await claims[0]] if len(claims) == 1 else await asyncio.gather(*claims)
            if all(answers):
                patience.reset()
            else:
                await patience.wait()

    def _for_suspects(self, places: int, chosen: list[int]) -> list[int]:
        """How many suspects to ask for: places, and what may have to be handed back in front."""
        in_front = self._runner.suspects.in_front
        shares = _shares(places, len(chosen))
        return [n and n + in_front(p) for n, p in zip(shares, chosen, strict=True)]

    def _may_take(self) -> bool:
        """Suspects come with a hint; without a free slot the rest of the line is not for us."""
        if self._free > 0:
            return bool(self._line)
        return self._places > 0 and self._line.has_hint

    async def _claim(self, partition: int, limit: int, suspects: int) -> bool:
        """Claim and start up to `limit` tasks and `suspects`. False if the store did not answer."""
        asked_ms = self._clock.monotonic_ms()
        self._claiming += 1
        try:
            batch = await self._store.claim(
                partition,
                worker_id=self._pool.worker_id,
                lease_ms=self._pool.lease_ms,
                handlers=self._pool.handlers,
                limit=limit,
                suspects=suspects,
                starvation_ms=self._pool.starvation_ms,
            )
        except StoreError as error:
            self._failed(error)
            self._line.has_more(partition, limit)
            return False
        else:
            self._trouble = ""
            self._reach.reached((partition,))
            self._note(partition, batch, limit)
            if batch.claims:
                self._runner.start(batch.claims, asked_ms, stopping=self._stopping)
            return True
        finally:
            self._claiming -= 1
            if not self._claiming:
                self._runner.arrived()
            self._nudge()

    def _note(self, partition: int, batch: ClaimBatch, limit: int) -> None:
        """What the partition said of itself, asked for `limit` tasks."""
        self._pace.depths[partition] = (batch.depth, batch.now_ms)
        if (batch.claims or not limit) and batch.depth:
            self._line.has_more(partition, batch.depth)
        if batch.parked and limit and not batch.claims:
            self._line.chill(partition, self._clock.monotonic_ms())
        self._due(partition, batch.next_due_ms)

    def _due(self, partition: int, in_ms: int) -> None:
        """Look at the partition when its next delayed task is due; negative: never."""
        self._timers.arm(partition, in_ms)

    # --- cancels

    async def _hear(self) -> None:
        """Stop what somebody asked to be cancelled."""
        async for task_id in self._store.cancels():
            if not task_id:  # some may have been missed: renewals tell of those
                self._guard.recheck()
                continue
            self._runner.call_off(task_id)
            if not self._claiming:
                self._runner.arrived()

    # --- bookkeeping

    async def _idle(self, *, but_stuck: bool = False) -> None:
        """Return once nothing runs, but what is stuck, and everything has been settled.

        Claims under way are waited for, since what they bring is to be handed back.
        """
        while self._claiming or self._tasks or self._runner.active(but_stuck=but_stuck):
            await self._until(lambda: not self._claiming)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._runner.idle(but_stuck=but_stuck)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def _nudge(self) -> None:
        self._changed.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            extra = {"error": name_of(error), "where": where(error)}
            _log.error("a step of the worker failed", extra=extra)

    def _failed(self, error: StoreError) -> None:
        self._reach.interrupted()
        if not self._trouble:
            _log.warning("the store cannot be used", extra={"reason": str(error)})
        self._trouble = str(error)


def _shares(room: int, among: int) -> list[int]:
    """`room` divided fairly, the first ones getting what is over."""
    each, over = divmod(room, among)
    return [min(each + (place < over), MAX_CLAIM) for place in range(among)]
