"""A packed spec comes back byte for byte, and takes no more room than it must."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind import codec
from tradewind.state import Mark, State
from tradewind.store.layout import payload_alone, slim, varint, whole
from tradewind.store.letters import LETTERS, shortened, word
from tradewind.task import Draft
from tradewind.v1 import task_pb2

QUEUE, NAME, REGION = "mail", "email.send", "eu"
FILLED_IN: tuple[dict[str, Any], ...] = (
    {},
    {"content_type": "application/json", "priority": task_pb2.PRIORITY_NORMAL},
)
JSON, NORMAL = "application/json", task_pb2.PRIORITY_NORMAL


def packed(*, traceparent: str = "", **spec: object) -> bytes:
    given_spec = task_pb2.TaskSpec(**spec).SerializeToString()  # type: ignore[arg-type]
    draft = Draft(name=NAME, queue=QUEUE, spec=given_spec)
    return codec.pack(draft, fence=(), traceparent=traceparent, deduplicated=False)


CASES: dict[str, tuple[bytes, int]] = {
    "queue, name and payload": (packed(queue=QUEUE, name=NAME, payload=b"x" * 200), 201),
    "a queue that is not said": (packed(name=NAME, payload=b"x" * 200), 201),
    "what admission fills in": (
        packed(queue=QUEUE, name=NAME, payload=b"x" * 200, content_type=JSON, priority=NORMAL),
        201,
    ),
    "a content type that is said": (
        packed(name=NAME, payload=b"x" * 200, content_type=JSON),
        1 + 203 + 18,
    ),
    "what admission fills in, and more": (
        packed(name=NAME, payload=b"x" * 200, **FILLED_IN[1], request_id="r", origin_region="us"),
        1 + 202 + 3 + 5,
    ),
    "the same, of this region": (
        packed(name=NAME, payload=b"x" * 200, **FILLED_IN[1], request_id="r", origin_region="eu"),
        1 + 202 + 3,
    ),
    "from this region": (
        packed(queue=QUEUE, name=NAME, payload=b"x" * 200, **FILLED_IN[1], origin_region="eu"),
        201,
    ),
    "from this region, and a traceparent": (
        packed(name=NAME, payload=b"x" * 200, traceparent="00-ab", origin_region="eu"),
        1 + 2 + 208 + 7,
    ),
    "the same, and no payload": (
        packed(name=NAME, **FILLED_IN[1], origin_region="us"),
        1 + 20 + 5,
    ),
    "from this region, no more": (packed(name=NAME, origin_region="eu"), 1),
    "another priority": (
        packed(name=NAME, payload=b"x", content_type=JSON, priority=task_pb2.PRIORITY_LOW),
        1 + 3 + 18 + 2,
    ),
    "no payload": (packed(queue=QUEUE, name=NAME), 1),
    "one field more": (packed(name=NAME, payload=b"x" * 200, tenant="t"), 1 + 203 + 3),
    "something behind the spec": (
        packed(name=NAME, payload=b"x" * 200, traceparent="00-ab"),
        1 + 2 + 203 + 7,
    ),
    "another queue's": (packed(queue="other", name=NAME, payload=b"x"), 24),
}


@pytest.mark.parametrize(("data", "size"), CASES.values(), ids=CASES)
def test_what_the_record_says_anyway_is_left_out(data: bytes, size: int) -> None:
    stored = slim(data, QUEUE, NAME, REGION)
    assert (whole(stored, QUEUE, NAME, REGION), len(stored)) == (data, size)


@pytest.mark.parametrize("data", [data for data, _ in CASES.values()], ids=CASES)
def test_a_payload_is_read_alone_only_where_there_is_nothing_else(data: bytes) -> None:
    spec = codec.unpack(data).spec
    alone = [
        packed(queue=spec.queue, name=NAME, payload=spec.payload, **filled_in, **from_here)
        for filled_in in FILLED_IN
        for from_here in ({}, {"origin_region": REGION})
    ]
    found = payload_alone(slim(data, QUEUE, NAME, REGION))
    is_alone = data in alone and spec.queue in {"", QUEUE} and spec.payload
    assert found == (spec.payload if is_alone else None)


@given(
    head=st.sampled_from([b"", b"\x0a", packed(queue=QUEUE, name=NAME)[:4], packed(name=NAME)]),
    tail=st.binary(max_size=300),
)
def test_any_bytes_come_back_as_they_were(head: bytes, tail: bytes) -> None:
    usual = packed(name=NAME, payload=tail, **FILLED_IN[1])
    grown = b"\x0a" + varint(len(usual) + 200) + usual[1 + len(varint(len(usual))) :] + head + tail
    here = packed(name=NAME, payload=tail, origin_region=REGION)
    for data in (head + tail, tail, head + varint(len(tail)) + tail, usual + tail, grown, here):
        assert whole(slim(data, QUEUE, NAME, REGION), QUEUE, NAME, REGION) == data


@given(first=st.integers(0xC0, 0xFF), tail=st.binary(max_size=40))
def test_damaged_bytes_are_read_as_something(first: int, tail: bytes) -> None:
    assert isinstance(whole(bytes([first]) + tail, QUEUE, NAME, REGION), bytes)


def test_every_state_has_a_letter_of_its_own() -> None:
    assert set(LETTERS) == {*State, *Mark}
    assert {word(letter.encode()) for letter in LETTERS.values()} == set(LETTERS)
    assert shortened("v[1] == 'PENDING' and 'PENDINGS'") == "v[1] == 'P' and 'PENDINGS'"
