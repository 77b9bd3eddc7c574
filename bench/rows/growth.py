"""Growth: the same drain with more behind it, beside it, in fewer partitions, of more regions."""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.figures import Question, Round, ratio
from bench.rig.lab import Lab
from bench.rig.server import fresh
from bench.rows.draining import ours
from bench.rows.model import Opened, Row
from bench.rows.submitting import bulk

_LITTLE = 1_000
_DAY_S = 86_400
PLAIN = "1,000 behind"
DEEP = "deep backlog"
DELAYED = "delayed beside"
ONE = "one partition"


def deep(lab: Lab) -> Path:
    """The snapshot with the deep backlog behind the tasks of a drain."""
    return lab.filled("deep", ("--n", str(lab.sizes.drain + lab.sizes.backlog)))


@contextmanager
def _growth(lab: Lab) -> Opened:
    n = lab.sizes.drain
    some = ("--n", str(n + _LITTLE))
    later = ("--n", str(n), "--delay", str(_DAY_S))
    snapshots = {
        PLAIN: lab.filled("some", some),
        DEEP: deep(lab),
        DELAYED: lab.filled("delayed", some, later),
        ONE: lab.filled("one", (*some, "--affinity", "one")),
    }
    yield {name: partial(ours, lab, path, n) for name, path in snapshots.items()}


GROWTH = Row(
    name="growth",
    title="Drain of the same tasks: with 1,000 more or a deep backlog behind them, as many delayed "
    "tasks beside them, or all in one of 64 partitions",
    request_id="off",
    open=_growth,
    questions=(
        Question("rate, deep backlog / 1,000 behind", ratio("per_s", PLAIN, of=DEEP), ">=", 0.85),
        Question("CPU, deep backlog / 1,000 behind", ratio("cpu_s", PLAIN, of=DEEP), "<="),
        Question("rate, delayed tasks beside / none", ratio("per_s", PLAIN, of=DELAYED), ">=", 0.9),
        Question("CPU, delayed tasks beside / none", ratio("cpu_s", PLAIN, of=DELAYED), "<="),
        Question("rate, in 64 partitions / in one", ratio("per_s", ONE, of=PLAIN), ">=", 0.8),
        Question("CPU, in 64 partitions / in one", ratio("cpu_s", ONE, of=PLAIN), "<="),
    ),
)


@contextmanager
def _regions(lab: Lab) -> Opened:
    n = lab.sizes.drain
    snapshot = lab.filled("some", ("--n", str(n + _LITTLE)))
    with ExitStack() as stack:
        others = [stack.enter_context(fresh(lab.home)) for _ in range(9)]
        yield {
            "2 regions, drain": partial(ours, lab, snapshot, n, others=others[:1]),
            "10 regions, drain": partial(ours, lab, snapshot, n, others=others),
            "2 regions, bulk": partial(bulk, lab, lab.sizes.bulk // 2, others=others[:1]),
            "10 regions, bulk": partial(bulk, lab, lab.sizes.bulk // 2, others=others),
        }


def _ten_over_two(metric: str, what: str) -> Callable[[Round], float]:
    return ratio(metric, f"2 regions, {what}", of=f"10 regions, {what}")


REGIONS = Row(
    name="regions",
    title="10 regions in the file beside 2, all their servers up, the others with weight 0",
    request_id="off",
    open=_regions,
    questions=(
        Question("drain rate, 10 / 2", _ten_over_two("per_s", "drain"), ">=", 0.9),
        Question("worker + Redis CPU, 10 / 2", _ten_over_two("cpu_s", "drain"), "<="),
        Question("bulk rate, 10 / 2", _ten_over_two("per_s", "bulk"), ">=", 0.9),
        Question("router CPU, 10 / 2", _ten_over_two("router_s", "bulk"), "<="),
    ),
)
