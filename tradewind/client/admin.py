"""What operators ask a router: regions, queues, workers, dead tasks."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from tradewind.client.admin_views import (
    AuditPage,
    DeadPage,
    QueueOrdered,
    QueueStatus,
    RegionOrdered,
    RegionStatus,
    WorkerStatus,
    audit_page_of,
    dead_page_of,
    queue_of,
    region_of,
    region_ordered,
    worker_of,
)
from tradewind.client.calls import Refusal, Router
from tradewind.client.moves import EvacuationStatus, MoveStatus, Retargeted, move_of
from tradewind.client.times import Seconds, to_duration
from tradewind.client.views import task_of
from tradewind.v1 import admin_pb2
from tradewind.v1.admin_pb2_grpc import AdminServiceStub
from tradewind.wire import OPERATOR_METADATA

if TYPE_CHECKING:  # a name of the stubs only
    from tradewind.v1.admin_pb2_grpc import AdminServiceAsyncStub

_DEADLINE_S = 10.0
# All regions vote twice, and again where two changes meet; then workers are waited for.
_ORDER_DEADLINE_S = 20.0

Reply = TypeVar("Reply", bound=Message)


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead tasks; empty fields match all."""

    region: str = ""
    queue: str = ""
    name: str = ""
    error_kind: str = ""
    error_contains: str = ""
    older_than: Seconds = 0  # dead for at least this long
    task_ids: Sequence[str] = ()  # at most 1,000


Silent = tuple[str, ...]  # regions that did not answer


