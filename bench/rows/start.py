"""Submit to start at light load: 50 a second, one region, beside an echo and the bare loop."""

import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.figures import Metrics, Question, Round, only, quantile
from bench.rig import records
from bench.rig.lab import Lab
from bench.rig.peers import FLOOR, Contender
from bench.rig.processes import Child, answer, running
from bench.rig.server import fresh, new_folder
from bench.rig.services import drive, recording, router, site, worker_argv
from bench.rows.echoing import echo_server
from bench.rows.model import Opened, Row, Take

RATE = 50
_CONCURRENCY = 10  # what a worker has by default
_WARM_UP = 30
_CAPACITY = 100_000
_PATIENCE_S = 60.0


@contextmanager
def _open(lab: Lab) -> Opened:
    n = round(lab.sizes.paced_s * RATE)
    with (
        fresh(lab.home) as server,
        router(place := site(lab.home, server)) as gate,
        echo_server(place.home) as (echo_at, _),
    ):
        folder = new_folder(place.home, "records")
        argv = worker_argv(place, concurrency=_CONCURRENCY)
        with running("worker", argv, place.home, env=recording(folder, _CAPACITY)) as worker:

            def paced(n: int) -> dict[str, float]:
                options = ("--n", str(n), "--rate", str(RATE), "--ledger", "request")
                return drive(place, "paced", gate.address, *options)

            def ours() -> Metrics:
                said = _starts(worker, folder, partial(paced, n), n)
                return {**said, "answer_p50_ms": said["client_p50_ms"]}

            _starts(worker, folder, partial(paced, _WARM_UP), _WARM_UP)
            takes: dict[str, Take] = {
                "tradewind": ours,
                "echo": lambda: drive(
                    place, "paced", echo_at, "--echo", "--n", str(n), "--rate", str(RATE)
                ),
                "floor": partial(_theirs, lab, FLOOR, n),
            }
            for name in ("proto", "sidekiq"):
                if name in lab.peers:
                    takes[name] = partial(_theirs, lab, lab.peers[name], n)
            yield takes


def _theirs(lab: Lab, peer: Contender, n: int) -> Metrics:
    with fresh(lab.home) as server:
        home = new_folder(lab.home, "paced")
        folder = new_folder(home, "records")
        env = {**peer.at(server.url), **recording(folder, _CAPACITY)}

        def produce(n: int) -> dict[str, float]:
            argv = peer.produce("paced", n, RATE)
            return answer("produce", argv, home, env=env, cwd=peer.cwd)

        with running("worker", peer.worker(), home, env=env, cwd=peer.cwd) as worker:
            _starts(worker, folder, partial(produce, _WARM_UP), _WARM_UP)
            return _starts(worker, folder, partial(produce, n), n)


def _starts(worker: Child, folder: Path, submit: Callable[[], dict[str, float]], n: int) -> Metrics:
    """From submit to start, ms, of the `n` tasks that `submit` submits."""
    before, began_s = records.count(folder), time.monotonic()
    said = submit()
    worker.until(lambda: records.count(folder) >= before + n, _PATIENCE_S)
    waits = [start - submitted for submitted, start in records.read(folder) if submitted > began_s]
    figures = {f"p{share}_ms": quantile(waits, share / 100) * 1000 for share in (50, 95, 99)}
    client = {f"client_{key}": value for key, value in said.items() if key.endswith("_ms")}
    return {"n": n, **figures, "max_ms": max(waits) * 1000, **client}


def _beside(queue: str) -> Callable[[Round], float]:
    """Our median over what an echo and a bare queue take together."""
    return lambda one: one["tradewind"]["p50_ms"] / (one["echo"]["p50_ms"] + one[queue]["p50_ms"])


START = Row(
    name="start",
    title="From submit to the handler's start, 50 a second, one region",
    request_id="on",
    open=_open,
    questions=(
        Question("p50 / (echo p50 + floor p50)", _beside("floor"), "<="),
        Question("p50 / (echo p50 + prototype p50)", _beside("proto"), "<=", 1.4),
        Question(
            "p99 / p50",
            lambda one: one["tradewind"]["p99_ms"] / one["tradewind"]["p50_ms"],
            "<=",
            4.0,
        ),
        Question("p50", only("p50_ms"), "<=", unit="ms"),
    ),
)
