"""Throw-away redis-servers, for tests and benchmarks: started, ready, and gone afterwards."""

import contextlib
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.leash import leashed
from tradewind.local.redis_server import SERVER_ENVIRONMENT, ask, find_server, redis_args, serves

SLOTS = 16_384  # fixed by the Redis Cluster specification

_READY_TIMEOUT_S = 10.0
_STOP_GRACE_S = 5.0
_POLL_S = 0.01
_BIND_ATTEMPTS = 5
_LOG_TAIL_BYTES = 2_000


@dataclass(slots=True)
class RedisProcess:
    """One running redis-server. `pid` changes with `start()` after a `kill()` or `stop()`."""

    port: int
    data_dir: Path
    extra_args: tuple[str, ...] = ()
    bus_port: int | None = None  # of a cluster node
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Where it listens, as regions.yaml spells it."""
        return f"redis://{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The server's own pid. Raises LocalSetupError while it is not running."""
        if self._process is None:
            raise LocalSetupError(
                f"the redis-server of {self.data_dir} is not running: call start() first"
            )
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """What the server printed, every start appended."""
        return self.data_dir / "redis.log"

    def start(self) -> None:
        """Start it, and return once it serves. Raises LocalSetupError with the end of its log."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        args = self.extra_args
        if self.bus_port is not None:
            args = ("--cluster-port", str(self.bus_port), *args)
        argv = [str(find_server().path), *redis_args(self.port, self.data_dir, args)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                leashed(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **SERVER_ENVIRONMENT},
                # A Ctrl-C at the terminal must not reach it before its users.
                start_new_session=True,
            )
        give_up_at = time.monotonic() + _READY_TIMEOUT_S
        while not serves(self.port, self.data_dir):
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                self.kill()
                raise LocalSetupError(
                    f"redis-server on port {self.port} does not serve: {self._log_tail()}"
                )
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL). Its data directory stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it in order (SIGTERM; SIGKILL after a grace). Its data directory stays."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def lost_its_port(self) -> bool:
        """Whether the last start failed because another process had taken the port meanwhile."""
        return "Address already in use" in self._log_tail()

    def _log_tail(self) -> str:
        return self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()


@contextlib.contextmanager
def redis_process(
    data_dir: Path, extra_args: Sequence[str] = ()
) -> Generator[RedisProcess, None, None]:
    """Run one redis-server on a free port while the block runs.

    Call from a thread that outlives the block: the server ends with that thread, too.
    Raises LocalSetupError if no server is found or it does not start.
    """
    server = _start_somewhere(data_dir, tuple(extra_args))
    try:
        yield server
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def running_redis(
    data_dir: Path, extra_args: Sequence[str] = ()
) -> AsyncGenerator[str, None]:
    """`redis_process` for coroutines: gives the URL. Blocks the loop while the server starts."""
    with redis_process(data_dir, extra_args) as server:
        yield server.url


@contextlib.contextmanager
def cluster_nodes(
    data_dir: Path, primaries: int = 3, extra_args: Sequence[str] = ()
) -> Generator[list[RedisProcess], None, None]:
    """Run a Redis Cluster without replicas while the block runs, its slots in equal ranges.

    Gives the nodes in slot order, once every one of them reports `cluster_state:ok`.
    """
    args = (*_CLUSTER_ARGS, *extra_args)
    with contextlib.ExitStack() as stack:
        nodes: list[RedisProcess] = []
        for index in range(primaries):
            node = _start_somewhere(data_dir / f"node-{index}", args, cluster=True)
            stack.callback(node.stop)
            nodes.append(node)
        _join(nodes)
        yield nodes


@contextlib.contextmanager
def cluster_processes(
    data_dir: Path, primaries: int = 3, extra_args: Sequence[str] = ()
) -> Generator[list[int], None, None]:
    """`cluster_nodes` for tests that only connect: gives the ports."""
    with cluster_nodes(data_dir, primaries, extra_args) as nodes:
        yield [node.port for node in nodes]


_CLUSTER_ARGS = (
    *("--cluster-enabled", "yes"),
    *("--cluster-node-timeout", "2000"),
    # A test that stops one primary still wants the others to serve.
    *("--cluster-require-full-coverage", "no"),
)


def _start_somewhere(
    data_dir: Path, extra_args: tuple[str, ...], *, cluster: bool = False
) -> RedisProcess:
    for attempt in range(1, _BIND_ATTEMPTS + 1):
        port, bus_port = free_ports(2)
        server = RedisProcess(port, data_dir, extra_args, bus_port if cluster else None)
        try:
            server.start()
        except LocalSetupError:
            if attempt == _BIND_ATTEMPTS or not server.lost_its_port():
                raise
        else:
            return server
    raise AssertionError  # the loop returns or raises


def _join(nodes: Sequence[RedisProcess]) -> None:
    bounds = [index * SLOTS // len(nodes) for index in range(len(nodes) + 1)]
    meets = [f"CLUSTER MEET {LOOPBACK} {node.port} {node.bus_port}" for node in nodes[1:]]
    for epoch, (node, first, end) in enumerate(zip(nodes, bounds, bounds[1:], strict=False), 1):
        _must(
            node,
            f"CLUSTER ADDSLOTSRANGE {first} {end - 1}",
            # Distinct epochs at once: nodes born with the same one must settle it first.
            f"CLUSTER SET-CONFIG-EPOCH {epoch}",
        )
    _must(nodes[0], *meets)
    give_up_at = time.monotonic() + _READY_TIMEOUT_S
    while not all(_sees_all(node, len(nodes)) for node in nodes):
        if time.monotonic() > give_up_at:
            raise LocalSetupError(
                f"the nodes on ports {[node.port for node in nodes]} form no cluster"
            )
        time.sleep(_POLL_S)


def _must(node: RedisProcess, *commands: str) -> None:
    replies = ask(node.port, *commands)
    if any(line.startswith("-") for line in replies.splitlines()):
        raise LocalSetupError(f"the node on port {node.port} refused {commands}: {replies.strip()}")


def _sees_all(node: RedisProcess, nodes: int) -> bool:
    facts = set(ask(node.port, "CLUSTER INFO").splitlines())
    wanted = {"cluster_state:ok", f"cluster_slots_ok:{SLOTS}", f"cluster_size:{nodes}"}
    return wanted <= facts
