"""Waiting for a region that does not answer."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from tradewind.errors import StoreError, StoreMoving, StoreUnavailable

_log = logging.getLogger(__name__)

FIRST_S: Final = 0.1  # a lost connection is back at once, most of the time
MOVING_MS: Final = 100  # until a partition that cannot be reached is asked again, by itself
_WELL_S: Final = 60.0  # what has worked for so long has not failed again, but anew
MAX_S: Final = 5.0  # with a 5 s call, a region that is back is noticed within 10 s (case C07)


def is_partial(error: StoreError) -> bool:
    """Whether it is of one partition, or of its primary, while others of the region answer."""
    return isinstance(error, StoreMoving) or (isinstance(error, StoreUnavailable) and error.partly)


class Patience:
    """Pauses that double from FIRST_S to MAX_S, spread over their upper half."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self._next_s = FIRST_S

    def reset(self) -> None:
        """It answered."""
        self._next_s = FIRST_S

    async def wait(self) -> None:
        """Pause, longer each time: all workers of a region fail together."""
        pause_s = self._next_s * (1 + random.random()) / 2
        self._next_s = min(self._next_s * 2, MAX_S)
        await asyncio.sleep(pause_s)


async def lasting(work: Callable[[], Awaitable[None]], what: str) -> None:
    """Run `work` for ever; an error that nobody foresaw is logged, and it begins anew.

    A worker that goes on without renewing or sweeping would look alive and lose its tasks.
    """
    patience, clock = Patience(), asyncio.get_running_loop().time
    while True:
        began_s = clock()
        try:
            await work()
        except Exception:  # noqa: BLE001 - see above
            _log.exception("%s failed and begins anew", what)
        if clock() - began_s > _WELL_S:
            patience.reset()
        await patience.wait()
