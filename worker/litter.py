"""How often the interpreter looks for cyclic garbage while tasks run."""

import contextlib
import gc
from collections.abc import Generator
from typing import Final

# New objects before a look at them. A batch of 128 tasks makes some thousands that live as long as
# it does and go by themselves; with Python's 700 a worker spent a sixth of its time to see that.
_YOUNG: Final = 10_000
_PYTHONS_OWN: Final = gc.get_threshold()[0]  # this module is imported before any app


@contextlib.contextmanager
def rarely_collected() -> Generator[None]:
    """Look less often, and never again at what an app has brought with it when it was loaded.

    An app that has thresholds of its own keeps them.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    if before[0] == _PYTHONS_OWN:
        gc.set_threshold(_YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
