"""Two processes beside one: of workers, and of routers that share a port.

A second process can only help while there is a core for it. Where slots are the limit (a handler
that waits) that is so on any machine. Flat out it takes four cores: worker, worker, Redis, and the
rest; on fewer the rate says what the machine allows, and `by CPU` what two cores of their own
would: twice what a task costs with one process, over what it costs with two.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from bench.figures import Metrics, Question, Round, ratio
from bench.rig.lab import Lab
from bench.rig.server import fresh
from bench.rig.services import drive, held_worker, router, site
from bench.rows.draining import ours
from bench.rows.model import Opened, Row
from bench.rows.submitting import through

_ENOUGH_CORES = 4
_SLOTS = 25  # of a process, 20 ms a task: 1,250/s at most
_CHANNELS = "8"  # the kernel deals connections out to the processes, not calls


@contextmanager
def _workers(lab: Lab) -> Opened:
    n = lab.sizes.drain
    few = n // 10
    paced = lab.filled("paced", ("--n", str(few + 1_000), "--name", "bench.paced"))
    plain = lab.filled("some", ("--n", str(n + 1_000)))
    yield {
        f"{count}, {how}": partial(
            ours, lab, snapshot, tasks, processes=processes, concurrency=slots
        )
        for processes, count in ((1, "one"), (2, "two"))
        for how, snapshot, tasks, slots in (
            ("waiting", paced, few, _SLOTS),
            ("flat out", plain, n, 128),
        )
    }


@contextmanager
def _routers(lab: Lab) -> Opened:
    def take(processes: int) -> Metrics:
        with _gate(lab, processes) as one:
            return one()

    yield {"one": partial(take, 1), "two": partial(take, 2)}


@contextmanager
def _gate(lab: Lab, processes: int) -> Generator[Callable[[], Metrics]]:
    with (
        fresh(lab.home) as server,
        router(place := site(lab.home, server), processes=processes) as gate,
        held_worker(place, gate),
    ):
        options = ("--outstanding", "64", "--channels", _CHANNELS, "--ledger", "request")
        drive(place, "unary", gate.address, "--n", "500", *options)
        yield partial(through, place, gate, "unary", "--n", str(lab.sizes.calls), *options)


def _by_cpu(metric: str, one_name: str, two_name: str) -> Callable[[Round], float]:
    return lambda one: 2 * one[one_name][metric] / one[two_name][metric]


def _where_cores_are_free() -> float | None:
    return 1.6 if (os.cpu_count() or 1) >= _ENOUGH_CORES else None


def _where_they_are_not() -> float | None:
    return None if _where_cores_are_free() else 1.6


WORKERS = Row(
    name="workers",
    title="Two worker processes beside one: handlers that wait 20 ms, and flat out",
    request_id="off",
    open=_workers,
    questions=(
        Question(
            "rate, two / one, waiting", ratio("per_s", "one, waiting", of="two, waiting"), ">=", 1.6
        ),
        Question(
            "rate, two / one, flat out",
            ratio("per_s", "one, flat out", of="two, flat out"),
            ">=",
            _where_cores_are_free(),
        ),
        Question(
            "two / one by CPU, flat out",
            _by_cpu("worker_s", "one, flat out", "two, flat out"),
            ">=",
            _where_they_are_not(),
        ),
    ),
)
ROUTERS = Row(
    name="routers",
    title="Two router processes on one port beside one: unary SubmitTask, 64 outstanding on 8 "
    "connections",
    request_id="on",
    open=_routers,
    questions=(
        Question("rate, two / one", ratio("per_s", "one", of="two"), ">=", _where_cores_are_free()),
        Question(
            "two / one by CPU", _by_cpu("router_s", "one", "two"), ">=", _where_they_are_not()
        ),
    ),
)
