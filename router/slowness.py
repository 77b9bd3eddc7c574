"""Whether calls to one region have become slow, against how they were in the last ten minutes.

Calls are cut into slices of time; each has a 99th percentile. Slow is a region whose last slices
are all far above the median of those before: one slow call is chance, and a region that is far has
always been slow. Pure: times are ms of the router's monotonic clock.
"""

import math
from collections import deque
from statistics import median
from typing import Final

from tradewind.limits import MINUTE_MS, SECOND_MS

SLICE_MS: Final = 5 * SECOND_MS
SLOW_SLICES: Final = 3  # in a row: 15 s; own choice
SLICES: Final = 10 * MINUTE_MS // SLICE_MS  # that are remembered; own choice
KNOWN_SLICES: Final = 12  # before there is anything to compare with: a minute; own choice
LEAST_CALLS: Final = 20  # in a slice that counts, as for a share of errors; own choice
TIMES: Final = 3.0  # the median, above which a slice is slow; own choice
LEAST_MS: Final = 50.0  # more than it: less is no reason to leave; as steering.band_min
_STEPS: Final = 4  # of a doubling: a percentile is right to a fifth


class Slowness:
    """One region's, by this router's own calls."""

    def __init__(self) -> None:
        """No call yet."""
        self._ends_ms = -math.inf
        self._counts: dict[int, int] = {}  # calls of this slice, by the logarithm of their time
        self._highs: deque[float] = deque(
            maxlen=SLICES + SLOW_SLICES
        )  # percentiles of those before
        self._is_slow, self._told_ms = False, -math.inf

    def add(self, now_ms: float, took_ms: float) -> None:
        """Count a call that was answered."""
        if now_ms >= self._ends_ms:
            self._close(now_ms)
        step = math.floor(math.log2(max(took_ms, 0.001)) * _STEPS)
        self._counts[step] = self._counts.get(step, 0) + 1

    def at(self, now_ms: float) -> bool:
        """Whether it is slow now; nothing is known of one that is not called any more."""
        return self._is_slow and now_ms - self._told_ms < 2 * SLICE_MS

    def _close(self, now_ms: float) -> None:
        total = sum(self._counts.values())
        if total >= LEAST_CALLS:
            self._highs.append(_percentile(self._counts, total))
            highs = list(self._highs)
            before, last = highs[:-SLOW_SLICES], highs[-SLOW_SLICES:]
            usual_ms = median(before) if len(before) >= KNOWN_SLICES else math.inf
            self._is_slow = min(last) > max(TIMES * usual_ms, usual_ms + LEAST_MS)
            self._told_ms = now_ms
        self._counts = {}
        self._ends_ms = now_ms + SLICE_MS


def _percentile(counts: dict[int, int], total: int) -> float:
    """Return the time that at most a hundredth of the calls took longer than."""
    above = total // 100
    for step in sorted(counts, reverse=True):
        above -= counts[step]
        if above < 0:
            return 2 ** ((step + 0.5) / _STEPS)
    return 0.0
