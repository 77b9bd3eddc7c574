import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_PENDING: _ClassVar[TaskState]
    TASK_STATE_SCHEDULED: _ClassVar[TaskState]
    TASK_STATE_PROCESSING: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
    TASK_STATE_COMPLETED: _ClassVar[TaskState]
    TASK_STATE_DEAD_LETTER: _ClassVar[TaskState]
    TASK_STATE_MOVING: _ClassVar[TaskState]
    TASK_STATE_CANCELLED: _ClassVar[TaskState]
    TASK_STATE_EXPIRED: _ClassVar[TaskState]

class RegionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REGION_STATE_UNSPECIFIED: _ClassVar[RegionState]
    REGION_STATE_ACTIVE: _ClassVar[RegionState]
    REGION_STATE_CORDONED: _ClassVar[RegionState]
    REGION_STATE_DRAINING: _ClassVar[RegionState]

class Health(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_UNSPECIFIED: _ClassVar[Health]
    HEALTH_HEALTHY: _ClassVar[Health]
    HEALTH_DEGRADED: _ClassVar[Health]
    HEALTH_DOWN: _ClassVar[Health]
    HEALTH_RECOVERING: _ClassVar[Health]
    HEALTH_UNKNOWN: _ClassVar[Health]
PRIORITY_UNSPECIFIED: Priority
PRIORITY_HIGH: Priority
PRIORITY_NORMAL: Priority
PRIORITY_LOW: Priority
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_PENDING: TaskState
TASK_STATE_SCHEDULED: TaskState
TASK_STATE_PROCESSING: TaskState
TASK_STATE_FAILED: TaskState
TASK_STATE_COMPLETED: TaskState
TASK_STATE_DEAD_LETTER: TaskState
TASK_STATE_MOVING: TaskState
TASK_STATE_CANCELLED: TaskState
TASK_STATE_EXPIRED: TaskState
REGION_STATE_UNSPECIFIED: RegionState
REGION_STATE_ACTIVE: RegionState
REGION_STATE_CORDONED: RegionState
REGION_STATE_DRAINING: RegionState
HEALTH_UNSPECIFIED: Health
HEALTH_HEALTHY: Health
HEALTH_DEGRADED: Health
HEALTH_DOWN: Health
HEALTH_RECOVERING: Health
HEALTH_UNKNOWN: Health

class TaskSpec(_message.Message):
    __slots__ = ("queue", "name", "payload", "content_type", "priority", "affinity_key", "tenant", "labels", "idempotency_key", "request_id", "residency", "pin_region", "not_before", "delay", "expires_at", "timeout", "max_attempts", "origin_region")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESIDENCY_FIELD_NUMBER: _ClassVar[int]
    PIN_REGION_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_REGION_FIELD_NUMBER: _ClassVar[int]
    queue: str
    name: str
    payload: bytes
    content_type: str
    priority: Priority
    affinity_key: str
    tenant: str
    labels: _containers.ScalarMap[str, str]
    idempotency_key: str
    request_id: str
    residency: _containers.RepeatedScalarFieldContainer[str]
    pin_region: str
    not_before: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    expires_at: _timestamp_pb2.Timestamp
    timeout: _duration_pb2.Duration
    max_attempts: int
    origin_region: str
    def __init__(self, queue: _Optional[str] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ..., affinity_key: _Optional[str] = ..., tenant: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., idempotency_key: _Optional[str] = ..., request_id: _Optional[str] = ..., residency: _Optional[_Iterable[str]] = ..., pin_region: _Optional[str] = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_attempts: _Optional[int] = ..., origin_region: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "spec", "state", "region", "partition", "attempts", "crashes", "hops", "fingerprint", "created_at", "started_at", "finished_at", "next_attempt_at", "result", "result_content_type", "result_omitted", "error", "progress", "settled", "failover", "fence", "cancel_requested", "waits_for", "payload_omitted")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CRASHES_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_AT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESULT_OMITTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    FAILOVER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_OMITTED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    spec: TaskSpec
    state: TaskState
    region: str
    partition: int
    attempts: int
    crashes: int
    hops: _containers.RepeatedCompositeFieldContainer[Hop]
    fingerprint: str
    created_at: _timestamp_pb2.Timestamp
    started_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    next_attempt_at: _timestamp_pb2.Timestamp
    result: bytes
    result_content_type: str
    result_omitted: bool
    error: TaskError
    progress: Progress
    settled: bool
    failover: str
    fence: _containers.RepeatedScalarFieldContainer[str]
    cancel_requested: bool
    waits_for: str
    payload_omitted: bool
    def __init__(self, task_id: _Optional[str] = ..., spec: _Optional[_Union[TaskSpec, _Mapping]] = ..., state: _Optional[_Union[TaskState, str]] = ..., region: _Optional[str] = ..., partition: _Optional[int] = ..., attempts: _Optional[int] = ..., crashes: _Optional[int] = ..., hops: _Optional[_Iterable[_Union[Hop, _Mapping]]] = ..., fingerprint: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_attempt_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result: _Optional[bytes] = ..., result_content_type: _Optional[str] = ..., result_omitted: _Optional[bool] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., settled: _Optional[bool] = ..., failover: _Optional[str] = ..., fence: _Optional[_Iterable[str]] = ..., cancel_requested: _Optional[bool] = ..., waits_for: _Optional[str] = ..., payload_omitted: _Optional[bool] = ...) -> None: ...

class Hop(_message.Message):
    __slots__ = ("region", "state", "attempts", "reason", "at")
    REGION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    region: str
    state: TaskState
    attempts: int
    reason: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, region: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempts: _Optional[int] = ..., reason: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TaskError(_message.Message):
    __slots__ = ("kind", "message", "traceback")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    traceback: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("fraction", "note")
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    fraction: float
    note: str
    def __init__(self, fraction: _Optional[float] = ..., note: _Optional[str] = ...) -> None: ...

class RouteDecision(_message.Message):
    __slots__ = ("region", "rule", "candidates", "ledger_home", "partition", "policy_version", "step", "home", "spills", "fence", "fence_by", "bypassed", "refusal", "dedup_by", "matched", "waits_for")
    REGION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    LEDGER_HOME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    SPILLS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    FENCE_BY_FIELD_NUMBER: _ClassVar[int]
    BYPASSED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    DEDUP_BY_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    region: str
    rule: str
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    ledger_home: str
    partition: int
    policy_version: str
    step: str
    home: str
    spills: bool
    fence: _containers.RepeatedScalarFieldContainer[str]
    fence_by: FenceAuthors
    bypassed: str
    refusal: _status_pb2.Status
    dedup_by: str
    matched: str
    waits_for: str
    def __init__(self, region: _Optional[str] = ..., rule: _Optional[str] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., ledger_home: _Optional[str] = ..., partition: _Optional[int] = ..., policy_version: _Optional[str] = ..., step: _Optional[str] = ..., home: _Optional[str] = ..., spills: _Optional[bool] = ..., fence: _Optional[_Iterable[str]] = ..., fence_by: _Optional[_Union[FenceAuthors, _Mapping]] = ..., bypassed: _Optional[str] = ..., refusal: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., dedup_by: _Optional[str] = ..., matched: _Optional[str] = ..., waits_for: _Optional[str] = ...) -> None: ...

class FenceAuthors(_message.Message):
    __slots__ = ("rule", "rule_residency", "task_residency", "pin_region")
    RULE_FIELD_NUMBER: _ClassVar[int]
    RULE_RESIDENCY_FIELD_NUMBER: _ClassVar[int]
    TASK_RESIDENCY_FIELD_NUMBER: _ClassVar[int]
    PIN_REGION_FIELD_NUMBER: _ClassVar[int]
    rule: str
    rule_residency: _containers.RepeatedScalarFieldContainer[str]
    task_residency: _containers.RepeatedScalarFieldContainer[str]
    pin_region: str
    def __init__(self, rule: _Optional[str] = ..., rule_residency: _Optional[_Iterable[str]] = ..., task_residency: _Optional[_Iterable[str]] = ..., pin_region: _Optional[str] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("region", "eligible", "excluded_by", "rtt", "expected_wait", "score", "share", "reasons", "parts", "age", "health", "trial", "details")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REGION_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_BY_FIELD_NUMBER: _ClassVar[int]
    RTT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_WAIT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    TRIAL_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    region: str
    eligible: bool
    excluded_by: str
    rtt: _duration_pb2.Duration
    expected_wait: _duration_pb2.Duration
    score: float
    share: float
    reasons: _containers.RepeatedScalarFieldContainer[str]
    parts: ScoreParts
    age: _duration_pb2.Duration
    health: Health
    trial: bool
    details: _containers.ScalarMap[str, str]
    def __init__(self, region: _Optional[str] = ..., eligible: _Optional[bool] = ..., excluded_by: _Optional[str] = ..., rtt: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expected_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., score: _Optional[float] = ..., share: _Optional[float] = ..., reasons: _Optional[_Iterable[str]] = ..., parts: _Optional[_Union[ScoreParts, _Mapping]] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., health: _Optional[_Union[Health, str]] = ..., trial: _Optional[bool] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ScoreParts(_message.Message):
    __slots__ = ("rtt", "wait", "cost", "success_rate", "ramp", "health_factor")
    RTT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_RATE_FIELD_NUMBER: _ClassVar[int]
    RAMP_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FACTOR_FIELD_NUMBER: _ClassVar[int]
    rtt: float
    wait: float
    cost: float
    success_rate: float
    ramp: float
    health_factor: float
    def __init__(self, rtt: _Optional[float] = ..., wait: _Optional[float] = ..., cost: _Optional[float] = ..., success_rate: _Optional[float] = ..., ramp: _Optional[float] = ..., health_factor: _Optional[float] = ...) -> None: ...
