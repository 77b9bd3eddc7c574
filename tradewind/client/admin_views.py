"""What operators see of regions, queues, workers, the audit and dead tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tradewind.client.enums import short_name
from tradewind.client.times import milliseconds, moment, seconds
from tradewind.client.views import TaskView, task_of
from tradewind.v1 import admin_pb2, task_pb2


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """A region as the answering router sees it; None where it has not measured yet.

    Of a silent one pending, wait, slots and workers are what was known `age_s` ago.
    """

    name: str
    state: str  # ACTIVE, CORDONED or DRAINING
    health: str  # HEALTHY, DEGRADED, DOWN, RECOVERING or UNKNOWN
    rtt_ms: float | None
    expected_wait_s: float | None
    pending: int
    live_slots: int
    workers: int
    epoch: int
    age_s: float | None = None  # of what is known of its load; None: nothing is
    trial: bool = False  # half-open: DOWN, and tried with one task at a time
    reasons: tuple[str, ...] = ()  # what keeps new tasks out of it, in the words of `explain`
    details: Mapping[str, str] = field(default_factory=dict[str, str])  # of `reasons`, if known


@dataclass(frozen=True, slots=True)
class RegionOrdered(RegionStatus):
    """A region after an order. `stood`: it was so already, and nothing was changed."""

    stood: bool = False


@dataclass(frozen=True, slots=True)
class QueueOrdered:
    """A pause or its end: the epoch that has it. `stood`: it was so already."""

    epoch: int
    stood: bool = False


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue in one region; counts are of tasks."""

    region: str
    queue: str
    pending_high: int
    pending_normal: int
    pending_low: int
    pending: int
    scheduled: int
    processing: int
    failed: int
    moving: int
    dead: int
    oldest_age_s: float | None
    paused: bool


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A live worker process."""

    worker_id: str
    region: str
    queues: tuple[str, ...]
    handlers: tuple[str, ...]
    slots: int
    busy: int
    started_at: datetime | None
    version: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What somebody did, as a region keeps it."""

    region: str
    at: datetime | None  # by that region's clock
    deed: str
    who: str
    on: str  # the region, queue or task that it was done to
    why: str
    counts: dict[str, int]  # tasks, by what they are counted by
    details: dict[str, str]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """What was done, latest first."""

    records: tuple[AuditEntry, ...]
    next_page_token: str  # empty on the last page
    silent_regions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Dead tasks of all regions, oldest death first, without payloads."""

    tasks: tuple[TaskView, ...]
    next_page_token: str  # empty on the last page
    total: int
    silent_regions: tuple[str, ...]


def audit_page_of(reply: admin_pb2.ListAuditResponse) -> AuditPage:
    """Read a page of the audit."""
    records = tuple(_audit_entry(each) for each in reply.records)
    return AuditPage(records, reply.next_page_token, tuple(reply.silent_regions))


def dead_page_of(reply: admin_pb2.ListDeadTasksResponse) -> DeadPage:
    """Read a page of dead tasks."""
    return DeadPage(
        tasks=tuple(task_of(task) for task in reply.tasks),
        next_page_token=reply.next_page_token,
        total=reply.total,
        silent_regions=tuple(reply.silent_regions),
    )


def _audit_entry(sent: admin_pb2.AuditRecord) -> AuditEntry:
    return AuditEntry(
        region=sent.region,
        at=moment(sent.at) if sent.HasField("at") else None,
        deed=sent.deed,
        who=sent.who,
        on=sent.on,
        why=sent.why,
        counts=dict(sent.counts),
        details=dict(sent.details),
    )


def region_of(region: admin_pb2.Region) -> RegionStatus:
    """Read a region."""
    return RegionStatus(**_facts(region))


def region_ordered(reply: admin_pb2.SetRegionStateResponse) -> RegionOrdered:
    """Read a region after an order."""
    return RegionOrdered(**_facts(reply.region), stood=reply.stood)


def _facts(of: admin_pb2.Region) -> dict[str, Any]:
    return {
        "name": of.name,
        "state": short_name(task_pb2.RegionState.Name(of.state)),
        "health": short_name(task_pb2.Health.Name(of.health)),
        "rtt_ms": milliseconds(of.rtt) if of.HasField("rtt") else None,
        "expected_wait_s": seconds(of.expected_wait) if of.HasField("expected_wait") else None,
        "pending": of.pending,
        "live_slots": of.live_slots,
        "workers": of.workers,
        "epoch": of.epoch,
        "age_s": seconds(of.age) if of.HasField("age") else None,
        "trial": of.trial,
        "reasons": tuple(of.reasons),
        "details": dict(of.details),
    }


def queue_of(queue: admin_pb2.QueueStats) -> QueueStatus:
    """Read a queue in one region."""
    return QueueStatus(
        region=queue.region,
        queue=queue.queue,
        pending_high=queue.pending_high,
        pending_normal=queue.pending_normal,
        pending_low=queue.pending_low,
        pending=queue.pending,
        scheduled=queue.scheduled,
        processing=queue.processing,
        failed=queue.failed,
        moving=queue.moving,
        dead=queue.dead,
        oldest_age_s=seconds(queue.oldest_age) if queue.HasField("oldest_age") else None,
        paused=queue.paused,
    )


def worker_of(worker: admin_pb2.Worker) -> WorkerStatus:
    """Read a worker process."""
    return WorkerStatus(
        worker_id=worker.worker_id,
        region=worker.region,
        queues=tuple(worker.queues),
        handlers=tuple(worker.handlers),
        slots=worker.slots,
        busy=worker.busy,
        started_at=moment(worker.started_at) if worker.HasField("started_at") else None,
        version=worker.version,
    )
