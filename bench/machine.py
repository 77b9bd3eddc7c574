"""What the figures were measured on, and how they are summed up."""

import math
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

_SPIN = 2_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """Median and range of a repeated measurement."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        """Sum up at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        """`median (low .. high)`."""
        return f"{self.median:.2f} ({self.low:.2f} .. {self.high:.2f})"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(len(ordered) * share) - 1))]


def describe() -> dict[str, str]:
    """The machine, and how fast a fixed piece of Python ran on it just now."""
    began_s = time.perf_counter()
    sum(range(_SPIN))
    return {
        "cpus": str(os.cpu_count()),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "spin_ms": f"{(time.perf_counter() - began_s) * 1000:.1f}",
    }
