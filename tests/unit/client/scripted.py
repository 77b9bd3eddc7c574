"""A router that answers what a test tells it to, behind a real grpc server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tradewind.errors import (
    TradewindError,
    UnknownTask,
)
from tradewind.statuses import to_status
from tradewind.v1 import router_pb2, task_pb2
from tradewind.v1.router_pb2_grpc import RouterServiceServicer

Answer = router_pb2.SubmitTaskResponse | TradewindError


class ScriptedRouter(RouterServiceServicer):
    """Answers what the test tells it to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.messages: list[list[task_pb2.TaskSpec]] = []
        self.repeats: list[tuple[str, str]] = []  # attempt, request_id of unary submits
        self.singles: list[task_pb2.TaskSpec] = []
        self.answer: Callable[[task_pb2.TaskSpec], Answer] = accepted
        self.gate = asyncio.Event()
        self.gate.set()
        self.watches: list[list[task_pb2.Task]] = []
        self.streams = 0
        self.ended_streams = 0
        self.break_streams = 0
        self.explained: list[task_pb2.TaskSpec] = []
        self.looks = 0
        self.looks_refused: TradewindError | None = None  # UnknownTask, if nothing else is said

    async def SubmitTaskStream(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        self.streams += 1
        async for message in request_iterator:
            self.messages.append(list(message.specs))
            if self.break_streams:
                self.break_streams -= 1
                await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
            await self.gate.wait()
            results = [as_result(self.answer(spec)) for spec in message.specs]
            yield router_pb2.SubmitTaskStreamResponse(sequence=message.sequence, results=results)
        self.ended_streams += 1

    async def SubmitTask(self, request: Any, context: Any) -> router_pb2.SubmitTaskResponse:
        metadata = dict(context.invocation_metadata())
        self.repeats.append((metadata.get("tradewind-attempt", ""), request.spec.request_id))
        self.singles.append(request.spec)
        await self.gate.wait()
        answer = self.answer(request.spec)
        if isinstance(answer, TradewindError):
            await refuse(context, answer)
        assert isinstance(answer, router_pb2.SubmitTaskResponse)
        return answer

    async def GetTask(self, request: Any, context: Any) -> router_pb2.GetTaskResponse:
        self.looks += 1
        await self.gate.wait()
        await refuse(context, self.looks_refused or UnknownTask(request.task_id))
        raise AssertionError

    async def CancelTask(self, request: Any, context: Any) -> router_pb2.CancelTaskResponse:
        self.looks += 1
        await refuse(context, self.looks_refused or UnknownTask(request.task_id))
        raise AssertionError

    async def ExplainRoute(self, request: Any, context: Any) -> router_pb2.ExplainRouteResponse:
        self.explained.append(request.spec)
        return router_pb2.ExplainRouteResponse(decision=task_pb2.RouteDecision())

    async def WatchTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for task in self.watches.pop(0):
            yield router_pb2.WatchTaskResponse(task=task)
        if not self.watches:
            await asyncio.Event().wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")


class Health(health_pb2_grpc.HealthServicer):
    """Says in which region its router is and what time it is there, if it knows."""

    def __init__(self, region: str = "") -> None:
        self.region, self.asked, self.answers = region, 0, True
        self.now_ms = ""

    async def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:
        self.asked += 1
        if not self.answers:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
        said = (("tradewind-region", self.region), ("tradewind-now-ms", self.now_ms))
        await context.send_initial_metadata(tuple(one for one in said if one[1]))
        return health_pb2.HealthCheckResponse()


async def refuse(context: Any, error: TradewindError) -> None:
    status = to_status(error)
    details = (("grpc-status-details-bin", status.SerializeToString()),)
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    await context.abort(code, status.message, details)


def accepted(spec: task_pb2.TaskSpec) -> Answer:
    return router_pb2.SubmitTaskResponse(
        task_id=f"id-{spec.request_id}",
        region="eu-west",
        state=task_pb2.TASK_STATE_PENDING,
    )


def as_result(answer: Answer) -> router_pb2.SubmitTasksResult:
    if isinstance(answer, TradewindError):
        return router_pb2.SubmitTasksResult(error=to_status(answer))
    return router_pb2.SubmitTasksResult(accepted=answer)


def task(state: "task_pb2.TaskState", **fields: Any) -> task_pb2.Task:
    spec = task_pb2.TaskSpec(name="email.send")
    return task_pb2.Task(task_id="id", spec=spec, state=state, region="eu-west", **fields)
