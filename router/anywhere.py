"""Partitions for tasks that have no key, and so no place of their own."""

import random
from typing import Final

from tradewind.limits import MAX_CLAIM

_TASKS: Final = MAX_CLAIM  # in one place, one after the other: as many as a worker claims at once
_SPAN_MS: Final = 5  # by when they were taken in; an idle router's next task goes elsewhere


class Anywhere:
    """Gives tasks that come together one place: one script call stores them, another claims them.

    Over time every partition gets its share, by chance.
    """

    def __init__(self, partitions: int, entropy: random.Random) -> None:
        """`entropy` must be seeded apart in every router."""
        self._partitions, self._entropy = partitions, entropy
        self._place, self._left, self._since_ms = 0, 0, 0

    def at(self, now_ms: int) -> int:
        """Return the partition of the next task, which was taken in at `now_ms`."""
        if not self._left or not 0 <= now_ms - self._since_ms <= _SPAN_MS:
            self._place = self._entropy.randrange(self._partitions)
            self._left, self._since_ms = _TASKS, now_ms
        self._left -= 1
        return self._place

    def leave(self) -> None:
        """Go elsewhere with the next one: there was a refusal."""
        self._left = 0
