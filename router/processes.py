"""`--processes N`: the parent holds the port, starts the routers, starts anew what dies."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.multiprocess import (
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType]
)

from router.server import cannot_listen, check_free
from tradewind import metrics
from tradewind.http import parse_address
from tradewind.local.leash import leashed

_log = logging.getLogger(__name__)
CHILD: Final = "TRADEWIND_ROUTER_CHILD"  # in the environment of a child: its number, from 0
_WRONG_USAGE: Final = 2  # a child that says so will say so again
_FIRST_PAUSE_S: Final = 0.2
_MAX_PAUSE_S: Final = 5.0
_STEADY_S: Final = 10.0  # a child that lived this long is started anew at once
_HEALTH_TIMEOUT_S: Final = 1.0


class Processes:
    """N routers on one port, with one face: readiness, metrics, signals, exit status."""

    def __init__(self, argv: Sequence[str], count: int, listen: str) -> None:
        """`argv`: options of one child without --listen. Raises SetupError if the port is taken.

        The port is first bound alone: gRPC's SO_REUSEPORT would share it with a stranger.
        """
        host, port = parse_address(listen)
        check_free(host, port)
        self._held = _hold(host, port)
        self._host, self.port = host, int(self._held.getsockname()[1])
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._argv, self._count = (*argv, "--listen", self.address), count
        self._metrics_dir = tempfile.mkdtemp(prefix="tradewind-metrics-")
        self._children: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()

    def ready(self) -> tuple[bool, str]:
        """What the health service of one of them says. Any thread may ask."""
        try:
            with grpc.insecure_channel(self.address) as channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                request = health_pb2.HealthCheckRequest()
                answer = stub.Check(request, timeout=_HEALTH_TIMEOUT_S)
        except grpc.RpcError:
            return False, "no router process answers"
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            return False, "no region answers"
        return True, "ready"

    def metrics(self) -> bytes:
        """The sum over all processes, those that have died included."""
        return metrics.shared_exposition(self._metrics_dir)

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT has ended all children. Returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        try:
            codes = await asyncio.gather(*map(self._keep, range(self._count)))
        finally:
            self._held.close()
            shutil.rmtree(self._metrics_dir, ignore_errors=True)
        return max(codes)

    def _signalled(self) -> None:
        """Pass it on: each child counts its own signals."""
        self._stopping.set()
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()

    async def _keep(self, place: int) -> int:
        """One place: a child in it until we stop."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            code = await self._one(place)
            if code == _WRONG_USAGE:
                self._signalled()
            if self._stopping.is_set():
                return code if code >= 0 else 1
            _log.error("a router process ended", extra={"status": code})
            steady = time.monotonic() - began_s > _STEADY_S
            pause_s = _FIRST_PAUSE_S if steady else min(_MAX_PAUSE_S, pause_s * 2)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()

    async def _one(self, place: int) -> int:
        command = leashed([sys.executable, "-P", "-m", "router", *self._argv])
        env = {**os.environ, CHILD: str(place), "PROMETHEUS_MULTIPROC_DIR": self._metrics_dir}
        child = await asyncio.create_subprocess_exec(*command, env=env)
        self._children.add(child)
        if self._stopping.is_set():
            child.terminate()
        code = await child.wait()
        self._children.discard(child)
        mark_process_dead(child.pid, self._metrics_dir)
        return code


def _hold(host: str, port: int) -> socket.socket:
    """Bind the port without listening, so that nobody else gets it while children come and go."""
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        held.bind((host, port))
    except OSError as error:
        held.close()
        raise cannot_listen(f"{host}:{port}", error.strerror or str(error)) from None
    return held
