"""One redis-server on a free port."""

import contextlib
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.leash import leashed
from tradewind.local.redis_server import SERVER_ENVIRONMENT, find_server, redis_args, serves

READY_TIMEOUT_S = 10.0
POLL_S = 0.01
_STOP_GRACE_S = 5.0
_BIND_ATTEMPTS = 5
_LOG_TAIL_BYTES = 2_000


@dataclass(slots=True)
class RedisProcess:
    """One running redis-server. `pid` changes with `start()` after a `kill()` or `stop()`."""

    port: int
    data_dir: Path
    extra_args: tuple[str, ...] = ()
    bus_port: int | None = None  # of a cluster node
    env: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # more of it, from the next start
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

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start it, and return once it serves. Raises LocalSetupError with the end of its log."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        argv = [str(find_server().path), *self._arguments()]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                leashed(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **SERVER_ENVIRONMENT, **self.env},
                # A Ctrl-C at the terminal must not reach it before its users.
                start_new_session=True,
            )
        give_up_at = time.monotonic() + timeout_s
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                self.kill()
                raise LocalSetupError(
                    f"redis-server on port {self.port} does not serve: {self._log_tail()}"
                )
            time.sleep(POLL_S)

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

    def _arguments(self) -> list[str]:
        args = self.extra_args
        if self.bus_port is not None:
            args = ("--cluster-port", str(self.bus_port), *args)
        return redis_args(self.port, self.data_dir, args)

    def _serves(self) -> bool:
        return serves(self.port, self.data_dir)

    def _log_tail(self) -> str:
        return self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()


Server = TypeVar("Server", bound=RedisProcess)


@contextlib.contextmanager
def redis_process(
    data_dir: Path, extra_args: Sequence[str] = ()
) -> Generator[RedisProcess, None, None]:
    """Run one redis-server on a free port while the block runs.

    Call from a thread that outlives the block: the server ends with that thread, too.
    Raises LocalSetupError if no server is found or it does not start.
    """
    server = started(lambda: RedisProcess(free_ports(1)[0], data_dir, tuple(extra_args)))
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


def started(make: Callable[[], Server]) -> Server:
    """Start what `make` gives; again if another process took its port meanwhile.

    Raises LocalSetupError if it does not start.
    """
    for attempt in range(1, _BIND_ATTEMPTS + 1):
        server = make()
        try:
            server.start()
        except LocalSetupError:
            if attempt == _BIND_ATTEMPTS or not server.lost_its_port():
                raise
        else:
            return server
    raise AssertionError  # the loop returns or raises


def wait_until(
    holds: Callable[[], bool], otherwise: str, timeout_s: float = READY_TIMEOUT_S
) -> None:
    """Return once it holds. Raises LocalSetupError, saying `otherwise`, if it takes too long."""
    give_up_at = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > give_up_at:
            raise LocalSetupError(otherwise)
        time.sleep(POLL_S)
