"""Clocks that are wrong: a process told the time by libfaketime.

Only the time of day is off. The monotonic clock is the machine's in every process, and with it the
times of the ledger.
"""

import random
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_FAR_S: Final = 90.0  # a host whose clock nobody keeps
# A server's clock, kept by NTP but not well. Leases last 6 s and are renewed every 2 s: a promotion
# that takes 2 s and a clock that is this much ahead still leave a lease that was just renewed.
_LITTLE_S: Final = 0.8


def far_off(dice: random.Random) -> Mapping[str, str]:
    """Environment of a service whose host has the wrong time."""
    return _off(dice.uniform(-_FAR_S, _FAR_S))


def a_little_off(dice: random.Random) -> Mapping[str, str]:
    """Environment of a server that is a little ahead, or behind."""
    return _off(dice.uniform(-_LITTLE_S, _LITTLE_S))


def _off(by_s: float) -> Mapping[str, str]:
    library = _library()
    if library is None:
        return {}
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{by_s:+.3f}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _library() -> Path | None:
    """The library, of the package libfaketime; None if it is not installed or made for another
    platform.
    """
    package = find_spec("libfaketime")  # not imported: what it wants is of no use here
    if package is None or package.origin is None:
        return None
    found = Path(package.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    return found if found.exists() else None
