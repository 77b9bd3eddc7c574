"""Drain: one worker process, full semantics, beside the bare loop and the other queues."""

from contextlib import contextmanager
from functools import partial

from bench.figures import Question, ratio
from bench.rig.lab import Lab
from bench.rig.peers import FLOOR
from bench.rows.draining import ours, theirs
from bench.rows.model import Opened, Row, Take


@contextmanager
def _open(lab: Lab) -> Opened:
    n = lab.sizes.drain
    keyed = lab.filled("keyed", ("--n", str(n), "--ledger", "key"))
    plain = lab.filled("plain", ("--n", str(n)))
    takes: dict[str, Take] = {
        "tradewind": partial(ours, lab, keyed, n),
        "tradewind, no key": partial(ours, lab, plain, n),
        "floor": partial(theirs, lab, FLOOR, n),
    }
    for name, peer in lab.peers.items():
        if name != "streaq":  # it drains at a quarter of dramatiq's rate (peers' harness)
            takes[name] = partial(theirs, lab, peer, n)
    yield takes


DRAIN = Row(
    name="drain",
    title="Drain by one worker process: lease, token, time limit, fingerprint, result, retention",
    request_id="off; an idempotency key each, where not said otherwise",
    open=_open,
    questions=(
        Question("rate / floor", ratio("per_s", "floor"), ">="),
        Question("rate / prototype", ratio("per_s", "proto"), ">=", 0.7),
        Question("rate / BullMQ", ratio("per_s", "bullmq"), ">=", 1.3, 2.0),
        Question("rate / Sidekiq", ratio("per_s", "sidekiq"), ">="),
        Question("rate / dramatiq", ratio("per_s", "dramatiq"), ">=", 8.0),
        Question("worker + Redis CPU / floor", ratio("cpu_s", "floor"), "<="),
        Question("worker + Redis CPU / prototype", ratio("cpu_s", "proto"), "<=", 1.4),
        Question("worker + Redis CPU / BullMQ", ratio("cpu_s", "bullmq"), "<=", 0.6, 0.4),
        Question("worker + Redis CPU / Sidekiq", ratio("cpu_s", "sidekiq"), "<="),
        Question("worker + Redis CPU / dramatiq", ratio("cpu_s", "dramatiq"), "<=", 0.15),
        Question(
            "rate, without a key / prototype",
            ratio("per_s", "proto", of="tradewind, no key"),
            ">=",
            0.7,
        ),
        Question(
            "worker + Redis CPU, without a key / prototype",
            ratio("cpu_s", "proto", of="tradewind, no key"),
            "<=",
            1.4,
        ),
        Question("rate, keyed / without a key", ratio("per_s", "tradewind, no key"), ">="),
    ),
)
