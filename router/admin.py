"""AdminService: what operators see, and what they order. Lists name the regions that are silent."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc.aio

from router.audit import Audit
from router.census import Census
from router.control import Orders
from router.dead import DeadTasks, Filter
from router.deeds import Deeds, Records
from router.evacuate import EvacuationPorts, Evacuator, evacuation
from router.keys import Keys
from router.lookup import SILENT_AFTER_S, Lookup
from router.moves import MovePorts, Moves, Retargeted, move
from router.operators import operator_of, reason_of, record_of
from router.redrive import DeadPorts, DeadWork, Done
from router.service import deadline_of
from router.vote import Wish
from tradewind import wire
from tradewind.admission.admit import is_name, shown
from tradewind.audit import AuditRecord
from tradewind.clock import Clock
from tradewind.control import pause, resume, set_state
from tradewind.errors import ConfigError, InvalidTask, PolicyRefused, StoreError
from tradewind.fleet import Fleet
from tradewind.policy.filters import DURABILITY, OF_A_TASK, conditions
from tradewind.policy.scores import wait_s
from tradewind.ports import Audits, Reads
from tradewind.task import QueueCounts
from tradewind.v1 import admin_pb2, admin_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")
Reload = Callable[[], Awaitable[Fleet]]

_log = logging.getLogger(__name__)


class AdminPorts(DeadPorts, Audits, MovePorts, EvacuationPorts, Protocol):
    """What this needs of one region."""


class AdminService(admin_pb2_grpc.AdminServiceServicer):
    """See proto/tradewind/v1/admin.proto."""

    def __init__(
        self,
        fleet: Fleet,
        census: Census,
        orders: Orders,
        stores: Mapping[str, AdminPorts],
        keys: Keys,
        lookup: Lookup,
        reload: Reload,
        clock: Clock,
    ) -> None:
        """`stores` by region name. `reload` reads the policy file again. `clock`: the regions'."""
        self._census, self._orders, self._reload, self._clock = census, orders, reload, clock
        self._deeds = Deeds(orders)
        self.follow(fleet, stores, keys, lookup)

    def follow(
        self, fleet: Fleet, stores: Mapping[str, AdminPorts], keys: Keys, lookup: Lookup
    ) -> None:
        """Answer what comes from now on by this fleet."""
        self._fleet, self._reads = fleet, stores
        self._dead = DeadTasks(stores, fleet.partitions)
        self._work = DeadWork(fleet, stores, keys)
        self._audit = Audit(stores, self._census.answers)
        self._moves = Moves(stores, fleet.partitions, lookup)
        self._evacuator = Evacuator(fleet, self._orders, stores, self._census.view, self._clock)

    async def ListRegions(
        self, request: admin_pb2.ListRegionsRequest, context: Context
    ) -> admin_pb2.ListRegionsResponse:
        """List every configured region as the census has it."""
        regions = list(map(self._region, self._fleet.regions))
        silent = self._census.silent()
        return admin_pb2.ListRegionsResponse(regions=regions, silent_regions=silent)

    def _region(self, name: str) -> admin_pb2.Region:
        view, region = self._census.view(name), self._fleet.regions.get(name)
        wait = wait_s(view)
        reasons = () if region is None else conditions(view, region, self._fleet, "", "", wait)
        lacking = [DURABILITY] if view.lacks else []  # some queue asks for that
        return wire.region(
            view,
            expected_wait_s=wait,
            workers=len(self._census.workers(name)),
            epoch=self._orders.control.stamp.epoch,
            reasons=[*lacking, *(reason for reason in reasons if reason not in OF_A_TASK)],
        )

    async def ListWorkers(
        self, request: admin_pb2.ListWorkersRequest, context: Context
    ) -> admin_pb2.ListWorkersResponse:
        """List the live workers, as of their last heartbeats."""
        names = self._regions(request.region, "region")
        silent = set(self._census.silent()).intersection(names)
        live = [
            worker
            for name in names
            if name not in silent
            for worker in sorted(
                self._census.workers(name), key=lambda worker: worker.heartbeat.worker_id
            )
        ]
        return admin_pb2.ListWorkersResponse(
            workers=[wire.worker(worker) for worker in live], silent_regions=sorted(silent)
        )

    async def ListQueues(
        self, request: admin_pb2.ListQueuesRequest, context: Context
    ) -> admin_pb2.ListQueuesResponse:
        """List the counts of every queue in every region, empty ones only where they are paused."""
        names = self._regions(request.region, "region")
        answers, silent = await self._ask(names, _counts_and_ages)
        paused = self._orders.control.pauses
        return admin_pb2.ListQueuesResponse(
            queues=[
                wire.queue_stats(
                    name,
                    queue,
                    queues.get(queue, QueueCounts()),
                    oldest_ms=oldest_ms.get(queue),
                    paused=queue in paused,
                )
                for name, (queues, oldest_ms) in answers.items()
                for queue in sorted({*queues, *paused})
                if request.queue in {"", queue}
            ],
            silent_regions=silent,
        )

    async def ListDeadTasks(
        self, request: admin_pb2.ListDeadTasksRequest, context: Context
    ) -> admin_pb2.ListDeadTasksResponse:
        """List dead tasks, page by page."""
        wanted = self._filter(request.filter)
        page = await self._dead.page(wanted, request.page_size, request.page_token)
        heard = [region for region in wanted.regions if region not in page.silent]
        counted, silent = await self._ask(heard, lambda reads: _dead(reads, wanted.queue))
        total = sum(counted.values()) if wanted.is_by_queue else page.total
        return admin_pb2.ListDeadTasksResponse(
            tasks=[wire.task(record, whole=False) for record in page.records],
            next_page_token=page.next.token(total) if page.next else "",
            total=total,
            silent_regions=sorted({*silent, *page.silent}),
        )

    async def SetRegionState(
        self, request: admin_pb2.SetRegionStateRequest, context: Context
    ) -> admin_pb2.SetRegionStateResponse:
        """Order what a region may do; a drain waits until its workers obey, SETTLE_MS at most."""
        if not request.region:
            raise InvalidTask.field("region", "is required")
        (region,) = self._regions(request.region, "region")
        state = wire.region_state(request.state)
        if state is None:
            raise InvalidTask.field("state", "is required: ACTIVE, CORDONED or DRAINING")
        why = reason_of(request.reason)
        order = partial(
            set_state,
            fleet=self._fleet,
            region=region,
            state=state,
            reason=why,
            by=operator_of(context),
            at_ms=self._clock.now_ms(),
            force=request.force,
        )
        settles = (region,) if state == "DRAINING" else ()
        told = {"state": state} | ({"force": "yes"} if request.force else {})
        record = record_of(context, "state", on=region, why=why, told=told)
        wish = Wish(order, region, forced=request.force)
        done = await self._deeds.order(wish, record, self._records, settles=settles)
        return admin_pb2.SetRegionStateResponse(region=self._region(region), stood=done.stood)

    async def EvacuateRegion(
        self, request: admin_pb2.EvacuateRegionRequest, context: Context
    ) -> AsyncIterator[admin_pb2.EvacuateRegionResponse]:
        """Order that a region is emptied, and tell how far that is. The order outlives the call."""
        evacuator, rate = self._evacuator, request.rate_per_second
        if not request.region:
            raise InvalidTask.field("region", "is required")
        (region,) = self._regions(request.region, "region")
        if not 0 <= rate < math.inf:
            raise InvalidTask.field("rate_per_second", "is a number of tasks, 0: no limit")
        why = reason_of(request.reason)
        if request.dry_run:
            yield evacuation(await evacuator.would(region))
            return
        if wish := evacuator.wish(region, rate, operator_of(context)):
            told = {"rate_per_second": f"{rate:g}"} if rate else {}
            record = record_of(context, "evacuate", on=region, why=why, told=told)
            await self._deeds.order(wish, record, self._records)
        async for progress in evacuator.watch(region):
            yield evacuation(progress)

    async def ListMoves(
        self, request: admin_pb2.ListMovesRequest, context: Context
    ) -> admin_pb2.ListMovesResponse:
        """List what is on its way."""
        moves, silent = await self._moves.listed(self._regions(request.region, "region"))
        return admin_pb2.ListMovesResponse(moves=map(move, moves), silent_regions=silent)

    async def RetargetMove(
        self, request: admin_pb2.RetargetMoveRequest, context: Context
    ) -> admin_pb2.RetargetMoveResponse:
        """End a move: the task is again what it was where it was."""
        record, moves = record_of(context, "retarget", on=request.task_id), self._moves
        retarget = moves.retarget(request.task_id, force=request.force, by=record.who)
        done = await self._deeds.hold(_retargeted(retarget, record, self._records))
        return admin_pb2.RetargetMoveResponse(
            task=wire.task(done.record, whole=False),
            ended=done.ended,
            may_run_twice=done.may_run_twice,
        )

    async def PauseQueue(
        self, request: admin_pb2.PauseQueueRequest, context: Context
    ) -> admin_pb2.PauseQueueResponse:
        """Pause a queue; waits until the known workers obey, SETTLE_MS at most."""
        why = reason_of(request.reason)
        order = partial(
            pause,
            queue=_queue(request.queue),
            by=operator_of(context),
            at_ms=self._clock.now_ms(),
        )
        record = record_of(context, "pause", on=request.queue, why=why)
        everywhere = tuple(self._fleet.regions)
        done = await self._deeds.order(Wish(order), record, self._records, settles=everywhere)
        return admin_pb2.PauseQueueResponse(epoch=done.control.stamp.epoch, stood=done.stood)

    async def ResumeQueue(
        self, request: admin_pb2.ResumeQueueRequest, context: Context
    ) -> admin_pb2.ResumeQueueResponse:
        """End a pause."""
        queue = _queue(request.queue)
        why, wish = reason_of(request.reason), Wish(partial(resume, queue=queue))
        record = record_of(context, "resume", on=queue, why=why)
        done = await self._deeds.order(wish, record, self._records)
        _log.info("a resume was ordered", extra={"queue": queue, "by": record.who})
        return admin_pb2.ResumeQueueResponse(epoch=done.control.stamp.epoch, stood=done.stood)

    async def RedriveDeadTasks(
        self, request: admin_pb2.RedriveDeadTasksRequest, context: Context
    ) -> admin_pb2.RedriveDeadTasksResponse:
        """Make dead tasks ready again."""
        wanted, deadline, done = self._filter(request.filter), deadline_of(context), Done()
        try:
            await self._work.redrive(wanted, done, dry_run=request.dry_run, deadline=deadline)
        finally:
            if not request.dry_run:
                await self._keep_dead(context, "redrive", wanted, done)
        return admin_pb2.RedriveDeadTasksResponse(
            count=done.count, silent_regions=sorted(done.silent)
        )

    async def PurgeDeadTasks(
        self, request: admin_pb2.PurgeDeadTasksRequest, context: Context
    ) -> admin_pb2.PurgeDeadTasksResponse:
        """Remove dead tasks for good."""
        wanted, deadline, done = self._filter(request.filter), deadline_of(context), Done()
        try:
            await self._work.purge(wanted, done, dry_run=request.dry_run, deadline=deadline)
        finally:
            if not request.dry_run:
                await self._keep_dead(context, "purge", wanted, done)
        return admin_pb2.PurgeDeadTasksResponse(
            count=done.count, silent_regions=sorted(done.silent)
        )

    async def ListAudit(
        self, request: admin_pb2.ListAuditRequest, context: Context
    ) -> admin_pb2.ListAuditResponse:
        """List what operators did, page by page."""
        names = self._regions(request.region, "region")
        page = await self._audit.page(names, request.page_size, request.page_token)
        return admin_pb2.ListAuditResponse(
            records=map(wire.audit_record, page.records),
            next_page_token=page.next_token,
            silent_regions=page.silent,
        )

    @property
    def _records(self) -> Records:
        return Records(self._audit, self._census.region)

    async def _keep_dead(self, context: Context, deed: str, wanted: Filter, done: Done) -> None:
        record = record_of(context, deed, told=wanted.told())
        await self._deeds.hold(self._records.keep_dead(record, wanted.queue, done))

    async def drain(self) -> None:
        """Return once what operators ordered has ended, and is written down."""
        await self._deeds.drain()

    async def ReloadPolicy(
        self, request: admin_pb2.ReloadPolicyRequest, context: Context
    ) -> admin_pb2.ReloadPolicyResponse:
        """Read the policy file again."""
        try:
            fleet = await self._reload()
        except ConfigError as error:
            raise PolicyRefused(str(error)) from None
        return admin_pb2.ReloadPolicyResponse(policy_version=fleet.version)

    def _filter(self, sent: admin_pb2.DeadTaskFilter) -> Filter:
        return Filter.read(sent, self._regions(sent.region, "filter.region"))

    def _regions(self, name: str, field: str) -> tuple[str, ...]:
        """Return the one region asked for, or all. Raises InvalidTask."""
        if not name:
            return tuple(self._fleet.regions)
        if name not in self._fleet.regions:
            known = ", ".join(self._fleet.regions)
            raise InvalidTask.field(field, f"{shown(name)} is not a region; known: {known}")
        return (name,)

    async def _ask(
        self, names: Sequence[str], question: Callable[[Reads], Awaitable[Answer]]
    ) -> tuple[dict[str, Answer], list[str]]:
        """Ask regions side by side; return answers by region, and who was silent.

        One that has left the file meanwhile is silent, too.
        """

        async def ask(name: str) -> Answer | None:
            if (reads := self._reads.get(name)) is None:
                return None
            try:
                async with asyncio.timeout(SILENT_AFTER_S):
                    return await question(reads)
            except (StoreError, TimeoutError):
                return None

        answers = await asyncio.gather(*(ask(name) for name in names))
        heard = {n: a for n, a in zip(names, answers, strict=True) if a is not None}
        return heard, sorted(set(names) - set(heard))


