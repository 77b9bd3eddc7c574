"""Every metric of Tradewind, in one file; docs/metrics.md is the same list for people.

Labels come from closed sets: regions, queues and rules from regions.yaml, the rest from the sets
named below. A queue that the file does not name is `other` (see `queue_label`), so nothing that a
caller sends makes a new series, and no id, tenant or error text is ever a label.
"""

import math
import os
from bisect import bisect_left
from collections import Counter as Counter_
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from tradewind.fleet import Fleet

_GONE: Final = -math.inf  # the value of a series that is no more; of several, any other one wins
# The library's own switch, read when a metric is made: values lie in files that processes share.
_SHARED: Final = "PROMETHEUS_MULTIPROC_DIR" in os.environ


class _Registry(CollectorRegistry):
    """Leaves out what was forgotten, and the `_created` series: a third more to scrape.

    `disable_created_metrics` of the library would take them from the metrics of the user's app too.
    """

    def collect(self) -> Iterator[Metric]:
        """As the base, without them."""
        for family in super().collect():
            family.samples = [
                sample
                for sample in family.samples
                if sample.value != _GONE and not sample.name.endswith("_created")
            ]
            yield family


class _Value(Protocol):
    """A number that the library keeps, here or in a file that several processes share."""

    def inc(self, amount: float) -> None:
        """Add to it."""
        ...


class Distribution(Histogram):
    """A histogram without labels that takes many values at once: one addition a bucket."""

    _buckets: list["_Value"]
    _sum: "_Value"
    _upper_bounds: list[float]

    def observe_all(self, values: Sequence[float]) -> None:
        """As `observe` of each, which would cost as much as a tenth of a task's whole way."""
        places = Counter_(map(partial(bisect_left, self._upper_bounds), values))
        for place, number in places.items():
            self._buckets[place].inc(number)
        self._sum.inc(sum(values))


REGISTRY: Final = _Registry()
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"

# Closed label sets. A value outside its set is a bug in the caller.
SUBMIT_OUTCOMES: Final = ("accepted", "duplicate", "rejected", "full", "unavailable", "unknown")
ROUTING_REFUSALS: Final = ("no-region-permitted", "no-region-reachable", "regions-full")
PROCESS_OUTCOMES: Final = (
    "completed",
    "retried",
    "dead",
    "released",
    "cancelled",
    "expired",
    "refused",
)
FAILURE_KINDS: Final = (
    "error",
    "timeout",
    "rejected",
    "worker-lost",
    "result-too-large",
    "damaged",
)
MOVE_OUTCOMES: Final = ("moved", "aborted")
REPAIRS: Final = (
    *("record", "ticket", "lease", "due", "expiry", "dead", "outbox", "hook", "move", "import"),
    "count",
)  # what the reconcile sweep puts in order
NOTICE_OUTCOMES: Final = ("sent", "retried", "gone", "given_up", "withheld", "dropped")
SLOT_KINDS: Final = ("busy", "free")
REGION_STATES: Final = ("healthy", "degraded", "down", "half-open", "recovering", "unknown")
ORDERED_STATES: Final = ("active", "cordoned", "draining")
PRIORITIES: Final = ("high", "normal", "low")

# From the 2 ms that pick-up takes when idle to the longest usual wait.
_CALL_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_DELAY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
_TASK_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)

ProcessCollector(registry=REGISTRY)

