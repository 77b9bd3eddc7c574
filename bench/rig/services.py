"""Router and worker as users start them, on a region file written for the measurement."""

import contextlib
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.rig import records
from bench.rig.processes import ROOT, Child, answer, module, running
from bench.rig.server import Store, new_folder

REGION = "here"
APP = str(ROOT / "bench" / "handlers.py") + ":app"
READY_S = 60.0

_READY = re.compile(rb"ready grpc=(\S+) http=(\S+)")
_PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class Router:
    """A router that serves; all its processes are one child."""

    address: str
    http: str
    child: Child


@dataclass(frozen=True, slots=True)
class Site:
    """One region's Redis and file. Everything of it lives in `home`."""

    home: Path
    store: Store
    config: Path


def site(home: Path, store: Store, others: Sequence[Store] = ()) -> Site:
    """Write the region file: ours takes everything, `others` only what it cannot run.

    No limit turns work away: a measurement fills regions beyond what is sensible.
    """
    folder = new_folder(home, "site")
    limits = "limits: {max_backlog: 100000000, max_wait: 720h}"
    lines = [f"  {REGION}: {{redis: {store.address}, residency: [one], {limits}}}"]
    for number, other in enumerate(others):
        lines.append(
            f"  there-{number}: {{redis: {other.address}, residency: [one], weight: 0, {limits}}}"
        )
    config = folder / "regions.yaml"
    text = ["version: 1", f"partitions: {_PARTITIONS}", "regions:", *lines]
    config.write_text("\n".join(text) + "\n")
    return Site(folder, store, config)


@contextlib.contextmanager
def router(
    place: Site, *, processes: int = 1, wrap: Callable[[list[str]], list[str]] = list
) -> Generator[Router]:
    """Run a router while the block runs; it is ready when the block begins.

    `wrap` may change its command.
    """
    options = ["--config", str(place.config), "--region", REGION, "--listen", "127.0.0.1:0"]
    options += ["--http", "127.0.0.1:0", "--processes", str(processes)]
    with running("router", wrap(module("router", *options)), place.home) as child:
        child.until(lambda: _READY.search(child.log.read_bytes()) is not None, READY_S)
        said = _READY.search(child.log.read_bytes())
        assert said is not None  # noqa: S101 - waited for above
        address, http = said[1].decode(), said[2].decode()
        child.until(lambda: _is_ready(http), READY_S)
        yield Router(address, http, child)


def worker_argv(place: Site, *, concurrency: int, processes: int = 1) -> list[str]:
    """The command line of a worker pool."""
    options = ["--config", str(place.config), "--region", REGION, "--app", APP]
    return module(
        "worker", *options, "--concurrency", str(concurrency), "--processes", str(processes)
    )


def recording(folder: Path, capacity: int) -> Mapping[str, str]:
    """The environment of a process whose handlers leave records."""
    return {records.FOLDER_VARIABLE: str(folder), records.CAPACITY_VARIABLE: str(capacity)}


@contextlib.contextmanager
def held_worker(place: Site, gate: Router) -> Generator[Child]:
    """A live worker that takes nothing: its only slot is held.

    So the router routes as it does where workers live, and no worker takes CPU time from it.
    """
    folder = new_folder(place.home, "records")
    argv = [*worker_argv(place, concurrency=1), "--grace", "0"]
    with running("held", argv, place.home, env=recording(folder, 8)) as child:
        drive(place, "bulk", gate.address, "--n", "1", "--name", "bench.hold")
        child.until(lambda: records.count(folder) == 1, READY_S)
        yield child


def drive(place: Site, mode: str, address: str, *options: str) -> dict[str, float]:
    """Run a client process (bench/drive.py) and return what it measured."""
    return answer("drive", module("bench.drive", mode, "--at", address, *options), place.home)


def _is_ready(http: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{http}/readyz", timeout=2) as reply:
            return reply.status == 200
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
