"""A Cluster of three primaries beside one standalone server, on the same cores.

One and the same region otherwise: 64 partitions, one router process or one worker process with as
many slots, nothing kept on disk. Three servers share the cores that one has for itself (on two
cores they compete with the router or the worker), so this is what a Cluster costs where it cannot
help. What it is for, the cores and the memory of three machines, is not measured here.
"""

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial

from bench.figures import Question, Round, ratio
from bench.rig.cluster import fresh_cluster
from bench.rig.lab import Lab
from bench.rig.server import Fresh, Store, fresh
from bench.rows.draining import ours
from bench.rows.model import Opened, Row, Take
from bench.rows.submitting import bulk

_ONE, _THREE = "standalone", "Cluster"
_DRAIN, _BULK, _REQUESTS = "drain", "bulk", "bulk, request_id"
_SHARE = 0.6


@contextmanager
def _open(lab: Lab) -> Opened:
    takes: dict[str, Take] = {}
    kinds: dict[str, Fresh[Store]] = {_ONE: fresh, _THREE: fresh_cluster}
    n = lab.sizes.drain
    snapshots = {
        _ONE: lab.filled("keyed", ("--n", str(n), "--ledger", "key")),
        _THREE: lab.filled("keyed-cluster", ("--n", str(n), "--ledger", "key"), on=fresh_cluster),
    }
    for name, on in kinds.items():
        takes[f"{name}, {_DRAIN}"] = partial(ours, lab, snapshots[name], n, on=on)
    for what, options in ((_BULK, ()), (_REQUESTS, ("--ledger", "request"))):
        for name, on in kinds.items():
            takes[f"{name}, {what}"] = partial(bulk, lab, lab.sizes.bulk, *options, on=on)
    yield takes


def _three_over_one(metric: str, what: str) -> Callable[[Round], float]:
    return ratio(metric, f"{_ONE}, {what}", of=f"{_THREE}, {what}")


CLUSTER = Row(
    name="cluster",
    title="A Cluster of three primaries beside one standalone server, on the same cores: drain "
    "and SubmitTasks as in the rows `drain` and `bulk`",
    request_id="off, and on; in the drain an idempotency key each",
    open=_open,
    questions=(
        Question(
            "drain rate, Cluster / standalone", _three_over_one("per_s", _DRAIN), ">=", _SHARE
        ),
        Question(
            "drain worker + Redis CPU, Cluster / standalone",
            _three_over_one("cpu_s", _DRAIN),
            "<=",
        ),
        Question("bulk rate, Cluster / standalone", _three_over_one("per_s", _BULK), ">=", _SHARE),
        Question("bulk router CPU, Cluster / standalone", _three_over_one("router_s", _BULK), "<="),
        Question(
            "bulk rate with request_id, Cluster / standalone",
            _three_over_one("per_s", _REQUESTS),
            ">=",
            _SHARE,
        ),
        Question(
            "bulk router CPU with request_id, Cluster / standalone",
            _three_over_one("router_s", _REQUESTS),
            "<=",
        ),
    ),
)
