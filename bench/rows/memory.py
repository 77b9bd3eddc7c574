"""Bytes of Redis memory that a pending task takes, and its ledger entry.

Ours is measured with the listpack limit that docs and embedded regions set, others with Redis's
default, as their users run it, and with ours.
"""

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from bench.drive import TEXT
from bench.figures import Metrics, Question, Round, only, ratio
from bench.rig.lab import Lab
from bench.rig.peers import Contender
from bench.rig.processes import answer
from bench.rig.server import SETTINGS, fresh
from bench.rig.services import drive, recording, router, site
from bench.rows.model import Opened, Row, Take
from tradewind.local.redis_server import SERVER_VARIABLE, find_server

# {"text":"...","at":0.0} around the text, so that a payload has 200 bytes.
_ROUND_TEXT = len(TEXT) - len('{"text":"","at":0.0}')
_WARM_UP = 2_000  # scripts are loaded, buffers have grown
_SMALL_LISTPACKS = ("--hash-max-listpack-value", "64")  # Redis's default


@contextmanager
def _open(lab: Lab) -> Opened:
    exact = ("--text", str(_ROUND_TEXT))
    takes: dict[str, Take] = {
        "tradewind": partial(_ours, lab, *exact),
        "idempotency key": partial(_ours, lab, *exact, "--ledger", "key"),
        "request_id": partial(_ours, lab, *exact, "--ledger", "request"),
        "payload as the peers'": partial(_ours, lab),
        "default listpack limit": partial(_ours, lab, *exact, settings=_SMALL_LISTPACKS),
    }
    if old := _other_server():
        takes["tradewind, Redis of PATH"] = partial(_on, old, lab, *exact)
    for name, peer in lab.peers.items():
        if name in {"bullmq", "sidekiq"}:
            takes[name] = partial(_theirs, lab, peer, _SMALL_LISTPACKS)
            takes[f"{name}, our listpack limit"] = partial(_theirs, lab, peer, ())
    yield takes


def _ours(lab: Lab, *options: str, settings: tuple[str, ...] = ()) -> Metrics:
    n = lab.sizes.memory
    with fresh(lab.home, settings=(*SETTINGS, *settings)) as server:
        place = site(lab.home, server)
        with router(place) as gate:
            drive(place, "bulk", gate.address, "--n", str(_WARM_UP), *options)
            before = server.memory()
            drive(place, "bulk", gate.address, "--n", str(n), *options)
            return {"n": n, "bytes": (server.memory() - before) / n}


def _theirs(lab: Lab, peer: Contender, settings: tuple[str, ...]) -> Metrics:
    n = lab.sizes.memory
    with fresh(lab.home, settings=(*SETTINGS, *settings)) as server:
        env = {**peer.at(server.url), **recording(lab.home, 1)}

        def fill(n: int) -> None:
            answer(f"memory-{peer.name}", peer.produce("bulk", n), lab.home, env=env, cwd=peer.cwd)

        fill(_WARM_UP)
        before = server.memory()
        fill(n)
        return {"n": n, "bytes": (server.memory() - before) / n}


def _on(server: str, lab: Lab, *options: str) -> Metrics:
    with _server(server):
        return _ours(lab, *options)


@contextmanager
def _server(path: str) -> Generator[None]:
    """Start this redis-server instead of the one that is found first."""
    before = os.environ.get(SERVER_VARIABLE)
    os.environ[SERVER_VARIABLE] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ[SERVER_VARIABLE]
        else:
            os.environ[SERVER_VARIABLE] = before


def _other_server() -> str | None:
    """The redis-server on PATH, if it is another one."""
    path = shutil.which("redis-server")
    if path is None:
        return None
    used = find_server().version
    with _server(path):
        return path if find_server().version != used else None


def _entry(kind: str) -> Callable[[Round], float]:
    return lambda one: one[kind]["bytes"] - one["tradewind"]["bytes"]


MEMORY = Row(
    name="memory",
    title="Redis memory of a pending task with a 200-byte payload",
    request_id="off, where not said otherwise",
    open=_open,
    questions=(
        Question("a task without a ledger entry", only("bytes"), "<=", 420, 343, unit="bytes"),
        Question(
            "task / BullMQ's, the same payload",
            ratio("bytes", "bullmq", of="payload as the peers'"),
            "<=",
            0.5,
        ),
        Question(
            "task / BullMQ's, its listpack limit raised as ours",
            ratio("bytes", "bullmq, our listpack limit", of="payload as the peers'"),
            "<=",
        ),
        Question(
            "task / Sidekiq's, the same payload",
            ratio("bytes", "sidekiq", of="payload as the peers'"),
            "<=",
        ),
        Question("its entry for an idempotency key", _entry("idempotency key"), "<=", unit="bytes"),
        Question("its entry for a request_id", _entry("request_id"), "<=", unit="bytes"),
        Question(
            "a task, Redis of PATH", only("bytes", "tradewind, Redis of PATH"), "<=", unit="bytes"
        ),
        Question(
            "a task, hash-max-listpack-value 64",
            only("bytes", "default listpack limit"),
            "<=",
            unit="bytes",
        ),
    ),
    repetitions=3,
)
