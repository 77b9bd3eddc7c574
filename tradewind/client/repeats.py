"""When a call is made again, and when its error is the answer."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tradewind.client.calls import Refusal
from tradewind.errors import RouterUnreachable

#: Tells, at level INFO, what a client waits for.
LOGGER = "tradewind.client"
_log = logging.getLogger(LOGGER)

# One attempt. A router answers within its own deadlines; one that does not is asked again.
ATTEMPT_S = 10.0

# Upper half of a doubling window, so that clients of a router that restarted return out of step.
_FIRST_S = 0.05
_MAX_S = 5.0
# Who waits for long asks more seldom, so that an outage of minutes does not end with all at once.
_PART = 1 / 30  # of the deadline: 5 s up to 150 s, half a minute at 15 minutes

Answer = TypeVar("Answer")


def pause_s(attempt: int, retry_after_s: float, deadline_s: float) -> float:
    """Wait in seconds after attempt `attempt` (1 is the first), at least what the router asked.

    `deadline_s` is for how long the caller asks in all.
    """
    window_s = min(max(_MAX_S, _PART * deadline_s), _FIRST_S * 2 ** min(attempt - 1, 10))
    return max(retry_after_s, window_s / 2) + random.random() * window_s / 2


def tell(refusal: Refusal, attempt: int, patience_s: float) -> None:
    """Log, once an outage, that a router is looked for."""
    if attempt == 1 and isinstance(refusal.error, RouterUnreachable):
        where = refusal.error.target
        _log.info("lost the router at %s; looking for it for up to %g s", where, patience_s)


async def repeat(
    attempt: Callable[[int, float], Awaitable[Answer]],
    deadline_s: float,
) -> Answer:
    """Call `attempt(number, seconds left)` until it answers or its Refusal is final.

    Raises the last refusal's error as soon as another attempt would start too late.
    """
    clock = time.monotonic
    give_up_at = clock() + deadline_s
    number = 1
    while True:
        try:
            return await attempt(number, max(give_up_at - clock(), 0.001))
        except Refusal as refusal:
            wait_s = pause_s(number, refusal.retry_after_s, deadline_s)
            if not refusal.is_repeatable or clock() + wait_s >= give_up_at:
                raise refusal.error from None
            tell(refusal, number, deadline_s)
        await asyncio.sleep(wait_s)
        number += 1
