"""A caller's keyword arguments to a TaskSpec."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from tradewind.client.enums import priority_of
from tradewind.client.times import Seconds, to_duration, to_timestamp
from tradewind.client.views import JSON_TYPE
from tradewind.clock import Clock, SystemClock
from tradewind.errors import InvalidTask, PayloadTooLarge
from tradewind.handlers.classes import as_json
from tradewind.limits import MAX_PAYLOAD_BYTES
from tradewind.task import Priority
from tradewind.v1 import task_pb2

BYTES_TYPE = "application/octet-stream"

Args = Mapping[str, Any] | bytes | None

_HOST: Clock = SystemClock()


class TaskOptions(TypedDict, total=False):
    """How a task is to run. What is left out is the queue's, or the policy's, to decide.

    Lengths of time are seconds or timedeltas, moments are datetimes with a time zone.
    """

    queue: str  # "default"
    priority: Priority | str  # Priority.HIGH or "high"; "normal"
    affinity_key: str  # tasks with the same key prefer one region
    tenant: str
    labels: Mapping[str, str]  # facts that rules match on, such as {"data-class": "pii-eu"}
    idempotency_key: str  # names the effect: a second submit gets the first task's id
    request_id: str  # names this submit; minted when left out
    residency: Sequence[str]  # groups that the task may not leave
    pin_region: str  # there and nowhere else
    delay: Seconds  # earliest start, counted from acceptance
    not_before: datetime  # earliest start; not together with delay
    expires_at: datetime  # no attempt starts later
    expires: Seconds  # the same, counted from now by the router's time; not with expires_at
    timeout: Seconds  # of one attempt
    max_attempts: int  # within one region
    content_type: str  # application/json, or application/octet-stream for bytes
    origin_region: str  # where the caller is; the client's own by default


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """One task of `submit_many`."""

    name: str
    args: Args = None
    options: TaskOptions = field(default_factory=TaskOptions)


# `json.dumps` would make one for each payload.
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_json
)
_PLAIN = (
    *("queue", "affinity_key", "tenant", "idempotency_key", "request_id"),
    *("pin_region", "max_attempts", "origin_region"),
)


def build_spec(
    name: str, args: Args, options: TaskOptions, clock: Clock = _HOST
) -> task_pb2.TaskSpec:
    """Give the TaskSpec of a submit. `clock` says when `expires` counts from.

    Raises InvalidTask for what no router could read, PayloadTooLarge over 1 MiB, TypeError for an
    option that does not exist.
    """
    unknown = options.keys() - TaskOptions.__annotations__.keys()
    if unknown:
        msg = f"no such option: {', '.join(sorted(unknown))}; see tradewind.TaskOptions"
        raise TypeError(msg)
    payload, content_type = _payload(args)
    spec = task_pb2.TaskSpec(payload=payload)
    _set(spec, "name", name)
    _set(spec, "content_type", options.get("content_type", content_type))
    given: Mapping[str, object] = {**options}
    for key in _PLAIN:
        if key in given:
            _set(spec, key, given[key])
    if "priority" in options:
        spec.priority = priority_of(options["priority"])
    if "labels" in options:
        _update(spec, "labels", options["labels"])
    if "residency" in options:
        _update(spec, "residency", options["residency"])
    _set_times(spec, options, clock)
    return spec


def _payload(args: Args) -> tuple[bytes, str]:
    if isinstance(args, bytes):
        payload, content_type = args, BYTES_TYPE
    elif args is not None and not _is_mapping(args):
        problem = f"must be a JSON object, given as a mapping, or bytes; got {args!r:.60}"
        raise InvalidTask.field("payload", problem)
    else:
        try:
            text = _ENCODER.encode({} if args is None else dict(args))
            payload, content_type = text.encode(), JSON_TYPE
        except (TypeError, ValueError) as error:
            raise InvalidTask.field("payload", f"is no JSON: {error}") from None
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(len(payload), MAX_PAYLOAD_BYTES)
    return payload, content_type


def _is_mapping(value: object) -> bool:
    # For callers without a type checker: dict() would take a list of pairs for an object.
    return isinstance(value, Mapping)


def _set_times(spec: task_pb2.TaskSpec, options: TaskOptions, clock: Clock) -> None:
    if "delay" in options:
        spec.delay.CopyFrom(to_duration("delay", options["delay"]))
    if "timeout" in options:
        spec.timeout.CopyFrom(to_duration("timeout", options["timeout"]))
    if "not_before" in options:
        spec.not_before.CopyFrom(to_timestamp("not_before", options["not_before"]))
    if "expires" in options:
        if "expires_at" in options:
            raise InvalidTask.field("expires_at", "excludes expires; set one")
        spec.expires_at.CopyFrom(expiry(options["expires"], clock.now_ms()))
    if "expires_at" in options:
        spec.expires_at.CopyFrom(to_timestamp("expires_at", options["expires_at"]))


def expiry(span: Seconds, now_ms: int) -> Timestamp:
    """Give the moment at which `expires` ends. Raises InvalidTask for one that has no date."""
    moment = Timestamp()
    try:
        moment.FromMilliseconds(now_ms + to_duration("expires", span).ToMilliseconds())
    except ValueError:  # beyond the year 9999
        raise InvalidTask.field("expires", "is too far ahead") from None
    return moment


def _set(spec: task_pb2.TaskSpec, key: str, value: object) -> None:
    try:
        setattr(spec, key, value)
    except (TypeError, ValueError) as error:
        raise InvalidTask.field(key, f"{value!r} cannot be sent: {error}") from None


def _update(spec: task_pb2.TaskSpec, key: str, value: Mapping[str, str] | Sequence[str]) -> None:
    problem = "a mapping of texts" if key == "labels" else "a list of texts"
    if isinstance(value, str):  # a sequence, of its letters
        hint = '{"name": "value"}' if key == "labels" else f'["{value}"]'
        raise InvalidTask.field(key, f"{value!r} is not {problem}; write {hint}")
    try:
        if isinstance(value, Mapping):
            spec.labels.update(value)
        else:
            spec.residency.extend(value)
    except (TypeError, ValueError):
        raise InvalidTask.field(key, f"{value!r} is not {problem}") from None
