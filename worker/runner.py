"""Hold, attempt, settle: what happens to a claim from its arrival to the store's last word."""

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from tradewind import metrics
from tradewind.attempts.job import Job, prepare
from tradewind.attempts.settle import FAULT, Failed, HandedBack, Terms, Verdict, after_fault, settle
from tradewind.attempts.threads import Threads
from tradewind.fleet import Fleet
from tradewind.ports import Claims
from tradewind.task import Bury, Claim, Crash, Finish, Release, RetryAt, Settlement
from worker import apart
from worker.children import Children
from worker.guard import Guard
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.reports import Reports
from worker.run import Attempts, Ran, is_being_cancelled
from worker.settler import Settler
from worker.slot import Slot
from worker.suspects import Suspects
from worker.telling import GOES_ON, STUCK, tell, tell_crash, tell_failure, tell_fault

_Over = tuple[Slot, Ran, float]  # an attempt, how it ended, and after how many seconds


@dataclass(frozen=True, slots=True)
class Hears:
    """Who hears of what a runner finds out."""

    change: Callable[[], None]  # a slot, a place for suspects or the backlog has changed
    due: Callable[[int, int], None]  # (partition, in_ms): something can run there then
    buried: Callable[[int, int], None]  # (partition, in_ms): a dead task is to be looked at
    worn_out: Callable[[], None]  # so many handlers are stuck that the process should be replaced


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
        children: Children,
        guard: Guard,
        pace: Pace,
        reach: Reach,
        hears: Hears,
    ) -> None:
        """`children` run what may die or has to be killed; `hears` what comes of it all."""
        self._pool, self._guard, self._pace, self._clock = pool, guard, pace, pace.clock
        self._hears = hears
        self._children = children
        self._attempts = Attempts[Slot](Threads(), self._clock, self._over, self._got_stuck)
        self._settler = Settler(
            store, fleet=pool.fleet, guard=guard, reach=reach, on_settled=self._settled
        )
        self._reports = Reports(store)
        self._busy_gauge, self._free_gauge = (
            metrics.WORKER_SLOTS.labels(pool.region, kind) for kind in metrics.SLOT_KINDS
        )
        self._slots: set[Slot] = set()
        self._stuck: set[Slot] = set()  # of them
        self.suspects = Suspects(pool.fleet, self._clock, on_change=hears.change, on_due=hears.due)
        self._running: set[Slot] = set()  # attempts that are not over, or not settled yet
        pace.running = self._in_handlers
        self._just_over: list[_Over] = []
        self._aside: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()  # one of the attempts has, or got stuck
        self._called_off: dict[str, float] = {}  # id -> when it was heard, in monotonic ms
        self._has_left = False
        self.handed_back: set[int] = set()  # partitions of tasks that were released

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, which the pool has by now."""
        self._settler.follow(fleet)
        self.suspects.follow(fleet)

    @property
    def busy(self) -> int:
        """Slots taken. Suspects have places of their own."""
        return len(self._slots)

    def active(self, *, but_stuck: bool = False) -> bool:
        """Whether an attempt is under way, or its report; `but_stuck`: one that may end.

        Not: a handler that outlived its attempt.
        """
        return bool(self._under_way(but_stuck=but_stuck)) or self.backlog > 0

    @property
    def backlog(self) -> int:
        """Settlements that the store has not answered yet."""
        return self._settler.backlog

    async def report(self) -> None:
        """Send settlements, for ever."""
        self._count_slots()
        await self._settler.run()

    async def tell_progress(self) -> None:
        """Send what handlers say of their progress, for ever."""
        await self._reports.run()

    def start(self, claims: Sequence[Claim], asked_ms: float, *, stopping: bool) -> None:
        """Hold `claims`, asked for at monotonic `asked_ms`, and run them.

        `stopping`: hand them back.
        """
        loop = asyncio.get_running_loop()
        slots = [Slot(claim, loop, self._reports.of(claim)) for claim in claims]
        self._guard.hold(slots, asked_ms)
        for slot in slots:
            self._start(slot, stopping=stopping)
        # What is only said of them comes after the first steps of their handlers.
        loop.call_soon(self._started, claims)

    def _started(self, claims: Sequence[Claim]) -> None:
        self._count_slots()
        metrics.START_DELAY_SECONDS.observe_all(
            [max(claim.claimed_ms - claim.ready_ms, 0) / 1000 for claim in claims]
        )

    def _start(self, slot: Slot, *, stopping: bool) -> None:
        claim = slot.claim
        try:
            prepared = prepare(claim, self._pool.app, self._pool.fleet, slot.signals)
        except Exception as error:  # noqa: BLE001 - a net: see the class
            tell_fault(claim, error)
            prepared = Failed(FAULT)
        if isinstance(prepared, Job) and not stopping and self._enter(slot):
            self._begin(slot, prepared)
            return
        if claim.suspect:
            self.suspects.returned(claim)
        verdict = HandedBack() if isinstance(prepared, Job) else prepared
        policy = self._pool.fleet.queue(claim.queue)
        terms = Terms(policy.attempts, policy.timeout_ms)
        self._settler.put((self._settle(claim, verdict, terms),))

    def _begin(self, slot: Slot, job: Job) -> None:
        """The attempt, in a child or here."""
        if slot.claim.task_id in self._called_off:
            slot.halt.call_off()
        slot.terms, slot.began_ms = job.terms, self._clock.monotonic_ms()
        self._running.add(slot)
        if slot.claim.suspect or job.handler.isolate:
            self._spawn(self._apart(slot, job))
            return
        if job.handler.is_async:
            self._guard.watch.allow(slot, job.terms.timeout_ms)
        try:
            self._attempts.begin(slot, job, slot.halt)
        except BaseException as error:  # noqa: BLE001 - a net: see the class
            self._over(slot, error)

    async def _apart(self, slot: Slot, job: Job) -> None:
        ran: Ran | BaseException
        try:
            if slot.claim.suspect:
                await self.suspects.quiet()
            lets, queue = self._pool.gate.lets, slot.claim.queue
            ran = await apart.attempt(job, self._children, slot.halt, lambda: lets(queue))
        except BaseException as error:
            if is_being_cancelled():
                raise
            ran = error
        self._over(slot, ran)

    def call_off(self, task_id: str) -> None:
        """The task's cancel was asked for. If it is not here, its claim may be on its way."""
        self._called_off.pop(task_id, None)  # so that they lie in the order of their times
        self._called_off[task_id] = self._clock.monotonic_ms()
        for slot in self._running:
            if slot.claim.task_id == task_id:
                slot.halt.call_off()

    def arrived(self, until_ms: float) -> None:
        """Every claim asked for before `until_ms` is here: what was heard before concerned others.

        A later claim does not bring a task whose cancel was asked for before.
        """
        while self._called_off:
            task_id, heard_ms = next(iter(self._called_off.items()))
            if heard_ms >= until_ms:
                break
            del self._called_off[task_id]

    def end_all(self) -> None:
        """Have every handler stopped, and its task handed back; a stuck one has timed out."""
        for slot in self._running:
            slot.halt.end()

    def leave(self) -> None:
        """Nobody settles any more: what ends from now on was ended with this process."""
        self._has_left = True

    async def idle(self, *, but_stuck: bool = False) -> None:
        """Return once nothing runs, but what is stuck, and everything has been settled."""
        while self.active(but_stuck=but_stuck):
            if self._under_way(but_stuck=but_stuck):
                self._ended.clear()
                await self._ended.wait()
            else:
                await self._settler.idle()

    def _in_handlers(self) -> list[tuple[str, float]]:
        """See Pace.running. In another thread, so it reads a copy, which is made in one step."""
        running = tuple(self._running)
        return [
            (slot.claim.name, began_ms)
            for slot in running
            if (began_ms := slot.began_ms) and not slot.claim.suspect
        ]

    def _under_way(self, *, but_stuck: bool) -> list[Slot]:
        return [s for s in self._running if not but_stuck or s not in self._stuck]

    def _enter(self, slot: Slot) -> bool:
        """Take a place for it; False if a suspect finds none."""
        if slot.claim.suspect:
            return self.suspects.admit(slot.claim)
        self._slots.add(slot)
        return True

    def _over(self, slot: Slot, ran: Ran | BaseException) -> None:
        """The attempt has ended. What comes of those of one turn of the event loop is one step."""
        if self._has_left:
            return
        if isinstance(ran, BaseException):
            tell_fault(slot.claim, ran)
            ran = Ran(Failed(FAULT))
        if not self._just_over:
            asyncio.get_running_loop().call_soon(self._conclude)
        took_s = (self._clock.monotonic_ms() - slot.began_ms) / 1000
        slot.began_ms = 0.0
        self._just_over.append((slot, ran, took_s))

    def _conclude(self) -> None:
        """Settle what has just ended, and leave its slots. What is only said of it comes after."""
        over, self._just_over = self._just_over, []
        has_report = self._reports.has
        with_report = [ended for ended in over if has_report(ended[0].claim)]
        self._close([e for e in over if not has_report(e[0].claim)] if with_report else over)
        if with_report:
            self._spawn(self._report_first(with_report))
        for slot, _, _ in over:
            self._guard.watch.forget(slot)
        # The pace is that of the slots.
        self._pace.ended([(s.claim.name, took_s) for s, _, took_s in over if not s.claim.suspect])
        metrics.TASK_SECONDS.observe_all([took_s for _, _, took_s in over])

    async def _report_first(self, over: Sequence[_Over]) -> None:
        """Close what has a last word of its progress that is not sent yet."""
        try:
            await asyncio.gather(*(self._reports.last(slot.claim) for slot, _, _ in over))
        finally:
            self._close(over)

    def _close(self, over: Sequence[_Over]) -> None:
        """Settle what has ended, and leave its slots, unless a handler goes on."""
        settlements = [self._settle_attempt(slot, ran) for slot, ran, _ in over]
        self._settler.put(settlements)
        for slot, ran, _ in over:
            self._running.discard(slot)
            if ran.leftover is None:
                self._leave(slot)
            else:  # Its slot stays taken until the handler really ends: nothing else waits for it.
                ran.leftover.add_done_callback(functools.partial(self._ended_late, slot))
        self._left()
        for (slot, ran, took_s), settlement in zip(over, settlements, strict=True):
            if ran.leftover is not None:
                tell(slot.claim, GOES_ON)
            if ran.late:
                tell(slot.claim, "a handler returned after its time limit; its work counts")
            if not isinstance(settlement, Finish):
                tell_failure(settlement, ran, took_s)

    def _settle_attempt(self, slot: Slot, ran: Ran) -> Settlement:
        assert slot.terms is not None  # noqa: S101 - of every attempt that began
        return self._settle(slot.claim, ran.verdict, slot.terms)

    def _settle(self, claim: Claim, verdict: Verdict, terms: Terms) -> Settlement:
        policy = self._pool.fleet.queue(claim.queue)
        try:
            settlement = settle(claim, verdict, policy, terms, jitter=random.random())
        except Exception as error:  # noqa: BLE001 - a net: see the class
            tell_fault(claim, error)
            settlement = after_fault(claim, policy, terms)
        return settlement

    def _settled(self, settled: Sequence[tuple[Settlement, str]]) -> None:
        for settlement, outcome in settled:
            if outcome != "completed" or settlement.claim.suspect:
                self._note(settlement, outcome)
        self._hears.change()

    def _note(self, settlement: Settlement, outcome: str) -> None:
        """What follows from the end of one that was more than completed."""
        claim, partition = settlement.claim, settlement.claim.partition
        if claim.suspect:
            self.suspects.settled(claim)
        if isinstance(settlement, Crash):
            tell_crash(settlement, outcome)
        if outcome == "dead" and isinstance(settlement, Bury | Crash) and settlement.may_move:
            self._hears.buried(partition, settlement.move_after_ms)
        elif outcome == "dead" and self._pool.fleet.queue(claim.queue).on_dead:
            self._hears.buried(partition, 0)  # a sweep sees whom to tell
        elif outcome == "retried" and isinstance(settlement, RetryAt):
            self._hears.due(partition, settlement.delay_ms)
        elif outcome == "released" and isinstance(settlement, Release):
            self.handed_back.add(partition)

    def _got_stuck(self, slot: Slot) -> None:
        tell(slot.claim, STUCK)
        self._stuck.add(slot)
        self._ended.set()
        if len(self._stuck) >= stuck_limit(self._pool.concurrency):
            self._hears.worn_out()

    def _ended_late(self, slot: Slot, _: "asyncio.Future[Any]") -> None:
        tell(slot.claim, "a handler that could not be stopped has ended")
        self._leave(slot)
        self._left()

    def _leave(self, slot: Slot) -> None:
        if slot.claim.suspect:
            self.suspects.leave(slot.claim)
        self._slots.discard(slot)
        self._stuck.discard(slot)

    def _left(self) -> None:
        """Some slots have been left."""
        self._ended.set()
        self._count_slots()
        self._hears.change()

    def _count_slots(self) -> None:
        busy = self._pace.busy = len(self._slots)
        self._busy_gauge.set(busy)
        self._free_gauge.set(max(self._pool.concurrency - busy, 0))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


def stuck_limit(concurrency: int) -> int:
    """How many stuck handlers wear a process out: half of its slots do no work any more."""
    return max(concurrency // 2, 1)
