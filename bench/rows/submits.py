"""Submits: in bulk, one by one beside a bare echo, and by the SDK's coalescing calls."""

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial

from bench.figures import Question, Round, ratio
from bench.rig.lab import Lab
from bench.rig.peers import FLOOR
from bench.rig.server import fresh
from bench.rig.services import drive, held_worker, router, site
from bench.rows.echoing import echo_server
from bench.rows.model import Opened, Row, Take
from bench.rows.submitting import bulk, direct, metered, through


@contextmanager
def _bulk(lab: Lab) -> Opened:
    n = lab.sizes.bulk
    takes: dict[str, Take] = {
        "tradewind": partial(bulk, lab, n),
        "tradewind, request_id": partial(bulk, lab, n, "--ledger", "request"),
        "floor": partial(direct, lab, FLOOR, n),
    }
    takes |= {name: partial(direct, lab, peer, n) for name, peer in lab.peers.items()}
    yield takes


def _best_python(one: Round) -> float:
    return max(one[name]["per_s"] for name in ("dramatiq", "streaq") if name in one)


def _over_best_python(one: Round) -> float:
    if not {"dramatiq", "streaq"} & one.keys():
        raise KeyError("no Python peer ran")
    return one["tradewind"]["per_s"] / _best_python(one)


BULK = Row(
    name="bulk",
    title="SubmitTasks of 100, 4 outstanding, through one router process; others straight to Redis",
    request_id="off and on",
    open=_bulk,
    questions=(
        Question("rate / floor", ratio("per_s", "floor"), ">="),
        Question("rate / prototype", ratio("per_s", "proto"), ">=", 0.6),
        Question("rate / BullMQ", ratio("per_s", "bullmq"), ">=", 1.3),
        Question("rate / Sidekiq", ratio("per_s", "sidekiq"), ">="),
        Question("rate / best Python peer", _over_best_python, ">=", 3.0),
        Question(
            "rate, with request_id / without",
            ratio("per_s", "tradewind", of="tradewind, request_id"),
            ">=",
        ),
    ),
)


@contextmanager
def _unary(lab: Lab) -> Opened:
    with (
        fresh(lab.home) as server,
        router(place := site(lab.home, server)) as gate,
        held_worker(place, gate),
        echo_server(place.home) as (echo_at, echo),
    ):
        options = ("--n", str(lab.sizes.calls), "--outstanding", "64")

        def bare(*more: str) -> dict[str, float]:
            return drive(place, "unary", echo_at, *options, "--echo", *more)

        drive(place, "unary", gate.address, "--n", "500", "--outstanding", "64")
        yield {
            "tradewind": partial(through, place, gate, "unary", *options),
            "tradewind, request_id": partial(
                through, place, gate, "unary", *options, "--ledger", "request"
            ),
            "echo": lambda: metered(bare, None, echo),
            "echo, request_id": lambda: metered(lambda: bare("--ledger", "request"), None, echo),
        }


def _beside_echo(metric: str, suffix: str = "") -> Callable[[Round], float]:
    return ratio(metric, f"echo{suffix}", of=f"tradewind{suffix}")


UNARY = Row(
    name="unary",
    title="SubmitTask, 64 outstanding, beside a bare gRPC echo of the same messages",
    request_id="off and on",
    open=_unary,
    questions=(
        Question("rate / echo", _beside_echo("per_s"), ">=", 0.65),
        Question("router CPU / echo's", _beside_echo("router_s"), "<=", 1.7),
        Question("rate / echo, with request_id", _beside_echo("per_s", ", request_id"), ">=", 0.65),
        Question(
            "router CPU / echo's, with request_id",
            _beside_echo("router_s", ", request_id"),
            "<=",
            1.7,
        ),
    ),
)


@contextmanager
def _client(lab: Lab) -> Opened:
    with (
        fresh(lab.home) as server,
        router(place := site(lab.home, server)) as gate,
        held_worker(place, gate),
    ):
        drive(place, "unary", gate.address, "--n", "500", "--outstanding", "64")
        unary = ("--n", str(lab.sizes.calls), "--outstanding", "64", "--ledger", "request")
        many = ("--n", str(lab.sizes.submits), "--outstanding", "100")
        yield {
            "tradewind": partial(through, place, gate, "submits", *many),
            "unary": partial(through, place, gate, "unary", *unary),
        }


CLIENT = Row(
    name="client",
    title="100 concurrent Client.submit() of one client, beside unary SubmitTask, 64 outstanding",
    request_id="on",
    open=_client,
    questions=(Question("rate / unary", ratio("per_s", "unary"), ">=", 5.0),),
)
