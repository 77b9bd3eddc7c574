"""The way of one submit: check, identify, choose, store, answer (design section 4).

Another region is tried only after a definite refusal. What has begun to hold a reservation runs to
its end even if its caller leaves; a repeat of the submit then finds the task.
"""

import asyncio
import random
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from router import admit
from router.identity import identify, partition
from router.job import Deadline, Job, Receipt
from router.lookup import Lookup
from router.reserve import BARE, Ledgers, NotKept, Reservation
from router.route import Routes
from router.storing import Refused, Storing
from tradewind import ids, wire
from tradewind.clock import Clock
from tradewind.errors import (
    HomeUnreachable,
    IdempotencyKeyReused,
    InvalidTask,
    NoRegionPermitted,
    RegionSilent,
    StoreContractBroken,
    StoreError,
    StoreMoving,
    StoreUnavailable,
    SubmitInFlight,
    TradewindError,
)
from tradewind.fingerprint import Body
from tradewind.fleet import Fleet
from tradewind.policy.rules import resolve
from tradewind.ports import Intake
from tradewind.state import State
from tradewind.task import Draft, LedgerHit, Stored
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import Decision

BY_LEDGER: Final = "ledger"  # what decided the region of a duplicate: its first submit
_OTHER_PARTITIONS: Final = 3  # tried in a region whose slot moves, before the region is left


