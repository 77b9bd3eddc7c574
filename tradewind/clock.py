"""Clocks, handed in wherever time is read, so that a test can hold it still.

No host clock decides who owns a task: leases, due times and windows follow Redis's TIME.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the code may know about time."""

    def now_ms(self) -> int:
        """Wall time in ms since 1970. For ids and display only: it may jump."""
        ...

    def monotonic_ms(self) -> float:
        """Time in ms from an unknown start that never goes back, finer than a ms."""
        ...


class SystemClock:
    """The host's clocks."""

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Monotonic time in ms."""
        return time.monotonic_ns() / 1_000_000


class ManualClock:
    """A clock that moves only when told to; wall and monotonic time move together."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        """Start at a wall time in ms; by default 2026-01-01T00:00:00Z."""
        self._start_ms = now_ms
        self._passed_ms = 0.0

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        return self._start_ms + int(self._passed_ms)

    def monotonic_ms(self) -> float:
        """Monotonic time in ms, 0 at the start."""
        return self._passed_ms

    def advance(self, by_ms: float) -> None:
        """Move both clocks on. Raises ValueError for a negative step."""
        if by_ms < 0:
            message = f"a clock cannot go back by {-by_ms} ms"
            raise ValueError(message)
        self._passed_ms += by_ms
