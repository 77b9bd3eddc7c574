"""The way of submits: check, identify, choose, store, answer (docs/architecture.md).

What came in one message goes that way together: a plain loop takes each task as far as its region's
flush, all for one region wait for one answer, and only those with which something is out of the
ordinary go on alone. Another region is tried only after a definite refusal. What has begun to hold
a reservation runs to its end even if its caller leaves; a repeat of the submit then finds the task.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from router.anywhere import Anywhere
from router.begun import Begun, Group
from router.carry import Carrier, StartsOver
from router.durable import Durable
from router.flush import Outcomes
from router.job import Deadline, Job, Receipt
from router.reserve import Ledgers, NotKept
from router.route import Routes
from router.shapes import Shapes
from router.storing import Refused, Storing, is_partial
from tradewind import ids, wire
from tradewind.admission.identity import identify, partition
from tradewind.clock import Clock
from tradewind.errors import (
    HomeUnreachable,
    NoRegionPermitted,
    RegionsFull,
    StoreError,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
    SubmitInFlight,
    TradewindError,
)
from tradewind.fleet import Fleet
from tradewind.limits import MAX_BATCH_BYTES, MAX_FLUSH
from tradewind.policy.rules import resolve
from tradewind.task import Draft, NewTask, Stored
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import Decision

# Tried in a region whose slot moves, or of which a primary is full, before the region is left.
_OTHER_PARTITIONS: Final = 6  # of 3 primaries one is full: all six there by 1 chance in 700
# Taken in without a pause: 2 ms of the event loop, in which nobody else is served.
_SLICE: Final = MAX_FLUSH // 2

Answer = Receipt | Exception


@dataclass(frozen=True, slots=True)
class Plan:
    """What ExplainRoute tells: the decision on a task, and the partition that it would take."""

    draft: Draft
    decision: Decision
    partition: int


class Submitter:
    """Takes submits for all regions."""

    def __init__(
        self,
        fleet: Fleet,
        routes: Routes,
        storing: Storing,
        ledgers: Ledgers,
        carrier: Carrier,
        durable: Durable,
        clock: Clock,
        entropy: random.Random,
    ) -> None:
        """`entropy` makes ids unique; it must be seeded by the system."""
        self._fleet, self._routes, self._storing = fleet, routes, storing
        self._ledgers, self._carrier, self._durable = ledgers, carrier, durable
        self._clock, self._entropy = clock, entropy
        self._shapes = Shapes(fleet)
        self._anywhere = Anywhere(fleet.partitions, entropy)
        self._held: set[asyncio.Task[Receipt]] = set()

    async def submit(
        self,
        specs: Sequence[TaskSpec],
        *,
        traceparent: str,
        deadline: Deadline,
        is_repeat: bool = True,
    ) -> list[Answer]:
        """Store tasks, or find those that earlier submits stored: of each its receipt or its error.

        `is_repeat` is False only if certainly no earlier attempt with their request_ids was made.
        Errors are those of tradewind.statuses, and OutcomeUnknown if the task may be stored; any
        other is a bug. Uses `specs` up.
        """
        answers: dict[int, Answer] = {}
        sent: list[tuple[Group, asyncio.Future[Outcomes]]] = []
        alone: list[tuple[int, Job, Begun | None]] = []
        try:
            for begin in range(0, len(specs), _SLICE):
                if begin:
                    await asyncio.sleep(0)
                now_ms = self._clock.now_ms()
                groups: dict[str, Group] = {}
                for place, spec in enumerate(specs[begin : begin + _SLICE], begin):
                    try:
                        job = self._job(spec, traceparent, deadline, now_ms)
                        job.is_repeat = is_repeat
                        begun = None if job.asks_first else self._begin(job)
                    except Exception as error:  # noqa: BLE001 - of this task alone
                        answers[place] = error
                        continue
                    if begun is None or begun.task is None:
                        alone.append((place, job, begun))
                    else:
                        self._gather(groups, place, begun, sent)
                sent += [self._send(group, deadline) for group in groups.values()]
            settling = [self._settle(group, future, answers) for group, future in sent]
            settling += [self._go_alone(answers, *each) for each in alone]
            if len(settling) == 1:
                await settling[0]
            else:
                await asyncio.gather(*settling)
        finally:  # whoever is gone takes back what has not been flushed
            for _, future in sent:
                future.cancel()
        return [answers[place] for place in range(len(specs))]

    async def submit_one(
        self, spec: TaskSpec, *, traceparent: str, deadline: Deadline, is_repeat: bool = True
    ) -> Receipt:
        """As `submit` of one task, at half the cost: raises its error. Uses `spec` up."""
        job = self._job(spec, traceparent, deadline, self._clock.now_ms())
        job.is_repeat = is_repeat
        begun = None if job.asks_first else self._begin(job)
        if begun is not None and begun.task is not None:
            # Whoever is gone cancels it, and so takes back what has not been flushed.
            (outcome,) = await self._storing.send(begun.region, (begun.task,), deadline)
            if isinstance(outcome, Stored):
                receipt = begun.receipt(outcome)
                wants = self._durable.is_wanted
                return await self._durable.confirmed(job, receipt) if wants else receipt
            begun.first = outcome
        return await self._alone(job, begun)

    def _gather(
        self,
        groups: dict[str, Group],
        place: int,
        begun: Begun,
        sent: list[tuple[Group, asyncio.Future[Outcomes]]],
    ) -> None:
        """Add a task to what goes to its region, in pieces that one call can carry."""
        task, deadline = begun.task, begun.job.deadline
        assert task is not None  # noqa: S101 - the caller's condition
        group = groups.get(begun.region)
        if group is not None and group.size + len(task.packed) > MAX_BATCH_BYTES:
            sent.append(self._send(groups.pop(begun.region), deadline))
            group = None
        if group is None:
            group = groups[begun.region] = Group(begun.region)
        group.places.append(place)
        group.begun.append(begun)
        group.tasks.append(task)
        group.size += len(task.packed)
        if begun.closes:
            sent += [self._send(each, deadline) for each in groups.values()]
            groups.clear()

    def _send(self, group: Group, deadline: Deadline) -> tuple[Group, asyncio.Future[Outcomes]]:
        return group, self._storing.send(group.region, group.tasks, deadline)

    async def _settle(
        self, group: Group, sent: asyncio.Future[Outcomes], answers: dict[int, Answer]
    ) -> None:
        """Answer the tasks of a group: most are stored, and the others go on alone."""
        try:
            outcomes = await sent
        except Exception as error:  # noqa: BLE001 - a bug, which must not hide other outcomes
            answers.update(dict.fromkeys(group.places, error))
            return
        alone: list[Coroutine[Any, Any, None]] = []
        stored: dict[int, tuple[Job, Receipt]] = {}  # what is to be confirmed
        durable = self._durable
        for place, begun, outcome in zip(group.places, group.begun, outcomes, strict=True):
            if isinstance(outcome, Stored):
                answers[place] = receipt = begun.receipt(outcome)
                if durable.is_wanted and durable.asked(begun.job) != "memory":
                    stored[place] = (begun.job, receipt)
            else:
                begun.first = outcome
                alone.append(self._go_alone(answers, place, begun.job, begun))
        if stored:
            alone.append(durable.confirm_all(group.region, stored, answers))
        if alone:
            await asyncio.gather(*alone)

    async def _go_alone(
        self, answers: dict[int, Answer], place: int, job: Job, begun: Begun | None
    ) -> None:
        try:
            answers[place] = await self._alone(job, begun)
        except Exception as error:  # noqa: BLE001 - of this task alone
            answers[place] = error

    async def _alone(self, job: Job, begun: Begun | None) -> Receipt:
        """Take one job to its end, from wherever it is."""
        while True:
            try:
                receipt = None if begun is not None else await self._earlier(job)
                if receipt is None:
                    receipt = await self._anew(job, begun)
                return await self._durable.confirmed(job, receipt)
            except StartsOver as removed:
                if job.deadline.is_over:
                    raise SubmitInFlight(removed.task_id, 1) from None
                job.starts_over()
                begun = None

    def plan(self, spec: TaskSpec) -> Plan:
        """Decide without storing anything; that there is no region is an answer, too.

        Raises what admission raises.
        """
        draft, body = wire.admitted(spec, self._fleet, now_ms=self._clock.now_ms())
        try:
            resolved = resolve(draft, self._fleet)
        except NoRegionPermitted:
            return Plan(draft, self._routes.decide(draft, None, ""), 0)
        identity = identify(draft, body, resolved.fence, self._fleet)
        decision = self._routes.decide(draft, resolved, identity.home)
        if identity.mark is not None and not identity.home:
            decision = replace(decision, ledger_home=decision.region)
        return Plan(draft, decision, partition(draft, identity, self._fleet.partitions, 0))

    async def drain(self) -> None:
        """Return once every submit that holds a reservation has ended."""
        while self._held:
            await asyncio.wait(self._held)

    def _job(self, spec: TaskSpec, traceparent: str, deadline: Deadline, now_ms: int) -> Job:
        draft, body, resolved = self._shapes.admit(spec, now_ms=now_ms)
        return Job(
            draft=draft,
            resolved=resolved,
            identity=identify(draft, body, resolved.fence, self._fleet),
            traceparent=traceparent,
            deadline=deadline,
            created_ms=now_ms,
            fleet=self._fleet,
        )

    def _mint(self, job: Job, region: str) -> str:
        born_ms = job.created_ms
        if job.is_free:
            place = self._anywhere.at(born_ms)
        else:
            place = partition(job.draft, job.identity, self._fleet.partitions, 0)
        return ids.mint(born_ms, ids.region_code(region), place, self._entropy.getrandbits(48))

    def _begin(self, job: Job) -> Begun:
        """Choose a region, and make the task if that is all there is to do. Raises refusals.

        What came before, if anything, has been refused for certain.
        """
        try:
            region = self._carrier.choose(job)
        except TradewindError as refusal:
            raise job.left_nothing(refusal) from None
        task_id = self._mint(job, region)
        mark = job.identity.mark and job.mark_here(task_id, region)
        is_entry_elsewhere = job.identity.mark is not None and mark is None
        task = None if is_entry_elsewhere else job.task(task_id, region, mark=mark)
        return Begun(job, region, task_id, task, closes=self._carrier.is_spent)

    async def _anew(self, job: Job, begun: Begun | None) -> Receipt:
        """Try one region after the other, each only after a definite refusal."""
        moved = 0
        while True:
            begun = begun or self._begin(job)
            try:
                if begun.task is not None:
                    return await self._at_once(begun, begun.task)
                reserved = self._carrier.reserved(job, begun.region, begun.task_id)
                return await self._to_the_end(reserved)
            except Refused as refused:
                moved += 1
                if self._stays(job, refused, moved):
                    continue
                if refused.region in job.refused or job.deadline.is_over:
                    raise refused.error from None
                job.refused[refused.region] = refused.error
                if refused.region == job.identity.home:  # its entry was to be stored with it
                    job.falls_back()
            except NotKept as kept:
                if not kept.certain:
                    raise _doubtful(job, kept) from None
                if not (job.falls_back() or _leave(job, kept)):
                    elsewhere = any(map(self._ledgers.answers, job.identity.never_asked))
                    raise job.left_nothing(_doubtful(job, kept), elsewhere=elsewhere) from None
            finally:
                begun = None

    def _stays(self, job: Job, refused: Refused, moved: int) -> bool:
        """Whether another partition of the region is to take it.

        Raises the refusal where its client comes back at once, and so to another one.
        """
        error = refused.error
        if not is_partial(error):
            return False
        if job.is_redrawn and not isinstance(error, StoreFull):
            raise job.left_nothing(_own(error), elsewhere=True) from None
        if not job.is_free or moved >= _OTHER_PARTITIONS:
            return False
        self._anywhere.leave()
        return True

    async def _at_once(self, begun: Begun, task: NewTask) -> Receipt:
        """Task and ledger entry in one script, or a task without an entry."""
        job, region = begun.job, begun.region
        outcome = await self._storing.store(
            region,
            task,
            job.deadline,
            begun.first,
            await_slot=not (job.is_free or job.is_redrawn),
        )
        if isinstance(outcome, Stored):
            return begun.receipt(outcome)
        return await self._to_the_end(self._carrier.known(job, region, outcome))

    async def _earlier(self, job: Job) -> Receipt | None:
        """Answer a repeat whose entry is there; else settle where it has to be made."""
        identity, mark = job.identity, job.reservation()
        if not job.asks_first or mark is None:
            return None
        task_id = self._mint(job, identity.home)
        try:
            job.kept_at, hit = await self._ledgers.settle(
                mark, identity.home, identity.spare, task_id, job.deadline
            )
        except NotKept as kept:
            raise _doubtful(job, kept) from None
        if hit is None:
            return None
        return await self._to_the_end(self._carrier.known(job, job.kept_at, hit))

    async def _to_the_end(self, work: Coroutine[Any, Any, Receipt]) -> Receipt:
        """Await `work`, which goes on if the caller is gone."""
        task = asyncio.get_running_loop().create_task(work)
        self._held.add(task)
        task.add_done_callback(self._let_go)
        return await asyncio.shield(task)

    def _let_go(self, task: asyncio.Task[Receipt]) -> None:
        self._held.discard(task)
        if not task.cancelled():
            task.exception()  # seen, if nobody waits for it any more


def _own(error: StoreError) -> StoreError:
    """The same for one job alone: an error of the store may be of many."""
    if isinstance(error, StoreMoving):
        return StoreMoving(error.region, error.partition)
    return StoreUnavailable(error.region, "one of its primaries", sent=False, partly=True)


def _leave(job: Job, kept: NotKept) -> bool:
    """Whether another region may take task and entry: where dedup holds within a region only."""
    if job.identity.home or kept.home in job.refused:
        return False
    job.refused[kept.home] = (
        StoreFull(kept.home)
        if isinstance(kept.error, RegionsFull)
        else StoreUnavailable(kept.home, "it does not answer", sent=False)
    )
    return True


def _doubtful(job: Job, kept: NotKept) -> TradewindError:
    """Return what to answer: a full home cannot say whether it has the entry of a repeat."""
    if job.is_repeat and job.identity.spare:
        return HomeUnreachable(kept.home)
    return kept.error
