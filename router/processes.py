"""`--processes N`: the parent holds the port, starts the routers, starts anew what dies."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
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
from tradewind.fleet import Fleet
from tradewind.http import parse_address
from tradewind.local import metrics_dir
from tradewind.local.leash import leashed
from tradewind.local.metrics_dir import MetricsDir
from tradewind.policy_file import LAST_GOOD, PolicyFile
from tradewind.startup import hangups_held, on_hangup

_log = logging.getLogger(__name__)
CHILD: Final = "TRADEWIND_ROUTER_CHILD"  # in the environment of a child: its number, from 0
PARENT: Final = "TRADEWIND_ROUTER_PARENT"  # and its parent's process id
_FAILED: Final = 1
_WRONG_USAGE: Final = 2  # before any child has served: it will say so again
_FIRST_PAUSE_S: Final = 0.2
_MAX_PAUSE_S: Final = 5.0
_STEADY_S: Final = 10.0  # a child that lived this long is started anew at once
_HEALTH_TIMEOUT_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.2  # until the first of them serves


class Processes:
    """N routers on one port, with one face: readiness, metrics, signals, exit status."""

    def __init__(self, argv: Sequence[str], count: int, listen: str, policy: PolicyFile) -> None:
        """`argv`: options of one child without --listen. Raises SetupError if the port is taken.

        Children start with `policy` as this process has it, and each follows the file by itself.
        The port is first bound alone: gRPC's SO_REUSEPORT would share it with a stranger.
        """
        host, port = parse_address(listen)
        check_free(host, port)
        self._held = _hold(host, port)
        self._host, self.port = host, int(self._held.getsockname()[1])
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._argv, self._count = (*argv, "--listen", self.address), count
        self._metrics_dir, self._policy = MetricsDir(), policy
        self._children: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._any_has_served = False

    def ready(self) -> tuple[bool, str]:
        """What the health service of one of them says. Any thread may ask."""
        if (status := self._health()) is None:
            return False, "no router process answers"
        if status != health_pb2.HealthCheckResponse.SERVING:
            return False, "no region answers"
        return True, "ready"

    def metrics(self) -> bytes:
        """The sum over all processes, those that have died included."""
        return metrics.shared_exposition(self._metrics_dir.path)

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT has ended all children. Returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        on_hangup(self._hung_up, self._signalled)
        looking = asyncio.create_task(self._look())
        following = asyncio.create_task(self._policy.run())
        try:
            codes = await asyncio.gather(*map(self._keep, range(self._count)))
        finally:
            looking.cancel()
            following.cancel()
            self._held.close()
            self._metrics_dir.close()
        return max(codes)

    def _health(self) -> int | None:
        """What the health service of one of them says, if any answers."""
        try:
            with grpc.insecure_channel(self.address) as channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                request = health_pb2.HealthCheckRequest()
                return stub.Check(request, timeout=_HEALTH_TIMEOUT_S).status
        except grpc.RpcError:
            return None

    async def _look(self) -> None:
        """Note that a process serves."""
        while await asyncio.to_thread(self._health) is None:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(_LOOK_EVERY_S)
        self._any_has_served = True

    async def _have_served(self) -> bool:
        """Whether any process serves, or has: asked anew, since `_look` may be a moment late."""
        if not self._any_has_served:
            self._any_has_served = await asyncio.to_thread(self._health) is not None
        return self._any_has_served

    def _signalled(self) -> None:
        """Pass it on: each child counts its own signals."""
        self._stopping.set()
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()

    def _hung_up(self) -> None:
        """Read the policy file again, here and in every child."""
        self._policy.ask()
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGHUP)

    async def _keep(self, place: int) -> int:
        """One place: a child in it until we stop."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            code = await self._one(place)
            # Once one has served, what is wrong came later and may pass: a file that is just being
            # replaced must not cost the processes that have read it before.
            if code == _WRONG_USAGE and not await self._have_served():
                self._signalled()
            if self._stopping.is_set():
                return _ending_of(code)
            _log.error("a router process ended", extra={"status": code})
            steady = time.monotonic() - began_s > _STEADY_S
            pause_s = _FIRST_PAUSE_S if steady else min(_MAX_PAUSE_S, pause_s * 2)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()

    async def _one(self, place: int) -> int:
        command = leashed([sys.executable, "-P", "-m", "router", *self._argv])
        env = {
            **os.environ,
            CHILD: str(place),
            PARENT: str(os.getpid()),
            metrics_dir.VARIABLE: self._metrics_dir.path,
        }
        try:
            env[LAST_GOOD] = self._policy.keep_copy(self._metrics_dir.path)
            with hangups_held():
                # A session of its own: a Ctrl-C must not reach it twice, by the terminal and by us.
                child = await asyncio.create_subprocess_exec(
                    *command, env=env, start_new_session=True
                )
        except OSError as error:  # no memory, no process, no file left: it may pass
            _log.error("a router process cannot be started", extra={"reason": str(error)})
            return _FAILED
        self._children.add(child)
        if self._stopping.is_set():
            child.terminate()
        code = await child.wait()
        self._children.discard(child)
        mark_process_dead(child.pid, self._metrics_dir.path)
        return code


async def reload_all(policy: PolicyFile) -> Fleet:
    """In a child: read the policy file again, and have the parent ask all others to.

    Raises ConfigError, and asks nobody.
    """
    fleet = await policy.reload()
    parent = os.environ.get(PARENT, "")
    if str(os.getppid()) == parent:  # or others see by themselves that the file has changed
        os.kill(int(parent), signal.SIGHUP)
    return fleet


def _ending_of(code: int) -> int:
    """What the end of a child with `code` says of a pool that was asked to end."""
    if code == -signal.SIGTERM:  # ours: it was about to start, and did not listen yet
        return 0
    return code if code >= 0 else _FAILED  # a signal ended it


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
