"""The asynchronous client: submit a task, find it again, wait for its end."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.message import Message

from tradewind.client.admin import Admin
from tradewind.client.calls import Refusal, Router, refusal_of
from tradewind.client.origin import Origin
from tradewind.client.repeats import ATTEMPT_S, SILENCE_S, Attempts, pause_s, repeat, tell
from tradewind.client.request_ids import RequestIds
from tradewind.client.specs import Args, TaskOptions, TaskRequest, build_spec, expiry
from tradewind.client.submits import Coalescer
from tradewind.client.views import (
    Cancellation,
    Receipt,
    Route,
    TaskView,
    cancellation_of,
    receipt_of,
    route_of,
    task_of,
)
from tradewind.errors import (
    NoAnswer,
    RouterUnreachable,
    TaskCancelled,
    TaskDead,
    TaskExpired,
    TradewindError,
    WaitOver,
)
from tradewind.limits import MAX_BATCH_SPECS, REQUEST_ID_WINDOW_MS, SECOND_MS
from tradewind.state import State
from tradewind.v1 import router_pb2, task_pb2
from tradewind.v1.router_pb2_grpc import RouterServiceStub

if TYPE_CHECKING:  # a name of the stubs only
    from tradewind.v1.router_pb2_grpc import RouterServiceAsyncStub

# The router remembers a request_id for this long: a later repeat could be a second task.
DEADLINE_S = 30.0  # of a call, its repeats included, unless something else is said
_LONGEST_S = REQUEST_ID_WINDOW_MS / SECOND_MS

# Tells the router whether an earlier attempt may have reached it.
_ATTEMPT_KEY = "tradewind-attempt"

Reply = TypeVar("Reply", bound=Message)


class Client:
    """Talks to one router. Use it as an async context manager, one for each event loop.

    `origin_region` is where the caller is, from which latency is judged. Name it; without it the
    client asks the router that it reaches first for its region, and keeps that as its own.
    `deadline` is how many seconds a call may take, its repeats included, unless the call says
    otherwise; submits are repeated with the same request_id, so that a repeat is never a second
    task. An unreachable router, too, is asked again until the deadline: `connect` tells at once.
    Errors are those of `tradewind.errors`, and RuntimeError after `close`.
    """

    def __init__(
        self,
        target: str = "localhost:7070",
        *,
        origin_region: str = "",
        tenant: str = "",
        deadline: float = DEADLINE_S,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Take HOST:PORT of a router; nothing is opened before the first call."""
        self._router = Router(target, credentials)
        self._defaults: TaskOptions = {}
        if origin_region:
            self._defaults["origin_region"] = origin_region
        if tenant:
            self._defaults["tenant"] = tenant
        self._origin = Origin(self._router)
        self._request_ids = RequestIds()
        self._deadline_s = deadline
        self._coalescer: Coalescer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection for good. Calls under way end as cancelled."""
        await self._origin.close()
        if self._coalescer is not None:
            await self._coalescer.close()
        await self._router.close()

    async def connect(self, timeout: float = 5.0) -> None:
        """Connect now rather than at the first call. Raises RouterUnreachable if nobody answers."""
        await self._router.reach(timeout)

    async def submit(
        self,
        name: str,
        args: Args = None,
        *,
        deadline: float | None = None,
        **options: Unpack[TaskOptions],
    ) -> Receipt:
        """Hand in one task for the handler `name`; concurrent calls share messages.

        `args` is a mapping (sent as JSON) or bytes. Raises InvalidTask, IdempotencyKeyReused,
        PayloadTooLarge, NoRegionPermitted, RegionsFull, and, once repeats no longer fit into the
        deadline, NoRegionReachable, HomeUnreachable, OutcomeUnknown, NoAnswer, RouterUnreachable.
        """
        left = _Countdown(self._seconds(deadline))
        spec = await self._spec(name, args, options, left())
        return await self._submit(spec, left(), is_new=not options.get("request_id"))

    async def submit_many(
        self,
        requests: Iterable[TaskRequest],
        *,
        deadline: float | None = None,
    ) -> list[Receipt | TradewindError]:
        """Hand in many tasks, each on its own: its receipt or its error, in the given order."""
        room = asyncio.Semaphore(MAX_BATCH_SPECS)

        async def one(request: TaskRequest) -> Receipt | TradewindError:
            async with room:
                try:
                    options = request.options
                    return await self.submit(
                        request.name, request.args, deadline=deadline, **options
                    )
                except TradewindError as error:
                    return error

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def get(self, task_id: str, *, deadline: float | None = None) -> TaskView:
        """Give the task with payload and result. Raises UnknownTask if every region said no.

        Raises RegionSilent if one that may have it does not answer: after 3 s, or at the end of
        `deadline` if that is given.
        """
        reply = await self._ask(
            self._stub.GetTask, router_pb2.GetTaskRequest(task_id=task_id), deadline
        )
        return task_of(reply.task)

    async def wait(self, task_id: str, timeout: float | None = None) -> TaskView:
        """Wait until the task has completed and give it, with `result` decoded.

        Raises TaskDead, TaskCancelled or TaskExpired if it ended otherwise, and WaitOver, which is
        a TimeoutError, after `timeout` seconds. Survives restarts of the router.
        """
        try:
            async with asyncio.timeout(timeout), aclosing(self.watch(task_id)) as views:
                async for view in views:
                    if view.settled:
                        return completed(view)
        except TimeoutError as error:
            if timeout is None or isinstance(error, TradewindError):
                raise
            raise WaitOver(task_id, timeout) from None
        raise AssertionError  # watch ends with a settled task, or raises

    async def watch(self, task_id: str) -> AsyncGenerator[TaskView, None]:
        """Give the task now and at every change, until it is settled. Reconnects by itself.

        Raises UnknownTask, and RouterUnreachable or RegionSilent once no router, or not the task's
        region, has answered for a whole deadline.
        """
        request = router_pb2.WatchTaskRequest(task_id=task_id)
        clock = asyncio.get_running_loop().time
        last: TaskView | None = None
        heard_at, attempt, told = clock(), 1, False
        while True:
            refusal: Refusal | None = None
            try:
                async with aclosing(self._router.stream(self._stub.WatchTask, request)) as replies:
                    async for reply in replies:
                        heard_at, attempt, told = clock(), 1, False
                        view = task_of(reply.task)
                        if view != last:
                            yield view
                        if view.settled:
                            return
                        last = view
            except Refusal as error:
                refusal = error
            if refusal is not None and not refusal.is_repeatable:
                raise refusal.error from None
            wait_s = pause_s(attempt, refusal.retry_after_s if refusal else 0.0, self._deadline_s)
            if refusal is not None and clock() + wait_s > heard_at + self._deadline_s:
                raise _while_watching(refusal.error, last) from None
            if refusal is not None:
                told = told or tell(refusal, self._deadline_s)
            await asyncio.sleep(wait_s)
            attempt += 1

    async def explain(
        self,
        name: str,
        args: Args = None,
        *,
        deadline: float | None = None,
        **options: Unpack[TaskOptions],
    ) -> Route:
        """Tell where such a task would go now, and why. Stores nothing. Raises as `submit`."""
        left = _Countdown(self._seconds(deadline))
        spec = await self._spec(name, args, options, left())
        reply = await self._ask(
            self._stub.ExplainRoute, router_pb2.ExplainRouteRequest(spec=spec), left()
        )
        return route_of(reply.decision)

    async def cancel(self, task_id: str, *, deadline: float | None = None) -> Cancellation:
        """Cancel a task; a second cancel gives the same answer. Raises as `get`."""
        reply = await self._ask(
            self._stub.CancelTask, router_pb2.CancelTaskRequest(task_id=task_id), deadline
        )
        return cancellation_of(reply)

    @property
    def admin(self) -> Admin:
        """The operator's questions, over the same connection."""
        return Admin(self._router)

    @property
    def _stub(self) -> "RouterServiceAsyncStub":
        return RouterServiceStub(self._router.channel)

    async def _spec(
        self, name: str, args: Args, options: TaskOptions, timeout_s: float
    ) -> task_pb2.TaskSpec:
        """Give the spec with the client's defaults, those of a submit and of an explain alike."""
        spec = build_spec(name, args, {**self._defaults, **options})
        if "expires" in options:  # checked by now; this host's clock may be wrong
            now_ms = await self._origin.now_ms(timeout_s)
            spec.expires_at.CopyFrom(expiry(options["expires"], now_ms))
        if spec.request_id:
            # The caller's own, perhaps of an earlier submit by way of another region's router.
            # Where it is remembered depends on the origin, so that must not be an adopted one.
            return spec
        spec.request_id = self._request_ids.mint()
        if not spec.origin_region:
            spec.origin_region = await self._origin.region(timeout_s)
        return spec

    def _seconds(self, deadline: float | None) -> float:
        return min(self._deadline_s if deadline is None else deadline, _LONGEST_S)

    async def _ask(
        self,
        method: Callable[..., Awaitable[Reply]],
        request: Message,
        deadline: float | None,
    ) -> Reply:
        async def attempt(left_s: float) -> Reply:
            return await self._router.unary(method, request, min(left_s, ATTEMPT_S))

        deadline_s = self._seconds(deadline)
        silence_s = SILENCE_S if deadline is None else deadline_s
        try:
            return await repeat(attempt, deadline_s, silence_s=silence_s)
        except NoAnswer:  # it speaks of the last attempt
            raise NoAnswer(self._router.target, deadline_s) from None

    async def _submit(self, spec: task_pb2.TaskSpec, deadline_s: float, *, is_new: bool) -> Receipt:
        # A request_id of the caller's own may be that of an earlier submit, to find out about it:
        # only of one that was minted here is it known which attempt is the first.
        attempts = Attempts(is_new)

        async def attempt(left_s: float) -> Receipt:
            if attempts.next():
                spec.request_id = self._request_ids.mint(spec.request_id)
            try:
                return await self._attempt(spec, attempts, min(left_s, ATTEMPT_S))
            except Refusal as refusal:
                refusal.is_redrawn = attempts.refused(refusal.error)
                raise

        try:
            return await repeat(attempt, deadline_s)
        except NoAnswer:
            target, request_id = self._router.target, spec.request_id
            raise NoAnswer(target, deadline_s, request_id=request_id) from None

    async def _attempt(
        self, spec: task_pb2.TaskSpec, attempts: Attempts, timeout_s: float
    ) -> Receipt:
        if attempts.is_ours and attempts.number == 1:
            return await self._first_submit(spec, timeout_s)
        reply = await self._router.unary(
            self._stub.SubmitTask,
            router_pb2.SubmitTaskRequest(spec=spec),
            timeout_s,
            ((_ATTEMPT_KEY, str(attempts.number)),) if attempts.is_ours else (),
        )
        return receipt_of(reply)

    async def _first_submit(self, spec: task_pb2.TaskSpec, timeout_s: float) -> Receipt:
        """Submit over the shared stream. Repeats are calls of their own: they state a number."""
        _ = self._router.channel  # tells a client that was closed
        if self._coalescer is None:
            self._coalescer = Coalescer(self._open_stream)
        try:
            result = await self._coalescer.send(spec, timeout_s=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._router.refused(error, timeout_s) from None
        except TimeoutError:
            late = NoAnswer(self._router.target, timeout_s)
            raise Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, late) from None
        if result.HasField("error"):
            raise refusal_of(result.error)
        return receipt_of(result.accepted)

    def _open_stream(self) -> Any:
        return self._stub.SubmitTaskStream(metadata=((_ATTEMPT_KEY, "1"),))


class _Countdown:
    """Seconds that are left of a deadline."""

    def __init__(self, seconds: float) -> None:
        self._over_at = time.monotonic() + seconds

    def __call__(self) -> float:
        return max(self._over_at - time.monotonic(), 0.001)


def _while_watching(error: TradewindError, last: TaskView | None) -> TradewindError:
    """Say that a task does not end with the connection by which it was watched."""
    if last is None or not isinstance(error, RouterUnreachable):
        return error
    return RouterUnreachable(
        error.target, f"{error.cause}; task {last.task_id} is kept, ask for it again later"
    )


def completed(view: TaskView) -> TaskView:
    """Give a settled task back if it completed. Raises what `wait` raises otherwise."""
    if view.state is State.COMPLETED:
        return view
    if view.state is State.CANCELLED:
        raise TaskCancelled(view.task_id, view.region)
    if view.state is State.EXPIRED:
        raise TaskExpired(view.task_id, view.region)
    kind, message = (view.error.kind, view.error.message) if view.error else ("unknown", "")
    raise TaskDead(view.task_id, view.region, kind, message)
