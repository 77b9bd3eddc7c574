import re
from pathlib import Path
from subprocess import run
from sys import executable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind import ids

TIMES = st.integers(0, 2**48 - 1)
REGIONS = st.integers(0, 2**20 - 1)
PARTITIONS = st.integers(0, ids.MAX_PARTITIONS - 1)
RANDOM = st.integers(0, 2**48 - 1)


@given(TIMES, REGIONS, PARTITIONS, RANDOM)
def test_an_id_gives_back_what_it_was_minted_from(
    time_ms: int, region: int, partition: int, entropy: int
) -> None:
    text = ids.mint(time_ms, region, partition, entropy)
    assert ids.is_task_id(text)
    assert ids.parse(text) == ids.ParsedId(time_ms, region, partition, entropy)
    assert (ids.birth_ms(text), ids.birth_partition(text)) == (time_ms, partition)


@given(TIMES, TIMES, REGIONS, REGIONS, RANDOM, RANDOM)
def test_ids_sort_by_time_whatever_else_they_carry(
    one: int, other: int, region: int, elsewhere: int, entropy: int, noise: int
) -> None:
    first = ids.mint(one, region, 0, entropy)
    second = ids.mint(other, elsewhere, 0, noise)
    if one != other:
        assert (first < second) == (one < other)


def test_an_id_is_spelled_as_in_every_release_before() -> None:
    assert ids.mint(0, 0, 0, 0) == "0" * 26
    assert ids.mint(2**48 - 1, 2**20 - 1, 2**12 - 1, 2**48 - 1) == "7" + "z" * 25
    golden = ids.mint(1_767_225_600_000, 0xABCDE, 42, 0x123456789ABC)
    assert golden == "01kdvdna00nf6y0agj6hb7h6nw"


def test_only_48_bits_of_entropy_are_used() -> None:
    assert ids.mint(1, 2, 3, 2**48 + 5) == ids.mint(1, 2, 3, 5)


TOO_WIDE = {
    "a time before 1970": ((-1, 0, 0, 0), "now_ms"),
    "a time past the year 10889": ((2**48, 0, 0, 0), "now_ms"),
    "a region code of 21 bits": ((0, 2**20, 0, 0), "region_code"),
    "a partition of 13 bits": ((0, 0, 4_096, 0), "partition"),
}


@pytest.mark.parametrize(("parts", "name"), TOO_WIDE.values(), ids=TOO_WIDE)
def test_mint_refuses_what_does_not_fit(parts: tuple[int, int, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ids.mint(*parts)


MALFORMED = {
    "empty": "",
    "one character short": "0" * 25,
    "one character long": "0" * 27,
    "upper case": "01KDVDNA00NF6Y0AGJ6HB7H6NW",
    "a letter Crockford leaves out": "0" * 25 + "u",
    "more than 128 bits": "8" + "0" * 25,
    "an underscore, which int() would skip": "0" * 12 + "_" + "0" * 13,
    "a line end, which `$` would let pass": "0" * 26 + "\n",
    "digits of another script": "\u0661" * 26,
    "a key of ours": "tw:{5f}:task:" + "0" * 13,
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_id_is_refused(text: str) -> None:
    assert not ids.is_task_id(text)
    with pytest.raises(ids.MalformedTaskId):
        ids.parse(text)


def test_the_refusal_of_an_endless_id_is_short() -> None:
    with pytest.raises(ids.MalformedTaskId) as caught:
        ids.parse("x" * 1_000_000)
    assert len(str(caught.value)) < 300


def test_region_codes_are_stable_and_apart() -> None:
    names = ["us-east", "eu-west", "ap-south"]
    assert [ids.region_code(name) for name in names] == [0xDD09A, 0x878B1, 0x6C99A]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_region_code_has_20_bits(name: str) -> None:
    assert 0 <= ids.region_code(name) < 2**20


def test_partitions_are_stable_and_even() -> None:
    assert [ids.partition_of(b"user-%d" % i, 64) for i in range(5)] == [44, 15, 20, 50, 7]
    counts = [0] * 64
    for i in range(12_800):
        counts[ids.partition_of(b"key-%d" % i, 64)] += 1
    assert min(counts) > 140  # 200 each, and four standard deviations
    assert max(counts) < 260


def test_hash_randomisation_changes_no_partition_and_no_code() -> None:
    script = (
        "from tradewind import ids; print(ids.partition_of(b'user-42', 64), ids.region_code('eu'))"
    )
    root = Path(__file__).parents[2]
    outputs = {
        run(
            [executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{ids.partition_of(b'user-42', 64)} {ids.region_code('eu')}\n"}


def test_the_documented_alphabet_is_crockfords() -> None:
    text = "".join(ids.mint(0, 0, 0, value)[-1] for value in range(32))
    assert text == "0123456789abcdefghjkmnpqrstvwxyz"
    assert not re.search("[ilou]", text)
