"""Waiting for the next tick: what a process does now and then, it does at the same moments.

To wake up costs an idle process more than what it wakes up for, so loops that look at something
every second, or every few, look together. Processes do not: each has a phase of its own.
"""

import asyncio
import random
from typing import Final

_PHASE_S: Final = random.random()
_EARLY_S: Final = 0.005  # a timer may be early, by what its loop cannot tell: a millisecond


async def tick(every_s: float) -> None:
    """Sleep up to the next multiple of `every_s` after this process's phase, by the loop's clock.

    So the first sleep of a loop may be a short one.
    """
    left_s = every_s
    if every_s > _EARLY_S:
        left_s -= (asyncio.get_running_loop().time() - _PHASE_S) % every_s
        if left_s < _EARLY_S:
            left_s += every_s
    await asyncio.sleep(left_s)
