"""RouterService: each method in a few lines; errors travel as exceptions to the interceptor."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import grpc.aio

from router.cancel import Canceller
from router.decisions import explained
from router.failures import report
from router.job import Deadline, Receipt
from router.lookup import Lookup
from router.submit import Answer, Submitter
from router.unordered import unordered
from router.waits import waits_for
from router.watch import Watches
from tradewind import errors, statuses, wire
from tradewind.control import Control
from tradewind.errors import BatchTooLarge, InvalidTask, TradewindError
from tradewind.fleet import Fleet
from tradewind.limits import MAX_BATCH_BYTES, MAX_BATCH_SPECS
from tradewind.metrics import ROUTING_DECISIONS, SUBMIT_SECONDS, TASKS_SUBMITTED, queue_label
from tradewind.state import State
from tradewind.task import Record
from tradewind.v1 import router_pb2, router_pb2_grpc, task_pb2
from tradewind.v1.task_pb2 import TaskSpec
from tradewind.view import RegionView

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
_GONE: Final = TradewindError()  # whoever left before the answer
_OUTCOMES: Final[dict[type[BaseException], str]] = {
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
# As a rule's name among routing decisions (metrics.ROUTING_REFUSALS).
_NOWHERE_TO_GO: Final[dict[type[BaseException], str]] = {
    errors.NoRegionPermitted: "no-region-permitted",
    errors.NoRegionReachable: "no-region-reachable",
    errors.RegionsFull: "regions-full",
}


class _Caller(NamedTuple):
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
        *,
        control: Callable[[], Control],
        view: Callable[[str], RegionView],
    ) -> None:
        """The parts that do the work; what operators have ordered; how a region looks now."""
        self._watches, self._control, self._view = watches, control, view
        self._closing = asyncio.Event()
        self.follow(fleet, submitter, lookup, canceller)

    def follow(
        self, fleet: Fleet, submitter: Submitter, lookup: Lookup, canceller: Canceller
    ) -> None:
        """Have these parts do what comes from now on, in streams that are open, too."""
        self._fleet, self._submitter = fleet, submitter
        self._lookup, self._canceller = lookup, canceller

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
        began_s = time.perf_counter()
        spec, caller = request.spec, _caller(context)
        queue, name = spec.queue or wire.DEFAULT_QUEUE, spec.name
        answer: Answer = _GONE
        try:
            answer = receipt = await self._submitter.submit_one(
                spec,
                traceparent=caller.traceparent,
                deadline=deadline_of(context),
                is_repeat=caller.is_repeat,
            )
        except Exception as error:
            answer = error
            raise
        finally:  # also of one whose caller is gone
            self._count_as(_outcome(answer), queue, 1)
            SUBMIT_SECONDS.observe(time.perf_counter() - began_s)
        held = self._held(queue, name, receipt.state, receipt.region, {})
        return _show(router_pb2.SubmitTaskResponse(), receipt, held)

    async def SubmitTasks(
        self, request: router_pb2.SubmitTasksRequest, context: Context
    ) -> router_pb2.SubmitTasksResponse:
        """Store many tasks, each on its own."""
        _check_batch(len(request.specs), request.ByteSize())
        queues, names = _queues(request.specs), _names(request.specs)
        answers = await self._submit(request.specs, queues, _caller(context), deadline_of(context))
        response = router_pb2.SubmitTasksResponse()
        self._fill(response.results, queues, names, answers)
        return response

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
            answers: Sequence[Answer]
            queues, names = _queues(request.specs), _names(request.specs)
            try:
                _check_batch(len(request.specs), request.ByteSize())
            except (InvalidTask, BatchTooLarge) as error:
                answers = _all_refused(len(request.specs), error)
            else:
                answers = await self._submit(request.specs, queues, caller, deadline_of(context))
            response = router_pb2.SubmitTaskStreamResponse(sequence=request.sequence)
            self._fill(response.results, queues, names, answers)
            return response

        async for response in unordered(request_iterator, answer, STREAM_MESSAGES, self._closing):
            yield response

    async def GetTask(
        self, request: router_pb2.GetTaskRequest, context: Context
    ) -> router_pb2.GetTaskResponse:
        """Return a task."""
        record = await self._lookup.find(request.task_id, deadline=deadline_of(context))
        return router_pb2.GetTaskResponse(task=self._task(record))

    async def WatchTask(
        self, request: router_pb2.WatchTaskRequest, context: Context
    ) -> AsyncIterator[router_pb2.WatchTaskResponse]:
        """Send a task at once and after each change, until it is settled."""
        async for record in self._watches.follow(request.task_id):
            yield router_pb2.WatchTaskResponse(task=self._task(record))

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
        shown = explained(
            plan.draft,
            plan.decision,
            self._fleet,
            partition=plan.partition,
            waits_for=self._held(
                plan.draft.queue, plan.draft.name, State.PENDING, plan.decision.region, {}
            ),
        )
        return router_pb2.ExplainRouteResponse(decision=shown)

    def _task(self, record: Record) -> task_pb2.Task:
        """Return a task with what it waits for, as far as this router knows."""
        shown, control = wire.task(record, whole=True), self._control()
        spec, view = shown.spec, self._view(record.region)
        shown.waits_for = waits_for(record.state, spec.queue, spec.name, view, control, self._fleet)
        return shown

    def _held(
        self, queue: str, name: str, state: State, region: str, views: dict[str, RegionView]
    ) -> str:
        """Say what holds back a task that is stored in `region`; `views` are those of one answer.

        Empty if nothing does, or it is stored nowhere.
        """
        if not region:
            return ""
        view = views.get(region)
        if view is None:
            view = views[region] = self._view(region)
        return waits_for(state, queue, name, view, self._control(), self._fleet)

    def _fill(
        self, results: Any, queues: Sequence[str], names: Sequence[str], answers: Sequence[Answer]
    ) -> None:
        """Write receipts and errors into `results`, where they are to be sent from."""
        views: dict[str, RegionView] = {}
        for queue, name, answer in zip(queues, names, answers, strict=True):
            result = results.add()
            if isinstance(answer, Receipt):
                held = self._held(queue, name, answer.state, answer.region, views)
                _show(result.accepted, answer, held)
                continue
            if statuses.is_for_the_log(answer):
                report("SubmitTasks", answer)
            result.error.CopyFrom(statuses.to_status(answer))

    async def _submit(
        self, specs: Sequence[TaskSpec], queues: list[str], caller: _Caller, deadline: Deadline
    ) -> list[Answer]:
        began_s = time.perf_counter()
        answers: list[Answer] = []
        try:
            answers = await self._submitter.submit(
                specs,
                traceparent=caller.traceparent,
                deadline=deadline,
                is_repeat=caller.is_repeat,
            )
        finally:  # also of those whose caller is gone
            self._count(queues, answers, time.perf_counter() - began_s)
        return answers

    def _count(self, queues: list[str], answers: list[Answer], seconds: float) -> None:
        if not answers:
            answers = [_GONE] * len(queues)
        outcomes = Counter(zip(map(_outcome, answers), queues, strict=True))
        for (found, queue), number in outcomes.items():
            self._count_as(found, queue, number)
        SUBMIT_SECONDS.observe_all([seconds] * len(queues))

    def _count_as(self, found: tuple[str, str, str], queue: str, number: int) -> None:
        region, outcome, rule = found
        _submitted(region, queue_label(self._fleet, queue), outcome).inc(number)
        if rule:
            _decided(region, rule).inc(number)


# One look-up for each set of labels, of which there are few: the library's own takes a lock.
_submitted: Final = cache(TASKS_SUBMITTED.labels)
_decided: Final = cache(ROUTING_DECISIONS.labels)


def deadline_of(context: Context) -> Deadline:
    """Return the caller's deadline less the time to answer, or our own patience."""
    remaining_s: float | None = context.time_remaining()
    if remaining_s is None:  # pyright: ignore[reportUnnecessaryComparison] - the stub is wrong
        return Deadline.after(PATIENCE_S, is_callers=False)
    if remaining_s * ANSWER_WITHIN > MAX_PATIENCE_S:
        return Deadline.after(MAX_PATIENCE_S, is_callers=False)
    return Deadline.after(remaining_s * ANSWER_WITHIN, is_callers=True)


