"""Time limits of what runs on an event loop: one timer for all of them."""

import asyncio
import itertools
import time
from typing import Final, Protocol

_FINEST_S: Final = 0.001  # what a timer of the event loop can tell apart


class Limited(Protocol):
    """What has a time limit."""

    def past_limit(self) -> None:
        """It has run for so long."""
        ...


class Deadlines:
    """Nearly everything ends long before its limit, so setting and lifting one is next to free.

    Limits of one length end in the order in which they were set; so the next to end is the first
    of one of the lengths, of which there are few.
    """

    def __init__(self) -> None:
        """Nothing has a limit."""
        self._by_length: dict[float, dict[Limited, float]] = {}  # to the monotonic time in s
        self._timer: asyncio.TimerHandle | None = None
        self._fires_s = float("inf")

    def set(self, who: Limited, limit_s: float) -> None:
        """Call `who.past_limit()` in `limit_s`, on the running event loop."""
        until_s = time.monotonic() + limit_s
        same = self._by_length.get(limit_s)
        if same is None:
            same = self._by_length[limit_s] = {}
        same[who] = until_s
        if until_s < self._fires_s:
            self._arm(until_s)

    def drop(self, who: Limited, limit_s: float) -> None:
        """As `lift`, where nobody asks what was left."""
        same = self._by_length.get(limit_s)
        if same is not None:
            same.pop(who, None)
            if not same:
                del self._by_length[limit_s]

    def lift(self, who: Limited, limit_s: float) -> float:
        """Do not. How many seconds were left; 0 if it has been called."""
        same = self._by_length.get(limit_s, {})
        until_s = same.pop(who, None)
        if until_s is None:
            return 0.0
        if not same:
            del self._by_length[limit_s]
        return max(until_s - time.monotonic(), 0.0)

    @property
    def lengths(self) -> int:
        """How many lengths of limits are set: what it keeps grows with nothing else."""
        return len(self._by_length)

    def _arm(self, until_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(until_s - time.monotonic(), _FINEST_S)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._fire)
        self._fires_s = until_s

    def _fire(self) -> None:
        """The earliest one may have been lifted since; then there is nothing to do yet."""
        self._timer, self._fires_s = None, float("inf")
        now_s = time.monotonic()
        for limit_s, same in list(self._by_length.items()):
            for who in _ended(same, now_s):
                self.lift(who, limit_s)
                who.past_limit()
        firsts = [next(iter(same.values())) for same in self._by_length.values()]
        if firsts and (first_s := min(firsts)) < self._fires_s:
            self._arm(first_s)


def _ended(same: dict[Limited, float], now_s: float) -> list[Limited]:
    """Those at the front whose time has come."""
    return [who for who, _ in itertools.takewhile(lambda one: one[1] <= now_s, same.items())]
