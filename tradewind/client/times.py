"""Seconds, timedeltas and datetimes of callers to protobuf's types, and back."""

from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tradewind.errors import InvalidTask

Seconds = float | int | timedelta


def to_duration(field: str, value: Seconds) -> Duration:
    """Seconds or a timedelta as a Duration. Raises InvalidTask, naming `field`, if none fits."""
    message = Duration()
    try:
        delta = value if isinstance(value, timedelta) else timedelta(seconds=value)
        message.FromTimedelta(delta)
    except (TypeError, ValueError, OverflowError):
        problem = f"{value!r} is no length of time; give seconds, such as 1.5, or a timedelta"
        raise InvalidTask.field(field, problem) from None
    return message


def to_timestamp(field: str, value: datetime) -> Timestamp:
    """Give a moment as a Timestamp. Raises InvalidTask for one without a time zone."""
    if value.tzinfo is None:
        problem = "has no time zone; use datetime.now(UTC) or another aware datetime"
        raise InvalidTask.field(field, problem)
    message = Timestamp()
    message.FromDatetime(value)
    return message


def duration(message: Duration) -> timedelta:
    """Give the length as a timedelta."""
    return message.ToTimedelta()


def seconds(message: Duration) -> float:
    """Give the length in seconds, to the microsecond: nothing here is measured any better."""
    return round(message.ToNanoseconds() / 1_000) / 1_000_000


def milliseconds(message: Duration) -> float:
    """Give the length in milliseconds, to the microsecond."""
    return round(message.ToNanoseconds() / 1_000) / 1_000


def moment(message: Timestamp) -> datetime:
    """Give the moment as an aware datetime in UTC."""
    return message.ToDatetime(tzinfo=UTC)
