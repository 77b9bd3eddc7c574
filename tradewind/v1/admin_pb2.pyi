import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tradewind.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Region(_message.Message):
    __slots__ = ("name", "state", "epoch", "health", "rtt", "expected_wait", "pending", "live_slots", "workers", "age", "trial", "reasons", "details")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    RTT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_WAIT_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    LIVE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    TRIAL_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: _task_pb2.RegionState
    epoch: int
    health: _task_pb2.Health
    rtt: _duration_pb2.Duration
    expected_wait: _duration_pb2.Duration
    pending: int
    live_slots: int
    workers: int
    age: _duration_pb2.Duration
    trial: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    details: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[_task_pb2.RegionState, str]] = ..., epoch: _Optional[int] = ..., health: _Optional[_Union[_task_pb2.Health, str]] = ..., rtt: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expected_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pending: _Optional[int] = ..., live_slots: _Optional[int] = ..., workers: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., trial: _Optional[bool] = ..., reasons: _Optional[_Iterable[str]] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class QueueStats(_message.Message):
    __slots__ = ("region", "queue", "pending_high", "pending_normal", "pending_low", "pending", "scheduled", "processing", "failed", "moving", "dead", "oldest_age", "paused")
    REGION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PENDING_HIGH_FIELD_NUMBER: _ClassVar[int]
    PENDING_NORMAL_FIELD_NUMBER: _ClassVar[int]
    PENDING_LOW_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
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
    oldest_age: _duration_pb2.Duration
    paused: bool
    def __init__(self, region: _Optional[str] = ..., queue: _Optional[str] = ..., pending_high: _Optional[int] = ..., pending_normal: _Optional[int] = ..., pending_low: _Optional[int] = ..., pending: _Optional[int] = ..., scheduled: _Optional[int] = ..., processing: _Optional[int] = ..., failed: _Optional[int] = ..., moving: _Optional[int] = ..., dead: _Optional[int] = ..., oldest_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., paused: _Optional[bool] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("worker_id", "region", "queues", "handlers", "slots", "busy", "started_at", "version")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    HANDLERS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    region: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    handlers: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    busy: int
    started_at: _timestamp_pb2.Timestamp
    version: str
    def __init__(self, worker_id: _Optional[str] = ..., region: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., handlers: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., busy: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[str] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class DeadTaskFilter(_message.Message):
    __slots__ = ("region", "queue", "name", "error_kind", "error_contains", "older_than", "task_ids")
    REGION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    region: str
    queue: str
    name: str
    error_kind: str
    error_contains: str
    older_than: _duration_pb2.Duration
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, region: _Optional[str] = ..., queue: _Optional[str] = ..., name: _Optional[str] = ..., error_kind: _Optional[str] = ..., error_contains: _Optional[str] = ..., older_than: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., task_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListRegionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRegionsResponse(_message.Message):
    __slots__ = ("regions", "silent_regions")
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class SetRegionStateRequest(_message.Message):
    __slots__ = ("region", "state", "reason", "force")
    REGION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    region: str
    state: _task_pb2.RegionState
    reason: str
    force: bool
    def __init__(self, region: _Optional[str] = ..., state: _Optional[_Union[_task_pb2.RegionState, str]] = ..., reason: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class SetRegionStateResponse(_message.Message):
    __slots__ = ("region", "stood")
    REGION_FIELD_NUMBER: _ClassVar[int]
    STOOD_FIELD_NUMBER: _ClassVar[int]
    region: Region
    stood: bool
    def __init__(self, region: _Optional[_Union[Region, _Mapping]] = ..., stood: _Optional[bool] = ...) -> None: ...

class EvacuateRegionRequest(_message.Message):
    __slots__ = ("region", "rate_per_second", "dry_run", "reason")
    REGION_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    region: str
    rate_per_second: float
    dry_run: bool
    reason: str
    def __init__(self, region: _Optional[str] = ..., rate_per_second: _Optional[float] = ..., dry_run: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class EvacuateRegionResponse(_message.Message):
    __slots__ = ("moved", "remaining", "kept", "done")
    MOVED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    moved: int
    remaining: int
    kept: _containers.RepeatedCompositeFieldContainer[Kept]
    done: bool
    def __init__(self, moved: _Optional[int] = ..., remaining: _Optional[int] = ..., kept: _Optional[_Iterable[_Union[Kept, _Mapping]]] = ..., done: _Optional[bool] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("task_id", "source", "target", "epoch", "reason", "state", "began_at")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    source: str
    target: str
    epoch: int
    reason: str
    state: _task_pb2.TaskState
    began_at: _timestamp_pb2.Timestamp
    def __init__(self, task_id: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ..., state: _Optional[_Union[_task_pb2.TaskState, str]] = ..., began_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListMovesRequest(_message.Message):
    __slots__ = ("region",)
    REGION_FIELD_NUMBER: _ClassVar[int]
    region: str
    def __init__(self, region: _Optional[str] = ...) -> None: ...

class ListMovesResponse(_message.Message):
    __slots__ = ("moves", "silent_regions")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class RetargetMoveRequest(_message.Message):
    __slots__ = ("task_id", "force")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    force: bool
    def __init__(self, task_id: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class RetargetMoveResponse(_message.Message):
    __slots__ = ("task", "ended", "may_run_twice")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MAY_RUN_TWICE_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    ended: bool
    may_run_twice: bool
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ..., ended: _Optional[bool] = ..., may_run_twice: _Optional[bool] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("region", "queue")
    REGION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    region: str
    queue: str
    def __init__(self, region: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "silent_regions")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStats]
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueStats, _Mapping]]] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class PauseQueueRequest(_message.Message):
    __slots__ = ("queue", "reason")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    queue: str
    reason: str
    def __init__(self, queue: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PauseQueueResponse(_message.Message):
    __slots__ = ("epoch", "stood")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STOOD_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    stood: bool
    def __init__(self, epoch: _Optional[int] = ..., stood: _Optional[bool] = ...) -> None: ...

class ResumeQueueRequest(_message.Message):
    __slots__ = ("queue", "reason")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    queue: str
    reason: str
    def __init__(self, queue: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResumeQueueResponse(_message.Message):
    __slots__ = ("epoch", "stood")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STOOD_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    stood: bool
    def __init__(self, epoch: _Optional[int] = ..., stood: _Optional[bool] = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = ("region",)
    REGION_FIELD_NUMBER: _ClassVar[int]
    region: str
    def __init__(self, region: _Optional[str] = ...) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ("workers", "silent_regions")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class ListDeadTasksRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: DeadTaskFilter
    page_size: int
    page_token: str
    def __init__(self, filter: _Optional[_Union[DeadTaskFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeadTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token", "total", "silent_regions")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    next_page_token: str
    total: int
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class RedriveDeadTasksRequest(_message.Message):
    __slots__ = ("filter", "dry_run")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    filter: DeadTaskFilter
    dry_run: bool
    def __init__(self, filter: _Optional[_Union[DeadTaskFilter, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class RedriveDeadTasksResponse(_message.Message):
    __slots__ = ("count", "silent_regions")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    count: int
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, count: _Optional[int] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class PurgeDeadTasksRequest(_message.Message):
    __slots__ = ("filter", "dry_run")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    filter: DeadTaskFilter
    dry_run: bool
    def __init__(self, filter: _Optional[_Union[DeadTaskFilter, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class PurgeDeadTasksResponse(_message.Message):
    __slots__ = ("count", "silent_regions")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    count: int
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, count: _Optional[int] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class AuditRecord(_message.Message):
    __slots__ = ("region", "at", "deed", "who", "on", "why", "counts", "details")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REGION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DEED_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    region: str
    at: _timestamp_pb2.Timestamp
    deed: str
    who: str
    on: str
    why: str
    counts: _containers.ScalarMap[str, int]
    details: _containers.ScalarMap[str, str]
    def __init__(self, region: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deed: _Optional[str] = ..., who: _Optional[str] = ..., on: _Optional[str] = ..., why: _Optional[str] = ..., counts: _Optional[_Mapping[str, int]] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("region", "page_size", "page_token")
    REGION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    region: str
    page_size: int
    page_token: str
    def __init__(self, region: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuditResponse(_message.Message):
    __slots__ = ("records", "next_page_token", "silent_regions")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SILENT_REGIONS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[AuditRecord]
    next_page_token: str
    silent_regions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, records: _Optional[_Iterable[_Union[AuditRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., silent_regions: _Optional[_Iterable[str]] = ...) -> None: ...

class ReloadPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadPolicyResponse(_message.Message):
    __slots__ = ("policy_version",)
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    policy_version: str
    def __init__(self, policy_version: _Optional[str] = ...) -> None: ...
