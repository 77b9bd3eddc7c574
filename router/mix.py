"""What waits and runs in a region, by handler name, and so how long one of these tasks takes.

What it has completed says little of that: after one task of a millisecond, hundreds of 3 s would
seem to be done in no time. But of what this router has sent it knows the names at once, and workers
tell of each name how long it takes, and how many they began lately. What they began beyond what we
sent was sent by others. A name that no worker of the region has timed takes what it takes
elsewhere; one that nobody has timed, SERVICE_S.

Tasks start in the order in which they came, so those that wait are the last that came. They count
beside what came in the last LATELY_MS, older ones counting less, for a few rounds of the region's
slots: a slow task at the head of a short queue holds up one slot, and not the queue.
Pure: times are ms of the router's monotonic clock.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Final

from tradewind.crew import LATELY_MS, NAMELESS, Crew, seconds_of
from tradewind.limits import MINUTE_MS
from tradewind.policy.defaults import MAX_MEMORY, SERVICE_S
from tradewind.task import Timing

ROUNDS: Final = 2.0  # of its slots; so many tasks of lately count beside those that wait
_EVERY_MS: Final = 250.0  # a fortieth of LATELY_MS; one reckoning for all that is sent in it
_KEPT: Final = 256  # such times in which something was sent: a minute and more
_TOLD_MS: Final = 10 * MINUTE_MS  # a name that nobody has told of for so long is forgotten
_NAMES: Final = 64  # of what was sent in one of them; the others are taken to be like these
_LEAST_TASKS: Final = 0.01  # so many count as none: nobody has sent anything for long


class Timed:
    """How long tasks take by name, as last told by any region."""

    def __init__(self) -> None:
        """Nobody has told anything."""
        self.seconds: dict[str, float] = {}  # the latest last; at most MAX_MEMORY
        self._told_ms: dict[str, float] = {}  # when, in the same order

    def note(self, now_ms: float, timings: Mapping[str, Timing]) -> None:
        """Take what a region's workers tell."""
        for name, timing in timings.items():
            if timing.mean_s > 0 and name != NAMELESS:
                self.seconds.pop(name, None)
                self.seconds[name] = seconds_of(timing.mean_s)
                self._told_ms.pop(name, None)
                self._told_ms[name] = now_ms
        over, before_ms = len(self._told_ms) - MAX_MEMORY, now_ms - _TOLD_MS
        faded: list[str] = []
        for name, told_ms in self._told_ms.items():
            if len(faded) >= over and told_ms > before_ms:
                break
            faded.append(name)
        for name in faded:
            del self.seconds[name], self._told_ms[name]


class Mix:
    """The tasks of one region, as one router knows them."""

    def __init__(self, now_ms: float, seconds: Mapping[str, float]) -> None:
        """`seconds` is how long tasks take by name, as told by any region; it may change."""
        self._elsewhere, self._crew = seconds, Crew()
        self._own: dict[str, float] = {}  # what we have sent, as of _at_ms
        self._at_ms = now_ms
        self._own_count = self._own_s = 0.0  # of all names together: tasks, and their seconds
        self._others_count = self._others_s = 0.0
        self._newest: dict[str, float] = {}  # what we have sent since _at_ms
        self._earlier: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=_KEPT)
        self._queue_count = self._queue_s = 0.0  # what waits there: tasks, and their seconds

    @property
    def service_s(self) -> float:
        """Mean seconds that one of them takes; 0 if nothing is known."""
        lately, slots = self._own_count + self._others_count, ROUNDS * self._crew.slots
        if lately < _LEAST_TASKS:
            mean_s = self._crew.service_s
        else:
            mean_s = (self._own_s + self._others_s) / lately
        if mean_s and slots and self._queue_count > 0:
            mean_s = (self._queue_s + slots * mean_s) / (self._queue_count + slots)
        return seconds_of(mean_s)

    def takes_s(self, name: str) -> float:
        """How long a task of that name takes there."""
        timing = self._crew.timings.get(name)
        if timing is not None and timing.mean_s > 0:
            return timing.mean_s
        elsewhere_s = self._elsewhere.get(name)
        if elsewhere_s is not None:
            return elsewhere_s
        nameless = self._crew.timings.get(NAMELESS)
        return SERVICE_S if nameless is None else nameless.mean_s

    def sent(self, names: Mapping[str, int]) -> None:
        """We send so many tasks of each name; below 0: they are taken back."""
        own, newest = self._own, self._newest
        for name, tasks in names.items():
            known = own.get(name, 0.0)
            if not known and len(own) >= MAX_MEMORY:
                continue  # the others tell
            count = max(-known, tasks)
            own[name] = known + count
            if name in newest or len(newest) < _NAMES:
                newest[name] = newest.get(name, 0.0) + count
            seconds = count * self.takes_s(name)
            self._own_count += count
            self._own_s += seconds
            self._queue_count += count
            self._queue_s += seconds

    def is_due(self, now_ms: float) -> bool:
        """Whether it is time for `reckon`."""
        return now_ms - self._at_ms >= _EVERY_MS

    def mustered(self, now_ms: float, crew: Crew, waiting: float, *, age_ms: float = 0.0) -> None:
        """Take what the workers of the region told `age_ms` ago; `waiting` as in `reckon`."""
        self._crew = crew
        self._fade(now_ms)
        kept = math.exp(-age_ms / LATELY_MS)  # ours count by now, too
        others = {
            name: max(0.0, timing.lately * kept - self._own.get(name, 0.0))
            for name, timing in crew.timings.items()
        }
        self._others_count, self._others_s = self._added_up(others)
        self._look_back(now_ms, waiting)

    def reckon(self, now_ms: float, waiting: float) -> None:
        """Let older tasks count less; `waiting` is how many have not begun, as far as is known."""
        self._fade(now_ms)
        self._look_back(now_ms, waiting)

    def _fade(self, now_ms: float) -> None:
        if self._newest:
            self._earlier.append((self._at_ms, self._newest))
            self._newest = {}
        kept = math.exp((self._at_ms - now_ms) / LATELY_MS)
        self._own = {
            name: kept * tasks for name, tasks in self._own.items() if kept * tasks >= _LEAST_TASKS
        }
        self._at_ms = now_ms
        self._own_count, self._own_s = self._added_up(self._own)

    def _look_back(self, now_ms: float, waiting: float) -> None:
        """Find what waits: the last that came, ours and others'."""
        others, others_s = self._others_count / LATELY_MS, self._others_s / LATELY_MS
        count = seconds = ours = ours_s = 0.0
        for at_ms, names in reversed(self._earlier):
            if count >= waiting:
                break
            tasks, tasks_s = self._added_up(names)
            ours, ours_s = ours + tasks, ours_s + tasks_s
            count = ours + others * (now_ms - at_ms)
            seconds = ours_s + others_s * (now_ms - at_ms)
        if count <= 0:  # all are others', or nobody knows: as what came lately
            self._queue_count = self._queue_s = 0.0
            return
        self._queue_count, self._queue_s = waiting, waiting * seconds / count

    def _added_up(self, tasks: Mapping[str, float]) -> tuple[float, float]:
        seconds = [count * self.takes_s(name) for name, count in tasks.items()]
        return sum(tasks.values()), sum(seconds)