def _outcome(answer: Answer) -> tuple[str, str, str]:
    """Region, outcome, and rule or why there is no region, as metrics name them."""
    if isinstance(answer, Receipt):
        return answer.region, "duplicate" if answer.duplicate else "accepted", answer.rule
    kind = type(answer)
    return _NOWHERE, _OUTCOMES.get(kind, "rejected"), _NOWHERE_TO_GO.get(kind, "")


def _queues(specs: Sequence[TaskSpec]) -> list[str]:
    return [spec.queue or wire.DEFAULT_QUEUE for spec in specs]  # before they are used up


def _names(specs: Sequence[TaskSpec]) -> list[str]:
    return [spec.name for spec in specs]


def _show(
    into: router_pb2.SubmitTaskResponse, receipt: Receipt, waits_for: str
) -> router_pb2.SubmitTaskResponse:
    if waits_for:
        into.waits_for = waits_for
    if receipt.unconfirmed:
        into.replication_unconfirmed = True
    return wire.receipt(
        into,
        receipt.task_id,
        region=receipt.region,
        state=receipt.state,
        duplicate=receipt.duplicate,
        rule=receipt.rule,
        possible_duplicate=receipt.possible_duplicate,
    )


def _all_refused(count: int, error: TradewindError) -> list[Answer]:
    """Return the same error for each spec. Raises it where an answer would not hold that many."""
    refused = router_pb2.SubmitTasksResult(error=statuses.to_status(error))
    if count * refused.ByteSize() > MAX_BATCH_BYTES:
        raise error
    return [error] * count


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
