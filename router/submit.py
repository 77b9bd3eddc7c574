"""The way of one submit: check, identify, choose, store, answer (design section 4).

Another region is tried only after a definite refusal. What has begun to hold a reservation runs to
its end even if its caller leaves; a repeat of the submit then finds the task.
"""

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from router.carry import Carrier, StartsOver
from router.job import Deadline, Job, Receipt
from router.reserve import Ledgers, NotKept
from router.route import Routes
from router.storing import Refused, Storing
from tradewind import ids, wire
from tradewind.admission import admit
from tradewind.admission.identity import identify, partition
from tradewind.clock import Clock
from tradewind.errors import (
    HomeUnreachable,
    NoRegionPermitted,
    RegionsFull,
    StoreFull,
    StoreMoving,
    StoreUnavailable,
    SubmitInFlight,
    TradewindError,
)
from tradewind.fingerprint import Body
from tradewind.fleet import Fleet
from tradewind.policy.rules import resolve
from tradewind.task import Draft, Stored
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import Decision

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
        carrier: Carrier,
        clock: Clock,
        entropy: random.Random,
    ) -> None:
        """`entropy` makes ids unique; it must be seeded by the system."""
        self._fleet, self._routes, self._storing = fleet, routes, storing
        self._ledgers, self._carrier = ledgers, carrier
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
        while True:
            try:
                return await self._earlier(job) or await self._anew(job)
            except StartsOver as removed:
                if job.deadline.is_over:
                    raise SubmitInFlight(removed.task_id, 1) from None
                job.starts_over()

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
        draft = wire.draft(
            spec,
            delay_ms=admitted.delay_ms,
            not_before_ms=admitted.not_before_ms,
            timeout_ms=admitted.timeout_ms,
        )
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

    def _mint(self, job: Job, region: str) -> str:
        entropy = self._entropy.getrandbits(64)
        place = partition(job.draft, job.identity, self._fleet.partitions, entropy >> 48)
        return ids.mint(self._clock.now_ms(), ids.region_code(region), place, entropy)

    async def _anew(self, job: Job) -> Receipt:
        """Try one region after the other, each only after a definite refusal."""
        moved = 0
        while True:
            region = self._carrier.choose(job)
            task_id = self._mint(job, region)
            try:
                if job.identity.mark is None or job.mark_here(task_id, region) is not None:
                    return await self._at_once(job, region, task_id)
                return await self._to_the_end(self._carrier.reserved(job, region, task_id))
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
                if not kept.certain or not (job.falls_back() or _leave(job, kept)):
                    raise _doubtful(job, kept) from None

    async def _at_once(self, job: Job, region: str, task_id: str) -> Receipt:
        """Task and ledger entry in one script, or a task without an entry."""
        task = job.task(task_id, region, mark=job.mark_here(task_id, region))
        outcome = await self._storing.store(region, task, job.deadline)
        if isinstance(outcome, Stored):
            return Receipt(
                task_id,
                region,
                outcome.state,
                duplicate=False,
                rule=job.rule,
                possible_duplicate=job.home_was_silent,
            )
        return await self._to_the_end(self._carrier.known(job, region, outcome))

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