class Admin:
    """The operator's half of a connection. Errors are those of `tradewind.errors`."""

    def __init__(self, router: Router) -> None:
        """Share the client's connection."""
        self._router = router

    async def regions(self) -> tuple[list[RegionStatus], Silent]:
        """Every configured region, silent ones included with what was last known."""
        reply = await self._ask(self._stub.ListRegions, admin_pb2.ListRegionsRequest())
        return [region_of(each) for each in reply.regions], tuple(reply.silent_regions)

    async def queues(self, region: str = "", queue: str = "") -> tuple[list[QueueStatus], Silent]:
        """One entry for each region and queue."""
        request = admin_pb2.ListQueuesRequest(region=region, queue=queue)
        reply = await self._ask(self._stub.ListQueues, request)
        return [queue_of(each) for each in reply.queues], tuple(reply.silent_regions)

    async def workers(self, region: str = "") -> tuple[list[WorkerStatus], Silent]:
        """List live workers, by region and id."""
        reply = await self._ask(self._stub.ListWorkers, admin_pb2.ListWorkersRequest(region=region))
        return [worker_of(each) for each in reply.workers], tuple(reply.silent_regions)

    async def audit(
        self, region: str = "", *, page_size: int = 100, page_token: str = ""
    ) -> AuditPage:
        """One page of what operators did, and of what was done by their orders, latest first."""
        request = admin_pb2.ListAuditRequest(
            region=region, page_size=page_size, page_token=page_token
        )
        reply = await self._ask(self._stub.ListAudit, request)
        return audit_page_of(reply)

    async def dead_tasks(
        self,
        which: DeadFilter,
        *,
        page_size: int = 100,
        page_token: str = "",
    ) -> DeadPage:
        """One page of the dead tasks that match."""
        request = admin_pb2.ListDeadTasksRequest(
            filter=_filter(which),
            page_size=page_size,
            page_token=page_token,
        )
        reply = await self._ask(self._stub.ListDeadTasks, request)
        return dead_page_of(reply)

    async def redrive(
        self, which: DeadFilter, *, dry_run: bool = False, by: str = ""
    ) -> tuple[int, Silent]:
        """Make dead tasks ready again; how many were, or in a dry run would be. `by`: who asks.

        Those that their fence no longer permits where they are stay dead. A call works for some
        seconds: repeat it until it gives 0. Raises StoreFull if a region has no room.
        """
        request = admin_pb2.RedriveDeadTasksRequest(filter=_filter(which), dry_run=dry_run)
        reply = await self._order(self._stub.RedriveDeadTasks, request, by, _DEADLINE_S)
        return reply.count, tuple(reply.silent_regions)

    async def purge(
        self, which: DeadFilter, *, dry_run: bool = False, by: str = ""
    ) -> tuple[int, Silent]:
        """Delete dead tasks for good; how many were, or would be. As `redrive`."""
        request = admin_pb2.PurgeDeadTasksRequest(filter=_filter(which), dry_run=dry_run)
        reply = await self._order(self._stub.PurgeDeadTasks, request, by, _DEADLINE_S)
        return reply.count, tuple(reply.silent_regions)

    async def set_region_state(
        self, region: str, state: str, *, reason: str = "", force: bool = False, by: str = ""
    ) -> RegionOrdered:
        """Say what a region may do: ACTIVE, CORDONED or DRAINING; returns it as it is then.

        `by`: who asks, for those who read it later. Raises InvalidTask, LastRegion unless `force`,
        ControlConflict if other changes came first, ControlUnavailable if it is not held where it
        has to be: it may come into force later.
        """
        request = admin_pb2.SetRegionStateRequest(
            region=region,
            state=f"REGION_STATE_{state}",
            reason=reason,
            force=force,
        )
        reply = await self._order(self._stub.SetRegionState, request, by)
        return region_ordered(reply)

    async def evacuate(
        self,
        region: str,
        *,
        rate_per_s: float = 0,
        dry_run: bool = False,
        reason: str = "",
        by: str = "",
    ) -> AsyncGenerator[EvacuationStatus, None]:
        """Have what waits in a region moved out, and tell how far that is until it is done.

        The order stands if nobody listens any more; ACTIVE ends it, and then the answers end, too.
        `dry_run`: how many would move, once. Raises as above, and RegionTakesWork.
        """
        request = admin_pb2.EvacuateRegionRequest(
            region=region, rate_per_second=rate_per_s, dry_run=dry_run, reason=reason
        )
        replies = self._router.stream(self._stub.EvacuateRegion, request, _by(by))
        try:
            async with aclosing(replies):
                async for reply in replies:
                    kept = {each.reason: each.count for each in reply.kept}
                    yield EvacuationStatus(reply.moved, reply.remaining, kept, reply.done)
        except Refusal as refusal:
            raise refusal.error from None

    async def moves(self, region: str = "") -> tuple[list[MoveStatus], tuple[str, ...]]:
        """What is on its way, oldest first, and the names of silent regions."""
        reply = await self._ask(self._stub.ListMoves, admin_pb2.ListMovesRequest(region=region))
        return [move_of(each) for each in reply.moves], tuple(reply.silent_regions)

    async def retarget(self, task_id: str, *, force: bool = False, by: str = "") -> Retargeted:
        """End a task's move; see RetargetMove in proto/tradewind/v1/admin.proto.

        Raises InvalidTask, UnknownTask and RegionSilent.
        """
        request = admin_pb2.RetargetMoveRequest(task_id=task_id, force=force)
        reply = await self._order(self._stub.RetargetMove, request, by)
        return Retargeted(task_of(reply.task), reply.ended, reply.may_run_twice)

    async def pause(self, queue: str, *, reason: str = "", by: str = "") -> QueueOrdered:
        """Let nothing of a queue start, in any region. Raises as above."""
        request = admin_pb2.PauseQueueRequest(queue=queue, reason=reason)
        reply = await self._order(self._stub.PauseQueue, request, by)
        return QueueOrdered(reply.epoch, reply.stood)

    async def resume(self, queue: str, *, reason: str = "", by: str = "") -> QueueOrdered:
        """Let a paused queue start again, in every region. Raises as above."""
        request = admin_pb2.ResumeQueueRequest(queue=queue, reason=reason)
        reply = await self._order(self._stub.ResumeQueue, request, by)
        return QueueOrdered(reply.epoch, reply.stood)

    @property
    def _stub(self) -> "AdminServiceAsyncStub":
        return AdminServiceStub(self._router.channel)

    async def _order(
        self,
        method: Callable[..., Awaitable[Reply]],
        request: Message,
        by: str,
        timeout_s: float = _ORDER_DEADLINE_S,
    ) -> Reply:
        try:
            return await self._router.unary(method, request, timeout_s, _by(by))
        except Refusal as refusal:
            raise refusal.error from None

    async def _ask(self, method: Callable[..., Awaitable[Reply]], request: Message) -> Reply:
        try:
            return await self._router.unary(method, request, _DEADLINE_S)
        except Refusal as refusal:
            raise refusal.error from None


def _filter(which: DeadFilter) -> admin_pb2.DeadTaskFilter:
    sent = admin_pb2.DeadTaskFilter(
        region=which.region,
        queue=which.queue,
        name=which.name,
        error_kind=which.error_kind,
        error_contains=which.error_contains,
        task_ids=which.task_ids,
    )
    if which.older_than:
        sent.older_than.CopyFrom(to_duration("filter.older_than", which.older_than))
    return sent


def _by(name: str) -> tuple[tuple[str, str], ...]:
    """Who asks, as metadata, which is ASCII: what else a name holds is escaped."""
    said = name.encode("ascii", "backslashreplace").decode()
    return ((OPERATOR_METADATA, said),) if said.isprintable() and said else ()
