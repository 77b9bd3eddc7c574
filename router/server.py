"""The listener: options, health, reflection, and leaving without dropping anybody."""

import asyncio
import socket
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection, reflection_pb2

from router.gateway import Gateway
from router.health import Health
from router.interceptors import Answering
from tradewind.errors import SetupError
from tradewind.http import parse_address
from tradewind.limits import MAX_MESSAGE_BYTES
from tradewind.ticks import tick
from tradewind.v1 import admin_pb2, router_pb2

GRACE_S: Final = 10.0  # for RPCs under way at a stop; a client's deadline is usually shorter
# Between NOT_SERVING and the closed port, part of the grace: whoever watches our health is told at
# once, and may be half the world away (0.3 s there and back) with calls on their way to us.
NOTICE_S: Final = 0.5
# Calls that have come and that the event loop has not taken on yet, as in a burst. By default gRPC
# turns some away from 1,000 on, by chance. One takes 16 kB, 75 kB at most (measured, grpcio 1.85,
# payloads of 100 bytes and 60 kB): 160 MB of the 512 MiB that deploy/k8s gives a router.
MAX_WAITING_CALLS: Final = 10_000
_LAST_S: Final = 1.0  # for stores to answer, once the grace is over or a second signal came
_HEALTH_EVERY_S: Final = 1.0
_REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"
_SERVICES: Final = tuple(
    file.DESCRIPTOR.services_by_name[name].full_name
    for file, name in ((router_pb2, "RouterService"), (admin_pb2, "AdminService"))
)


class Server:
    """A gateway on HOST:PORT."""

    def __init__(self, gateway: Gateway, listen: str, *, reuse_port: bool = False) -> None:
        """Bind. Raises SetupError if the address cannot be had.

        `reuse_port` shares it with other processes, which must be ours: see __main__.
        """
        self._gateway = gateway
        self._started = False
        host, port = parse_address(listen)
        if not reuse_port:
            check_free(host, port)
        self._server = grpc.aio.server(options=_options(reuse_port=reuse_port))
        self._health = Health()
        # For generated code it is a server: all that this asks of one is that it takes methods.
        answering: Any = Answering(self._server, gateway.region, gateway.clock)
        gateway.add_to(answering)
        self._health.add_to(answering)
        _add_reflection(answering)
        self.port = _bind(self._server, listen)
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Serve. Health says SERVING once a region is reachable."""
        await self._set_health()
        await self._server.start()
        self._started = True

    def ready(self) -> tuple[bool, str]:
        """Whether a submit could be taken right now, and if not, why not. From any thread."""
        if not self._started:
            return False, "the listener is not open yet"
        return self._gateway.ready()

    async def run(self) -> None:
        """Keep the health service true until cancelled."""
        while True:
            await self._set_health()
            await tick(_HEALTH_EVERY_S)

    async def stop(
        self, hurry: asyncio.Event, grace_s: float = GRACE_S, notice_s: float = NOTICE_S
    ) -> None:
        """Say NOT_SERVING and serve on for `notice_s`; then take nothing new, end what was begun.

        After `grace_s` in all, or soon after `hurry` is set, what is not done is cut off.
        """
        self._gateway.retire()
        await self._health.retire()
        hurrying = asyncio.create_task(hurry.wait())
        over_s = asyncio.get_running_loop().time() + grace_s
        await asyncio.wait({hurrying}, timeout=min(notice_s, grace_s))
        self._gateway.close()
        self._health.close()
        stopping = asyncio.create_task(self._server.stop(_left_s(over_s)))
        await asyncio.wait({stopping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await self._server.stop(None)
        await stopping
        # What is on its way to a store gets its answer, or a repeat would have to find out.
        draining = asyncio.create_task(self._gateway.drain())
        either = {draining, hurrying}
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(either, timeout=_left_s(over_s), return_when=first)
        await asyncio.wait({draining}, timeout=_LAST_S)
        for task in (draining, hurrying):
            task.cancel()
        await asyncio.gather(draining, hurrying, return_exceptions=True)

    async def _set_health(self) -> None:
        ready, _ = self._gateway.ready()
        for service in ("", *_SERVICES):
            await self._health.set(service, serving=ready)


def _left_s(until_s: float) -> float:
    return max(0.0, until_s - asyncio.get_running_loop().time())


def check_free(host: str, port: int) -> None:
    """Raise SetupError if somebody listens there: gRPC's own bind may not notice."""
    if not port:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise cannot_listen(f"{host}:{port}", error.strerror or str(error)) from None


def _bind(server: grpc.aio.Server, listen: str) -> int:
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError:
        port = 0
    if not port:
        raise cannot_listen(listen, "the address cannot be bound")
    return port


def cannot_listen(address: str, why: str) -> SetupError:
    """The error for a port that cannot be had."""
    return SetupError(f"cannot serve gRPC on {address} ({why}); choose another --listen")


def _options(*, reuse_port: bool) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # With one number for both, nobody is turned away before that many wait.
        ("grpc.server.max_pending_requests", MAX_WAITING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_WAITING_CALLS),
        ("grpc.so_reuseport", int(reuse_port)),
        # Idle clients may ping every 10 s; by default a second early ping is punished (GOAWAY).
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def _add_reflection(server: Any) -> None:
    """Answer reflection as v1alpha, which grpcio-reflection serves, and as v1: same messages."""
    names = (*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME, _REFLECTION_V1)
    servicer: Any = reflection.aio.ReflectionServicer(names)
    method = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for service in (reflection.SERVICE_NAME, _REFLECTION_V1):
        server.add_registered_method_handlers(service, {"ServerReflectionInfo": method})
