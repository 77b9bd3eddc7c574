"""The first steps of the line: wait, claim. Holding, running and settling are the runner's."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from tradewind.clock import Clock
from tradewind.errors import StoreError
from tradewind.limits import MAX_CLAIM
from tradewind.ports import Claims, Upkeep
from tradewind.task import ClaimBatch, Swept
from worker.describe import name_of, where
from worker.guard import Guard
from worker.line import COLD_MS, Line
from worker.patience import Patience, lasting
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.runner import Runner
from worker.timers import Timers

_log = logging.getLogger(__name__)
_WAIT_S: Final = 5.0  # a blocked wait says so little that a dead connection shows only at its end
_FIRST_WAIT_S: Final = 0.1  # after an error
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
        guard: Guard,
        pace: Pace,
        reach: Reach,
        clock: Clock,
        on_buried: Callable[[int, int], None],
    ) -> None:
        """`on_buried(partition, in_ms)` hears when a courier should look at a dead task."""
        self._store, self._pool, self._guard = store, pool, guard
        self._pace, self._reach, self._clock = pace, reach, clock
        self._timers = Timers(self._heat)
        self._runner = Runner(
            store,
            pool,
            guard=guard,
            pace=pace,
            reach=reach,
            on_change=self._nudge,
            on_due=self._due,
            on_buried=on_buried,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._line = Line()
        self._changed = asyncio.Event()
        self._claiming = 0
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False
        self._trouble = "no connection yet"

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
        async with asyncio.TaskGroup() as group:
            group.create_task(lasting(self._runner.report, "settling"))
            group.create_task(lasting(self._take, "claiming"))
            group.create_task(lasting(self._hear, "hearing of cancels"))
            group.create_task(lasting(self._runner.tell_progress, "reporting progress"))
            self._watching = group.create_task(lasting(self._watch, "waiting for work"))

    async def drain(self, grace: "asyncio.Future[None]") -> None:
        """Take nothing new; return once all has ended, or soon after `grace` is done.

        What still runs then is stopped and handed back.
        """
        self._stopping = True
        self._timers.stop()
        if self._watching is not None:  # or it takes hints that others should have
            self._watching.cancel()
        self._nudge()
        idle = asyncio.ensure_future(self._idle())
        await asyncio.wait({idle, grace}, return_when=asyncio.FIRST_COMPLETED)
        if not idle.done():
            _log.warning("the grace is over", extra={"unfinished": self._runner.busy})
            self._runner.end_all()
            await asyncio.wait({idle}, timeout=_RELEASE_TIMEOUT_S)
        idle.cancel()
        # Our own wait may have swallowed the hints of what was handed back.
        await asyncio.gather(*map(self._pass_on, self._runner.handed_back))

    @property
    def _free(self) -> int:
        if self._stopping or self._runner.backlog > self._pool.concurrency:
            return 0
        return self._pool.concurrency - self._runner.busy

    # --- wait

    async def _watch(self) -> None:
        """Wait for hints while there is a free slot and no hint in hand."""
        patience = Patience()
        while True:
            await self._until(lambda: self._free > 0 and not self._line.has_hint)
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

    async def _wait(self) -> int | None:
        """One blocked wait on all partitions; parked work only where it may be for us."""
        cold = self._line.cold(self._clock.monotonic_ms())
        wait_s = COLD_MS / 1000 if cold else _WAIT_S
        if self._trouble:  # ask shortly: readiness waits for the answer
            wait_s = _FIRST_WAIT_S
        partitions = range(self._store.partitions)
        return await self._store.wait(self._pool.queues, partitions, cold=cold, timeout_s=wait_s)

    def _heat(self, partition: int) -> None:
        """The partition has work, or will have it after a promotion."""
        if self._stopping:
            return
        self._line.hinted(partition)
        if self._free > 0:
            self._nudge()
        else:  # A hint in a busy worker's hand wakes nobody: set it anew for an idle one.
            self._spawn(self._pass_on(partition))

    async def _pass_on(self, partition: int) -> None:
        try:
            await self._store.sweep(
                partition, worker_id=self._pool.worker_id, queues=self._pool.queues, courier=False
            )
        except StoreError as error:
            self._failed(error)

    # --- claim

    async def _take(self) -> None:
        """Claim whenever there are free slots and partitions that may have work."""
        patience = Patience()
        while True:
            await self._until(lambda: self._free > 0 and bool(self._line))
            chosen = self._line.choose(min(_SIDE_BY_SIDE, self._free))
            each, over = divmod(self._free, len(chosen))
            limits = [min(each + (place < over), MAX_CLAIM) for place in range(len(chosen))]
            answers = await asyncio.gather(*map(self._claim, chosen, limits))
            if all(answers):
                patience.reset()
            else:
                await patience.wait()

    async def _claim(self, partition: int, limit: int) -> bool:
        """Claim and start up to `limit` tasks. False if the store did not answer."""
        asked_ms = self._clock.monotonic_ms()
        self._claiming += 1
        try:
            batch = await self._store.claim(
                partition,
                worker_id=self._pool.worker_id,
                lease_ms=self._pool.lease_ms,
                handlers=self._pool.handlers,
                limit=limit,
                starvation_ms=self._pool.starvation_ms,
            )
        except StoreError as error:
            self._failed(error)
            self._line.has_more(partition)
            return False
        else:
            self._trouble = ""
            self._reach.reached(partition)
            self._note(partition, batch)
            for claim in batch.claims:
                self._runner.start(claim, asked_ms, stopping=self._stopping)
            return True
        finally:
            self._claiming -= 1
            if not self._claiming:
                self._runner.arrived()
            self._nudge()

    def _note(self, partition: int, batch: ClaimBatch) -> None:
        """What the partition said of itself."""
        self._pace.depths[partition] = (batch.depth, batch.now_ms)
        if batch.claims and batch.depth:
            self._line.has_more(partition)
        if batch.parked and not batch.claims:
            self._line.chill(partition, self._clock.monotonic_ms())
        self._due(partition, batch.next_due_ms)

    def _due(self, partition: int, in_ms: int) -> None:
        """Look at the partition when its next delayed task is due; negative: never."""
        if not self._stopping:
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

    async def _idle(self) -> None:
        """Return once nothing runs and everything has been settled.

        Claims under way are waited for, since what they bring is to be handed back.
        """
        while self._claiming or self._tasks or self._runner.active:
            await self._until(lambda: not self._claiming)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._runner.idle()

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
