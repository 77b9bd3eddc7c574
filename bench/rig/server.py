"""Redis for one measuring: new, empty or with the tasks of a snapshot, and gone again."""

import contextlib
import os
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import redis

from bench.rig.processes import BenchError
from tradewind.local.scratch import RedisProcess, redis_process

#: Ours and everyone else's: in memory only, so that no disk takes part. The rest is what an
#: embedded region has (tradewind/local/redis_server.py).
SETTINGS = ("--appendonly", "no")
SNAPSHOT = "dump.rdb"  # Redis's default name


class Store(Protocol):
    """The Redis of a region: one server, or a Cluster of some."""

    @property
    def address(self) -> str:
        """Where it is, as a region file says it."""
        ...

    def cpu_s(self) -> float:
        """Seconds of CPU so far, all threads of all its servers, user and system."""
        ...

    def save(self, target: Path) -> None:
        """Keep what it holds as a snapshot that one of its kind can start from."""
        ...


Kind = TypeVar("Kind", bound=Store)
_Kind_co = TypeVar("_Kind_co", bound=Store, covariant=True)


class Fresh(Protocol[_Kind_co]):
    """Runs a new Store in a new folder of `home`, empty or holding a snapshot of its kind."""

    def __call__(
        self, home: Path, *, snapshot: Path | None = None
    ) -> AbstractContextManager[_Kind_co]:
        """While the block runs."""
        ...


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and a connection to it."""

    process: RedisProcess
    raw: Any  # redis.Redis; its types say less than its documentation

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.process.url

    @property
    def address(self) -> str:
        """Where it is, as a region file says it."""
        return self.url

    def cpu_s(self) -> float:
        """Seconds of CPU so far, all its threads, user and system."""
        info = self.raw.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def memory(self) -> int:
        """Bytes its allocator has handed out."""
        return int(self.raw.info("memory")["used_memory"])

    def version(self) -> str:
        """Such as 8.2.3."""
        return str(self.raw.info("server")["redis_version"])

    def save(self, target: Path) -> None:
        """Keep what it holds as a snapshot that `fresh` can start from."""
        if not self.raw.save():
            raise BenchError("the redis-server did not save")
        (self.process.data_dir / SNAPSHOT).rename(target)


@contextlib.contextmanager
def fresh(
    home: Path, *, snapshot: Path | None = None, settings: Sequence[str] = SETTINGS
) -> Generator[Server]:
    """Run a server in a new folder of `home`, empty or holding a snapshot."""
    folder = new_folder(home, "redis")
    if snapshot is not None:
        os.link(snapshot, folder / SNAPSHOT)  # saving replaces the name, never the content
    with redis_process(folder, settings) as process, connected(process) as server:
        yield server


@contextlib.contextmanager
def connected(process: RedisProcess) -> Generator[Server]:
    """A running server, with a connection to it while the block runs."""
    raw: Any = redis.Redis(port=process.port, socket_timeout=120)
    try:
        yield Server(process, raw)
    finally:
        raw.close()


def new_folder(home: Path, name: str) -> Path:
    """Make the next of `name-0`, `name-1`, ..."""
    number = sum(1 for _ in home.glob(f"{name}-*"))
    folder = home / f"{name}-{number}"
    folder.mkdir()
    return folder
