"""Where the time of a task goes: `python -m bench.stages worker|router [--n N]`.

Runs a drain, or a bulk submit, twice: as it is, for what a task costs, and with the worker, or the
router, under the profiler of the standard library, on CPU time, for the share of each part of the
code. C functions count for whoever calls them. The profiler makes small functions look dearer than
they are; the sum is the one of the run without it.
"""

import argparse
import cProfile
import importlib
import pstats
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.drive import TEXT
from bench.figures import Metrics
from bench.rig import records
from bench.rig.lab import QUICK, Lab
from bench.rig.processes import BenchError, running
from bench.rig.server import Server, fresh, new_folder
from bench.rig.services import drive, held_worker, recording, router, site, worker_argv
from bench.rows.draining import CONCURRENCY, drain
from bench.rows.submitting import through

#: Parts of the code by a piece of their files' paths; the first that fits.
PARTS = (
    ("handler", "bench/"),
    ("store client", "tradewind/store/"),
    ("codec", "tradewind/codec"),
    ("arguments, results", "tradewind/handlers/"),
    ("attempt, settle", "tradewind/attempts/"),
    ("fingerprint, ids", ("tradewind/fingerprint", "tradewind/ids")),
    ("admission", ("tradewind/admission", "tradewind/wire", "tradewind/view")),
    ("policy", "tradewind/policy/"),
    ("metrics", ("tradewind/metrics", "prometheus_client/")),
    ("worker", "/worker/"),
    ("router", "/router/"),
    ("rest of tradewind", "tradewind/"),
    ("gRPC", "grpc/"),
    ("protobuf", ("google/", "_pb2")),
    ("redis-py, hiredis", ("/redis/", "hiredis")),
    # uvloop is C that the profiler does not see: its time falls to the function that entered it.
    ("event loop, sockets", "asyncio/runners"),
    ("asyncio", ("asyncio/", "_weakrefset")),
)
_OTHER = "other, standard library"
_SHARE = 0.01  # less than this is not worth a line
_READY_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; or be the profiled process."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--run"]:
        return _run(Path(arguments[1]), arguments[2], arguments[3:])
    parser = argparse.ArgumentParser(
        prog="python -m bench.stages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("side", choices=("worker", "router"))
    parser.add_argument("--n", type=int, default=50_000, help="tasks (default: 50000)")
    given = parser.parse_args(arguments)
    measure = _worker if given.side == "worker" else _router
    with tempfile.TemporaryDirectory(prefix="tradewind-bench-") as folder:
        plain, shares, redis = measure(Path(folder), given.n)
    total_us = plain[f"{given.side}_s"] * 1000
    print(
        f"{given.side}: {total_us:.1f} us of CPU a task, {given.n} tasks, payload {len(TEXT)} bytes"
    )
    for name, share in sorted(shares.items(), key=lambda pair: -pair[1]):
        if share >= _SHARE:
            print(f"  {share * total_us:6.1f} us  {share:4.0%}  {name}")
    print(
        f"Redis: {plain['redis_s'] * 1000:.1f} us of CPU a task. By command (INFO commandstats: "
        "wall time, of a worker in the profiled run; what a script calls counts once more by name):"
    )
    for name, (calls, micros) in sorted(redis.items(), key=lambda pair: -pair[1][1]):
        if micros >= 0.05:
            print(f"  {micros:6.2f} us  {calls:6.2f} calls a task  {name}")
    return 0


def by_part(stats: Mapping[Any, Any]) -> dict[str, float]:
    """Shares of the time, from what `pstats.Stats.stats` holds."""
    spent: defaultdict[str, float] = defaultdict(float)
    for (path, _, _), (_, _, own_s, _, callers) in stats.items():
        if path != "~":
            spent[_part(path)] += own_s
        else:
            for (caller, _, _), (_, _, of_it_s, _) in callers.items():
                spent[_OTHER if caller == "~" else _part(caller)] += of_it_s
    total = sum(spent.values())
    return {name: value / total for name, value in spent.items()}


def _part(path: str) -> str:
    for name, pieces in PARTS:
        if any(piece in path for piece in ((pieces,) if isinstance(pieces, str) else pieces)):
            return name
    return _OTHER


def _worker(home: Path, n: int) -> tuple[Metrics, dict[str, float], dict[str, tuple[float, float]]]:
    lab = Lab(home, QUICK, {})
    # More than are run: a queue that ends leaves the last claims short.
    snapshot = lab.filled("stages", ("--n", str(n + 5_000)))
    with fresh(home, snapshot=snapshot) as server:
        place = site(home, server)
        plain = drain(place.home, server, worker_argv(place, concurrency=CONCURRENCY), n)
    with fresh(home, snapshot=snapshot) as server:
        place = site(home, server)
        folder, profile = new_folder(place.home, "records"), place.home / "profile"
        argv = _profiled(worker_argv(place, concurrency=CONCURRENCY), profile)
        with running("worker", argv, place.home, env=recording(folder, n + 20_000)) as child:
            child.until(lambda: records.count(folder) > 0, _READY_S)
            server.raw.config_resetstat()
            child.until(lambda: records.count(folder) >= n, 10 * _READY_S)
            redis = _commands(server, records.count(folder))
        return plain, _shares(profile), redis


def _router(home: Path, n: int) -> tuple[Metrics, dict[str, float], dict[str, tuple[float, float]]]:
    with fresh(home) as server:
        place = site(home, server)
        with router(place) as gate, held_worker(place, gate):
            drive(place, "bulk", gate.address, "--n", "1000")
            server.raw.config_resetstat()
            plain = through(place, gate, "bulk", "--n", str(n))
            redis = _commands(server, n)
    with fresh(home) as server:
        place = site(home, server)
        profile = place.home / "profile"
        with (
            router(place, wrap=lambda argv: _profiled(argv, profile)) as gate,
            held_worker(place, gate),
        ):
            drive(place, "bulk", gate.address, "--n", str(n))
        return plain, _shares(profile), redis


def _profiled(argv: Sequence[str], profile: Path) -> list[str]:
    """The same command, `python -m MODULE ...`, under the profiler."""
    program, _, module, *options = argv
    return [program, "-m", "bench.stages", "--run", str(profile), module, *options]


def _run(profile: Path, module: str, options: Sequence[str]) -> int:
    profiler = cProfile.Profile(time.process_time)
    entry = importlib.import_module(f"{module}.__main__").main
    try:
        return profiler.runcall(entry, options)
    finally:
        profiler.dump_stats(profile)


def _shares(profile: Path) -> dict[str, float]:
    if not profile.is_file():
        raise BenchError(f"the profiled process left no {profile}")
    stats: Any = pstats.Stats(str(profile))
    return by_part(stats.stats)


def _commands(server: Server, n: int) -> dict[str, tuple[float, float]]:
    """Calls and microseconds a task, by command."""
    return {
        name.removeprefix("cmdstat_"): (one["calls"] / n, one["usec"] / n)
        for name, one in server.raw.info("commandstats").items()
    }


if __name__ == "__main__":
    sys.exit(main())
