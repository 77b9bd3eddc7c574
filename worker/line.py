"""Which partition to claim from next. Pure bookkeeping."""

from collections.abc import Iterable
from typing import Final

COLD_MS: Final = 1_000  # see ports.Upkeep.wait


class Line:
    """Partitions that may have work: hinted ones first, then those that had more than was taken.

    Each has its turn before any has a second one, so that a deep partition starves nobody.
    """

    def __init__(self) -> None:
        """Nothing is known to wait."""
        self._fresh: dict[int, None] = {}
        self._rest: dict[int, None] = {}
        self._cold_until_ms: dict[int, float] = {}

    @property
    def has_hint(self) -> bool:
        """Whether a hint is in hand that nobody has followed yet."""
        return bool(self._fresh)

    def __bool__(self) -> bool:
        """Whether any partition may have work."""
        return bool(self._fresh or self._rest)

    def hinted(self, partition: int) -> None:
        """Somebody says that it has work."""
        self._fresh[partition] = None

    def has_more(self, partition: int) -> None:
        """The last claim left some."""
        self._rest[partition] = None

    def chill(self, partition: int, now_ms: float) -> None:
        """Its hint is for a worker with other handlers: leave it alone for COLD_MS."""
        self._cold_until_ms[partition] = now_ms + COLD_MS

    def choose(self, most: int) -> list[int]:
        """Take up to `most` partitions out of the line."""
        line = [*self._fresh, *(p for p in self._rest if p not in self._fresh)]
        chosen = line[:most]
        for partition in chosen:
            self._fresh.pop(partition, None)
            self._rest.pop(partition, None)
        return chosen

    def worth_waiting_for(self, partitions: Iterable[int], now_ms: float) -> tuple[list[int], bool]:
        """Those of `partitions` that are not cold, and whether any is."""
        cold = {p: until for p, until in self._cold_until_ms.items() if until > now_ms}
        self._cold_until_ms = cold
        return [p for p in partitions if p not in cold], bool(cold)
