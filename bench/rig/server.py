"""A redis-server for one measuring: new, empty or with the tasks of a snapshot, and gone again."""

import contextlib
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from bench.rig.processes import BenchError
from tradewind.local.scratch import RedisProcess, redis_process

#: Ours and everyone else's: in memory only, so that no disk takes part. The rest is what an
#: embedded region has (tradewind/local/redis_server.py).
SETTINGS = ("--appendonly", "no")
SNAPSHOT = "dump.rdb"  # Redis's default name


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and a connection to it."""

    process: RedisProcess
    raw: Any  # redis.Redis; its types say less than its documentation

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.process.url

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
    with redis_process(folder, settings) as process:
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
