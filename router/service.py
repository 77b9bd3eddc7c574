"""RouterService: each method in a few lines; errors travel as exceptions to the interceptor."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio

from router.cancel import Canceller
from router.failures import report
from router.job import Deadline, Receipt
from router.lookup import Lookup
from router.submit import Submitter
from router.unordered import unordered
from router.watch import Watches
from tradewind import errors, statuses, wire
from tradewind.errors import BatchTooLarge, InvalidTask, TradewindError
from tradewind.fleet import Fleet
from tradewind.limits import MAX_BATCH_BYTES, MAX_BATCH_SPECS
from tradewind.metrics import ROUTING_DECISIONS, SUBMIT_SECONDS, TASKS_SUBMITTED, queue_label
from tradewind.v1 import router_pb2, router_pb2_grpc
from tradewind.v1.task_pb2 import TaskSpec

Context = grpc.aio.ServicerContext[Any, Any]

PATIENCE_S: Final = 15.0  # for a caller that sets no deadline
MAX_PATIENCE_S: Final = 60.0  # however late the caller's deadline is
ANSWER_WITHIN: Final = 0.9  # of the caller's deadline: an answer needs time to travel
# W3C Trace Context section 3.2: later versions may add fields; what does not parse is ignored.
_TRACEPARENT: Final = re.compile(
    r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,64})?"
)
STREAM_MESSAGES: Final = 32  # of one stream under way at once; then flow control holds the client

ATTEMPT_METADATA: Final = "tradewind-attempt"  # "1": no earlier attempt with this request_id
# gRPC itself sent the call again, with the caller's metadata (its proposal A6, retry design).
_RESENT_METADATA: Final = "grpc-previous-rpc-attempts"

_NOWHERE: Final = "none"  # the region label of a submit that is in no region
_OUTCOMES: Final[dict[type[TradewindError], str]] = {
    errors.HomeUnreachable: "unavailable",
    errors.NoRegionReachable: "unavailable",
    errors.OutcomeUnknown: "unknown",
    errors.RegionSilent: "unavailable",
    errors.RegionsFull: "full",
    errors.StoreFull: "full",
    errors.StoreMoving: "unavailable",
    errors.StoreUnavailable: "unavailable",
    errors.SubmitInFlight: "unavailable",
}


@dataclass(frozen=True, slots=True)
class _Caller:
    """What the metadata of a submit say."""

    traceparent: str  # empty: none
    is_repeat: bool  # or may be one: the caller did not say that it is the first attempt


class RouterService(router_pb2_grpc.RouterServiceServicer):
    """See proto/tradewind/v1/router.proto."""

    def __init__(
        self,
        fleet: Fleet,
        submitter: Submitter,
        lookup: Lookup,
        watches: Watches,
        canceller: Canceller,
    ) -> None:
        """The parts that do the work."""
        self._fleet, self._submitter, self._canceller = fleet, submitter, canceller
        self._lookup, self._watches = lookup, watches
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Take no more from open streams, and end watches: clients go to another router."""
        self._closing.set()
        self._watches.close()

    async def SubmitTask(
        self, request: router_pb2.SubmitTaskRequest, context: Context
    ) -> router_pb2.SubmitTaskResponse:
        """Store one task."""
        if not request.HasField("spec"):
            raise InvalidTask.field("spec", "is required")
        return await self._submit(request.spec, _caller(context), deadline_of(context))

    async def SubmitTasks(
        self, request: router_pb2.SubmitTasksRequest, context: Context
    ) -> router_pb2.SubmitTasksResponse:
        """Store many tasks, each on its own."""
        _check_batch(len(request.specs), request.ByteSize())
        results = await self._submit_all(request.specs, _caller(context), deadline_of(context))
        return router_pb2.SubmitTasksResponse(results=results)

    async def SubmitTaskStream(
        self,
        request_iterator: AsyncIterator[router_pb2.SubmitTaskStreamRequest],
        context: Context,
    ) -> AsyncIterator[router_pb2.SubmitTaskStreamResponse]:
        """Store batches as they come; answer each when it is done.

        A message over a limit is answered with that error for each of its specs, an empty one with
        no results: the others of the stream are not to suffer. Only what cannot be answered in a
        message, or not be read, ends the stream, and not before all others are answered.
        """
        caller = _caller(context)

        async def answer(
            request: router_pb2.SubmitTaskStreamRequest,
        ) -> router_pb2.SubmitTaskStreamResponse:
            try:
                _check_batch(len(request.specs), request.ByteSize())
            except (InvalidTask, BatchTooLarge) as error:
                results = _all_refused(len(request.specs), error)
            else:
                deadline = deadline_of(context)
                results = await self._submit_all(request.specs, caller, deadline)
            return router_pb2.SubmitTaskStreamResponse(sequence=request.sequence, results=results)

        async for response in unordered(request_iterator, answer, STREAM_MESSAGES, self._closing):
            yield response

    async def GetTask(
        self, request: router_pb2.GetTaskRequest, context: Context
    ) -> router_pb2.GetTaskResponse:
        """Return a task."""
        record = await self._lookup.find(request.task_id)
        return router_pb2.GetTaskResponse(task=wire.task(record, whole=True))

    async def WatchTask(
        self, request: router_pb2.WatchTaskRequest, context: Context
    ) -> AsyncIterator[router_pb2.WatchTaskResponse]:
        """Send a task at once and after each change, until it is settled."""
        async for record in self._watches.follow(request.task_id):
            yield router_pb2.WatchTaskResponse(task=wire.task(record, whole=True))

    async def CancelTask(
        self, request: router_pb2.CancelTaskRequest, context: Context
    ) -> router_pb2.CancelTaskResponse:
        """End a task that has not ended, or ask its holder to."""
        done = await self._canceller.cancel(request.task_id, deadline_of(context))
        return router_pb2.CancelTaskResponse(
            cancelled=done.cancelled,
            requested=done.requested,
            task=wire.task(done.record, whole=True),
        )

    async def ExplainRoute(
        self, request: router_pb2.ExplainRouteRequest, context: Context
    ) -> router_pb2.ExplainRouteResponse:
        """Tell where a task would go and why."""
        if not request.HasField("spec"):
            raise InvalidTask.field("spec", "is required")
        plan = self._submitter.plan(request.spec)
        shown = wire.decision(plan.decision, partition=plan.partition)
        return router_pb2.ExplainRouteResponse(decision=shown)

    async def _submit_all(
        self, specs: Sequence[TaskSpec], caller: _Caller, deadline: Deadline
    ) -> list[router_pb2.SubmitTasksResult]:
        return await asyncio.gather(
            *(_result(self._submit(spec, caller, deadline)) for spec in specs)
        )

    async def _submit(
        self, spec: TaskSpec, caller: _Caller, deadline: Deadline
    ) -> router_pb2.SubmitTaskResponse:
        began_s = time.perf_counter()
        region, outcome = _NOWHERE, "rejected"
        try:
            receipt = await self._submitter.submit(
                spec,
                traceparent=caller.traceparent,
                deadline=deadline,
                is_repeat=caller.is_repeat,
            )
            region, outcome = receipt.region, "duplicate" if receipt.duplicate else "accepted"
            ROUTING_DECISIONS.labels(region, receipt.rule).inc()
            return _shown(receipt)
        except TradewindError as error:
            outcome = _OUTCOMES.get(type(error), outcome)
            raise
        finally:
            queue = queue_label(self._fleet, spec.queue or wire.DEFAULT_QUEUE)
            TASKS_SUBMITTED.labels(region, queue, outcome).inc()
            SUBMIT_SECONDS.observe(time.perf_counter() - began_s)


