"""Time that a test moves, and who wants to hear of it."""

from collections.abc import Callable

from tradewind.clock import ManualClock


class TestClock(ManualClock):
    """A ManualClock that tells when it was moved on."""

    __test__ = False  # no test case, whatever pytest thinks of its name

    def __init__(self, now_ms: int | None = None) -> None:
        """Start at a wall time in ms; without one at that of ManualClock."""
        if now_ms is None:
            super().__init__()
        else:
            super().__init__(now_ms)
        self.moved: list[Callable[[], None]] = []

    def advance(self, by_ms: float) -> None:
        """Move on. Raises ValueError for a negative step."""
        super().advance(by_ms)
        for hear in tuple(self.moved):
            hear()
