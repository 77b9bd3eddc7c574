"""A grpc server that answers what the tests expect, for the command line to talk to."""

import json
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tradewind.cli import main
from tradewind.errors import (
    ControlUnavailable,
    InvalidTask,
    LastRegion,
    RegionSilent,
    TradewindError,
    UnknownTask,
)
from tradewind.statuses import to_status
from tradewind.v1 import admin_pb2, router_pb2, task_pb2
from tradewind.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from tradewind.v1.router_pb2_grpc import RouterServiceServicer, add_RouterServiceServicer_to_server

TASK_ID = "06fk3vw2r8b1q0c4n7s9d5m2ea"
HOSTILE_ID = "06fk3vw2r8b1q0c4n7s9d5m2ec"

# What rich would take for markup, and what a terminal would obey: ESC, BEL and a C1 CSI.
HOSTILE = "bad [/foo] list[int], [red]not[/red] \x1b[31mred\x07 \x9b2J"

Run = Callable[..., int]


def done_task(**fields: Any) -> task_pb2.Task:
    shown: dict[str, Any] = {
        "task_id": TASK_ID,
        "spec": task_pb2.TaskSpec(name="echo", payload=b'{"a":1}'),
        "state": task_pb2.TASK_STATE_COMPLETED,
        "region": "eu-west",
        "attempts": 1,
        "settled": True,
        "result": b'{"said":"hi"}',
        "result_content_type": "application/json",
        "hops": [
            task_pb2.Hop(
                region="us-east",
                state=task_pb2.TASK_STATE_DEAD_LETTER,
                attempts=3,
                reason="exhausted",
            ),
            task_pb2.Hop(region="eu-west", state=task_pb2.TASK_STATE_COMPLETED, attempts=1),
        ],
    }
    return task_pb2.Task(**(shown | fields))


def hostile_task(**fields: Any) -> task_pb2.Task:
    """A task whose every text came from somebody who means ill."""
    shown: dict[str, Any] = {
        "task_id": HOSTILE_ID,
        "spec": task_pb2.TaskSpec(name="echo", tenant=HOSTILE, labels={"note": HOSTILE}),
        "error": task_pb2.TaskError(kind="rejected", message=HOSTILE, traceback=HOSTILE),
        "result": json.dumps({"said": HOSTILE}).encode(),
        "failover": HOSTILE,
    }
    return done_task(**(shown | fields))


