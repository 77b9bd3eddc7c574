"""The client against a real grpc server; the servicer behind it is the test's own."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tradewind import Client, Receipt, SyncClient, TaskRequest
from tradewind.client.specs import build_spec
from tradewind.clock import SystemClock
from tradewind.errors import (
    HomeUnreachable,
    InvalidTask,
    NoAnswer,
    PayloadTooLarge,
    RegionsFull,
    RouterUnreachable,
    SubmitInFlight,
    TaskCancelled,
    TaskDead,
    TaskExpired,
    TradewindError,
    UnknownTask,
    WaitOver,
)
from tradewind.limits import MAX_PAYLOAD_BYTES
from tradewind.local.freeports import free_ports
from tradewind.statuses import to_status
from tradewind.v1 import router_pb2, task_pb2
from tradewind.v1.router_pb2_grpc import RouterServiceServicer, add_RouterServiceServicer_to_server

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
        await refuse(context, UnknownTask(request.task_id))
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
    """Says in which region its router is, if it knows."""

    def __init__(self, region: str = "") -> None:
        self.region, self.asked, self.answers = region, 0, True

    async def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:
        self.asked += 1
        if not self.answers:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
        if self.region:
            await context.send_initial_metadata((("tradewind-region", self.region),))
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


@pytest.fixture
async def router() -> ScriptedRouter:
    return ScriptedRouter()  # pyright: ignore[reportAbstractUsage] - the rest is UNIMPLEMENTED


@pytest.fixture
async def health() -> Health:
    return Health("ap-south")


@pytest.fixture
async def target(router: ScriptedRouter, health: Health) -> AsyncGenerator[str, None]:
    server = grpc.aio.server()
    add_RouterServiceServicer_to_server(router, server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)  # pyright: ignore[reportUnknownMemberType]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def client(target: str) -> AsyncGenerator[Client, None]:
    async with Client(target, origin_region="eu-west") as client:
        yield client


async def test_a_lone_submit_is_one_message_and_its_receipt_is_read(
    client: Client, router: ScriptedRouter
) -> None:
    receipt = await client.submit("email.send", {"to": "a@example.org"}, queue="mail")

    [[spec]] = router.messages
    assert spec.payload == b'{"to":"a@example.org"}'
    assert (spec.name, spec.queue, spec.origin_region) == ("email.send", "mail", "eu-west")
    assert receipt.task_id == f"id-{spec.request_id}"
    assert receipt.region == "eu-west"


async def test_submits_that_meet_share_messages_and_each_gets_its_own_outcome(
    client: Client, router: ScriptedRouter
) -> None:
    def every_tenth_is_refused(spec: task_pb2.TaskSpec) -> Answer:
        if spec.name.endswith("0"):
            return InvalidTask.field("name", f"{spec.name} is odd")
        return accepted(spec)

    router.answer = every_tenth_is_refused
    requests = [TaskRequest(f"t{n}") for n in range(600)]
    outcomes = await client.submit_many(requests)

    assert len(router.messages) <= 12  # 600 single calls would be 600
    assert sum(len(specs) for specs in router.messages) == 600
    for request, outcome in zip(requests, outcomes, strict=True):
        if request.name.endswith("0"):
            assert isinstance(outcome, InvalidTask)
            assert request.name in str(outcome)
        else:
            assert isinstance(outcome, Receipt)


async def test_submits_that_come_while_messages_are_unanswered_wait_together(
    client: Client, router: ScriptedRouter
) -> None:
    router.gate.clear()
    waiting: list[asyncio.Task[Receipt]] = []
    for n in range(3):
        waiting.append(asyncio.create_task(client.submit(f"first{n}")))
        await asyncio.sleep(0)
    more = [asyncio.create_task(client.submit(f"more{n}")) for n in range(50)]
    router.gate.set()
    await asyncio.gather(*waiting, *more)

    assert sum(len(specs) for specs in router.messages) == 53
    assert len(router.messages) < 20


async def test_a_repeat_keeps_the_request_id_and_states_its_attempt(
    client: Client, router: ScriptedRouter
) -> None:
    refusals: list[TradewindError] = [
        SubmitInFlight("first", retry_after_ms=1),
        HomeUnreachable("eu-west"),
    ]
    router.answer = lambda spec: refusals.pop(0) if refusals else accepted(spec)

    receipt = await client.submit("email.send")

    [[spec]] = router.messages
    assert router.repeats == [("2", spec.request_id), ("3", spec.request_id)]
    assert receipt.task_id == f"id-{spec.request_id}"


async def test_a_lost_stream_is_repeated_as_the_second_attempt(
    client: Client, router: ScriptedRouter
) -> None:
    router.break_streams = 1

    receipts = await asyncio.gather(*(client.submit(f"t{n}") for n in range(20)))

    sent = {spec.request_id for specs in router.messages for spec in specs}
    assert {receipt.task_id for receipt in receipts} == {f"id-{each}" for each in sent}
    assert {attempt for attempt, _ in router.repeats} == {"2"}


async def test_a_refusal_that_asking_again_cannot_help_is_raised_at_once(
    client: Client, router: ScriptedRouter
) -> None:
    router.answer = lambda _: RegionsFull("every region is full")

    with pytest.raises(RegionsFull):
        await client.submit("email.send")
    assert router.repeats == []


async def test_a_submit_that_is_cancelled_before_it_was_written_is_not_sent(
    client: Client, router: ScriptedRouter
) -> None:
    task = asyncio.create_task(client.submit("never"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.submit("after")

    assert [spec.name for specs in router.messages for spec in specs] == ["after"]


async def test_no_router_at_the_address_is_an_error_that_says_what_to_do() -> None:
    [port] = free_ports(1)
    async with Client(f"127.0.0.1:{port}", deadline=0.2) as client:
        with pytest.raises(RouterUnreachable, match="tradewind up"):
            await client.submit("email.send")
        with pytest.raises(RouterUnreachable):
            await client.connect()


async def test_a_router_that_never_answers_leaves_the_request_id_in_the_error(
    client: Client, router: ScriptedRouter
) -> None:
    router.gate.clear()
    with pytest.raises(NoAnswer, match="request_id=mine"):
        await client.submit("email.send", request_id="mine", deadline=0.2)
    router.gate.set()


async def test_the_server_may_restart_between_two_submits(router: ScriptedRouter) -> None:
    async def serve(port: int) -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_RouterServiceServicer_to_server(router, server)
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        return server, port

    server, port = await serve(0)
    async with Client(f"127.0.0.1:{port}") as client:
        await client.submit("before")
        await server.stop(None)
        submit = asyncio.create_task(client.submit("after"))
        await asyncio.sleep(0)
        server, _ = await serve(port)
        assert (await submit).region == "eu-west"
    await server.stop(None)


def origins(router: ScriptedRouter) -> set[str]:
    sent = [spec for specs in router.messages for spec in specs]
    return {spec.origin_region for spec in (*sent, *router.singles, *router.explained)}


async def test_a_client_without_a_region_adopts_its_routers_for_submits_and_explains(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    async with Client(target) as client:
        await asyncio.gather(*(client.submit(f"t{n}") for n in range(20)))
        health.region = "us-east"
        await client.explain("email.send")
        await client.submit("email.send")
    assert health.asked == 1
    assert origins(router) == {"ap-south"}


async def test_a_named_region_is_kept_and_nobody_is_asked(
    client: Client, router: ScriptedRouter, health: Health
) -> None:
    await client.submit("email.send")
    await client.submit("email.send", origin_region="us-east")
    await client.explain("email.send")
    assert origins(router) == {"eu-west", "us-east"}
    assert health.asked == 0


async def test_a_router_that_does_not_say_its_region_is_asked_once(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    health.region = ""
    async with Client(target) as client:
        await client.submit("email.send")
        await client.submit("email.send")
    assert (health.asked, origins(router)) == (1, {""})


async def test_a_router_that_was_not_reached_does_not_hold_up_a_submit_and_is_asked_again(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    health.answers = False
    async with Client(target) as client:
        await client.submit("email.send")
        assert origins(router) == {""}
        health.answers = True
        await client.submit("email.send")
    assert origins(router) == {"", "ap-south"}


async def test_a_request_id_of_the_callers_own_goes_without_an_adopted_region(
    target: str, router: ScriptedRouter, health: Health
) -> None:
    # Its home depends on the origin, and a repeat may come through another region's router.
    async with Client(target) as client:
        await client.submit("email.send", request_id="mine")
    assert (health.asked, origins(router)) == (0, {""})
    assert router.repeats == [("", "mine")]  # which attempt it is, only the caller knows


async def test_an_explain_asks_about_what_a_submit_would_send(
    client: Client, router: ScriptedRouter
) -> None:
    await client.submit("email.send", {"to": "a"}, priority="high")
    await client.explain("email.send", {"to": "a"}, priority="high")
    [[sent]], [explained] = router.messages, router.explained
    assert len(sent.request_id) == len(explained.request_id) > 0
    explained.request_id = sent.request_id
    assert sent == explained


async def test_a_client_that_waits_for_nothing_ends_its_stream_in_order(
    target: str, router: ScriptedRouter
) -> None:
    async with Client(target) as client:
        await client.submit("email.send")
    assert (router.streams, router.ended_streams) == (1, 1)


CLOSED: dict[str, Callable[[Client], Any]] = {
    "submit": lambda client: client.submit("late"),
    "get": lambda client: client.get("id"),
    "wait": lambda client: client.wait("id"),
    "explain": lambda client: client.explain("late"),
    "connect": lambda client: client.connect(),
    "regions": lambda client: client.admin.regions(),
}


@pytest.mark.parametrize("late", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("origin", ["", "eu-west"])
async def test_a_closed_client_says_so(
    target: str, late: Callable[[Client], Any], origin: str
) -> None:
    async with Client(target, origin_region=origin) as client:
        await client.submit("in time")
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await late(client)


async def test_a_watch_that_loses_its_router_says_that_the_task_is_kept(
    router: ScriptedRouter,
) -> None:
    server = grpc.aio.server()
    add_RouterServiceServicer_to_server(router, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    router.watches = [[task(task_pb2.TASK_STATE_PENDING)]]
    async with Client(f"127.0.0.1:{port}", deadline=0.3) as client:
        views = client.watch("id")
        assert (await anext(views)).task_id == "id"
        await server.stop(None)
        with pytest.raises(RouterUnreachable, match="task id is kept, ask for it again later"):
            await anext(views)


async def test_an_unknown_task_is_an_error_of_ours(client: Client) -> None:
    with pytest.raises(UnknownTask, match="no region knows"):
        await client.get("01")


async def test_wait_survives_a_router_restart_and_decodes_the_result(
    client: Client, router: ScriptedRouter
) -> None:
    done = task(
        task_pb2.TASK_STATE_COMPLETED,
        settled=True,
        result=b'{"sent": 1}',
        result_content_type="application/json",
    )
    router.watches = [
        [task(task_pb2.TASK_STATE_PENDING), task(task_pb2.TASK_STATE_PROCESSING)],
        [task(task_pb2.TASK_STATE_PROCESSING), done],
    ]
    assert (await client.wait("id")).result == {"sent": 1}


async def test_watch_gives_each_state_once_and_ends_when_settled(
    client: Client, router: ScriptedRouter
) -> None:
    router.watches = [
        [task(task_pb2.TASK_STATE_PENDING)],
        [task(task_pb2.TASK_STATE_PENDING), task(task_pb2.TASK_STATE_PROCESSING)],
        [task(task_pb2.TASK_STATE_COMPLETED, settled=True)],
    ]
    states = [view.state.value async for view in client.watch("id")]
    assert states == ["PENDING", "PROCESSING", "COMPLETED"]


ENDINGS: list[tuple[task_pb2.Task, type[TradewindError]]] = [
    (
        task(
            task_pb2.TASK_STATE_DEAD_LETTER,
            settled=True,
            error=task_pb2.TaskError(kind="exhausted", message="no such host"),
        ),
        TaskDead,
    ),
    (task(task_pb2.TASK_STATE_CANCELLED, settled=True), TaskCancelled),
    (task(task_pb2.TASK_STATE_EXPIRED, settled=True), TaskExpired),
]


@pytest.mark.parametrize(("last", "error"), ENDINGS, ids=[each.__name__ for _, each in ENDINGS])
async def test_wait_raises_what_became_of_a_task_without_a_result(
    client: Client, router: ScriptedRouter, last: task_pb2.Task, error: type[TradewindError]
) -> None:
    router.watches = [[last]]
    with pytest.raises(error):
        await client.wait("id")


async def test_wait_ends_after_its_timeout(client: Client, router: ScriptedRouter) -> None:
    router.watches = [[task(task_pb2.TASK_STATE_PENDING)]]
    with pytest.raises(WaitOver):
        await client.wait("id", timeout=0.05)


async def test_a_dead_task_that_may_still_move_is_waited_for(
    client: Client, router: ScriptedRouter
) -> None:
    router.watches = [
        [
            task(task_pb2.TASK_STATE_DEAD_LETTER),
            task(task_pb2.TASK_STATE_MOVING),
            task(task_pb2.TASK_STATE_COMPLETED, settled=True),
        ],
    ]
    assert (await client.wait("id")).settled


async def test_the_blocking_client_does_the_same(target: str, router: ScriptedRouter) -> None:
    router.watches = [[task(task_pb2.TASK_STATE_COMPLETED, settled=True)]]

    def use() -> list[str]:
        with SyncClient(target) as client:
            client.connect()
            receipt = client.submit("email.send", {"to": "a"})
            states = [view.state.value for view in client.watch("id")]
            with pytest.raises(UnknownTask):
                client.get("01")
        with pytest.raises(RuntimeError, match="closed"):
            client.submit("late")
        return [receipt.region, *states]

    assert await asyncio.to_thread(use) == ["eu-west", "COMPLETED"]


BAD_OPTIONS: dict[str, tuple[str, Any]] = {
    "an unknown priority": ("priority", "urgent"),
    "a text where a list of groups belongs": ("residency", "eu"),
    "a number as a label": ("labels", {"a": 1}),
    "a delay that is no number": ("delay", "soon"),
    "a moment without a time zone": ("not_before", datetime(2026, 1, 1)),  # noqa: DTZ001
    "a number as a key": ("affinity_key", 7),
    "a negative count": ("max_attempts", -1),
}


@pytest.mark.parametrize(("field", "value"), list(BAD_OPTIONS.values()), ids=list(BAD_OPTIONS))
def test_what_cannot_be_sent_names_its_field(field: str, value: Any) -> None:
    options: Any = {field: value}
    with pytest.raises(InvalidTask) as caught:
        build_spec("email.send", None, options)
    assert [violation.field for violation in caught.value.violations] == [field]


HINTS: dict[str, tuple[str, Any, str]] = {
    "one group": ("residency", "eu", 'write ["eu"]'),
    "a length with a unit": ("delay", "1s", "give seconds, such as 1.5, or a timedelta"),
}


@pytest.mark.parametrize(("field", "value", "hint"), HINTS.values(), ids=HINTS)
def test_what_cannot_be_sent_says_what_to_write(field: str, value: Any, hint: str) -> None:
    options: Any = {field: value}
    with pytest.raises(InvalidTask) as caught:
        build_spec("email.send", None, options)
    assert hint in str(caught.value)


@pytest.mark.parametrize("args", ["abc", [1], [("to", "a")], 7], ids=repr)
def test_arguments_that_are_no_object_are_refused(args: Any) -> None:
    with pytest.raises(InvalidTask, match="payload: must be a JSON object"):
        build_spec("email.send", args, {})


@pytest.mark.parametrize("args", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}])
def test_arguments_that_are_no_json_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="payload"):
        build_spec("email.send", args, {})


def test_a_payload_over_the_limit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(PayloadTooLarge):
        build_spec("email.send", b"x" * (MAX_PAYLOAD_BYTES + 1), {})


def test_an_option_that_does_not_exist_is_a_type_error() -> None:
    options: Any = {"retries": 3}
    with pytest.raises(TypeError, match="retries"):
        build_spec("email.send", None, options)


def test_every_option_reaches_its_field() -> None:
    spec = build_spec(
        "image.resize",
        b"png",
        {
            "priority": "high",
            "labels": {"data-class": "pii-eu"},
            "residency": ["eu"],
            "delay": 1.5,
            "timeout": timedelta(minutes=2),
            "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
            "max_attempts": 3,
            "content_type": "image/png",
        },
    )
    assert spec.priority == task_pb2.PRIORITY_HIGH
    assert dict(spec.labels) == {"data-class": "pii-eu"}
    assert list(spec.residency) == ["eu"]
    assert spec.delay.ToTimedelta() == timedelta(seconds=1.5)
    assert spec.timeout.ToTimedelta() == timedelta(minutes=2)
    assert spec.expires_at.ToDatetime(tzinfo=UTC) == datetime(2030, 1, 1, tzinfo=UTC)
    assert (spec.max_attempts, spec.content_type) == (3, "image/png")


def test_an_expiry_may_be_counted_from_now() -> None:
    before_ms = SystemClock().now_ms()
    spec = build_spec("email.send", None, {"expires": timedelta(minutes=1)})
    after_ms = SystemClock().now_ms()
    assert before_ms + 60_000 <= spec.expires_at.ToMilliseconds() <= after_ms + 60_000


def test_two_expiries_exclude_each_other() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidTask, match="expires_at: excludes expires"):
        build_spec("email.send", None, {"expires": 1, "expires_at": until})


@pytest.mark.parametrize("span", ["soon", 1e9 * 400, float("inf")])
def test_an_expiry_that_no_clock_can_show_is_refused(span: Any) -> None:
    with pytest.raises(InvalidTask, match="expires"):
        build_spec("email.send", None, {"expires": span})


def test_a_status_without_our_details_keeps_its_words() -> None:
    from tradewind.client.calls import refusal_of

    refusal = refusal_of(status_pb2.Status(code=7, message="not for you"))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert str(refusal.error) == "not for you"
    assert not refusal.is_repeatable
