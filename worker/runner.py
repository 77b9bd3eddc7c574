"""Hold, attempt, settle: what happens to a claim from its arrival to the store's last word."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from tradewind import metrics
from tradewind.ports import Claims
from tradewind.task import Bury, Claim, Release, RetryAt, Settlement
from worker.describe import name_of, where
from worker.guard import Guard
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.reports import Reports
from worker.run import Job, Ran, attempt, prepare
from worker.settle import FAULT, Failed, HandedBack, Terms, Verdict, after_fault, settle
from worker.settler import Settler
from worker.slot import Slot
from worker.threads import Threads

_log = logging.getLogger(__name__)
_GOES_ON: Final = (
    "a handler runs on although it was told to stop: another attempt may run beside it, and its "
    "slot stays taken until it ends"
)


class Runner:
    """Runs claims, each in a slot, and reports how they ended.

    Whatever goes wrong on the way, in an app's classes or here, the claim is settled: a task that
    nobody reports would keep its lease for as long as this worker lives.
    """

    def __init__(
        self,
        store: Claims,
        pool: Pool,
        *,
        guard: Guard,
        pace: Pace,
        reach: Reach,
        on_change: Callable[[], None],
        on_due: Callable[[int, int], None],
        on_buried: Callable[[int, int], None],
    ) -> None:
        """`on_change()` hears when a slot or the backlog has changed.

        `on_due(partition, in_ms)` when a retry waits, `on_buried(partition, in_ms)` when a courier
        should look at a dead task.
        """
        self._pool, self._guard, self._pace, self._clock = pool, guard, pace, pace.clock
        self._on_change, self._on_due, self._on_buried = on_change, on_due, on_buried
        self._threads = Threads()
        self._settler = Settler(
            store, fleet=pool.fleet, guard=guard, reach=reach, on_settled=self._settled
        )
        self._reports = Reports(store)
        self._slots: set[Slot] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._called_off: set[str] = set()  # ids heard since a claim was last under way
        self.handed_back: set[int] = set()  # partitions of tasks that were released

    @property
    def busy(self) -> int:
        """Slots taken."""
        return len(self._slots)

    @property
    def active(self) -> bool:
        """Whether an attempt is under way, or its report. Not: a handler that outlived its own."""
        return bool(self._running) or self.backlog > 0

    @property
    def backlog(self) -> int:
        """Settlements that the store has not answered yet."""
        return self._settler.backlog

    async def report(self) -> None:
        """Send settlements, for ever."""
        for kind in metrics.SLOT_KINDS:
            metrics.WORKER_SLOTS.labels(self._pool.region, kind).set(0)
        self._count_slots()
        await self._settler.run()

    async def tell_progress(self) -> None:
        """Send what handlers say of their progress, for ever."""
        await self._reports.run()

    def start(self, claim: Claim, asked_ms: float, *, stopping: bool) -> None:
        """Hold `claim`, asked for at monotonic `asked_ms`, and run it. `stopping`: hand it back."""
        slot = Slot(claim)
        slot.signals.report = self._reports.of(claim)
        self._hold(slot, asked_ms)
        metrics.START_DELAY_SECONDS.observe(max(claim.claimed_ms - claim.ready_ms, 0) / 1000)
        try:
            prepared = prepare(claim, self._pool.app, self._pool.fleet, slot.signals)
        except Exception as error:  # noqa: BLE001 - a net: see the class
            self._fault(claim, error)
            prepared = Failed(FAULT)
        if isinstance(prepared, Job) and not stopping:
            self._slots.add(slot)
            self._count_slots()
            if claim.task_id in self._called_off:
                slot.halt.call_off()
            running = asyncio.get_running_loop().create_task(self._run(slot, prepared))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
            return
        verdict = HandedBack() if isinstance(prepared, Job) else prepared
        policy = self._pool.fleet.queue(claim.queue)
        self._settle(claim, verdict, Terms(policy.attempts, policy.timeout_ms))

    def call_off(self, task_id: str) -> None:
        """The task's cancel was asked for. If it is not here, its claim may be on its way."""
        self._called_off.add(task_id)
        for slot in self._slots:
            if slot.claim.task_id == task_id:
                slot.halt.call_off()

    def arrived(self) -> None:
        """No claim is on its way: what was asked of a task that is not here was for others."""
        self._called_off.clear()

    def end_all(self) -> None:
        """Have every handler stopped, and its task handed back."""
        for slot in self._slots:
            slot.halt.end()

    async def idle(self) -> None:
        """Return once nothing runs and everything has been settled."""
        while self.active:
            if self._running:
                await asyncio.wait(self._running)
            await self._settler.idle()

    def _hold(self, slot: Slot, asked_ms: float) -> None:
        loop = asyncio.get_running_loop()

        def lost() -> None:
            slot.signals.cancelled.set()
            loop.call_soon_threadsafe(slot.halt.end)

        def cancelled() -> None:
            slot.signals.cancelled.set()
            loop.call_soon_threadsafe(slot.halt.call_off)

        self._guard.hold(
            slot.claim, slot.signals, on_lost=lost, on_cancel=cancelled, asked_ms=asked_ms
        )

    async def _run(self, slot: Slot, job: Job) -> None:
        leftover = None
        try:
            ran, took_s = await self._attempt(slot, job)
            leftover = ran.leftover
            await self._reports.last(job.claim)
            settlement = self._settle(job.claim, ran.verdict, job.terms)
            self._tell_failure(settlement, ran, took_s)
        finally:
            if leftover is None:
                self._leave(slot)
            else:  # The slot stays taken until the handler really ends; nothing else waits for it.
                self._tell(job.claim, _GOES_ON)
                leftover.add_done_callback(lambda _: self._ended_late(slot))

    async def _attempt(self, slot: Slot, job: Job) -> tuple[Ran, float]:
        """How the attempt ended, and after how many seconds."""
        began_ms = self._clock.monotonic_ms()
        try:
            ran = await attempt(job, self._threads, slot.halt, self._clock)
        except BaseException as error:
            if _is_being_cancelled():
                raise
            self._fault(job.claim, error)
            ran = Ran(Failed(FAULT))
        took_s = (self._clock.monotonic_ms() - began_ms) / 1000
        self._pace.ended(took_s)
        metrics.TASK_SECONDS.observe(took_s)
        return ran, took_s

    def _settle(self, claim: Claim, verdict: Verdict, terms: Terms) -> Settlement:
        policy = self._pool.fleet.queue(claim.queue)
        try:
            settlement = settle(claim, verdict, policy, terms, jitter=random.random())
        except Exception as error:  # noqa: BLE001 - a net: see the class
            self._fault(claim, error)
            settlement = after_fault(claim, policy, terms)
        self._settler.put(settlement)
        return settlement

    def _settled(self, settlement: Settlement, outcome: str) -> None:
        partition = settlement.claim.partition
        if outcome == "dead" and isinstance(settlement, Bury) and settlement.may_move:
            self._on_buried(partition, settlement.move_after_ms)
        elif outcome == "retried" and isinstance(settlement, RetryAt):
            self._on_due(partition, settlement.delay_ms)
        elif outcome == "released" and isinstance(settlement, Release):
            self.handed_back.add(partition)
        self._on_change()

    def _ended_late(self, slot: Slot) -> None:
        self._tell(slot.claim, "a handler that could not be stopped has ended")
        self._leave(slot)

    def _leave(self, slot: Slot) -> None:
        self._slots.discard(slot)
        self._count_slots()
        self._on_change()

    def _count_slots(self) -> None:
        busy = len(self._slots)
        self._pace.busy = busy
        metrics.WORKER_SLOTS.labels(self._pool.region, "busy").set(busy)
        free = max(self._pool.concurrency - busy, 0)
        metrics.WORKER_SLOTS.labels(self._pool.region, "free").set(free)

    # --- what the log says: never a message of the app, which may quote a payload

    def _tell_failure(self, settlement: Settlement, ran: Ran, took_s: float) -> None:
        """One line for an attempt that failed."""
        if not isinstance(settlement, RetryAt | Bury):
            return
        is_dead = isinstance(settlement, Bury)
        self._tell(
            settlement.claim,
            "task failed and is dead-lettered"
            if is_dead
            else "an attempt failed and will be repeated",
            kind=settlement.failure.kind,
            error=ran.error,
            where=ran.where,
            took_s=round(took_s, 3),
        )

    def _fault(self, claim: Claim, error: BaseException) -> None:
        marks = {"task_id": claim.task_id, "error": name_of(error), "where": where(error)}
        _log.error("the worker failed at a task; the attempt counts as failed", extra=marks)

    @staticmethod
    def _tell(claim: Claim, what: str, **more: str | float) -> None:
        extra = {"task_id": claim.task_id, "task": claim.name, "attempt": claim.attempt, **more}
        _log.warning(what, extra=extra)


def _is_being_cancelled() -> bool:
    """Whether a CancelledError is meant for our own task, and is not one that an app raised."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