@dataclass(frozen=True, slots=True)
class Plan:
    """What ExplainRoute tells: the decision, and the partition the task would take."""

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
        lookup: Lookup,
        intakes: Mapping[str, Intake],
        clock: Clock,
        entropy: random.Random,
    ) -> None:
        """`entropy` makes ids unique; it must be seeded by the system."""
        self._fleet, self._routes, self._storing = fleet, routes, storing
        self._ledgers, self._lookup, self._intakes = ledgers, lookup, intakes
        self._clock, self._entropy = clock, entropy
        self._held: set[asyncio.Task[Receipt]] = set()

    async def submit(
        self, spec: TaskSpec, *, traceparent: str, deadline: Deadline, is_repeat: bool = True
    ) -> Receipt:
        """Store a task, or find the one that an earlier submit stored.

        `is_repeat` is False only if certainly no earlier attempt with its request_id was made.
        Raises the errors of contract section 3, and OutcomeUnknown if the task may be stored.
        """
        job = self._job(spec, traceparent, deadline)
        job.is_repeat = is_repeat
        return await self._earlier(job) or await self._anew(job)

    def plan(self, spec: TaskSpec) -> Plan:
        """Decide without storing anything; that there is no region is an answer, too.

        Raises what admission raises.
        """
        draft, body, _ = self._admit(spec)
        try:
            resolved = resolve(draft, self._fleet)
        except NoRegionPermitted:
            return Plan(self._routes.decide(draft, None, ""), 0)
        identity = identify(draft, body, resolved.fence, self._fleet)
        decision = self._routes.decide(draft, resolved, identity.home)
        if identity.mark is not None and not identity.home:
            decision = replace(decision, ledger_home=decision.region)
        return Plan(decision, partition(draft, identity, self._fleet.partitions, 0))

    async def drain(self) -> None:
        """Return once every submit that holds a reservation has ended."""
        while self._held:
            await asyncio.wait(self._held)

    def _admit(self, spec: TaskSpec) -> tuple[Draft, Body, int]:
        now_ms = self._clock.now_ms()
        admitted = admit.check(spec, self._fleet, now_ms=now_ms)
        draft = wire.draft(spec, delay_ms=admitted.delay_ms, timeout_ms=admitted.timeout_ms)
        return draft, admitted.body, now_ms

    def _job(self, spec: TaskSpec, traceparent: str, deadline: Deadline) -> Job:
        draft, body, now_ms = self._admit(spec)
        resolved = resolve(draft, self._fleet)
        return Job(
            draft=draft,
            resolved=resolved,
            identity=identify(draft, body, resolved.fence, self._fleet),
            traceparent=traceparent,
            deadline=deadline,
            created_ms=now_ms,
            fleet=self._fleet,
        )

    def _choose(self, job: Job) -> str:
        decision = self._routes.choose(job.draft, job.resolved, job.identity.home, job.refused)
        job.rule = wire.decided_by(decision)
        return decision.region

    def _mint(self, job: Job, region: str) -> str:
        entropy = self._entropy.getrandbits(64)
        place = partition(job.draft, job.identity, self._fleet.partitions, entropy >> 48)
        return ids.mint(self._clock.now_ms(), ids.region_code(region), place, entropy)

    async def _anew(self, job: Job) -> Receipt:
        """Try one region after the other, each only after a definite refusal."""
        moved = 0
        while True:
            region = self._choose(job)
            task_id = self._mint(job, region)
            try:
                if job.identity.mark is None or job.mark_here(task_id, region) is not None:
                    return await self._at_once(job, region, task_id)
                return await self._to_the_end(self._reserved(job, region, task_id))
            except Refused as refused:
                free = job.identity.mark is None and not job.draft.affinity_key
                moved += 1
                if free and isinstance(refused.error, StoreMoving) and moved < _OTHER_PARTITIONS:
                    continue
                if refused.region in job.refused or job.deadline.is_over:
                    raise refused.error from None
                job.refused[refused.region] = refused.error
                if refused.region == job.identity.home:  # its entry was to be stored with it
                    job.falls_back()
            except NotKept as kept:
                if not kept.certain or not job.falls_back():
                    raise _doubtful(job, kept) from None

    async def _at_once(self, job: Job, region: str, task_id: str) -> Receipt:
        """Task and ledger entry in one script, or a task without an entry."""
        task = job.task(task_id, region, mark=job.mark_here(task_id, region))
        outcome = await self._storing.store(region, task, job.deadline)
        if isinstance(outcome, Stored):
            return Receipt(task_id, region, outcome.state, duplicate=False, rule=job.rule)
        return await self._to_the_end(self._known(job, region, outcome))

    async def _earlier(self, job: Job) -> Receipt | None:
        """Answer a repeat whose entry is there; else settle where it has to be made."""
        identity, mark = job.identity, job.reservation()
        if not job.is_repeat or not identity.spare or mark is None:
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
        return await self._to_the_end(self._known(job, job.kept_at, hit))

    async def _reserved(self, job: Job, region: str, task_id: str) -> Receipt:
        """Reserve at home, store at the region, confirm at home."""
        mark = job.reservation()
        assert mark is not None  # noqa: S101 - the caller looked
        wanted = Reservation(mark, job.home(region), task_id, region, 1, time.monotonic())
        hit = await self._ledgers.reserve(wanted, job.deadline)
        if hit is not None:
            return await self._known(job, wanted.home, hit)
        return await self._carry(job, wanted, duplicate=False)

    async def _carry(self, job: Job, held: Reservation, *, duplicate: bool) -> Receipt:
        """Carry a reservation through: store its task, moving on from regions that refuse."""
        while True:
            try:
                state = await self._store_held(job, held)
            except Refused as refused:
                stored = await self._leave(job, held, refused)
                if stored is None:
                    moved = await self._move_on(job, held)
                    if isinstance(moved, Receipt):
                        return moved
                    held = moved
                    continue
                state = stored.state
            await self._ledgers.confirm(held, job.deadline)
            return Receipt(held.task_id, held.region, state, duplicate=duplicate, rule=job.rule)

    async def _store_held(self, job: Job, held: Reservation) -> State:
        if not job.permits(held.region):  # adopted from a submit under another fence
            outside = StoreUnavailable(held.region, "outside the fence", sent=False)
            raise Refused(held.region, outside)
        task = job.task(held.task_id, held.region, epoch=held.epoch)
        outcome = await self._storing.store(held.region, task, job.deadline)
        if isinstance(outcome, LedgerHit):
            raise StoreContractBroken("a task without a mark met a ledger entry")
        return outcome.state

    async def _leave(self, job: Job, held: Reservation, refused: Refused) -> Stored | None:
        """Make sure that the task can no longer be stored where it was refused, at this epoch.

        Raises Refused, the reservation given back, if the region does not answer and nobody else
        can have sent anything; RegionSilent if somebody can.
        """
        if refused.tombstone:
            # Whoever left did not get to move the entry on, or has, and then it tells us. The
            # region itself may be the right one again, at the next epoch.
            return None
        try:
            async with asyncio.timeout(job.deadline.left_s()):
                stored = await self._intakes[held.region].refuse(held.task_id, held.epoch)
        except (StoreError, TimeoutError):
            if await self._ledgers.give_back(held):
                raise refused from None
            raise RegionSilent([held.region]) from None
        job.refused[held.region] = refused.error
        return stored

    async def _move_on(self, job: Job, held: Reservation) -> Reservation | Receipt:
        """Choose anew and move the entry there; a receipt if somebody else was faster."""
        try:
            region = self._choose(job)
        except Exception:
            await self._ledgers.discard(held, job.deadline)
            raise
        wanted = Reservation(
            held.mark,
            held.home if job.identity.home else region,
            held.task_id,
            region,
            held.epoch + 1,
            time.monotonic(),
            adopted=held.adopted,
        )
        if wanted.home != held.home:  # scope region: the entry goes where the task goes
            await self._ledgers.discard(held, job.deadline)
        try:
            hit = await self._ledgers.reserve(wanted, job.deadline)
        except NotKept as kept:
            raise kept.error from None  # the entry stands as it was, and a repeat moves it on
        return wanted if hit is None else await self._known(job, wanted.home, hit)

    async def _known(self, job: Job, home: str, hit: LedgerHit) -> Receipt:
        """Answer a submit that the ledger has seen before."""
        mark = job.reservation()
        assert mark is not None  # noqa: S101 - the ledger was asked by mark
        theirs = Reservation(
            mark, home, hit.task_id, hit.region, hit.epoch, time.monotonic(), adopted=True
        )
        if hit.epoch == BARE:
            if home == job.identity.spare:  # a repeat was faster, and has settled on home
                raise HomeUnreachable(job.identity.home)
            await self._ledgers.discard(theirs, job.deadline)
            raise SubmitInFlight(hit.task_id, 1)
        if not hit.same_payload:
            await self._refuse_other_payload(job, hit, theirs)
        if hit.confirmed:
            return await self._first(hit, duplicate=not hit.mine)
        if not hit.adopted:
            raise SubmitInFlight(hit.task_id, hit.lease_left_ms)
        if hit.region not in self._intakes:
            raise RegionSilent([hit.region])
        return await self._carry(job, theirs, duplicate=not hit.mine)

    async def _refuse_other_payload(self, job: Job, hit: LedgerHit, theirs: Reservation) -> None:
        """Raise, unless what stands in the way was given up: then remove it and say try again."""
        if not hit.confirmed:
            if hit.lease_left_ms > 0:
                raise SubmitInFlight(hit.task_id, hit.lease_left_ms)
            stored = await self._refuse_there(theirs, job.deadline)
            if stored is None:
                await self._ledgers.discard(theirs, job.deadline)
                raise SubmitInFlight(hit.task_id, 1)
            await self._ledgers.confirm(theirs, job.deadline)
        if job.draft.idempotency_key:
            raise IdempotencyKeyReused(hit.task_id)
        raise InvalidTask.field(
            "request_id", f"already names task {hit.task_id} with another payload; use a new one"
        )

    async def _refuse_there(self, theirs: Reservation, deadline: Deadline) -> Stored | None:
        if theirs.region not in self._intakes:
            raise RegionSilent([theirs.region])
        try:
            async with asyncio.timeout(deadline.left_s()):
                return await self._intakes[theirs.region].refuse(theirs.task_id, theirs.epoch)
        except (StoreError, TimeoutError):
            raise RegionSilent([theirs.region]) from None

    async def _first(self, hit: LedgerHit, *, duplicate: bool) -> Receipt:
        if hit.state is not None:
            region, state = hit.region, hit.state
        else:
            record = await self._lookup.find(hit.task_id)
            region, state = record.region, record.state
        return Receipt(hit.task_id, region, state, duplicate=duplicate, rule=BY_LEDGER)

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


def _doubtful(job: Job, kept: NotKept) -> TradewindError:
    """Return what to answer: a full home cannot say whether it has the entry of a repeat."""
    if job.is_repeat and job.identity.spare:
        return HomeUnreachable(kept.home)
    return kept.error
