"""The document as JSON: whole, old, new and damaged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind.control import (
    Control,
    DamagedControl,
    Evacuation,
    Order,
    Pause,
    Stamp,
    codec,
    decode,
    encode,
)

WHOLE = Control(
    Stamp(7, "c7"),
    regions={"eu": Order("DRAINING", "disk", "ann", 5, forced=True), "us": Order("CORDONED")},
    pauses={"mail": Pause("bob", 6)},
    evacuations={"eu": Evacuation(12.5, "ann", 7)},
    forced=True,
    recent=("c6", "c7"),
)

controls = st.builds(
    Control,
    st.builds(Stamp, st.integers(1, 2**40), st.text(max_size=8)),
    regions=st.dictionaries(
        st.text(max_size=5),
        st.builds(
            Order,
            st.sampled_from(["ACTIVE", "CORDONED", "DRAINING"]),
            st.text(max_size=9),
            st.text(max_size=9),
            st.integers(0, 2**45),
            forced=st.booleans(),
        ),
        max_size=3,
    ),
    pauses=st.dictionaries(st.text(max_size=5), st.builds(Pause, st.text(max_size=5)), max_size=3),
    forced=st.booleans(),
    recent=st.lists(st.text(max_size=4), max_size=4).map(tuple),
)


def test_every_field_comes_back() -> None:
    assert decode(encode(WHOLE)) == WHOLE


@given(controls)
def test_what_is_written_is_read_as_it_was(control: Control) -> None:
    assert decode(encode(control)) == control


def test_fields_that_an_older_version_did_not_write_have_their_defaults() -> None:
    old = b'{"epoch": 3, "change_id": "c", "regions": {"eu": {"state": "CORDONED"}}}'
    assert decode(old) == Control(Stamp(3, "c"), regions={"eu": Order("CORDONED")})


def test_fields_that_only_a_newer_version_knows_are_passed_over() -> None:
    written: dict[str, Any] = json.loads(encode(WHOLE))
    written["quotas"] = {"mail": 3}
    written["regions"]["eu"]["until_ms"] = 9
    assert decode(json.dumps(written).encode()) == WHOLE


def test_a_state_that_only_a_newer_version_knows_is_the_strictest_one() -> None:
    new = b'{"epoch": 3, "change_id": "c", "regions": {"eu": {"state": "CLOSED"}}}'
    assert decode(new).state("eu") == "DRAINING"


DAMAGED = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"epoch": 1, "change_id": "\xff"}',
    "no object": b"[]",
    "no epoch": b"{}",
    "an epoch below the first": b'{"epoch": -1}',
    "an epoch that Lua cannot count": b'{"epoch": 4503599627370496}',
    "a text for an epoch": b'{"epoch": "1"}',
    "a truth for an epoch": b'{"epoch": true}',
    "regions as a list": b'{"epoch": 1, "regions": []}',
    "a region as a text": b'{"epoch": 1, "regions": {"eu": "DRAINING"}}',
    "a rate below nothing": b'{"epoch": 1, "evacuations": {"eu": {"rate_per_s": -1}}}',
    "a rate without end": b'{"epoch": 1, "evacuations": {"eu": {"rate_per_s": Infinity}}}',
    "a number among the changes": b'{"epoch": 1, "recent": [1]}',
    "nesting without end": b"[" * 100_000,
    "more than is ever written": b'{"epoch": 1}' + b" " * codec.MAX_BYTES,
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_refused_and_never_half_read(data: bytes) -> None:
    with pytest.raises(DamagedControl):
        decode(data)


def test_a_document_that_is_too_large_is_not_written() -> None:
    huge = Control(Stamp(1, "c"), regions={"eu": Order("DRAINING", "x" * codec.MAX_BYTES)})
    with pytest.raises(ValueError, match="limit"):
        encode(huge)
