"""At rest and over time: what idle processes spend, and how a worker's memory grows."""

import time
from contextlib import contextmanager
from functools import partial

from bench.figures import Metrics, Question, only, slope
from bench.rig import records
from bench.rig.lab import Lab
from bench.rig.processes import MEGABYTE, Child, running
from bench.rig.server import Server, fresh, new_folder
from bench.rig.services import Router, recording, router, site, worker_argv
from bench.rows.draining import CONCURRENCY
from bench.rows.growth import deep
from bench.rows.model import Opened, Row

# Design section 3: 15 a second for a region and 4 for each worker.
_COMMANDS = 15 + 4
_POINTS = 20
_PATIENCE_S = 600.0


@contextmanager
def _idle(lab: Lab) -> Opened:
    with fresh(lab.home) as server, router(place := site(lab.home, server)) as gate:
        folder = new_folder(place.home, "records")
        argv = worker_argv(place, concurrency=10)
        with running("worker", argv, place.home, env=recording(folder, 1)) as worker:
            time.sleep(lab.sizes.settle_s)
            yield {"tradewind": partial(_watch, server, gate, worker, lab.sizes.idle_s)}


def _watch(server: Server, gate: Router, worker: Child, seconds: float) -> Metrics:
    """CPU share and commands a second. What scripts call is part of their command."""
    router_s, worker_s, redis_s = gate.child.cpu_s(), worker.cpu_s(), server.cpu_s()
    commands = 0
    began_s = time.monotonic()
    with server.raw.monitor() as monitor:
        while time.monotonic() < began_s + seconds:
            commands += monitor.next_command()["client_type"] != "lua"
    took_s = time.monotonic() - began_s
    router_share = (gate.child.cpu_s() - router_s) / took_s * 100
    worker_share = (worker.cpu_s() - worker_s) / took_s * 100
    return {
        "router_percent": router_share,
        "worker_percent": worker_share,
        "redis_percent": (server.cpu_s() - redis_s) / took_s * 100,
        "percent": router_share + worker_share,
        "commands_per_s": commands / took_s,
    }


IDLE = Row(
    name="idle",
    title="An idle router and an idle worker of one region",
    request_id="off",
    open=_idle,
    questions=(
        Question("router + worker, of a core", only("percent"), "<=", 1.0, unit="%"),
        Question("Redis commands a second", only("commands_per_s"), "<=", _COMMANDS, unit="/s"),
    ),
)


@contextmanager
def _lifetime(lab: Lab) -> Opened:
    snapshot = deep(lab)

    def take() -> Metrics:
        n = lab.sizes.lifetime
        with fresh(lab.home, snapshot=snapshot) as server:
            place = site(lab.home, server)
            folder = new_folder(place.home, "records")
            argv = worker_argv(place, concurrency=CONCURRENCY)
            env = recording(folder, n + 200_000)
            with running("worker", argv, place.home, env=env) as worker:
                points: list[tuple[float, float]] = []
                for part in range(1, _POINTS + 1):
                    wanted = n * part // _POINTS
                    worker.until(lambda at=wanted: records.count(folder) >= at, _PATIENCE_S)
                    done = records.count(folder)
                    # The pages of the records are mapped into the worker, and none of its own.
                    own_mb = worker.rss_mb() - done * records.SIZE / MEGABYTE
                    points.append((done / 1e6, own_mb))
        later = points[_POINTS // 2 :]
        return {
            "n": n,
            "rss_mb": points[-1][1],
            "slope_mb": slope(later),
            **{f"rss_mb_at_{round(at * 1e6)}": rss_mb for at, rss_mb in points},
        }

    yield {"tradewind": take}


LIFETIME = Row(
    name="lifetime",
    title="Resident memory of a worker process that has run 1,000,000 tasks",
    request_id="off",
    open=_lifetime,
    questions=(
        Question("resident at the end", only("rss_mb"), "<=", 70.0, unit="MB"),
        Question(
            "growth over the second half, a million tasks", only("slope_mb"), "<=", 3.0, unit="MB"
        ),
    ),
    repetitions=1,
)
