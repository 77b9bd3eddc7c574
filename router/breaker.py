"""Whether one router sends to one region: closed, open, half-open, recovering.

Rules and reasons: docs/decisions/0012-health-and-flapping.md. Times are multiples of
health.interval; `now_ms` is monotonic, `draw` gives the jitter. No clock, no I/O, no chance here.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal

from tradewind.fleet import Health
from tradewind.limits import SECOND_MS
from tradewind.policy.defaults import GUESTS_AFTER_S, MIN_RAMP

BAD_CALLS: Final = 5  # in a row, that open (Envoy consecutive_5xx)
WINDOW_MS: Final = 10 * SECOND_MS  # over which calls are counted (Envoy interval)
WINDOW_CALLS: Final = 50  # at least, for their share of errors to open (Envoy request_volume)
OPEN_SHARE: Final = 0.5  # of errors among these (resilience4j failureRateThreshold)
DOUBT_SHARE, DOUBT_CALLS = 0.1, 20  # of errors, that degrade (redis-py MultiDB: 10 %); own choice
DOUBT_PROBES: Final = 2  # bad ones in a row, that degrade: one is chance; own choice
OPEN: Final = 6  # intervals, 30 s by default (Envoy base_ejection_time)
OPEN_AT_MOST: Final = 60  # intervals, 300 s (Envoy max_ejection_time)
LONG: Final = 360  # intervals, 30 min: the third strike, and twice as long each time after
JITTER: Final = 0.2  # either way; a long time only grows
STRIKES: Final = 3
FORGOTTEN: Final = 720  # intervals closed, an hour, after which strikes are forgotten
# Twice what resilience4j takes: of regions at which three calls in ten fail one in seven passes ten
# trials by chance, and one in a hundred and thirty passes twenty.
TRIALS, GOOD_TRIALS = 20, 19
TRIAL_TIME: Final = 6  # intervals, after which probes suffice: nobody may want to send
RAMP: Final = 12  # intervals, 60 s (Envoy and gRPC slow start)
PROBATION: Final = 60  # intervals after it is back, 5 min, in which a strike counts twice
_SLICES: Final = 10  # of the window
_USUAL_MS: Final = Health().interval_ms


class _State(Enum):
    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()
    RECOVERING = auto()


# Read by these names: Python 3.11 takes 0.2 us to find a member in its class, and each view of a
# region asks five times.
_CLOSED, _OPEN, _HALF_OPEN, _RECOVERING = _State


@dataclass(frozen=True, slots=True)
class Standing:
    """What the breaker says of its region now."""

    health: Literal["HEALTHY", "DEGRADED", "DOWN", "RECOVERING", "UNKNOWN"]
    ramp: float = 1.0
    trial: bool = False  # half-open: one task at a time
    is_soft: bool = False  # down by a share of errors alone: see router.ejection


_HEALTHY: Final = Standing("HEALTHY")


class Window:
    """Good and bad calls of the last WINDOW_MS, by slices of a tenth of it."""

    def __init__(self) -> None:
        """No call yet."""
        self._slices: deque[list[float]] = deque()  # [when it ends, good, bad]
        self._ends_ms = -math.inf  # of the last one
        self._bad_ms = -math.inf  # when the last bad one was

    def add(self, now_ms: float, *, ok: bool) -> None:
        """Count a call."""
        if now_ms >= self._ends_ms:
            self._ends_ms = now_ms + WINDOW_MS / _SLICES
            self._slices.append([self._ends_ms, 0, 0])
            while self._slices[0][0] <= now_ms - WINDOW_MS:
                self._slices.popleft()
        if ok:
            self._slices[-1][1] += 1
        else:
            self._slices[-1][2] += 1
            self._bad_ms = now_ms

    def has(self, now_ms: float, share: float, calls: int) -> bool:
        """Whether there were so many at least, and that share of them bad."""
        if self._bad_ms <= now_ms - WINDOW_MS:
            return False
        recent = [each for each in self._slices if each[0] > now_ms - WINDOW_MS]
        bad = sum(each[2] for each in recent)
        total = bad + sum(each[1] for each in recent)
        return total >= calls and bad >= share * total

    def clear(self) -> None:
        """Forget all."""
        self._slices.clear()
        self._ends_ms = self._bad_ms = -math.inf


class Breaker:
    """One region's, by this router's own evidence."""

    def __init__(self, rules: Health, draw: Callable[[], float]) -> None:
        """Closed, and unknown until the first sign. `draw` returns numbers in [0, 1)."""
        self._rules, self._draw = rules, draw
        self._state, self._since_ms, self._until_ms = _CLOSED, -math.inf, 0.0
        self._known, self._is_soft = False, False
        self._good_probes, self._bad_probes, self._bad_calls = 0, 0, 0
        self._good_trials, self._bad_trials = 0, 0
        self._strikes, self._longs, self._failed = 0, 0, 0
        self._good_at_ms, self._back_ms, self._haste = -math.inf, -math.inf, 1.0
        self._was_in = False  # before it went out
        self._left_ms = 0.0  # when it last went out
        self._calls = Window()

    @property
    def down(self) -> bool:
        """Whether it is open or half-open."""
        return self._state is _OPEN or self._state is _HALF_OPEN

    @property
    def answers(self) -> bool:
        """Whether nothing speaks against it now but what it did before."""
        return not self.down or self._good_probes >= self._rules.up_after

    def is_kept_out(self, now_ms: float) -> bool:
        """Whether it is out for long, because it flapped, though it answers.

        Tasks that may go nowhere else are better off there than refused.
        """
        is_long = self._state is _OPEN and self._strikes >= STRIKES
        return is_long and self.answers and now_ms - self._since_ms >= self._for(OPEN)

    def out_for_ms(self, now_ms: float) -> float:
        """How much longer it stays out at least, whatever it answers; 0 if it is not out."""
        return max(0.0, self._until_ms - now_ms) if self._state is _OPEN else 0.0

    def back_for_ms(self, now_ms: float) -> float:
        """How long it has been back; inf if it was never out, or never in before.

        By a clock on which an interval is the default's, and GUESTS_AFTER_S no longer than it was
        out: what is not for long gathers little. And half more or less by chance, so that routers
        that see the same queue do not all hold it for too long at the same moment.
        """
        if not self._was_in:
            return math.inf
        usual = _USUAL_MS / max(1, self._rules.interval_ms)
        out_ms = max(1.0, (self._back_ms - self._left_ms) * usual)
        haste = self._haste * max(1.0, GUESTS_AFTER_S * SECOND_MS / out_ms)
        return (now_ms - self._back_ms) * usual * haste

    def follow(self, rules: Health) -> None:
        """Judge by other thresholds from now on."""
        self._rules = rules

    def probed(self, now_ms: float, *, ok: bool) -> None:
        """Count a probe: `down_after` bad ones in a row open; to close takes `up_after` good."""
        if ok:
            self._good_probes, self._bad_probes = self._good_probes + 1, 0
            self._good_at_ms, self._known = now_ms, True
        else:
            self._good_probes, self._bad_probes = 0, self._bad_probes + 1
            if self._bad_probes >= self._rules.down_after:
                self._is_soft = False
                self._fail(now_ms)
        self._tick(now_ms)

    def called(self, now_ms: float, *, ok: bool, is_task: bool = False) -> None:
        """Count a call of our own; `ok` is False for infrastructure errors only.

        While half-open, a call that carried a task is a trial.
        """
        if self._state is not _CLOSED:
            self._tick(now_ms)
        if self._state is _OPEN:
            return  # sent before it was: known already
        if self._state is _HALF_OPEN:
            self._tried(now_ms, ok=ok, is_task=is_task)
            return
        self._calls.add(now_ms, ok=ok)
        if ok:
            self._bad_calls, self._good_at_ms, self._known = 0, now_ms, True
            return
        self._bad_calls += 1
        if self._bad_calls >= BAD_CALLS:
            self._is_soft = False
            self._fail(now_ms)
        elif self._calls.has(now_ms, OPEN_SHARE, WINDOW_CALLS):
            self._is_soft = True
            self._fail(now_ms)

    def at(self, now_ms: float) -> Standing:
        """Return what holds now; nothing good for `stale_after` is DEGRADED."""
        if self._state is not _CLOSED:
            self._tick(now_ms)
        if self._state is _OPEN:
            return Standing("DOWN", is_soft=self._is_soft)
        if self._state is _HALF_OPEN:
            return Standing("DOWN", trial=True)
        if self._state is _RECOVERING:
            part = (now_ms - self._since_ms) / max(1.0, self._for(RAMP))
            return Standing("RECOVERING", ramp=MIN_RAMP + (1 - MIN_RAMP) * min(1.0, part))
        if not self._known:
            return Standing("UNKNOWN")
        is_stale = now_ms - self._good_at_ms > self._rules.stale_after_ms
        is_doubtful = self._bad_probes >= DOUBT_PROBES or self._calls.has(
            now_ms, DOUBT_SHARE, DOUBT_CALLS
        )
        return Standing("DEGRADED") if is_stale or is_doubtful else _HEALTHY

    def _tried(self, now_ms: float, *, ok: bool, is_task: bool) -> None:
        if is_task or not ok:
            self._good_trials, self._bad_trials = (
                self._good_trials + ok,
                self._bad_trials + (not ok),
            )
        if self._bad_trials > TRIALS - GOOD_TRIALS:
            self._fail(now_ms)
        elif self._good_trials >= GOOD_TRIALS:
            self._enter(_RECOVERING, now_ms)

    def _tick(self, now_ms: float) -> None:
        """What time alone changes."""
        is_well = self._good_probes >= self._rules.up_after
        if self._state is _OPEN and is_well and now_ms >= self._until_ms:
            self._good_trials, self._bad_trials = 0, 0
            self._enter(_HALF_OPEN, now_ms)
        passed_ms = now_ms - self._since_ms
        if self._state is _HALF_OPEN and is_well and passed_ms >= self._for(TRIAL_TIME):
            self._enter(_RECOVERING, now_ms)
            passed_ms = 0.0
        if self._state is _RECOVERING and passed_ms >= self._for(RAMP):
            self._enter(_CLOSED, now_ms)

    def _fail(self, now_ms: float) -> None:
        """Open, or stay open. A strike is a region that was in and falls out."""
        if self._state is _OPEN:
            return
        if self._state is _HALF_OPEN:
            self._failed += 1
        else:
            is_long_ago = now_ms - self._since_ms >= self._for(FORGOTTEN)
            if self._state is _CLOSED and is_long_ago:
                self._strikes, self._longs = 0, 0
            self._failed, self._left_ms = 0, now_ms
            self._was_in = self._was_in or self._good_at_ms > -math.inf
            self._strikes += 2 if now_ms - self._back_ms < self._for(PROBATION) else 1
        self._enter(_OPEN, now_ms)
        self._until_ms = now_ms + self._open_ms()
        self._good_probes, self._bad_calls, self._known = 0, 0, True
        self._calls.clear()

    def _open_ms(self) -> float:
        draw = self._draw()
        if self._strikes >= STRIKES and not self._failed:
            self._longs += 1
            return self._for(LONG) * 2 ** (self._longs - 1) * (1 + JITTER * draw)
        times = OPEN * max(1, self._strikes + self._failed)
        return self._for(min(times, OPEN_AT_MOST)) * (1 - JITTER + 2 * JITTER * draw)

    def _enter(self, state: _State, now_ms: float) -> None:
        if state is _RECOVERING:
            self._back_ms, self._haste = now_ms, 0.5 + self._draw()
        self._state, self._since_ms = state, now_ms

    def _for(self, intervals: int) -> float:
        return float(intervals * self._rules.interval_ms)
