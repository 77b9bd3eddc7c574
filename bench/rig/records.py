"""What handlers leave behind: when a task was submitted and when it started, outside the product.

One file a process, mapped into memory, so that a record costs below a microsecond and outlives a
kill. A record is two doubles, seconds of the monotonic clock that all processes of a machine share:
(submitted, started). The format is that of the peers' harness, whose scripts write it too.
"""

import array
import mmap
import os
import struct
import time
from pathlib import Path

FOLDER_VARIABLE = "BENCH_REC_DIR"
CAPACITY_VARIABLE = "BENCH_REC_CAP"

_RECORD = struct.Struct("<dd")
SIZE = _RECORD.size
_EMPTY = bytes(8)


class Recorder:
    """The records of this process. Call it from one thread."""

    def __init__(self) -> None:
        """Make the file. Raises KeyError without the variables above."""
        self._left = int(os.environ[CAPACITY_VARIABLE])
        self._at = 0
        path = Path(os.environ[FOLDER_VARIABLE]) / f"{os.getpid()}.rec"
        with path.open("w+b") as file:
            file.truncate(self._left * _RECORD.size)
            self._map = mmap.mmap(file.fileno(), self._left * _RECORD.size)

    def __call__(self, submitted_s: float) -> None:
        """Note that a task has started just now. Past the capacity nothing is kept."""
        if self._left:
            self._left -= 1
            _RECORD.pack_into(self._map, self._at, submitted_s, time.monotonic())
            self._at += _RECORD.size


def count(folder: Path) -> int:
    """How many records there are by now. Cheap: a file fills from its front."""
    total = 0
    for path in folder.glob("*.rec"):
        with path.open("rb") as file:
            low, high = 0, os.fstat(file.fileno()).st_size // _RECORD.size
            while low < high:
                middle = (low + high) // 2
                file.seek(middle * _RECORD.size + 8)  # the start: submitted may be 0
                if file.read(8) in {_EMPTY, b""}:
                    high = middle
                else:
                    low = middle + 1
        total += low
    return total


def writers(folder: Path) -> int:
    """How many processes have left a record by now."""
    found = 0
    for path in folder.glob("*.rec"):
        with path.open("rb") as file:
            file.seek(8)
            found += file.read(8) not in {_EMPTY, b""}
    return found


def read(folder: Path) -> list[tuple[float, float]]:
    """All records, in the order of their starts."""
    pairs: list[tuple[float, float]] = []
    for path in folder.glob("*.rec"):
        values = array.array("d")
        raw = path.read_bytes()
        values.frombytes(raw[: len(raw) // _RECORD.size * _RECORD.size])
        pairs += [(values[i], values[i + 1]) for i in range(0, len(values), 2) if values[i + 1]]
    return sorted(pairs, key=lambda pair: pair[1])
