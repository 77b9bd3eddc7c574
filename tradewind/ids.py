"""Task ids and partitions. Pure: time and randomness come as arguments.

An id is 128 bits as 26 characters of Crockford base32 in lower case: 48 bits of milliseconds since
1970, 20 of the birth region's code, 12 of the birth partition, 48 random. Ids sort by time, and a
read finds the region and partition without a directory.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

ID_LENGTH = 26
MAX_PARTITIONS = 1 << 12

_TIME_BITS, _REGION_BITS, _PARTITION_BITS, _RANDOM_BITS = 48, 20, 12, 48
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_BORN_SHIFTS = tuple(range(_TIME_BITS + _REGION_BITS - 8, -1, -10))
# 26 characters hold 130 bits; the first may not use the two that are too many.
_SHAPE = re.compile(f"[0-7][{_ALPHABET}]{{{ID_LENGTH - 1}}}")
_TO_BASE32 = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")


class MalformedTaskId(ValueError):
    """The text is not a task id. `text` is what was given, cut to a length fit for an answer."""

    def __init__(self, text: str) -> None:
        self.text = text[: 2 * ID_LENGTH]
        super().__init__(
            f"{self.text!r} is not a task id: expected {ID_LENGTH} characters 0-9 and a-z "
            "without i, l, o, u, as its submit returned it"
        )


@dataclass(frozen=True, slots=True)
class ParsedId:
    """What a task id carries: when and where it was born, not where the task is now."""

    time_ms: int
    region_code: int
    partition: int
    random: int


def mint(now_ms: int, region_code: int, partition: int, entropy: int) -> str:
    """Return a new id. Takes the low 48 bits of `entropy`, which the caller draws at random.

    Raises ValueError if the time, region code or partition does not fit its bits.
    """
    if not 0 <= partition < MAX_PARTITIONS:
        _refuse_wide("partition", partition, _PARTITION_BITS)
    end = partition << _RANDOM_BITS | entropy & ((1 << _RANDOM_BITS) - 1)
    return (
        f"{_born(now_ms, region_code)}{_PAIRS[end >> 50]}{_PAIRS[end >> 40 & 1023]}"
        f"{_PAIRS[end >> 30 & 1023]}{_PAIRS[end >> 20 & 1023]}{_PAIRS[end >> 10 & 1023]}"
        f"{_PAIRS[end & 1023]}"
    )


@lru_cache(maxsize=64)  # tasks that come together are born in the same millisecond
def _born(now_ms: int, region_code: int) -> str:
    """The first 14 characters, which end where time and region do."""
    _refuse_wide("now_ms", now_ms, _TIME_BITS)
    _refuse_wide("region_code", region_code, _REGION_BITS)
    value = now_ms << _REGION_BITS | region_code
    return "".join([_PAIRS[value >> shift & 1023] for shift in _BORN_SHIFTS])


def parse(text: str) -> ParsedId:
    """Read an id. Raises MalformedTaskId: one spelling only, so upper case is refused too."""
    if not is_task_id(text):
        raise MalformedTaskId(text)
    value = int(text.translate(_TO_BASE32), 32)
    time_and_place = value >> _RANDOM_BITS
    return ParsedId(
        time_ms=time_and_place >> _REGION_BITS + _PARTITION_BITS,
        region_code=time_and_place >> _PARTITION_BITS & ((1 << _REGION_BITS) - 1),
        partition=time_and_place & ((1 << _PARTITION_BITS) - 1),
        random=value & ((1 << _RANDOM_BITS) - 1),
    )


def birth_partition(task_id: str) -> int:
    """Return the partition that an id carries, for ids that are known to be well-formed."""
    return int(task_id[14:17].translate(_TO_BASE32), 32) >> 3  # bits 45 to 59, the last 3 random


@lru_cache(maxsize=4096)  # tasks that come together were mostly born within few milliseconds
def _time_of(head: str) -> int:
    return int(head.translate(_TO_BASE32), 32)


def birth_ms(task_id: str) -> int:
    """Return the time that an id carries, ms since 1970; the id is known to be well-formed."""
    return _time_of(task_id[:10])


def is_task_id(text: str) -> bool:
    """Whether `parse` would read the text."""
    return _SHAPE.fullmatch(text) is not None


@lru_cache(maxsize=256)  # far above the regions of any one file
def region_code(name: str) -> int:
    """Return the 20-bit code of a region's name, the same in every process and release.

    Two names may share a code (for 20 regions about 1 in 5,500): the region file is refused then.
    """
    digest = blake2b(name.encode(), digest_size=8, person=b"tw-region").digest()
    return int.from_bytes(digest, "big") >> 64 - _REGION_BITS


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition in [0, partitions) that a key belongs to, the same everywhere."""
    digest = blake2b(key, digest_size=8, person=b"tw-partition").digest()
    return int.from_bytes(digest, "big") % partitions


def _refuse_wide(name: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        message = f"{name}={value} does not fit the {bits} bits it has in a task id"
        raise ValueError(message)
