from tradewind.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoredSpec(_message.Message):
    __slots__ = ("spec", "fingerprint", "fence", "traceparent", "birth_region", "deduplicated", "created_at_ms", "rule", "announces")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    BIRTH_REGION_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCES_FIELD_NUMBER: _ClassVar[int]
    spec: _task_pb2.TaskSpec
    fingerprint: bytes
    fence: _containers.RepeatedScalarFieldContainer[str]
    traceparent: str
    birth_region: str
    deduplicated: bool
    created_at_ms: int
    rule: str
    announces: str
    def __init__(self, spec: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ..., fingerprint: _Optional[bytes] = ..., fence: _Optional[_Iterable[str]] = ..., traceparent: _Optional[str] = ..., birth_region: _Optional[str] = ..., deduplicated: _Optional[bool] = ..., created_at_ms: _Optional[int] = ..., rule: _Optional[str] = ..., announces: _Optional[str] = ...) -> None: ...

class StoredHops(_message.Message):
    __slots__ = ("hops",)
    HOPS_FIELD_NUMBER: _ClassVar[int]
    hops: _containers.RepeatedCompositeFieldContainer[_task_pb2.Hop]
    def __init__(self, hops: _Optional[_Iterable[_Union[_task_pb2.Hop, _Mapping]]] = ...) -> None: ...

class StoredError(_message.Message):
    __slots__ = ("kind", "message", "traceback")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    traceback: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ...) -> None: ...
