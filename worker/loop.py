"""The first step of the line: wait. Claiming is the intake's, all that follows the runner's."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from tradewind.attempts.describe import name_of, where
from tradewind.clock import Clock
from tradewind.errors import StoreError, StoreMoving
from tradewind.fleet import Fleet
from tradewind.ports import Claims, Upkeep
from tradewind.task import Swept
from worker.children import Children
from worker.guard import Guard
from worker.intake import Change, Intake, Says
from worker.line import CLAIM, COLD_MS, Line
from worker.patience import MOVING_MS, Patience, lasting
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
        self._change, self._line = Change(), Line()
        self._timers = Timers(self._heat)
        self._runner = Runner(
            store,
            pool,
            children=children,
            guard=guard,
            pace=pace,
            reach=reach,
            hears=Hears(self._change.tell, self._due, on_buried, self.worn_out.set),
        )
        self._intake = Intake(
            store,
            pool,
            line=self._line,
            runner=self._runner,
            pace=pace,
            reach=reach,
            change=self._change,
            says=Says(self._answered, self._due),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False
        self._blocking: asyncio.Timeout | None = None  # of the wait under way
        self._open: frozenset[str] | None = None  # queues that were, when that was looked at last
        self._trouble = "no connection yet"

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, which the pool has by now. A wait under way ends by itself."""
        self._runner.follow(fleet)

    def gate_changed(self) -> None:
        """Other things may start than before. What may start again is looked for at once.

        Its hints may be gone: who waited for other queues took them along.
        """
        opened, before = frozenset(self._pool.open_queues), self._open
        if opened or before is not None:  # at the start hints are where they were
            self._open = opened
        if before is not None and opened != before:
            _log.warning("operators let other queues start", extra={"queues": sorted(opened)})
        if before is not None and not opened <= before:
            for partition in range(self._store.partitions):
                self._line.hinted(partition)
        if self._blocking is not None and not self._blocking.expired():  # it names queues
            self._blocking.reschedule(asyncio.get_running_loop().time())
        self._change.tell()

    def ready(self) -> tuple[bool, str]:
        """Whether it could take a task right now, and if not, why not. From any thread."""
        if self._stopping:
            return False, "shutting down"
        return not self._trouble, self._trouble

    def swept(self, partition: int, swept: Swept) -> None:
        """Take what a sweep says of a partition."""
        self._trouble = ""  # of a worker that may start nothing only sweeps are answered
        self._pace.depths[partition] = (swept.depth, swept.now_ms)
        self._due(partition, swept.next_due_ms)

    async def run(self) -> None:
        """Take and run tasks until cancelled. The store has been started."""
        self._trouble = ""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(lasting(self._runner.report, "settling"))
                group.create_task(lasting(self._intake.run, "claiming"))
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
        self._intake.close()
        for partition in self._line.choose(self._store.partitions, self._store.partitions * CLAIM):
            self._heat(partition)  # hints that it has taken and not followed
        if self._watching is not None:  # or it takes hints that others should have
            self._watching.cancel()
        self._change.tell()
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
                # The claim goes first, and is answered first: a task waits for it, and for Redis a
                # wait that names every partition is as much work as a claim.
                for _ in range(2):  # in one turn of the loop it is made, at whose end it leaves
                    await asyncio.sleep(0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GLANCE_S):
                        await self._change.until(lambda: not self._intake.is_under_way)

    async def _calm(self) -> None:
        """Return once there is room that a hint could fill.

        With all slots taken that is a suspect's, but only if they stay so: a busy worker's slots
        come and go by the millisecond, and each wait costs Redis a command that names every
        partition. So it does, too, with a backlog in hand: what else there is may wait a moment.
        """
        if self._line.has_rest:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GLANCE_S):
                    await self._change.until(
                        lambda: not (self._line.has_rest or self._intake.is_under_way)
                    )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FULL_S):
                await self._change.until(lambda: self._intake.free > 0 and not self._line.has_hint)
                return
        await self._change.until(lambda: self._intake.has_room and not self._line.has_hint)

    async def _wait(self) -> int | None:
        """One blocked wait, until its end or until other queues are to be waited for."""
        try:
            async with asyncio.timeout(None) as self._blocking:
                return await self._blocked()
        except TimeoutError:
            return None
        finally:
            self._blocking = None

    async def _blocked(self) -> int | None:
        """One blocked wait on all partitions; parked work only where it may be for us."""
        cold = self._line.cold(self._clock.monotonic_ms())
        wait_s = COLD_MS / 1000 if cold else _WAIT_S
        if self._trouble:  # ask shortly: readiness waits for the answer
            wait_s = _FIRST_WAIT_S
        ready, suspects = self._intake.free > 0, self._intake.places > 0
        wait = self._store.wait(
            self._pool.open_queues,
            range(self._store.partitions),
            ready=ready,
            suspects=suspects,
            cold=cold,
            timeout_s=wait_s,
        )
        if ready and suspects:
            return await wait
        waiting = asyncio.ensure_future(wait)
        more = asyncio.ensure_future(
            self._change.until(lambda: self._has_more_room(ready, suspects))
        )
        try:
            await asyncio.wait({waiting, more}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            more.cancel()
            if not waiting.done():
                waiting.cancel()
        return waiting.result() if waiting.done() else None

    def _has_more_room(self, ready: bool, suspects: bool) -> bool:  # noqa: FBT001 - as waited for
        """Whether there is room of a kind that there was none of."""
        return (self._intake.free > 0 and not ready) or (self._intake.places > 0 and not suspects)

    def _heat(self, partition: int) -> None:
        """The partition has work, or will have it after a promotion."""
        if not self._stopping:
            self._line.hinted(partition)
        if self._intake.has_room and not self._stopping:
            self._change.tell()
        else:  # A hint in a busy worker's hand wakes nobody: set it anew for an idle one.
            self._spawn(self._pass_on(partition))

    async def _pass_on(self, partition: int) -> None:
        try:
            swept = await self._store.sweep(
                partition, worker_id=self._pool.worker_id, queues=self._pool.queues, courier=False
            )
        except StoreMoving as error:
            self._reach.failed(error)
            self._due(partition, MOVING_MS)
        except StoreError as error:
            self._failed(error)
        else:
            # Whoever takes the hint promotes what is left of a backlog: not at once once more.
            soon_ms = max(swept.next_due_ms, _BUSY_MS) if swept.next_due_ms >= 0 else -1
            self._due(partition, soon_ms)

    # --- cancels

    async def _hear(self) -> None:
        """Stop what somebody asked to be cancelled."""
        async for task_id in self._store.cancels():
            if not task_id:  # some may have been missed: renewals tell of those
                self._guard.recheck()
                continue
            self._runner.call_off(task_id)
            self._intake.forget_cancels()

    # --- bookkeeping

    async def _idle(self, *, but_stuck: bool = False) -> None:
        """Return once nothing runs, but what is stuck, and everything has been settled.

        Claims under way are waited for, since what they bring is to be handed back.
        """
        while self._intake.is_under_way or self._tasks or self._runner.active(but_stuck=but_stuck):
            await self._change.until(lambda: not self._intake.is_under_way)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._runner.idle(but_stuck=but_stuck)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            extra = {"error": name_of(error), "where": where(error)}
            _log.error("a step of the worker failed", extra=extra)

    def _due(self, partition: int, in_ms: int) -> None:
        """Look at the partition when its next delayed task is due; negative: never."""
        self._timers.arm(partition, in_ms)

    def _answered(self, error: StoreError | None) -> None:
        if error is None:
            self._trouble = ""
        else:
            self._failed(error)

    def _failed(self, error: StoreError) -> None:
        self._reach.failed(error)
        if not self._trouble:
            _log.warning("the store cannot be used", extra={"reason": str(error)})
        self._trouble = str(error)