def deadline_of(context: Context) -> Deadline:
    """Return the caller's deadline less the time to answer, or our own patience."""
    remaining_s: float | None = context.time_remaining()
    if remaining_s is None:  # pyright: ignore[reportUnnecessaryComparison] - the stub is wrong
        return Deadline.after(PATIENCE_S, is_callers=False)
    if remaining_s * ANSWER_WITHIN > MAX_PATIENCE_S:
        return Deadline.after(MAX_PATIENCE_S, is_callers=False)
    return Deadline.after(remaining_s * ANSWER_WITHIN, is_callers=True)


async def _result(
    submit: Awaitable[router_pb2.SubmitTaskResponse],
) -> router_pb2.SubmitTasksResult:
    try:
        return router_pb2.SubmitTasksResult(accepted=await submit)
    except Exception as error:  # noqa: BLE001 - one task's bug must not hide the others' outcomes
        if statuses.is_for_the_log(error):
            report("SubmitTasks", error)
        return router_pb2.SubmitTasksResult(error=statuses.to_status(error))


def _shown(receipt: Receipt) -> router_pb2.SubmitTaskResponse:
    return wire.receipt(
        receipt.task_id,
        region=receipt.region,
        state=receipt.state,
        duplicate=receipt.duplicate,
        rule=receipt.rule,
        possible_duplicate=receipt.possible_duplicate,
    )


def _all_refused(count: int, error: TradewindError) -> list[router_pb2.SubmitTasksResult]:
    """Return the same error for each spec. Raises it where an answer would not hold that many."""
    refused = router_pb2.SubmitTasksResult(error=statuses.to_status(error))
    if count * refused.ByteSize() > MAX_BATCH_BYTES:
        raise error
    return [refused] * count


def _check_batch(count: int, size_bytes: int) -> None:
    if not 1 <= count <= MAX_BATCH_SPECS:
        raise InvalidTask.field("specs", f"must hold 1 to {MAX_BATCH_SPECS} tasks, not {count}")
    if size_bytes > MAX_BATCH_BYTES:
        raise BatchTooLarge(size_bytes, MAX_BATCH_BYTES)


def _caller(context: Context) -> _Caller:
    traceparent, is_first, resent = "", False, False
    for key, value in context.invocation_metadata() or ():
        if key == "traceparent" and isinstance(value, str) and _TRACEPARENT.fullmatch(value):
            traceparent = value
        elif key == ATTEMPT_METADATA:
            is_first = value == "1"
        elif key == _RESENT_METADATA:
            resent = True
    return _Caller(traceparent, is_repeat=resent or not is_first)
