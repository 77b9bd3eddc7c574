"""Which primaries of a region are full: where others have room, the region is not."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tradewind.errors import StoreFull

_FOR_S: Final = 5.0  # after a refusal; what a router waits, too


class Fullness:
    """Remembers who has refused for memory."""

    def __init__(self, region: str, nodes: Callable[[], Mapping[str, Sequence[int]]]) -> None:
        """`nodes()`: partitions by address of their primary."""
        self._region, self._nodes = region, nodes
        self._until_s: dict[str, float] = {}  # by address, monotonic

    def refused(self, partition: int) -> StoreFull:
        """The primary of a partition has. Returns the error that says how much of the region."""
        now_s, nodes = time.monotonic(), self._nodes()
        for address, partitions in nodes.items():
            if partition in partitions:
                self._until_s[address] = now_s + _FOR_S
        full = {address for address, until_s in self._until_s.items() if until_s > now_s}
        return StoreFull(self._region, partly=not full.issuperset(nodes))