TASKS_SUBMITTED = Counter(
    "tradewind_tasks_submitted_total",
    "Submits answered by a router, by outcome.",
    ["region", "queue", "outcome"],
    registry=REGISTRY,
)
TASKS_UNCONFIRMED = Counter(
    "tradewind_tasks_unconfirmed_total",
    "Tasks accepted, of which it was not confirmed in time that they are as durable as asked.",
    ["region", "queue"],
    registry=REGISTRY,
)
TASKS_PROCESSED = Counter(
    "tradewind_tasks_processed_total",
    "Attempts settled by a worker; `refused`: a newer token held the task, nothing changed.",
    ["region", "queue", "outcome"],
    registry=REGISTRY,
)
TASKS_FAILED = Counter(
    "tradewind_tasks_failed_total",
    "Attempts that ended badly, by kind.",
    ["region", "queue", "kind"],
    registry=REGISTRY,
)
TASK_QUEUE_LENGTH = Gauge(
    "tradewind_task_queue_length",
    "Ready tasks that wait, by priority.",
    ["region", "queue", "priority"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
OLDEST_TASK_AGE_SECONDS = Gauge(
    "tradewind_oldest_task_age_seconds",
    "For how long the longest waiting task could have started; 0 if none could.",
    ["region", "queue", "priority"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
EXPECTED_WAIT_SECONDS = Gauge(
    "tradewind_expected_wait_seconds",
    "How long a task submitted now would wait before it starts.",
    ["region", "queue"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
DEAD_TASKS = Gauge(
    "tradewind_dead_tasks",
    "Dead-lettered tasks in the region.",
    ["region", "queue"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
RECONCILED = Counter(
    "tradewind_reconciled_total",
    "Places that did not say what a task's record says, put in order by the reconcile sweep.",
    ["region", "kind"],
    registry=REGISTRY,
)
NOTICES = Counter(
    "tradewind_notices_total",
    "Tries to pass word of a dead task on to its queue's on_dead, by outcome.",
    ["region", "queue", "outcome"],
    registry=REGISTRY,
)
MOVES = Counter(
    "tradewind_moves_total",
    "Moves between regions that ended, by the reason they began and how they ended.",
    ["source", "target", "reason", "outcome"],
    registry=REGISTRY,
)
ROUTING_DECISIONS = Counter(
    "tradewind_routing_decisions_total",
    "Routing decisions, by chosen region and by what decided, or why there was none.",
    ["region", "rule"],
    registry=REGISTRY,
)
REGION_STATE = Gauge(
    "tradewind_region_state",
    "1 for the state in which this router sees the region, 0 for the others.",
    ["region", "state"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
REGION_DURABILITY = Gauge(
    "tradewind_region_durability",
    "1 if the region's Redis can keep tasks so durably, 0 if such tasks are not routed there.",
    ["region", "durability"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
REGION_ORDER = Gauge(
    "tradewind_region_order",
    "1 for what operators allow the region to do, 0 for the others.",
    ["region", "state"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
PAUSED_QUEUES = Gauge(
    "tradewind_paused_queues",
    "Queues of which operators let nothing start.",
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
CONTROL_EPOCH = Gauge(
    "tradewind_control_epoch",
    "Epoch of the region states and pauses that this process acts on; grows with every change.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
REGION_WORKERS = Gauge(
    "tradewind_region_workers",
    "Live worker processes of the region, as this router last read; 0: nobody works there.",
    ["region"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
REGION_FULL = Gauge(
    "tradewind_region_full",
    "1 while the region's Redis is full: it refuses new work and goes on with what it has.",
    ["region"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
REGION_MEMORY = Gauge(
    "tradewind_region_memory_ratio",
    "Memory that the region's fullest primary uses, of its maxmemory; 0 without a limit.",
    ["region"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
REGION_RTT_SECONDS = Gauge(
    "tradewind_region_rtt_seconds",
    "Round trip from this process to the region's Redis.",
    ["region"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
WORKER_SLOTS = Gauge(
    "tradewind_worker_slots",
    "Tasks that this worker can run at the same time: busy and free.",
    ["region", "kind"],
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
SUBMIT_SECONDS = Distribution(
    "tradewind_submit_seconds",
    "From the arrival of a submit to its answer.",
    registry=REGISTRY,
    buckets=_CALL_BUCKETS,
)
START_DELAY_SECONDS = Distribution(
    "tradewind_start_delay_seconds",
    "From the moment a task could start to its claim, by the store's clock.",
    registry=REGISTRY,
    buckets=_DELAY_BUCKETS,
)
TASK_SECONDS = Distribution(
    "tradewind_task_seconds",
    "Time that an attempt took in its handler.",
    registry=REGISTRY,
    buckets=_TASK_BUCKETS,
)
REDIS_CALL_SECONDS = Histogram(
    "tradewind_redis_call_seconds",
    "Round trip of one script call or pipeline, by script.",
    ["script"],
    registry=REGISTRY,
    buckets=_CALL_BUCKETS,
)
POLICY_RELOAD_FAILED = Gauge(
    "tradewind_policy_reload_failed",
    "1 while the policy file, as last read, cannot be used and the one before is in force.",
    registry=REGISTRY,
    multiprocess_mode="livemax",
)
POLICY_INFO = Gauge(
    "tradewind_policy_info",
    "1 for the version of the policy file that is in force.",
    ["version"],
    registry=REGISTRY,
    multiprocess_mode="livemax",
)
LEASE_LOST = Counter(
    "tradewind_lease_lost_total",
    "Leases that went to another holder while their handler still ran.",
    registry=REGISTRY,
)


def queue_label(fleet: Fleet, name: str) -> str:
    """`name` if the file knows the queue, else `other`: callers invent queue names."""
    return name if name == "default" or name in fleet.queues else OTHER


def forget(gauge: Gauge, *labels: str) -> None:
    """Show a series no more: what it measured has left the file. Unknown ones are no error."""
    if _SHARED:  # there the library cannot remove any
        gauge.labels(*labels).set(_GONE)
    else:
        gauge.remove(*labels)


def exposition() -> bytes:
    """All metrics of this process, in Prometheus's text format."""
    return generate_latest(REGISTRY)


def shared_exposition(directory: str) -> bytes:
    """All metrics of the processes that were started with PROMETHEUS_MULTIPROC_DIR=directory."""
    registry = _Registry()
    MultiProcessCollector(registry, path=directory)
    return generate_latest(registry)
