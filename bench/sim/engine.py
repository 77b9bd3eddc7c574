"""Simulated time: what happens next, in order. Plain Python, one thread, no clock of the host."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final

Action = Callable[..., None]
_Event = tuple[float, int, Action, tuple[Any, ...]]  # when, the how manyth planned, what

_A_SECOND: Final = 4  # spans; a power of two, so that no rounding moves an event to another


class Engine:
    """Runs actions in the order of their times; those of one instant in the order they came.

    Only the events of the present span are in a heap: thousands of routers look every few seconds,
    and in a heap of all their looks each event would climb and sink past these.
    """

    def __init__(self) -> None:
        """Time is 0, nothing is planned."""
        self.now_s = 0.0
        self.events = 0  # carried out so far
        self._span, self._near = 0, list[_Event]()  # a heap of this span's and earlier ones
        self._later: dict[int, list[_Event]] = {}  # span -> its events, as they came
        self._spans: list[int] = []  # a heap of these spans
        self._serial = 0

    def at(self, when_s: float, action: Action, *arguments: Any) -> None:
        """Plan `action(*arguments)`; a time that has passed means now."""
        self._serial += 1
        event = (when_s, self._serial, action, arguments)
        span = int(when_s * _A_SECOND)
        if span <= self._span:
            heappush(self._near, event)
        elif span in self._later:
            self._later[span].append(event)
        else:
            self._later[span] = [event]
            heappush(self._spans, span)

    def after(self, delay_s: float, action: Action, *arguments: Any) -> None:
        """Plan `action(*arguments)` for `delay_s` from now."""
        self.at(self.now_s + delay_s, action, *arguments)

    def run(self, until_s: float) -> None:
        """Carry out everything up to `until_s`; what is planned for later stays planned."""
        last = int(until_s * _A_SECOND)
        while True:
            near = self._near
            while near and near[0][0] <= until_s:
                when_s, _, action, arguments = heappop(near)
                self.now_s = max(self.now_s, when_s)
                self.events += 1
                action(*arguments)
            if near or not self._spans or self._spans[0] > last:
                break
            self._span = heappop(self._spans)
            self._near = self._later.pop(self._span)
            heapify(self._near)
        self.now_s = max(self.now_s, until_s)


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
