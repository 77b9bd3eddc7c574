"""Errors as gRPC statuses and back, so that a client raises the class that a router raised.

The class travels as ErrorInfo.reason, its fields as ErrorInfo.metadata, and the violations of a
request as BadRequest. Everything here is built for the trailing metadata of a response, of which
peers accept 8 KiB, so long texts are cut.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from tradewind import errors
from tradewind.errors import (
    InvalidTask,
    NoRegionReachable,
    OutcomeUnknown,
    SubmitInFlight,
    TradewindError,
    Violation,
)

DOMAIN: Final = "tradewind"
INTERNAL_REASON: Final = "INTERNAL"
_INTERNAL_MESSAGE: Final = "internal error; the router's log has the cause"

_Code = grpc.StatusCode
#: Every error that a router may answer with.
CODES: Final[dict[type[TradewindError], grpc.StatusCode]] = {
    errors.BatchTooLarge: _Code.RESOURCE_EXHAUSTED,
    errors.ControlConflict: _Code.ABORTED,
    errors.ControlUnavailable: _Code.UNAVAILABLE,
    errors.HomeUnreachable: _Code.UNAVAILABLE,
    errors.IdempotencyKeyReused: _Code.INVALID_ARGUMENT,
    errors.IdentityMismatch: _Code.FAILED_PRECONDITION,
    errors.InvalidTask: _Code.INVALID_ARGUMENT,
    errors.LastRegion: _Code.FAILED_PRECONDITION,
    errors.NoRegionPermitted: _Code.FAILED_PRECONDITION,
    errors.NoRegionReachable: _Code.UNAVAILABLE,
    errors.NotServedYet: _Code.UNIMPLEMENTED,
    errors.OutcomeUnknown: _Code.UNAVAILABLE,  # DEADLINE_EXCEEDED where the deadline passed
    errors.PayloadTooLarge: _Code.RESOURCE_EXHAUSTED,
    errors.PolicyRefused: _Code.INVALID_ARGUMENT,
    errors.RegionSilent: _Code.UNAVAILABLE,
    errors.RegionTakesWork: _Code.FAILED_PRECONDITION,
    errors.RegionsFull: _Code.RESOURCE_EXHAUSTED,
    errors.StoreContractBroken: _Code.INTERNAL,
    errors.StoreFull: _Code.RESOURCE_EXHAUSTED,
    errors.StoreMoving: _Code.UNAVAILABLE,
    errors.StoreUnavailable: _Code.UNAVAILABLE,
    errors.SubmitInFlight: _Code.ABORTED,
    errors.UnknownTask: _Code.NOT_FOUND,
}

_CODE_OF: Final[Mapping[type[BaseException], grpc.StatusCode]] = {**CODES}

_DEFAULT_RETRY_MS: Final = 1_000  # as policy.defaults.REJECT_RETRY_MIN_MS; clients add jitter
_RETRY_MS: Final[dict[type[TradewindError], int]] = {
    errors.RegionsFull: 5_000,  # its upper end: backlogs take time to drain
    errors.StoreFull: 5_000,
    errors.StoreMoving: 100,  # a slot changes hands in milliseconds
}

_MAX_MESSAGE_CHARS: Final = 1_000
_MAX_PROBLEM_CHARS: Final = 200
_MAX_VIOLATION_BYTES: Final = 3_000


def _bool(text: str) -> bool:
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


#: Constructor arguments of each class that has any, and how to read them back from text.
_FIELDS: Final[dict[type[TradewindError], Mapping[str, Callable[[str], Any]]]] = {
    errors.BatchTooLarge: {"size_bytes": int, "limit_bytes": int},
    errors.ControlConflict: {},
    errors.ControlUnavailable: {"missing": _names},
    errors.HomeUnreachable: {"region": str},
    errors.IdempotencyKeyReused: {"first_id": str},
    errors.IdentityMismatch: {"region": str, "field": str, "found": str, "expected": str},
    errors.LastRegion: {"region": str, "fence": str},
    errors.OutcomeUnknown: {"task_id": str, "deadline_passed": _bool, "region": str},
    errors.PayloadTooLarge: {"size_bytes": int, "limit_bytes": int},
    errors.RegionSilent: {"regions": _names},
    errors.RegionTakesWork: {"region": str},
    errors.StoreFull: {"region": str},
    errors.StoreMoving: {"region": str, "partition": int},
    errors.StoreUnavailable: {"region": str, "cause": str, "sent": _bool},
    errors.SubmitInFlight: {"first_id": str, "retry_after_ms": int},
    errors.UnknownTask: {"task_id": str},
}
#: What any error may say of a submit (docs/dedup.md): the attribute, and its metadata if it is so.
_SAID: Final = {"nothing_kept": ("kept", "no"), "elsewhere": ("elsewhere", "true")}
_BY_REASON: Final = {error.reason: error for error in CODES}


def is_known(error: BaseException) -> bool:
    """Whether the error has a row in the table: anything else is a bug and is logged as one."""
    return type(error) in CODES


def is_for_the_log(error: BaseException) -> bool:
    """Whether the cause is ours to mend: it is logged, and its text, perhaps Redis's, hidden."""
    return not is_known(error) or isinstance(error, errors.StoreContractBroken)


