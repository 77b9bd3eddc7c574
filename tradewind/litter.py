"""How often the interpreter looks for cyclic garbage while tasks are taken in or run."""

import asyncio
import contextlib
import gc
import os
import resource
import sys
from collections.abc import AsyncGenerator
from typing import Final

from tradewind.limits import MIB
from tradewind.ticks import tick

# New objects before a look at them. A batch of 128 tasks makes some thousands that live as long as
# it does and go by themselves; with Python's 700 a worker spent a sixth of its time to see that,
# and a router a tenth.
_YOUNG: Final = 10_000
_PYTHONS_OWN: Final = gc.get_threshold()[0]  # this module is imported before any app

# The interpreter counts objects, not what they hold: thousands of tasks may pass before a look, and
# a handler may leave a cycle of a megabyte each time. So there is one, too, whenever the process
# has grown by this much; by twice as much after a look that found that it was not litter.
_GROWTH_BYTES: Final = 64 * MIB
_MOST_GROWTH_BYTES: Final = 1024 * MIB
_LOOK_EVERY_S: Final = 0.25


@contextlib.asynccontextmanager
async def rarely_collected() -> AsyncGenerator[None]:
    """Look less often, and never again at what is there now, such as modules and an app.

    An app that has thresholds of its own keeps them.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    if before[0] == _PYTHONS_OWN:
        gc.set_threshold(_YOUNG, *before[1:])
    watching = asyncio.create_task(_collect_after_growth())
    try:
        yield
    finally:
        watching.cancel()
        gc.set_threshold(*before)
        gc.unfreeze()


async def _collect_after_growth() -> None:
    least, allowed = resident_bytes(), _GROWTH_BYTES
    while True:
        await tick(_LOOK_EVERY_S)
        now = resident_bytes()
        if now - least <= allowed:
            least = min(least, now)
            continue
        gc.collect()
        left = resident_bytes()
        was_litter = now - left > (now - least) / 2
        allowed = _GROWTH_BYTES if was_litter else min(_MOST_GROWTH_BYTES, 2 * allowed)
        least = left


def resident_bytes() -> int:
    """What this process holds in memory; the most it ever held, where only that is told."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as statm:  # noqa: PTH123 - four times a second
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024  # getrusage(2): bytes there
