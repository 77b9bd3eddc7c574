"""Simulated time: a heap of what happens next. Plain Python, one thread, no clock of the host."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[..., None]


class Engine:
    """Runs actions in the order of their times; those of one instant in the order they came."""

    def __init__(self) -> None:
        """Time is 0, nothing is planned."""
        self.now_s = 0.0
        self.events = 0  # carried out so far
        self._planned: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._serial = 0

    def at(self, when_s: float, action: Action, *arguments: Any) -> None:
        """Plan `action(*arguments)`; a time that has passed means now."""
        self._serial += 1
        heappush(self._planned, (when_s, self._serial, action, arguments))

    def after(self, delay_s: float, action: Action, *arguments: Any) -> None:
        """Plan `action(*arguments)` for `delay_s` from now."""
        self.at(self.now_s + delay_s, action, *arguments)

    def run(self, until_s: float) -> None:
        """Carry out everything up to `until_s`; what is planned for later stays planned."""
        planned = self._planned
        while planned and planned[0][0] <= until_s:
            when_s, _, action, arguments = heappop(planned)
            self.now_s = max(self.now_s, when_s)
            self.events += 1
            action(*arguments)
        self.now_s = max(self.now_s, until_s)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is planned."""
        return not self._planned


class SimulatedClock:
    """`tradewind.clock.Clock` over an engine: wall and monotonic time are both its time."""

    def __init__(self, engine: Engine) -> None:
        """`engine` whose time it tells."""
        self._engine = engine

    def now_ms(self) -> int:
        """Simulated ms since the start."""
        return int(self._engine.now_s * 1000)

    def monotonic_ms(self) -> float:
        """Return the same, finer than a ms."""
        return self._engine.now_s * 1000
