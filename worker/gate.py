"""What operators let a worker start: a region that drains starts nothing, nor does a paused queue.

The answer to every heartbeat brings what the worker's own Redis holds of the control document. The
other regions are looked at now and then, so that a Redis that lost its last second misleads nobody.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Final

from tradewind.clock import Clock
from tradewind.control import EMPTY, UNKNOWN, Control, in_force, obeyed
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import HEARTBEAT_EVERY_MS, SECOND_MS, WORKER_GONE_MS
from tradewind.ports import Register

# From one look at other regions to the next: 0.67 commands a second for each. With an answer it is
# less than SETTLE_MS, for which a router waits where a worker's own region has not taken a change.
_LOOK_S: Final = 1.5
_UNSURE_S: Final = HEARTBEAT_EVERY_MS / SECOND_MS  # while our own region holds something newer
_ANSWER_S: Final = 1.0  # of another region; a worker that begins waits no longer for them


class Gate:
    """Lets everything start."""

    #: Queues of which nothing may start.
    paused: frozenset[str] = frozenset()

    @property
    def is_shut(self) -> bool:
        """Whether nothing at all may start."""
        return False

    def lets(self, queue: str) -> bool:
        """Whether a task of `queue` may start now."""
        return not self.is_shut and queue not in self.paused


class OrderedGate(Gate):
    """Lets start what operators let start. Fed by two threads, and read by any.

    It is shut until the first heartbeat was answered and other regions were looked at once; and
    whenever no heartbeat was answered for WORKER_GONE_MS: from then on others hold this worker for
    gone, and do not wait for it to obey.
    """

    def __init__(self, region: str, fleet: Fleet, clock: Clock) -> None:
        """`region` is the worker's own."""
        self._region, self._fleet, self._clock = region, fleet, clock
        self._lock = threading.Lock()
        self._seen: dict[str, Control] = {}
        self._standing, self._kept = UNKNOWN, EMPTY
        self._drains, self._has_looked, self._heard_ms = False, False, -float("inf")
        self._on_change: Callable[[], None] = lambda: None

    def listen(self, on_change: Callable[[], None]) -> None:
        """Have `on_change` called, in the thread that fed it, when other things may start."""
        self._on_change = on_change

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet: its regions vote."""
        self._fleet = fleet
        if self._take({}):
            self._on_change()

    @property
    def control(self) -> Control:
        """What is in force, as far as this worker has seen."""
        return self._standing.control

    @property
    def epoch(self) -> int:
        """Of what it obeys: that may be a stricter version that is not in force yet."""
        return self._kept.stamp.epoch

    @property
    def is_known(self) -> bool:
        """Whether its own region has told what it holds, and others were asked."""
        return self._has_looked and self._heard_ms > -float("inf")

    @property
    def is_behind(self) -> bool:
        """Whether it does not know what is in force, or its own region holds something newer."""
        own, standing = self._seen.get(self._region), self._standing
        return not standing.sure or (own is not None and own.stamp > standing.control.stamp)

    @property
    def is_shut(self) -> bool:
        """Whether nothing at all may start."""
        return self._drains or not self._has_looked or self._is_deaf

    @property
    def _is_deaf(self) -> bool:
        return self._clock.monotonic_ms() - self._heard_ms >= WORKER_GONE_MS

    def heard(self, held: Control | None, asked_ms: float) -> bool:
        """A heartbeat sent at monotonic `asked_ms` was answered. Returns whether it brought news.

        `held`: what its own region holds; None: that cannot be read.
        """
        was_deaf = self._is_deaf
        is_new = self._take({} if held is None else {self._region: held})
        self._heard_ms = asked_ms  # last: deaf, it may start nothing by what it knew before
        if is_new or was_deaf:
            self._on_change()
        return is_new

    def looked(self, region: str, control: Control) -> None:
        """Another region holds this."""
        if self._take({region: control}):
            self._on_change()

    def looked_around(self) -> None:
        """Every other region has been asked, whether it answered or not."""
        if not self._has_looked:
            self._has_looked = True
            self._on_change()

    def _take(self, seen: Mapping[str, Control]) -> bool:
        with self._lock:
            self._seen |= seen
            self._standing = in_force(self._seen, self._fleet.regions.keys(), self._standing)
            before, self._kept = self._kept, obeyed(self._standing, self._seen.get(self._region))
            self._drains = self._kept.state(self._region) == "DRAINING"
            self.paused = frozenset(self._kept.pauses)
            return self._kept != before


class Lookout:
    """Looks at what other regions hold. Belongs to one event loop."""

    def __init__(self, gate: OrderedGate, others: Mapping[str, Register]) -> None:
        """`others` by region name."""
        self._gate, self._others = gate, others
        self._news = asyncio.Event()

    def follow(self, others: Mapping[str, Register]) -> None:
        """Go on with other regions."""
        self._others = others

    def hurry(self) -> None:
        """Look now: something has changed."""
        self._news.set()

    async def run(self) -> None:
        """Look until cancelled; at once, and more often, while our own region is ahead."""
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            begun_s = loop.time()
            try:
                await asyncio.gather(*(self._look(*each) for each in self._others.items()))
            finally:  # whatever goes wrong, a worker that never starts anything is of no use
                self._gate.looked_around()
            try:
                every_s = _UNSURE_S if self._gate.is_behind else _LOOK_S
                async with asyncio.timeout_at(begun_s + every_s):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _look(self, name: str, register: Register) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                control = await register.control(timeout_s=_ANSWER_S)
        except (StoreError, TimeoutError):
            return  # what it held when it was last seen still counts
        self._gate.looked(name, control)
