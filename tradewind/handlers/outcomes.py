"""What a handler may raise to say more than that it failed."""

from datetime import timedelta

from tradewind.limits import MAX_DELAY_MS, MAX_RESULT_BYTES


class Retry(Exception):
    """Raised by a handler: try again, after at least `after` seconds if given.

    Counts as an attempt. Raises ValueError for a negative `after` or one over 30 days.
    """

    # Of a subclass that does not call __init__.
    after_ms: int = 0
    reason: str = ""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        """`after` is a floor in seconds; the queue's backoff may wait longer.

        `reason` is shown with the task, as the cause of its death if no attempt is left.
        """
        self.after_ms = 0 if after is None else milliseconds(after)
        if not 0 <= self.after_ms <= MAX_DELAY_MS:
            raise ValueError(f"Retry(after=...) takes 0 seconds to 30 days, not {after}")
        self.reason = reason
        super().__init__(reason or "the handler asked for a retry")


class Reject(Exception):
    """Raised by a handler: this task can never succeed. Dead-lettered at once, not moved."""

    reason: str = ""  # of a subclass that does not call __init__

    def __init__(self, reason: str) -> None:
        """`reason` is shown with the task."""
        self.reason = reason
        super().__init__(reason)


class ResultTooLarge(Exception):
    """The handler's result is over the limit. The task is dead-lettered at once, not moved."""

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes` of the encoded result."""
        super().__init__(
            f"the result has {size_bytes} bytes, the limit is {MAX_RESULT_BYTES}; "
            "store it elsewhere and return a reference",
        )


def milliseconds(value: float | timedelta) -> int:
    """Seconds or a timedelta as whole ms, rounded. Raises ValueError if it is not finite."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds - seconds != 0:  # infinities and NaN
        raise ValueError(f"a duration must be finite, not {value}")
    return round(seconds * 1000)
