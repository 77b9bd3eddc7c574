"""One worker and a queue that was filled before: how fast it empties, and what that costs."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Metrics
from bench.rig import records
from bench.rig.lab import Lab
from bench.rig.peers import Contender
from bench.rig.processes import ROOT, answer, running
from bench.rig.server import Fresh, Server, Store, fresh, new_folder
from bench.rig.services import recording, site, worker_argv

CONCURRENCY = 256

_FIRST_S = 60.0
_LIMIT_S = 300.0


def ours(
    lab: Lab,
    snapshot: Path,
    n: int,
    *,
    concurrency: int = CONCURRENCY,
    processes: int = 1,
    others: Sequence[Store] = (),
    on: Fresh[Store] = fresh,
) -> Metrics:
    """Drain `n` tasks of a snapshot with one worker pool, on a Redis of the snapshot's kind."""
    with on(lab.home, snapshot=snapshot) as store:
        place = site(lab.home, store, others)
        argv = worker_argv(place, concurrency=concurrency, processes=processes)
        return drain(place.home, store, argv, n, processes=processes)


def theirs(lab: Lab, peer: Contender, n: int) -> Metrics:
    """The same for another queue, which fills itself once."""
    n = min(n, peer.most or n)

    def fill(server: Server) -> None:
        env = {**peer.at(server.url), **recording(lab.home, 1)}
        answer(f"fill-{peer.name}", peer.produce("bulk", n), lab.home, env=env, cwd=peer.cwd)

    snapshot = lab.snapshot(f"{peer.name}-{n}", fresh, fill)
    with fresh(lab.home, snapshot=snapshot) as server:
        home = new_folder(lab.home, "peer")
        return drain(home, server, peer.worker(), n, env=peer.at(server.url), cwd=peer.cwd)


def drain(
    home: Path,
    store: Store,
    argv: Sequence[str],
    n: int,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    processes: int = 1,
) -> Metrics:
    """Run a worker until `n` tasks have started: their rate, and CPU seconds per 1,000 tasks.

    The rate is from the first start to the n-th; the CPU is of the part between the first look
    that sees a start and the one that sees the n-th. With several processes the first is the one
    by which each has begun, since a process that is still loading its modules is no help.
    """
    folder = new_folder(home, "records")
    given = {**(env or {}), **recording(folder, n + 10_000)}
    with running("worker", argv, home, env=given, cwd=cwd) as child:
        child.until(
            lambda: records.writers(folder) >= processes or records.count(folder) >= n, _FIRST_S
        )
        began_s = time.monotonic() if processes > 1 else 0.0
        seen, worker_s, redis_s = records.count(folder), child.cpu_s(), store.cpu_s()
        child.until(lambda: records.count(folder) >= n, _LIMIT_S)
        seen = records.count(folder) - seen
        worker_s, redis_s = child.cpu_s() - worker_s, store.cpu_s() - redis_s
        rss_mb = child.rss_mb()
    starts = [started_s for _, started_s in records.read(folder)][:n]
    starts = [started_s for started_s in starts if started_s >= began_s] or starts
    thousands = max(seen, 1) / 1000
    return {
        "n": n,
        "per_s": (len(starts) - 1) / (starts[-1] - starts[0]),
        "worker_s": worker_s / thousands,
        "redis_s": redis_s / thousands,
        "cpu_s": (worker_s + redis_s) / thousands,
        "rss_mb": rss_mb,
    }
