"""Whether a worker's event loop turns, seen from another thread.

A coroutine that never gives the loop back cannot be stopped: its limit, a cancel and SIGTERM are
all served by the loop that it holds, while its lease and those of its neighbours are renewed by the
guard's thread, which goes on. So that thread looks, and ends the process: leases then end, too,
and the tasks run elsewhere as suspects, in children that can be killed.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

from tradewind.attempts.describe import text
from tradewind.clock import Clock
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.ticks import tick

_log = logging.getLogger(__name__)
WORN_OUT: Final = 75  # EX_TEMPFAIL of sysexits.h: not done, and a new process may do it
_TICK_S: Final = 1.0
_LOOK_EVERY_S: Final = 1.0
# Past every limit. Whatever holds the loop that long without being a handler (the app's own tasks,
# collecting garbage, a machine with far too much to do) would have its worker ended in vain; longer
# would only keep the tasks waiting.
_SPARE_MS: Final = 10 * SECOND_MS
_LAST_MS: Final = 3 * SECOND_MS  # past the grace: as long as a loop that turns hands back
_LOG_TIMEOUT_S: Final = 1.0  # the loop may be held by whoever writes the log
_FRAMES: Final = 10


class Watch:
    """Of the thread that makes it. `allow`, `forget` and `tick` are called in it, the rest in any.

    Only time in which the watcher itself runs is counted: a machine that slept is no fault.
    """

    def __init__(self, fleet: Fleet, clock: Clock, on_stand: Callable[[], None]) -> None:
        """`on_stand` is called in the watcher's thread when the loop has stood for 10 s."""
        self._clock, self._on_stand = clock, on_stand
        self._watched = threading.get_ident()
        self._usual_ms = _longest_ms(fleet)
        self._limits: dict[object, int] = {}
        self._ticks = 0
        self._over_ms = float("inf")
        self._stood_ms = 0.0
        self.stands = False  # for so long that nothing can be expected of it

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet; what runs keeps its limit."""
        self._usual_ms = _longest_ms(fleet)

    def allow(self, who: object, limit_ms: int) -> None:
        """A coroutine may hold the loop for so long."""
        self._limits[who] = limit_ms

    def forget(self, who: object) -> None:
        """It has ended."""
        self._limits.pop(who, None)

    def end_in(self, grace_s: float) -> None:
        """The worker was asked to end, at the latest after `grace_s`."""
        self._over_ms = min(self._over_ms, self._clock.monotonic_ms() + grace_s * SECOND_MS)

    async def tick(self) -> None:
        """Show that the loop turns, for ever."""
        while True:
            self._ticks += 1
            await tick(_TICK_S)

    async def look(self) -> None:
        """Watch, for ever, from an event loop of another thread."""
        seen, looked_ms = self._ticks, self._clock.monotonic_ms()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now_ms = self._clock.monotonic_ms()
            passed_ms = min(now_ms - looked_ms, 2 * _LOOK_EVERY_S * SECOND_MS)
            self._stood_ms = self._stood_ms + passed_ms if self._ticks == seen else 0.0
            seen, looked_ms = self._ticks, now_ms
            self._judge(now_ms)

    def _judge(self, now_ms: float) -> None:
        stood_ms = self._stood_ms
        if stood_ms >= self.allowed_ms + _SPARE_MS:
            self._leave("a coroutine holds the event loop past every time limit: worker ends")
        if stood_ms >= _LAST_MS and now_ms >= self._over_ms + _LAST_MS:
            self._leave("a coroutine holds the event loop past the grace: worker ends")
        if stood_ms < _SPARE_MS:
            self.stands = False
        elif not self.stands:
            self.stands = True
            self._say("a coroutine holds the event loop", logging.WARNING)
            self._on_stand()

    @property
    def allowed_ms(self) -> int:
        """How long the loop may stand still, by the limits of what runs in it.

        What else an app does in it has no limit; it gets that of a queue.
        """
        return max(self._limits.values(), default=self._usual_ms)

    def _leave(self, why: str) -> None:
        """End without the main thread, which does not come back. Leases bring back its tasks."""
        self._say(why, logging.CRITICAL).join(_LOG_TIMEOUT_S)
        os._exit(WORN_OUT)

    def _say(self, what: str, level: int) -> threading.Thread:
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented
        extra = {
            "where": _where(frames.get(self._watched)),
            "stood_s": round(self._stood_ms / SECOND_MS, 1),
        }
        saying = threading.Thread(
            target=lambda: _log.log(level, what, extra=extra), name="watch", daemon=True
        )
        saying.start()
        return saying


def _longest_ms(fleet: Fleet) -> int:
    policies = (fleet.default_queue, *fleet.queues.values())
    return max(policy.timeout_ms for policy in policies)


def _where(frame: FrameType | None) -> str:
    """FILE:LINE of the innermost frames; nothing of what they hold."""
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES:
        places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return text(" < ".join(places))