class Router(RouterServiceServicer):
    """Accepts everything but the task `bad`; nobody runs the task `nosuch`."""

    def SubmitTaskStream(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        for message in request_iterator:
            results = [self._result(spec) for spec in message.specs]
            yield router_pb2.SubmitTaskStreamResponse(sequence=message.sequence, results=results)

    def GetTask(self, request: Any, context: Any) -> router_pb2.GetTaskResponse:
        if request.task_id == HOSTILE_ID:
            return router_pb2.GetTaskResponse(task=hostile_task())
        if request.task_id != TASK_ID:
            refuse(context, UnknownTask(request.task_id))
        return router_pb2.GetTaskResponse(task=done_task())

    def WatchTask(self, request: Any, context: Any) -> Iterator[Any]:
        if request.task_id == HOSTILE_ID:
            dead = task_pb2.TASK_STATE_DEAD_LETTER
            yield router_pb2.WatchTaskResponse(task=hostile_task(state=dead, settled=True))
            return
        yield router_pb2.WatchTaskResponse(
            task=done_task(state=task_pb2.TASK_STATE_PROCESSING, settled=False, result=b"", hops=[])
        )
        yield router_pb2.WatchTaskResponse(task=done_task())

    def CancelTask(self, request: Any, context: Any) -> router_pb2.CancelTaskResponse:
        if request.task_id != TASK_ID:
            return router_pb2.CancelTaskResponse(task=done_task(task_id=request.task_id))
        task = done_task(state=task_pb2.TASK_STATE_CANCELLED, result=b"")
        return router_pb2.CancelTaskResponse(cancelled=True, task=task)

    def ExplainRoute(self, request: Any, context: Any) -> router_pb2.ExplainRouteResponse:
        if request.spec.name == "bad":
            return router_pb2.ExplainRouteResponse(decision=task_pb2.RouteDecision())
        decision = task_pb2.RouteDecision(
            region="eu-west",
            rule="eu-personal-data",
            policy_version="abc",
            candidates=[
                task_pb2.Candidate(region="us-east", excluded_by="outside the fence"),
                task_pb2.Candidate(
                    region="eu-west", eligible=True, rtt=Duration(nanos=1_500_000), share=1.0
                ),
            ],
        )
        return router_pb2.ExplainRouteResponse(decision=decision)

    @staticmethod
    def _result(spec: task_pb2.TaskSpec) -> router_pb2.SubmitTasksResult:
        if spec.name == "bad":
            refused = to_status(InvalidTask.field("name", "is bad"))
            return router_pb2.SubmitTasksResult(error=refused)
        return router_pb2.SubmitTasksResult(
            accepted=router_pb2.SubmitTaskResponse(
                task_id=HOSTILE_ID if spec.name == "hostile" else TASK_ID,
                region="eu-west",
                state=task_pb2.TASK_STATE_PENDING,
                duplicate=bool(spec.idempotency_key),
                rule="unserved" if spec.name == "nosuch" else "home",
                waits_for="paused" if spec.queue == "paused" else "",
            )
        )


class Admin(AdminServiceServicer):
    """One region, one queue, one worker, one dead task; a second region is silent."""

    def ListRegions(self, request: Any, context: Any) -> admin_pb2.ListRegionsResponse:
        region = admin_pb2.Region(
            name="eu-west",
            state=task_pb2.REGION_STATE_ACTIVE,
            health=task_pb2.HEALTH_HEALTHY,
            rtt=Duration(nanos=400_000),
            live_slots=8,
            workers=1,
        )
        return admin_pb2.ListRegionsResponse(regions=[region], silent_regions=["ap-south"])

    def ListQueues(self, request: Any, context: Any) -> admin_pb2.ListQueuesResponse:
        queue = admin_pb2.QueueStats(region="eu-west", queue="default", pending=3, pending_high=3)
        return admin_pb2.ListQueuesResponse(queues=[queue])

    def ListWorkers(self, request: Any, context: Any) -> admin_pb2.ListWorkersResponse:
        worker = admin_pb2.Worker(worker_id="w1", region="eu-west", slots=8, busy=2)
        worker.queues.append("default")
        worker.handlers.extend(["email.send", "echo"])
        return admin_pb2.ListWorkersResponse(workers=[worker])

    def ListDeadTasks(self, request: Any, context: Any) -> admin_pb2.ListDeadTasksResponse:
        dead = done_task(
            state=task_pb2.TASK_STATE_DEAD_LETTER,
            error=task_pb2.TaskError(kind="exhausted", message="no such host\nat line 1"),
            failover="no other permitted region",
        )
        tasks = [dead, hostile_task(state=task_pb2.TASK_STATE_DEAD_LETTER)]
        return admin_pb2.ListDeadTasksResponse(tasks=tasks, total=2)

    def SetRegionState(self, request: Any, context: Any) -> admin_pb2.SetRegionStateResponse:
        if request.region != "eu-west" and not request.force:
            refuse(context, LastRegion(request.region, "rule eu (eu)"))
        region = admin_pb2.Region(name=request.region, state=request.state, epoch=7)
        return admin_pb2.SetRegionStateResponse(region=region)

    def PauseQueue(self, request: Any, context: Any) -> admin_pb2.PauseQueueResponse:
        if request.queue == "unlucky":
            refuse(context, ControlUnavailable(["ap-south", "us-east"]))
        return admin_pb2.PauseQueueResponse(epoch=8)

    def ResumeQueue(self, request: Any, context: Any) -> admin_pb2.ResumeQueueResponse:
        return admin_pb2.ResumeQueueResponse(epoch=9)

    def EvacuateRegion(self, request: Any, context: Any) -> Iterator[Any]:
        kept = [admin_pb2.Kept(reason="pinned", count=2)]
        if request.region != "small":
            kept.append(admin_pb2.Kept(reason="us-east: full", count=7))
        unseen = 5 if request.region == "huge" else 0
        for moved in (0, 600, 1_200):
            done = moved == 1_200 and request.region != "taken-back"
            yield admin_pb2.EvacuateRegionResponse(
                moved=moved, remaining=1_200 - moved + unseen, kept=kept, done=done
            )

    def ListMoves(self, request: Any, context: Any) -> admin_pb2.ListMovesResponse:
        if request.region == "us-east":
            return admin_pb2.ListMovesResponse(silent_regions=["us-east"])
        if request.region == "ap-south":
            return admin_pb2.ListMovesResponse()
        move = admin_pb2.Move(
            task_id=TASK_ID,
            source="eu-west",
            target="us-east",
            epoch=2,
            reason="unserved",
            state=task_pb2.TASK_STATE_SCHEDULED,
        )
        move.began_at.FromSeconds(1_700_000_000)
        return admin_pb2.ListMovesResponse(moves=[move])

    def RetargetMove(self, request: Any, context: Any) -> admin_pb2.RetargetMoveResponse:
        if request.task_id != TASK_ID:
            task = done_task(task_id=request.task_id)
            return admin_pb2.RetargetMoveResponse(task=task)
        if not request.force:
            refuse(context, RegionSilent(["us-east"]))
        task = done_task(state=task_pb2.TASK_STATE_PENDING, result=b"")
        return admin_pb2.RetargetMoveResponse(task=task, ended=True, may_run_twice=True)

    def ListAudit(self, request: Any, context: Any) -> admin_pb2.ListAuditResponse:
        if request.region == "us-east":
            return admin_pb2.ListAuditResponse(silent_regions=["us-east"])
        if request.region == "ap-south":
            return admin_pb2.ListAuditResponse()
        record = admin_pb2.AuditRecord(
            region="eu-west",
            deed="redrive",
            who=HOSTILE,
            on="eu-west",
            why=HOSTILE,
            counts={"mail": 1_200},
            details={"error_kind": "exhausted"},
        )
        record.at.FromSeconds(1_700_000_000)
        return admin_pb2.ListAuditResponse(records=[record], next_page_token="t2")

    def RedriveDeadTasks(self, request: Any, context: Any) -> admin_pb2.RedriveDeadTasksResponse:
        return admin_pb2.RedriveDeadTasksResponse(count=2)

    def PurgeDeadTasks(self, request: Any, context: Any) -> admin_pb2.PurgeDeadTasksResponse:
        return admin_pb2.PurgeDeadTasksResponse(count=2)


def refuse(context: Any, error: TradewindError) -> None:
    status = to_status(error)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    context.abort(code, status.message)


@pytest.fixture(scope="session")
def router() -> Generator[str, None, None]:
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    # What they leave out answers UNIMPLEMENTED.
    router = Router()  # pyright: ignore[reportAbstractUsage]
    admin = Admin()  # pyright: ignore[reportAbstractUsage]
    add_RouterServiceServicer_to_server(router, server)
    add_AdminServiceServicer_to_server(admin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is slow on a busy machine is no news to a test that reads all of stderr."""
    monkeypatch.setattr("tradewind.cli.session._QUIET_S", 600.0)
    monkeypatch.delenv("COLUMNS", raising=False)  # the developer's own terminal


@pytest.fixture
def run() -> Run:
    """Run a command in this process, as `tradewind` would, and give its exit code."""

    def run(*arguments: str) -> int:
        return main.run(
            lambda: main.cli.main(arguments, prog_name="tradewind", standalone_mode=False)
        )

    return run