async def _counts_and_ages(reads: Reads) -> tuple[Mapping[str, QueueCounts], dict[str, int]]:
    """Read a region's counts by queue, and its longest waits in ms, of any priority."""
    counts, by_priority = await asyncio.gather(reads.counts(), reads.oldest())
    oldest_ms: dict[str, int] = {}
    for (queue, _), age_ms in by_priority.items():
        oldest_ms[queue] = max(age_ms, oldest_ms.get(queue, 0))
    return counts, oldest_ms


async def _dead(reads: Reads, queue: str) -> int:
    """Count the dead tasks of a region; of one queue, if it is named."""
    if not queue:
        return await reads.dead_total()
    return (await reads.counts()).get(queue, QueueCounts()).dead


async def _retargeted(
    retarget: Awaitable[Retargeted], record: AuditRecord, records: Records
) -> Retargeted:
    """Return how a move was ended, once that is written down."""
    done = await retarget
    if done.ended:
        told = {"may_run_twice": "yes"} if done.may_run_twice else {}
        await records.keep(replace(record, told=told))
    return done


def _queue(name: str) -> str:
    """Return the name of a queue. Raises InvalidTask."""
    if not name or not is_name(name):
        raise InvalidTask.field("queue", f"{shown(name)} is no name of a queue")
    return name
