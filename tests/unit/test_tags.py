from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from tradewind.store import tags as module
from tradewind.store.tags import SUPPORTED, tags

SLOTS = 16_384
ROOT = Path(__file__).parents[2]


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM bit by bit, as the appendix of the Redis Cluster specification has it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def test_the_crc_of_this_test_is_the_one_redis_names() -> None:
    assert crc16(b"123456789") == 0x31C3


@pytest.mark.parametrize("partitions", SUPPORTED)
def test_every_tag_is_at_the_slot_of_its_partition(partitions: int) -> None:
    slots = [crc16(tag.encode()) % SLOTS for tag in tags(partitions)]
    assert slots == [(2 * i + 1) * SLOTS // (2 * partitions) for i in range(partitions)]


@pytest.mark.parametrize("partitions", SUPPORTED)
@pytest.mark.parametrize("primaries", [1, 3, 5, 6, 12])
def test_equal_slot_ranges_hold_equal_shares_within_one(partitions: int, primaries: int) -> None:
    shares = [0] * primaries
    for tag in tags(partitions):
        shares[crc16(tag.encode()) % SLOTS * primaries // SLOTS] += 1
    assert sum(shares) == partitions
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("partitions", SUPPORTED)
def test_tags_are_distinct_and_short_hex(partitions: int) -> None:
    found = tags(partitions)
    assert len(set(found)) == partitions
    assert all(1 <= len(tag) <= 5 and set(tag) <= set("0123456789abcdef") for tag in found)


def test_tables_of_different_sizes_share_no_slot() -> None:
    every = [tag for n in SUPPORTED for tag in tags(n)]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("partitions", [0, -64, 1, 32, 65, 512])
def test_another_number_is_refused_with_those_that_work(partitions: int) -> None:
    with pytest.raises(ValueError, match=f"16, 64, 128, 256, not {partitions}"):
        tags(partitions)


def test_the_committed_tables_are_what_the_search_finds() -> None:
    checked = run(
        [executable, ROOT / "tools" / "make_tags.py", "--check"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_first_tags_are_those_of_every_release_before() -> None:
    assert module.TAGS_64[:4] == ("08d09", "1e89", "00dd", "2113")
    assert module.TAGS_64[-1] == "802"
