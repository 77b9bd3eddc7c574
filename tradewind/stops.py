"""Requests to stop, each of which may arrive as several signals."""

import math
import time
from collections.abc import Callable
from typing import Final

# The repeats of one request were seen 5 to 17 ms apart on a busy machine; nobody who means "now,
# really" asks twice as fast as this.
TOGETHER_S: Final = 0.1


class Stops:
    """Tells a second request to stop from a repeat of the first.

    A process that is to end with its parent (PR_SET_PDEATHSIG, prctl(2)) hears of the parent's
    death once for each thread that this had: the kernel passes the child from one to the next as
    they end, and signals each time. A second request cuts off what is under way, a repeat must not.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s` is a clock that does not go back."""
        self._now_s, self._last_s = now_s, -math.inf

    def is_new(self) -> bool:
        """Whether the signal that has just come begins a request. Ask once for each signal."""
        now_s = self._now_s()
        is_new = now_s - self._last_s > TOGETHER_S
        self._last_s = now_s
        return is_new
