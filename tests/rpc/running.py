"""A real router in the test's own loop, over real Redis servers, and a client's way to it."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from router.gateway import LINGER_S, Gateway
from router.server import Server
from router.service import ATTEMPT_METADATA
from tests.rpc.flaky import FlakyStore
from tradewind import statuses
from tradewind.clock import Clock, SystemClock
from tradewind.errors import ConfigError, TradewindError
from tradewind.fleet import Fleet, Region
from tradewind.policy_file import PolicyFile
from tradewind.store.region_store import RegionStore
from tradewind.task import Heartbeat
from tradewind.v1 import admin_pb2_grpc, router_pb2, router_pb2_grpc, task_pb2

OWN_REGION = "eu-west"


@dataclass(slots=True)
class Running:
    """A router that serves."""

    fleet: Fleet
    gateway: Gateway
    server: Server
    stores: Mapping[str, FlakyStore]
    channel: grpc.aio.Channel
    router: Any
    admin: Any

    async def submit(
        self, *, timeout_s: float = 10, attempt: int | None = None, **fields: Any
    ) -> router_pb2.SubmitTaskResponse:
        """Submit a task that is valid but for `fields`. Raises what the SDK would.

        Without `attempt` the call does not state which one it is.
        """
        request = router_pb2.SubmitTaskRequest(spec=spec(**fields))
        stated = () if attempt is None else ((ATTEMPT_METADATA, str(attempt)),)
        return await answered(self.router.SubmitTask(request, timeout=timeout_s, metadata=stated))

    async def insist(
        self,
        *,
        but: type[TradewindError] | None = None,
        attempt: int | None = None,
        **fields: Any,
    ) -> router_pb2.SubmitTaskResponse:
        """Submit until it is answered, as the SDK does; an error of class `but` is raised.

        With `attempt` for the first call, every call states its number.
        """
        for number in itertools.count(attempt or 0):
            try:
                return await self.submit(attempt=number if attempt else None, **fields)
            except TradewindError as error:
                if not error.retryable or type(error) is but:
                    raise
                await asyncio.sleep(0.02)
        raise AssertionError  # not reached: there is always a next number

    async def get(self, task_id: str) -> task_pb2.Task:
        """Read a task."""
        answer = await answered(self.router.GetTask(router_pb2.GetTaskRequest(task_id=task_id)))
        return answer.task

    async def explain(self, **fields: Any) -> task_pb2.RouteDecision:
        """Ask where a task would go."""
        request = router_pb2.ExplainRouteRequest(spec=spec(**fields))
        return (await answered(self.router.ExplainRoute(request))).decision

    async def stored(self) -> dict[str, int]:
        """How many ready tasks each region holds, by the regions' own counts."""
        found: dict[str, int] = {}
        for name, store in self.stores.items():
            counts = await store.real.counts()
            if pending := sum(sum(queue.pending) for queue in counts.values()):
                found[name] = pending
        return found

    async def staff(self, *, slots: int = 100, handlers: tuple[str, ...] = ("*",)) -> None:
        """Give every region a live worker, and wait until the router has seen it."""
        for name, store in self.stores.items():
            beat = Heartbeat(f"w-{name}", name, ("default",), handlers, slots, 0, 0, 0, 1, "1")
            await store.real.heartbeat(beat)
        for name in self.stores:
            while not self.gateway.census.workers(name):  # noqa: ASYNC110 - the census polls, too
                await asyncio.sleep(0.01)

    async def key_at(self, home: str, **fields: Any) -> str:
        """Find an idempotency key whose ledger entry lives in `home`."""
        for number in range(200):
            key = f"key-{number}"
            if (await self.explain(idempotency_key=key, **fields)).ledger_home == home:
                return key
        raise AssertionError(home)

    async def affinity_to(self, region: str) -> str:
        """Find an affinity key that goes to `region`."""
        for number in range(200):
            key = f"user-{number}"
            if (await self.explain(affinity_key=key)).region == region:
                return key
        raise AssertionError(region)


def spec(**fields: Any) -> task_pb2.TaskSpec:
    """A valid TaskSpec but for `fields`."""
    given: dict[str, Any] = {"name": "email.send", "payload": b"{}"} | fields
    return task_pb2.TaskSpec(**given)


async def answered(call: Any) -> Any:
    """Return what an RPC answered. Raises its status as our error, with the code as `code`."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise refused(error) from None


def refused(error: grpc.aio.AioRpcError) -> TradewindError:
    """Read a failed RPC; the error carries `code` and `status`."""
    library: Any = rpc_status
    status = library.from_call(error)
    if status is None:
        status = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    ours: Any = statuses.from_status(status)
    ours.code, ours.status = error.code(), status
    return ours


def fields_of(error: Any) -> list[str]:
    """Names of the fields that a refused request violated."""
    bad = error_details_pb2.BadRequest()
    for detail in error.status.details:
        if detail.Unpack(bad):
            return [violation.field for violation in bad.field_violations]
    return []


@asynccontextmanager
async def running(
    fleet: Fleet,
    region: str = OWN_REGION,
    clock: Clock | None = None,
    *,
    policy: PolicyFile | None = None,
    linger_s: float = LINGER_S,
) -> AsyncGenerator[Running]:
    """Serve `fleet` from `region` on a free port; everything is gone afterwards.

    `clock` is the router's host's. With `policy` the router follows it.
    """

    def opened(one: Region, fleet: Fleet) -> Any:
        return FlakyStore(RegionStore(one, fleet))

    async def no_file() -> Fleet:
        raise ConfigError("no file", "the test gave none")

    gateway = Gateway(
        fleet,
        region,
        opened,
        clock or SystemClock(),
        reload=policy.reload if policy else no_file,
        linger_s=linger_s,
    )
    stores = cast("Mapping[str, FlakyStore]", gateway.stores)
    if policy is not None:
        policy.tell(gateway.follow)
    server = Server(gateway, "127.0.0.1:0")
    looking = asyncio.create_task(gateway.run())
    await gateway.first_look(5)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield Running(
                fleet,
                gateway,
                server,
                stores,
                channel,
                router_pb2_grpc.RouterServiceStub(channel),
                admin_pb2_grpc.AdminServiceStub(channel),
            )
    finally:
        hurry = asyncio.Event()
        hurry.set()
        await server.stop(hurry)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await gateway.disconnect()
