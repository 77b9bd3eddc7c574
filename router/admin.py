"""AdminService: the lists of this release. Lists that span regions name those that are silent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

import grpc.aio

from router.census import Census
from router.dead import DeadTasks, Filter
from router.keys import Keys
from router.redrive import DeadPorts, DeadWork
from router.service import deadline_of
from tradewind import wire
from tradewind.admission.admit import shown
from tradewind.errors import ConfigError, InvalidTask, NotServedYet, PolicyRefused, StoreError
from tradewind.fleet import Fleet
from tradewind.policy.scores import wait_s
from tradewind.ports import Reads
from tradewind.task import QueueCounts
from tradewind.v1 import admin_pb2, admin_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")
Reload = Callable[[], Awaitable[Fleet]]

_TIMEOUT_S: Final = 5.0  # of one region's answer to a list


class AdminService(admin_pb2_grpc.AdminServiceServicer):
    """See proto/tradewind/v1/admin.proto."""

    def __init__(
        self,
        fleet: Fleet,
        census: Census,
        stores: Mapping[str, DeadPorts],
        keys: Keys,
        reload: Reload,
    ) -> None:
        """`stores` by region name. `reload` reads the policy file again."""
        self._census, self._reload = census, reload
        self.follow(fleet, stores, keys)

    def follow(self, fleet: Fleet, stores: Mapping[str, DeadPorts], keys: Keys) -> None:
        """Answer what comes from now on by this fleet."""
        self._fleet, self._reads = fleet, stores
        self._dead = DeadTasks(stores, fleet.partitions)
        self._work = DeadWork(fleet, stores, keys)

    async def ListRegions(
        self, request: admin_pb2.ListRegionsRequest, context: Context
    ) -> admin_pb2.ListRegionsResponse:
        """List every configured region as the census has it."""
        regions = [
            wire.region(
                view,
                expected_wait_s=wait_s(view),
                workers=len(self._census.workers(view.name)),
            )
            for view in map(self._census.view, self._fleet.regions)
        ]
        silent = self._census.silent()
        return admin_pb2.ListRegionsResponse(regions=regions, silent_regions=silent)

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
        """List the counts of every queue in every region."""
        names = self._regions(request.region, "region")
        answers, silent = await self._ask(names, _counts_and_ages)
        return admin_pb2.ListQueuesResponse(
            queues=[
                wire.queue_stats(name, queue, counts, oldest_ms=oldest_ms.get(queue))
                for name, (queues, oldest_ms) in answers.items()
                for queue, counts in sorted(queues.items())
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
        counted, silent = await self._ask(wanted.regions, lambda reads: _dead(reads, wanted.queue))
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
        """Not in this release."""
        _not_yet("SetRegionState")

    def EvacuateRegion(
        self, request: admin_pb2.EvacuateRegionRequest, context: Context
    ) -> AsyncIterator[admin_pb2.EvacuateRegionResponse]:
        """Not in this release."""
        _not_yet("EvacuateRegion")

    async def PauseQueue(
        self, request: admin_pb2.PauseQueueRequest, context: Context
    ) -> admin_pb2.PauseQueueResponse:
        """Not in this release."""
        _not_yet("PauseQueue")

    async def ResumeQueue(
        self, request: admin_pb2.ResumeQueueRequest, context: Context
    ) -> admin_pb2.ResumeQueueResponse:
        """Not in this release."""
        _not_yet("ResumeQueue")

    async def RedriveDeadTasks(
        self, request: admin_pb2.RedriveDeadTasksRequest, context: Context
    ) -> admin_pb2.RedriveDeadTasksResponse:
        """Make dead tasks ready again."""
        wanted, deadline = self._filter(request.filter), deadline_of(context)
        done = await self._work.redrive(wanted, dry_run=request.dry_run, deadline=deadline)
        return admin_pb2.RedriveDeadTasksResponse(
            count=done.count, silent_regions=sorted(done.silent)
        )

    async def PurgeDeadTasks(
        self, request: admin_pb2.PurgeDeadTasksRequest, context: Context
    ) -> admin_pb2.PurgeDeadTasksResponse:
        """Remove dead tasks for good."""
        wanted, deadline = self._filter(request.filter), deadline_of(context)
        done = await self._work.purge(wanted, dry_run=request.dry_run, deadline=deadline)
        return admin_pb2.PurgeDeadTasksResponse(
            count=done.count, silent_regions=sorted(done.silent)
        )

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
                async with asyncio.timeout(_TIMEOUT_S):
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


def _not_yet(method: str) -> NoReturn:
    raise NotServedYet(f"{method} is not served by this release")
