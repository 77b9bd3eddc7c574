"""Lines of the log that would be thousands at once: some of them, and how many more there were."""

import time
from collections.abc import Callable
from typing import Final

_LINES: Final = 10  # of one kind in _WINDOW_S: enough to see what fails, and whom to ask
_WINDOW_S: Final = 10.0


class Thrift:
    """Says which lines may be written: _LINES of a kind in each _WINDOW_S.

    Kinds are from a closed set, so that nothing grows here.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a clock that never goes back."""
        self._now_s = now_s
        self._began_s: dict[tuple[str, ...], float] = {}
        self._written: dict[tuple[str, ...], int] = {}
        self._left_out: dict[tuple[str, ...], int] = {}

    def left_out(self, *kind: str) -> int | None:
        """How many lines of this kind were left out before this one; None: leave it out, too."""
        now_s = self._now_s()
        if now_s - self._began_s.get(kind, -_WINDOW_S) >= _WINDOW_S:
            self._began_s[kind], self._written[kind] = now_s, 0
        if self._written[kind] >= _LINES:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return None
        self._written[kind] += 1
        return self._left_out.pop(kind, 0)
