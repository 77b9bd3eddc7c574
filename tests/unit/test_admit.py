from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tradewind import statuses
from tradewind.admission import admit
from tradewind.errors import InvalidTask, PayloadTooLarge
from tradewind.fleet import Fleet, RedisTarget, Region
from tradewind.limits import MAX_DELAY_MS, MAX_EXPIRY_MS, MAX_PAYLOAD_BYTES
from tradewind.v1.task_pb2 import TaskSpec

NOW_MS = 1_767_225_600_000
HERE = RedisTarget("standalone", ("127.0.0.1:1",))
FLEET = Fleet(
    regions={
        "eu-west": Region("eu-west", HERE, ("eu",)),
        "no": Region("no", HERE, ("no", "eu")),
    }
)


def spec(**fields: Any) -> TaskSpec:
    given: dict[str, Any] = {"name": "email.send", "payload": b"{}"} | fields
    return TaskSpec(**given)


def check(wrong: TaskSpec) -> admit.Admitted:
    return admit.check(wrong, FLEET, now_ms=NOW_MS)


def at(ms: int) -> Timestamp:
    instant = Timestamp()
    instant.FromMilliseconds(ms)
    return instant


def labels(count: int) -> dict[str, str]:
    return {f"k{n}": "v" for n in range(count)}


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "a task without a name": ({"name": ""}, "name", "required"),
    "a name with a space": ({"name": "email send"}, "name", "letters, digits"),
    "a name with braces": ({"name": "a{b}c"}, "name", "letters, digits"),
    "a name with a NUL": ({"name": "a\0"}, "name", "letters, digits"),
    "a name with a final line break": ({"name": "email\n"}, "name", "letters, digits"),
    "a name with an emoji": ({"name": "\N{ROCKET}"}, "name", "letters, digits"),
    "a name of 201 bytes": ({"name": "a" * 201}, "name", "201 bytes"),
    "a queue with a star": ({"queue": "mail*"}, "queue", "letters, digits"),
    "a queue of 4 KiB": ({"queue": "q" * 4096}, "queue", "4096 bytes"),
    "a queue of blanks": ({"queue": "  "}, "queue", "letters, digits"),
    "a payload that is not JSON": ({"payload": b"{"}, "payload", "not valid JSON"),
    "a payload that is not UTF-8": ({"payload": b'{"a": "\xff"}'}, "payload", "UTF-8"),
    "a payload with NaN": ({"payload": b'{"a": NaN}'}, "payload", "NaN"),
    "a payload with a key twice": ({"payload": b'{"a":1,"a":2}'}, "payload", "twice"),
    "a payload that is an array": ({"payload": b"[1]"}, "payload", "JSON object"),
    "a payload that is null": ({"payload": b"null"}, "payload", "JSON object"),
    "a payload nested too deep": ({"payload": b'{"a":' + b"[" * 99}, "payload", "levels"),
    "JSON under a parameter": (
        {"payload": b"[]", "content_type": "Application/JSON; charset=utf-8"},
        "payload",
        "JSON object",
    ),
    "a content type that is none": ({"content_type": "json"}, "content_type", "media type"),
    "a content type with a NUL": ({"content_type": "a/b\0"}, "content_type", "media type"),
    "a content type of 201 bytes": ({"content_type": "a/" + "b" * 199}, "content_type", "201"),
    "a priority nobody knows": ({"priority": 9}, "priority", "not a priority"),
    "a negative priority": ({"priority": -1}, "priority", "not a priority"),
    "a long affinity key": ({"affinity_key": "k" * 4097}, "affinity_key", "4097 bytes"),
    "an affinity key long in UTF-8 only": ({"affinity_key": "é" * 2049}, "affinity_key", "4098"),
    "a long tenant": ({"tenant": "k" * 4097}, "tenant", "4097 bytes"),
    "a long idempotency key": ({"idempotency_key": "k" * 4097}, "idempotency_key", "4097"),
    "a long request id": ({"request_id": "k" * 4097}, "request_id", "4097 bytes"),
    "too many labels": ({"labels": labels(65)}, "labels", "65 entries"),
    "a label without a key": ({"labels": {"": "v"}}, "labels", "empty key"),
    "a long label key": ({"labels": {"k" * 201: "v"}}, "labels", "201 bytes"),
    "a long label value": ({"labels": {"k": "v" * 1025}}, "labels", "1025 bytes"),
    "a residency group nobody knows": ({"residency": ["mars"]}, "residency", "known: eu, no"),
    "a residency group in capitals": ({"residency": ["EU"]}, "residency", "known: eu, no"),
    "a residency group with a blank": ({"residency": ["eu "]}, "residency", "known: eu, no"),
    "an empty residency group": ({"residency": [""]}, "residency", "'' is not"),
    "one good residency group and one bad": ({"residency": ["eu", "x"]}, "residency", "'x'"),
    "33 residency groups": ({"residency": ["eu"] * 33}, "residency", "33 groups"),
    "a pin to no region": ({"pin_region": "mars"}, "pin_region", "known: eu-west, no"),
    "a pin to a group": ({"pin_region": "eu"}, "pin_region", "known: eu-west, no"),
    "an origin that is no region": ({"origin_region": "NO"}, "origin_region", "known"),
    "a negative delay": ({"delay": Duration(seconds=-1)}, "delay", "negative"),
    "a delay a nanosecond below zero": ({"delay": Duration(nanos=-1)}, "delay", "negative"),
    "a delay over 30 days": ({"delay": Duration(seconds=2_592_001)}, "delay", "30 days"),
    "a delay that is no duration": (
        {"delay": Duration(seconds=1, nanos=-1)},
        "delay",
        "not a valid",
    ),
    "a delay of eons": ({"delay": Duration(seconds=2**62)}, "delay", "not a valid"),
    "a start in 31 days": (
        {"not_before": at(NOW_MS + MAX_DELAY_MS + 1_000)},
        "not_before",
        "30 days",
    ),
    "a start in the year 9999": (
        {"not_before": datetime(9999, 12, 31, tzinfo=UTC)},
        "not_before",
        "30 days",
    ),
    "a start after the year 9999": (
        {"not_before": Timestamp(seconds=253_402_300_800)},
        "not_before",
        "not a valid",
    ),
    "a start before the year 1": (
        {"not_before": Timestamp(seconds=-62_135_596_801)},
        "not_before",
        "not a valid",
    ),
    "a start with too many nanoseconds": (
        {"not_before": Timestamp(seconds=1, nanos=10**9)},
        "not_before",
        "not a valid",
    ),
    "an expiry in the past": ({"expires_at": at(NOW_MS)}, "expires_at", "future"),
    "an expiry before the earliest start": (
        {"expires_at": at(NOW_MS + 60_000), "delay": Duration(seconds=60)},
        "expires_at",
        "after the earliest start",
    ),
    "an expiry in 31 days": (
        {"expires_at": at(NOW_MS + MAX_EXPIRY_MS + 1)},
        "expires_at",
        "30 days",
    ),
    "an expiry in the year 9999": (
        {"expires_at": datetime(9999, 12, 31, tzinfo=UTC)},
        "expires_at",
        "30 days",
    ),
    "an expiry within this millisecond": (
        {"expires_at": Timestamp(seconds=NOW_MS // 1_000, nanos=999)},
        "expires_at",
        "future",
    ),
    "an expiry that is no time": (
        {"expires_at": Timestamp(nanos=-1)},
        "expires_at",
        "not a valid",
    ),
    "a timeout of zero": ({"timeout": Duration()}, "timeout", "positive"),
    "a negative timeout": ({"timeout": Duration(seconds=-5)}, "timeout", "positive"),
    "a timeout over 12 hours": ({"timeout": timedelta(hours=12, seconds=1)}, "timeout", "12 hours"),
    "a timeout that is no duration": ({"timeout": Duration(nanos=10**9)}, "timeout", "not a valid"),
    "too many attempts": ({"max_attempts": 10_001}, "max_attempts", "10001"),
}


@pytest.mark.parametrize(("fields", "field", "problem"), BAD.values(), ids=BAD)
def test_is_refused_by_the_name_of_its_field(
    fields: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        check(spec(**fields))

    assert {violation.field for violation in refused.value.violations} == {field}
    assert problem in refused.value.violations[0].problem


def test_every_field_of_a_spec_has_a_bad_value_here() -> None:
    assert {field for _, field, _ in BAD.values()} == set(TaskSpec.DESCRIPTOR.fields_by_name)


GOOD: dict[str, dict[str, Any]] = {
    "the least": {"payload": b""},
    "an empty object": {"payload": b" {} "},
    "every character that a name may have": {"name": "aZ09._:-/"},
    "a name of 200 bytes": {"name": "a" * 200},
    "bytes of another type": {"payload": b"\x00\xff", "content_type": "application/octet-stream"},
    "an image with parameters": {"payload": b"\x89PNG", "content_type": "image/png; q=1"},
    "keys with NUL, braces and emoji": {
        "affinity_key": "}{\0",
        "idempotency_key": "a{b}c",
        "tenant": "\N{ROCKET} x",
        "request_id": "\n",
    },
    "keys of 4 KiB": {"affinity_key": "k" * 4096, "idempotency_key": "é" * 2048},
    "labels at their limits": {"labels": labels(63) | {"k" * 200: "v" * 1024}},
    "any of two groups": {"residency": ["eu", "no"]},
    "a region called no": {"pin_region": "no", "origin_region": "no"},
    "30 days of delay": {"delay": timedelta(days=30)},
    "12 hours of timeout": {"timeout": timedelta(hours=12)},
    "30 days until it expires": {"expires_at": at(NOW_MS + MAX_EXPIRY_MS)},
    "an expiry 30 days after its start in 30 days": {
        "not_before": at(NOW_MS + MAX_DELAY_MS),
        "expires_at": at(NOW_MS + MAX_DELAY_MS + MAX_EXPIRY_MS),
    },
    "a stated priority": {"priority": 3},
    "the most attempts": {"max_attempts": 10_000},
}


@pytest.mark.parametrize("fields", GOOD.values(), ids=GOOD)
def test_is_admitted(fields: dict[str, Any]) -> None:
    assert check(spec(**fields))


def test_a_payload_at_the_limit_is_admitted_and_one_byte_more_is_too_large() -> None:
    octets = "application/octet-stream"
    assert check(spec(payload=b"x" * MAX_PAYLOAD_BYTES, content_type=octets))

    with pytest.raises(PayloadTooLarge) as refused:
        check(spec(payload=b"x" * (MAX_PAYLOAD_BYTES + 1), content_type=octets))

    assert refused.value.limit_bytes == MAX_PAYLOAD_BYTES


def test_all_problems_are_reported_together() -> None:
    wrong = TaskSpec(
        queue="*",
        payload=b"x" * (MAX_PAYLOAD_BYTES + 1),
        priority=7,  # type: ignore[arg-type]
        residency=["mars"],
        delay=Duration(seconds=1),
        not_before=at(NOW_MS),
        expires_at=at(NOW_MS - 1),
        timeout=Duration(),
    )

    with pytest.raises(InvalidTask) as refused:
        check(wrong)

    assert {violation.field for violation in refused.value.violations} == {
        "name",
        "queue",
        "payload",
        "priority",
        "residency",
        "delay",
        "not_before",
        "expires_at",
        "timeout",
    }


def test_a_start_in_the_past_is_now() -> None:
    past = check(spec(not_before=at(NOW_MS - 3_600_000)))
    assert (past.delay_ms, past.not_before_ms) == (0, NOW_MS - 3_600_000)
    assert check(spec(not_before=Timestamp())).not_before_ms == 0
    assert check(spec(not_before=Timestamp(seconds=-1))).not_before_ms == 0


def test_a_start_is_never_early_by_rounding() -> None:
    assert check(spec(delay=Duration(nanos=1))).delay_ms == 1
    assert check(spec(not_before=at(NOW_MS + 1_500))).not_before_ms == NOW_MS + 1_500
    assert check(spec(not_before=Timestamp(nanos=1))).not_before_ms == 1
    assert check(spec(timeout=Duration(nanos=1))).timeout_ms == 1


def test_without_a_timeout_it_is_the_queues() -> None:
    assert check(spec()).timeout_ms == 0


def test_long_texts_of_a_caller_are_cut_and_escaped_in_errors() -> None:
    with pytest.raises(InvalidTask) as refused:
        check(spec(residency=["\N{ROCKET}" * 1_000]))

    (violation,) = refused.value.violations
    assert len(violation.problem) < 1_000
    assert violation.problem.isascii()
    assert statuses.to_status(refused.value).ByteSize() < 6_000
