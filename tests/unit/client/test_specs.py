"""What becomes a TaskSpec, and what is refused before it is sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from tradewind.client.specs import build_spec
from tradewind.clock import SystemClock
from tradewind.errors import (
    InvalidTask,
    PayloadTooLarge,
)
from tradewind.limits import MAX_PAYLOAD_BYTES
from tradewind.v1 import task_pb2

BAD_OPTIONS: dict[str, tuple[str, Any]] = {
    "an unknown priority": ("priority", "urgent"),
    "a text where a list of groups belongs": ("residency", "eu"),
    "a number as a label": ("labels", {"a": 1}),
    "a delay that is no number": ("delay", "soon"),
    "a moment without a time zone": ("not_before", datetime(2026, 1, 1)),  # noqa: DTZ001
    "a number as a key": ("affinity_key", 7),
    "a negative count": ("max_attempts", -1),
}


@pytest.mark.parametrize(("field", "value"), list(BAD_OPTIONS.values()), ids=list(BAD_OPTIONS))
def test_what_cannot_be_sent_names_its_field(field: str, value: Any) -> None:
    options: Any = {field: value}
    with pytest.raises(InvalidTask) as caught:
        build_spec("email.send", None, options)
    assert [violation.field for violation in caught.value.violations] == [field]


HINTS: dict[str, tuple[str, Any, str]] = {
    "one group": ("residency", "eu", 'write ["eu"]'),
    "a length with a unit": ("delay", "1s", "give seconds, such as 1.5, or a timedelta"),
}


@pytest.mark.parametrize(("field", "value", "hint"), HINTS.values(), ids=HINTS)
def test_what_cannot_be_sent_says_what_to_write(field: str, value: Any, hint: str) -> None:
    options: Any = {field: value}
    with pytest.raises(InvalidTask) as caught:
        build_spec("email.send", None, options)
    assert hint in str(caught.value)


@pytest.mark.parametrize("args", ["abc", [1], [("to", "a")], 7], ids=repr)
def test_arguments_that_are_no_object_are_refused(args: Any) -> None:
    with pytest.raises(InvalidTask, match="payload: must be a JSON object"):
        build_spec("email.send", args, {})


@pytest.mark.parametrize("args", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}])
def test_arguments_that_are_no_json_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match="payload"):
        build_spec("email.send", args, {})


def test_a_payload_over_the_limit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(PayloadTooLarge):
        build_spec("email.send", b"x" * (MAX_PAYLOAD_BYTES + 1), {})


def test_an_option_that_does_not_exist_is_a_type_error() -> None:
    options: Any = {"retries": 3}
    with pytest.raises(TypeError, match="retries"):
        build_spec("email.send", None, options)


def test_every_option_reaches_its_field() -> None:
    spec = build_spec(
        "image.resize",
        b"png",
        {
            "priority": "high",
            "labels": {"data-class": "pii-eu"},
            "residency": ["eu"],
            "delay": 1.5,
            "timeout": timedelta(minutes=2),
            "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
            "max_attempts": 3,
            "content_type": "image/png",
        },
    )
    assert spec.priority == task_pb2.PRIORITY_HIGH
    assert dict(spec.labels) == {"data-class": "pii-eu"}
    assert list(spec.residency) == ["eu"]
    assert spec.delay.ToTimedelta() == timedelta(seconds=1.5)
    assert spec.timeout.ToTimedelta() == timedelta(minutes=2)
    assert spec.expires_at.ToDatetime(tzinfo=UTC) == datetime(2030, 1, 1, tzinfo=UTC)
    assert (spec.max_attempts, spec.content_type) == (3, "image/png")


def test_an_expiry_may_be_counted_from_now() -> None:
    before_ms = SystemClock().now_ms()
    spec = build_spec("email.send", None, {"expires": timedelta(minutes=1)})
    after_ms = SystemClock().now_ms()
    assert before_ms + 60_000 <= spec.expires_at.ToMilliseconds() <= after_ms + 60_000


def test_two_expiries_exclude_each_other() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidTask, match="expires_at: excludes expires"):
        build_spec("email.send", None, {"expires": 1, "expires_at": until})


@pytest.mark.parametrize("span", ["soon", 1e9 * 400, float("inf")])
def test_an_expiry_that_no_clock_can_show_is_refused(span: Any) -> None:
    with pytest.raises(InvalidTask, match="expires"):
        build_spec("email.send", None, {"expires": span})


def test_a_status_without_our_details_keeps_its_words() -> None:
    from tradewind.client.calls import refusal_of

    refusal = refusal_of(status_pb2.Status(code=7, message="not for you"))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert str(refusal.error) == "not for you"
    assert not refusal.is_repeatable
