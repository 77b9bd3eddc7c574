import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind import codec
from tradewind.state import State
from tradewind.task import Draft
from tradewind.v1 import task_pb2


def pack(spec: bytes, **changes: object) -> bytes:
    facts: dict[str, object] = {
        "fingerprint": bytes(range(32)),
        "fence": ("eu",),
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "birth_region": "eu-west",
        "deduplicated": True,
    }
    return codec.pack(Draft(name="n", spec=spec), **(facts | changes))  # type: ignore[arg-type]


def test_what_was_packed_is_read_back_field_by_field() -> None:
    spec = task_pb2.TaskSpec(name="email.send", payload=b"{}", labels={"a": "b"})

    stored = codec.unpack(pack(spec.SerializeToString()))

    assert stored.spec == spec
    assert stored.fingerprint == bytes(range(32))
    assert list(stored.fence) == ["eu"]
    assert stored.traceparent.startswith("00-0af7")
    assert stored.birth_region == "eu-west"
    assert stored.deduplicated


@pytest.mark.parametrize("size", [0, 1, 120, 127, 128, 16_383, 16_384, 1 << 20])
def test_a_spec_of_any_length_survives_its_length_prefix(size: int) -> None:
    spec = task_pb2.TaskSpec(payload=b"x" * size)

    assert codec.unpack(pack(spec.SerializeToString())).spec == spec


@given(payload=st.binary(max_size=300), name=st.text(max_size=30))
def test_embedding_equals_parsing_and_serialising_again(payload: bytes, name: str) -> None:
    spec = task_pb2.TaskSpec(name=name, payload=payload)

    assert codec.unpack(pack(spec.SerializeToString())).spec == spec


def test_the_spec_bytes_are_embedded_unread() -> None:
    from_a_newer_client = b"\xf8\x07\x01"  # field 127, which this release does not know

    assert from_a_newer_client in pack(from_a_newer_client)
    assert from_a_newer_client in codec.unpack(pack(from_a_newer_client)).SerializeToString()


@pytest.mark.parametrize("damaged", [b"\x0a\x05ab", b"\xff\xff\xff", b"\x0a\x02\x0a\x09"])
def test_bytes_that_are_no_record_are_called_damaged(damaged: bytes) -> None:
    with pytest.raises(codec.DamagedRecord):
        codec.unpack(damaged)
    with pytest.raises(codec.DamagedRecord):
        codec.hops(damaged)


def test_hops_are_appended_in_order() -> None:
    packed = b""
    for region, state in (("us", State.DEAD_LETTER), ("eu", State.PENDING)):
        packed = codec.add_hop(
            packed, region=region, state=state, attempts=5, reason="exhausted", at_ms=1_234_567
        )

    first, second = codec.hops(packed)

    assert (first.region, first.state) == ("us", task_pb2.TASK_STATE_DEAD_LETTER)
    assert (second.region, second.state) == ("eu", task_pb2.TASK_STATE_PENDING)
    assert (first.attempts, first.reason, first.at.ToMilliseconds()) == (5, "exhausted", 1_234_567)


def test_a_task_that_never_moved_has_no_hops() -> None:
    assert codec.hops(b"") == []


def test_every_state_has_its_name_in_the_contract() -> None:
    names = {state: task_pb2.TaskState.Name(value) for state, value in codec.STATES.items()}

    assert names == {state: f"TASK_STATE_{state}" for state in State}
