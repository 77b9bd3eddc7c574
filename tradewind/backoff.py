"""How long a failed task waits before its next attempt. Pure."""

import math

MAX_DELAY_MS = 2**53 - 1  # The largest whole number of ms that a double counts exactly.
_MAX_STEPS = 10**9  # Keeps `steps * log(factor)` a double, whatever the attempt.


def delay_ms(
    attempt: int,
    *,
    initial_ms: int,
    factor: float,
    max_ms: int,
    jitter: float,
    floor_ms: int = 0,
) -> int:
    """Wait in ms after failed attempt `attempt` (1 is the first): at least 1, at most `max_ms`.

    initial * factor^(attempt - 1), capped before it can overflow, then spread over its upper half
    by `jitter` in [0, 1), since failures of a region retry together. `floor_ms` (what a handler
    asked for with Retry) may lift the wait above `max_ms`: to that, or up to half as much again by
    the same `jitter`, since a service asks all its callers at once.

    Raises ValueError, with the argument's name, for a setting that would give no wait, an endless
    one or a shrinking one, and for attempt < 1.
    """
    _check(attempt >= 1, "attempt", attempt, "at least 1")
    _check(1 <= initial_ms <= MAX_DELAY_MS, "initial_ms", initial_ms, f"1 to {MAX_DELAY_MS}")
    _check(1 <= max_ms <= MAX_DELAY_MS, "max_ms", max_ms, f"1 to {MAX_DELAY_MS}")
    _check(1 <= factor < math.inf, "factor", factor, "finite and at least 1")
    _check(0 <= jitter < 1, "jitter", jitter, "at least 0 and below 1")
    _check(0 <= floor_ms <= MAX_DELAY_MS, "floor_ms", floor_ms, f"0 to {MAX_DELAY_MS}")
    steps = min(attempt - 1, _MAX_STEPS)
    capped = float(max_ms)
    if steps * math.log(factor) < math.log(max_ms / initial_ms):
        capped = min(initial_ms * factor**steps, capped)
    asked = min(math.ceil(floor_ms * (1 + jitter / 2)), MAX_DELAY_MS)
    return max(math.ceil(capped * (1 + jitter) / 2), asked)


def _check(holds: bool, name: str, value: float, expected: str) -> None:  # noqa: FBT001 - a guard
    if not holds:  # NaN fails every comparison, so it ends here too
        message = f"{name} must be {expected}, not {value}"
        raise ValueError(message)
