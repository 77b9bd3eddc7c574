from google.rpc import status_pb2 as _status_pb2
from tradewind.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitTaskRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _task_pb2.TaskSpec
    def __init__(self, spec: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ...) -> None: ...

class SubmitTaskResponse(_message.Message):
    __slots__ = ("task_id", "region", "partition", "state", "duplicate", "possible_duplicate", "replication_unconfirmed", "rule", "waits_for")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    POSSIBLE_DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    region: str
    partition: int
    state: _task_pb2.TaskState
    duplicate: bool
    possible_duplicate: bool
    replication_unconfirmed: bool
    rule: str
    waits_for: str
    def __init__(self, task_id: _Optional[str] = ..., region: _Optional[str] = ..., partition: _Optional[int] = ..., state: _Optional[_Union[_task_pb2.TaskState, str]] = ..., duplicate: _Optional[bool] = ..., possible_duplicate: _Optional[bool] = ..., replication_unconfirmed: _Optional[bool] = ..., rule: _Optional[str] = ..., waits_for: _Optional[str] = ...) -> None: ...

class SubmitTasksRequest(_message.Message):
    __slots__ = ("specs",)
    SPECS_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[_task_pb2.TaskSpec]
    def __init__(self, specs: _Optional[_Iterable[_Union[_task_pb2.TaskSpec, _Mapping]]] = ...) -> None: ...

class SubmitTasksResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SubmitTasksResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SubmitTasksResult, _Mapping]]] = ...) -> None: ...

class SubmitTasksResult(_message.Message):
    __slots__ = ("accepted", "error")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    accepted: SubmitTaskResponse
    error: _status_pb2.Status
    def __init__(self, accepted: _Optional[_Union[SubmitTaskResponse, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class SubmitTaskStreamRequest(_message.Message):
    __slots__ = ("sequence", "specs")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    specs: _containers.RepeatedCompositeFieldContainer[_task_pb2.TaskSpec]
    def __init__(self, sequence: _Optional[int] = ..., specs: _Optional[_Iterable[_Union[_task_pb2.TaskSpec, _Mapping]]] = ...) -> None: ...

class SubmitTaskStreamResponse(_message.Message):
    __slots__ = ("sequence", "results")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    results: _containers.RepeatedCompositeFieldContainer[SubmitTasksResult]
    def __init__(self, sequence: _Optional[int] = ..., results: _Optional[_Iterable[_Union[SubmitTasksResult, _Mapping]]] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class GetTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class WatchTaskRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class WatchTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class CancelTaskRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class CancelTaskResponse(_message.Message):
    __slots__ = ("cancelled", "requested", "task")
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    requested: bool
    task: _task_pb2.Task
    def __init__(self, cancelled: _Optional[bool] = ..., requested: _Optional[bool] = ..., task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class ExplainRouteRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _task_pb2.TaskSpec
    def __init__(self, spec: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ...) -> None: ...

class ExplainRouteResponse(_message.Message):
    __slots__ = ("decision",)
    DECISION_FIELD_NUMBER: _ClassVar[int]
    decision: _task_pb2.RouteDecision
    def __init__(self, decision: _Optional[_Union[_task_pb2.RouteDecision, _Mapping]] = ...) -> None: ...
