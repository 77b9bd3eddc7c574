"""What a TaskSpec may hold. Pure: the time of day is an argument.

Every problem of a request is reported at once. Names go into keys and metrics and are narrow;
other texts are hashed or packed before they rest anywhere, so any UTF-8 will do.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tradewind import limits
from tradewind.errors import InvalidTask, PayloadTooLarge, Violation
from tradewind.fingerprint import Body, PayloadNotCanonical, is_json, read_body
from tradewind.fleet import Fleet
from tradewind.v1 import task_pb2
from tradewind.v1.task_pb2 import TaskSpec

_NAME = re.compile(r"[A-Za-z0-9._:/-]+")
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105 - RFC 9110 section 5.6.2
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[\x20-\x7e\t]*)?")
_SHOWN_CHARS = 60  # of a caller's text inside an error

# The ranges that the well-known types document, in seconds.
_TIMESTAMP_S = (-62_135_596_800, 253_402_300_799)  # years 1 to 9999
_DURATION_S = 315_576_000_000  # 10,000 years
_NANOS = 1_000_000_000

_Problems = Iterator[Violation]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A spec that may be stored, with what checking it brought to light."""

    delay_ms: int  # from when it is stored, never early
    not_before_ms: int  # an instant, rounded up; 0: none
    timeout_ms: int  # 0: the queue's
    body: Body  # the payload, read once


def check(spec: TaskSpec, fleet: Fleet, *, now_ms: int) -> Admitted:
    """Return what the checks learnt. `now_ms` bounds instants; when they come, the store says.

    Raises InvalidTask with all violations, PayloadTooLarge if that is the only problem.
    """
    found = [violation for step in _CHECKS for violation in step(spec, fleet)]
    start = _Start(spec, now_ms)
    found += start.problems
    size = len(spec.payload)
    if size > limits.MAX_PAYLOAD_BYTES:
        if not found:
            raise PayloadTooLarge(size, limits.MAX_PAYLOAD_BYTES)
        found.append(Violation("payload", _too_long(size, limits.MAX_PAYLOAD_BYTES)))
    body = None if size > limits.MAX_PAYLOAD_BYTES else _read(spec, found)
    if found or body is None:
        raise InvalidTask(found)
    return Admitted(start.delay_ms, start.not_before_ms, _ceil_ms(spec.timeout), body)


def is_name(text: str) -> bool:
    """Whether `text` may name a queue or a handler."""
    return len(text) <= limits.MAX_NAME_BYTES and _NAME.fullmatch(text) is not None


def shown(text: str) -> str:
    """A caller's text in quotes, escaped to ASCII and short, fit for an error."""
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
    return ascii(cut)


def _names(spec: TaskSpec, _fleet: Fleet) -> _Problems:
    if not spec.name:
        yield Violation("name", "is required: the handler that is to run the task")
    for field, text in (("name", spec.name), ("queue", spec.queue)):
        if not text or is_name(text):
            continue
        if len(text.encode()) > limits.MAX_NAME_BYTES:
            yield Violation(field, _too_long(len(text.encode()), limits.MAX_NAME_BYTES))
        else:
            yield Violation(field, f"may hold letters, digits and ._:-/ only, not {shown(text)}")


def _texts(spec: TaskSpec, _fleet: Fleet) -> _Problems:
    for field, text in (
        ("affinity_key", spec.affinity_key),
        ("tenant", spec.tenant),
        ("idempotency_key", spec.idempotency_key),
        ("request_id", spec.request_id),
    ):
        if len(text) * 4 > limits.MAX_KEY_BYTES and len(text.encode()) > limits.MAX_KEY_BYTES:
            yield Violation(field, _too_long(len(text.encode()), limits.MAX_KEY_BYTES))


def _content_type(spec: TaskSpec, _fleet: Fleet) -> _Problems:
    text = spec.content_type
    if len(text.encode()) > limits.MAX_CONTENT_TYPE_BYTES:
        size = len(text.encode())
        yield Violation("content_type", _too_long(size, limits.MAX_CONTENT_TYPE_BYTES))
    elif text and _MEDIA_TYPE.fullmatch(text) is None:
        yield Violation("content_type", f"{shown(text)} is no media type such as application/json")


def _labels(spec: TaskSpec, _fleet: Fleet) -> _Problems:
    if len(spec.labels) > limits.MAX_LABELS:
        yield Violation(
            "labels", f"has {len(spec.labels)} entries, the limit is {limits.MAX_LABELS}"
        )
    for key, value in spec.labels.items():
        key_bytes, value_bytes = len(key.encode()), len(value.encode())
        if not key:
            yield Violation("labels", "has an entry with an empty key")
        if key_bytes > limits.MAX_LABEL_KEY_BYTES:
            problem = _too_long(key_bytes, limits.MAX_LABEL_KEY_BYTES)
            yield Violation("labels", f"the key {shown(key)} {problem}")
        if value_bytes > limits.MAX_LABEL_VALUE_BYTES:
            problem = _too_long(value_bytes, limits.MAX_LABEL_VALUE_BYTES)
            yield Violation("labels", f"the value of {shown(key)} {problem}")


