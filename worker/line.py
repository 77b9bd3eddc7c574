"""Which partition to claim from next. Pure bookkeeping."""

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
        """What is parked there is for a worker with other handlers: not for us for COLD_MS."""
        self._cold_until_ms[partition] = now_ms + COLD_MS

    def choose(self, most: int) -> list[int]:
        """Take up to `most` partitions out of the line."""
        line = [*self._fresh, *(p for p in self._rest if p not in self._fresh)]
        chosen = line[:most]
        for partition in chosen:
            self._fresh.pop(partition, None)
            self._rest.pop(partition, None)
        return chosen

    def cold(self, now_ms: float) -> frozenset[int]:
        """Partitions whose parked work is of no use to this worker, as seen lately."""
        self._cold_until_ms = {p: t for p, t in self._cold_until_ms.items() if t > now_ms}
        return frozenset(self._cold_until_ms)
