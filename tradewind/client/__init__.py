"""The SDK's clients. Needs grpcio and protobuf only; nothing here knows Redis."""

from tradewind.client.admin import Admin, DeadFilter
from tradewind.client.admin_views import (
    AuditEntry,
    AuditPage,
    DeadPage,
    QueueOrdered,
    QueueStatus,
    RegionOrdered,
    RegionStatus,
    WorkerStatus,
)
from tradewind.client.blocking import SyncClient
from tradewind.client.core import Client
from tradewind.client.specs import Args, TaskOptions, TaskRequest
from tradewind.client.views import (
    Cancellation,
    Progress,
    Receipt,
    Route,
    Stay,
    TaskFailure,
    TaskView,
)

__all__ = [
    "Admin",
    "Args",
    "AuditEntry",
    "AuditPage",
    "Cancellation",
    "Client",
    "DeadFilter",
    "DeadPage",
    "Progress",
    "QueueOrdered",
    "QueueStatus",
    "Receipt",
    "RegionOrdered",
    "RegionStatus",
    "Route",
    "Stay",
    "SyncClient",
    "TaskFailure",
    "TaskOptions",
    "TaskRequest",
    "TaskView",
    "WorkerStatus",
]