def _places(spec: TaskSpec, fleet: Fleet) -> _Problems:
    if len(spec.residency) > limits.MAX_RESIDENCY_GROUPS:
        count = len(spec.residency)
        problem = f"has {count} groups, the limit is {limits.MAX_RESIDENCY_GROUPS}"
        yield Violation("residency", problem)
    elif spec.residency and not fleet.groups.issuperset(spec.residency):
        known = ", ".join(sorted(fleet.groups)) or "none is configured"
        for group in spec.residency:
            if group not in fleet.groups:  # "" and "EU", too: never read as "no restriction"
                problem = f"{shown(group)} is not a residency group; known: {known}"
                yield Violation("residency", problem)
    for field, region in (("pin_region", spec.pin_region), ("origin_region", spec.origin_region)):
        if region and region not in fleet.regions:
            known = ", ".join(fleet.regions)
            yield Violation(field, f"{shown(region)} is not a region; known: {known}")


def _numbers(spec: TaskSpec, _fleet: Fleet) -> _Problems:
    if spec.priority not in task_pb2.Priority.values():
        yield Violation("priority", f"{spec.priority} is not a priority; use HIGH, NORMAL or LOW")
    if spec.max_attempts > limits.MAX_ATTEMPTS:
        problem = f"is {spec.max_attempts}, the limit is {limits.MAX_ATTEMPTS}"
        yield Violation("max_attempts", problem)
    if not spec.HasField("timeout"):
        return
    if not _is_duration(spec.timeout):
        yield Violation("timeout", "is not a valid duration")
    elif _nanos(spec.timeout) <= 0:
        yield Violation("timeout", "must be positive; leave it unset for the queue's")
    elif _nanos(spec.timeout) > limits.MAX_TIMEOUT_MS * 1_000_000:
        yield Violation(
            "timeout", f"may be at most {limits.MAX_TIMEOUT_MS // limits.HOUR_MS} hours"
        )


_CHECKS: tuple[Callable[[TaskSpec, Fleet], _Problems], ...] = (
    _names,
    _texts,
    _content_type,
    _labels,
    _places,
    _numbers,
)


class _Start:
    """When a task may first start, by `delay` or `not_before`, and whether it may expire so."""

    def __init__(self, spec: TaskSpec, now_ms: int) -> None:
        self.delay_ms, self.not_before_ms = 0, 0
        self._now_ms = now_ms
        self.problems: list[Violation] = []
        if spec.HasField("delay") and spec.HasField("not_before"):
            problem = "delay and not_before exclude each other; set one"
            self.problems += [Violation("delay", problem), Violation("not_before", problem)]
        elif spec.HasField("delay"):
            self._take_delay(spec.delay)
        elif spec.HasField("not_before"):
            self._take_instant(spec.not_before)
        if spec.HasField("expires_at"):
            self._check_expiry(spec.expires_at)

    def _take_delay(self, delay: Duration) -> None:
        if not _is_duration(delay):
            self.problems.append(Violation("delay", "is not a valid duration"))
        elif _nanos(delay) < 0:
            self.problems.append(Violation("delay", "must not be negative"))
        else:
            self.delay_ms = _ceil_ms(delay)
            self._check_horizon("delay")

    def _take_instant(self, instant: Timestamp) -> None:
        if not _is_timestamp(instant):
            self.problems.append(Violation("not_before", "is not a valid timestamp"))
        else:
            self.not_before_ms = max(0, _ceil_ms(instant))
            self._check_horizon("not_before")

    @property
    def _wait_ms(self) -> int:
        """Until the earliest start."""
        return max(self.delay_ms, self.not_before_ms - self._now_ms)

    def _check_expiry(self, instant: Timestamp) -> None:
        if not _is_timestamp(instant):
            self.problems.append(Violation("expires_at", "is not a valid timestamp"))
            return
        left_ms = _nanos(instant) // 1_000_000 - self._now_ms
        if left_ms <= 0:
            self.problems.append(Violation("expires_at", "must be in the future"))
        elif left_ms <= self._wait_ms:
            self.problems.append(Violation("expires_at", "must be after the earliest start"))
        elif left_ms > self._wait_ms + limits.MAX_EXPIRY_MS:
            days = limits.MAX_EXPIRY_MS // limits.DAY_MS
            problem = (
                f"may be at most {days} days after the earliest start; leave it unset for no end"
            )
            self.problems.append(Violation("expires_at", problem))

    def _check_horizon(self, field: str) -> None:
        if self._wait_ms > limits.MAX_DELAY_MS:
            days = limits.MAX_DELAY_MS // limits.DAY_MS
            self.problems.append(Violation(field, f"may be at most {days} days ahead"))


def _read(spec: TaskSpec, found: list[Violation]) -> Body | None:
    """Read the payload, or add to what was `found`."""
    content_type = spec.content_type or "application/json"
    try:
        body = read_body(spec.payload, content_type)
    except PayloadNotCanonical as error:
        found.append(Violation("payload", error.problem))
        return None
    # An object's members become the handler's keyword arguments; empty means none.
    if is_json(content_type) and body.data and not body.data.startswith(b"{"):
        found.append(Violation("payload", "must be a JSON object, whose members are the arguments"))
        return None
    return body


def _is_duration(span: Duration) -> bool:
    same_sign = span.seconds == 0 or span.nanos == 0 or (span.seconds < 0) == (span.nanos < 0)
    return abs(span.seconds) <= _DURATION_S and abs(span.nanos) < _NANOS and same_sign


def _is_timestamp(instant: Timestamp) -> bool:
    low, high = _TIMESTAMP_S
    return low <= instant.seconds <= high and 0 <= instant.nanos < _NANOS


def _nanos(time: Duration | Timestamp) -> int:
    return time.seconds * _NANOS + time.nanos


def _ceil_ms(time: Duration | Timestamp) -> int:
    return -(-_nanos(time) // 1_000_000)


def _too_long(size: int, limit: int) -> str:
    return f"has {size} bytes, the limit is {limit}"
