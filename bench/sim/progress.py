"""Says on stderr how far a long run is, and how fast."""

import sys
import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 10.0  # by the clock of the host; what takes less says nothing


class Progress:
    """Of one run."""

    def __init__(
        self, of: str, length_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`length_s`: how much time is simulated; `clock`: seconds of the host."""
        self._of, self._length_s, self._clock = of, length_s, clock
        self._began_s = self._told_s = clock()

    def at(self, now_s: float, tasks: int) -> None:
        """`now_s` has been reached, and `tasks` simulated."""
        clock_s = self._clock()
        if clock_s - self._told_s < EVERY_S:
            return
        self._told_s = clock_s
        print(
            f"{self._of}: {now_s:.0f} of {self._length_s:.0f} s, {tasks:,} tasks, "
            f"{tasks / (clock_s - self._began_s):,.0f} tasks/s",
            file=sys.stderr,
        )
