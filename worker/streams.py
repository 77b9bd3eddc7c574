"""The standard streams, in whose place an app may have put anything, or nothing."""

import contextlib
import sys
from typing import Final

_NAMES: Final = ("stdout", "stderr")


def flush() -> None:
    """Write out what was printed. Never raises, whatever stands there."""
    for name in _NAMES:
        with contextlib.suppress(BaseException):  # code of the app
            getattr(sys, name).flush()


def let_go() -> None:
    """Flush for the last time, before the interpreter does: what it cannot flush makes it fail.

    Its exit status would be 120, whatever ours is.
    """
    for name in _NAMES:
        try:
            getattr(sys, name).flush()
        except BaseException:  # noqa: BLE001 - the same
            setattr(sys, name, None)