def code_of(error: BaseException) -> grpc.StatusCode:
    """Return the gRPC code; INTERNAL for what has no row."""
    if isinstance(error, OutcomeUnknown) and error.deadline_passed:
        return _Code.DEADLINE_EXCEEDED
    return _CODE_OF.get(type(error), _Code.INTERNAL)


def retry_after_ms(error: TradewindError) -> int:
    """When to ask again; 0 if that does not help."""
    if isinstance(error, SubmitInFlight):
        return max(1, error.retry_after_ms)
    if isinstance(error, NoRegionReachable) and error.retry_after_ms:
        return error.retry_after_ms
    return _RETRY_MS.get(type(error), _DEFAULT_RETRY_MS) if error.retryable else 0


def to_status(error: BaseException) -> status_pb2.Status:
    """Return the status with its details. An unknown error shows nothing of itself."""
    code: int = code_of(error).value[0]
    if not isinstance(error, TradewindError) or not is_known(error):
        details = [error_details_pb2.ErrorInfo(reason=INTERNAL_REASON, domain=DOMAIN)]
        return _status(code, _INTERNAL_MESSAGE, details)
    message = _INTERNAL_MESSAGE if is_for_the_log(error) else str(error)
    return _status(code, message, _details(error))


def from_status(status: status_pb2.Status) -> TradewindError:
    """Return the error that `to_status` was given; a plain TradewindError for anything else."""
    info = _find(status, error_details_pb2.ErrorInfo())
    if info is None or info.domain != DOMAIN or info.reason not in _BY_REASON:
        return TradewindError(status.message or "the router gave no reason")
    error = _read(status, info)
    for name, (key, value) in _SAID.items():
        if info.metadata.get(key) == value:
            setattr(error, name, True)
    return error


def _read(status: status_pb2.Status, info: error_details_pb2.ErrorInfo) -> TradewindError:
    kind = _BY_REASON[info.reason]
    if kind is InvalidTask:
        return InvalidTask(_violations(status))
    fields = _FIELDS.get(kind)
    if fields is None:
        return kind(status.message)
    try:
        return kind(**{name: read(info.metadata[name]) for name, read in fields.items()})
    except ValueError:  # a newer router may write a field differently
        return TradewindError(status.message)


def _status(code: int, message: str, details: Iterable[Message]) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=_cut(message, _MAX_MESSAGE_CHARS))
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _details(error: TradewindError) -> list[Message]:
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)
    for name in _FIELDS.get(type(error), ()):
        info.metadata[name] = _text(getattr(error, name))
    for name, (key, value) in _SAID.items():
        if getattr(error, name):
            info.metadata[key] = value
    details: list[Message] = [info]
    if isinstance(error, InvalidTask):
        details.append(_bad_request(error.violations))
    elif isinstance(error, errors.IdempotencyKeyReused):
        details.append(_bad_request([Violation("idempotency_key", str(error))]))
    elif isinstance(error, errors.PayloadTooLarge):
        details.append(_bad_request([Violation("payload", str(error))]))
    if wait_ms := retry_after_ms(error):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(wait_ms)
        details.append(retry)
    return details


def _bad_request(violations: Sequence[Violation]) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    room = _MAX_VIOLATION_BYTES
    for shown, violation in enumerate(violations):
        problem = _cut(violation.problem, _MAX_PROBLEM_CHARS)
        room -= len(violation.field.encode()) + len(problem.encode())
        if room < 0:
            rest = len(violations) - shown
            bad.field_violations.add(field="*", description=f"{rest} more problems")
            break
        bad.field_violations.add(field=violation.field, description=problem)
    return bad


def _violations(status: status_pb2.Status) -> list[Violation]:
    bad = _find(status, error_details_pb2.BadRequest())
    return [Violation(v.field, v.description) for v in bad.field_violations] if bad else []


def _find(status: status_pb2.Status, message: Any) -> Any:
    detail: AnyMessage
    for detail in status.details:
        if detail.Is(message.DESCRIPTOR) and detail.Unpack(message):
            return message
    return None


def _text(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
