"""When a call is made again, and when its error is the answer."""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from tradewind.client.calls import Refusal
from tradewind.errors import (
    OutcomeUnknown,
    RegionSilent,
    RouterUnreachable,
    StoreMoving,
    SubmitInFlight,
    TradewindError,
)

#: Tells, at level INFO, what a client waits for.
LOGGER = "tradewind.client"
_log = logging.getLogger(LOGGER)

# One attempt. A router answers within its own deadlines; one that does not is asked again.
ATTEMPT_S = 10.0

# A question about a task is repeated for so long while its region is silent: the router has waited
# for that already, and how long it will be nobody knows.
SILENCE_S = 3.0

# What is over in a moment, or is about one task of many: no word about it.
_UNTOLD = (OutcomeUnknown, StoreMoving, SubmitInFlight)

# Upper half of a doubling window, so that clients of a router that restarted return out of step.
_FIRST_S = 0.05
_MAX_S = 5.0
# Who waits for long asks more seldom, so that an outage of minutes does not end with all at once.
_PART = 1 / 30  # of the deadline: 5 s up to 150 s, half a minute at 15 minutes

# Other request ids that a submit tries without a pause. With two of n regions lost, one of them the
# caller's, each finds a home with (n - 2) / (n - 1): of four regions one submit in 240 has to wait.
DRAWS: Final = 4

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Attempts:
    """The attempts of one submit, counted under each of its request ids.

    Another id is taken only where the one before has certainly led to nothing: it was minted here,
    and its first attempt was answered with the router's word for that (docs/dedup.md).
    """

    is_ours: bool  # minted by this client, so that it is known which attempt is the first
    number: int = 0  # under the present id; 1 is the first
    draws: int = 0  # ids taken without a pause
    _is_void: bool = False  # the present id has led to nothing

    def next(self) -> bool:
        """Count an attempt that is about to be made. True if it is to have another id."""
        renewed, self._is_void = self._is_void, False
        self.number = 1 if renewed else self.number + 1
        return renewed

    def refused(self, error: TradewindError) -> bool:
        """Take in how the attempt was refused. True if the next one is to be made at once."""
        self._is_void = self.is_ours and self.number == 1 and error.nothing_kept
        if not (self._is_void and error.elsewhere and self.draws < DRAWS):
            return False
        self.draws += 1
        return True


def pause_s(attempt: int, retry_after_s: float, deadline_s: float) -> float:
    """Wait in seconds after attempt `attempt` (1 is the first), at least what the router asked.

    `deadline_s` is for how long the caller asks in all.
    """
    window_s = min(max(_MAX_S, _PART * deadline_s), _FIRST_S * 2 ** min(attempt - 1, 10))
    return max(retry_after_s, window_s / 2) + random.random() * window_s / 2


def tell(refusal: Refusal, patience_s: float) -> bool:
    """Log what is waited for, unless it is not worth a word. Returns whether it was."""
    error = refusal.error
    if isinstance(error, RouterUnreachable):
        where = error.target
        _log.info("lost the router at %s; looking for it for up to %.3g s", where, patience_s)
    elif not isinstance(error, _UNTOLD):
        _log.info("asking again for up to %.3g s: %s", patience_s, error)
    return not isinstance(error, _UNTOLD)


async def repeat(
    attempt: Callable[[float], Awaitable[Answer]],
    deadline_s: float,
    *,
    silence_s: float = math.inf,
) -> Answer:
    """Call `attempt(seconds left)` until it answers or its Refusal is final.

    Raises the last refusal's error as soon as another attempt would start too late: after the
    deadline, or after `silence_s` if regions are silent. The first of these gets a word in the log.
    """
    clock = time.monotonic
    began_at = clock()
    give_up_at = began_at + deadline_s
    number, told, until = 1, False, give_up_at
    silent: RegionSilent | None = None  # what the last attempt was told
    while True:
        try:
            return await attempt(max(until - clock(), 0.001))
        except Refusal as refusal:
            if refusal.is_redrawn and clock() < give_up_at:
                continue
            if silent is not None and clock() >= until:  # cut short: it has nothing new to say
                raise silent from None
            wait_s = pause_s(number, refusal.retry_after_s, deadline_s)
            silent = refusal.error if isinstance(refusal.error, RegionSilent) else None
            until = give_up_at if silent is None else min(give_up_at, began_at + silence_s)
            if not refusal.is_repeatable or clock() + wait_s >= until:
                raise refusal.error from None
            told = told or tell(refusal, until - began_at)
        await asyncio.sleep(wait_s)
        number += 1
