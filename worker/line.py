"""Which partition to claim from next. Pure bookkeeping."""

from typing import Final

from tradewind.limits import MAX_CLAIM

COLD_MS: Final = 1_000  # see ports.Upkeep.wait
# What a claim is reckoned to bring: as many as it may. With 64, a worker of 128 slots divided its
# free ones among two claims, of 38 on the mean: 1.8 us a task dearer here, and 1 us in Redis.
CLAIM: Final = MAX_CLAIM


class Line:
    """Partitions that may have work: hinted ones first, then those that had more than was taken.

    Each has its turn before any has a second one, so that a deep partition starves nobody.
    """

    def __init__(self) -> None:
        """Nothing is known to wait."""
        self._fresh: dict[int, None] = {}
        self._rest: dict[int, int] = {}  # to how many tasks were left
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

    @property
    def has_rest(self) -> bool:
        """Whether a claim has left work somewhere, so that there is some without any hint."""
        return bool(self._rest)

    def has_more(self, partition: int, left: int) -> None:
        """The last claim left so many tasks."""
        self._rest[partition] = left

    def chill(self, partition: int, now_ms: float) -> None:
        """What is parked there is for a worker with other handlers: not for us for COLD_MS."""
        self._cold_until_ms[partition] = now_ms + COLD_MS

    def choose(self, most: int, room: int) -> list[int]:
        """Take up to `most` partitions out of the line, no more than are sure to fill `room`.

        Few large claims cost less than many small ones; how much a hint means nobody knows.
        """
        chosen: list[int] = []
        for partition in dict.fromkeys((*self._fresh, *self._rest)):
            if len(chosen) == most or room <= 0:
                break
            chosen.append(partition)
            self._fresh.pop(partition, None)
            room -= min(self._rest.pop(partition, 0), CLAIM)
        return chosen

    def cold(self, now_ms: float) -> frozenset[int]:
        """Partitions whose parked work is of no use to this worker, as seen lately."""
        self._cold_until_ms = {p: t for p, t in self._cold_until_ms.items() if t > now_ms}
        return frozenset(self._cold_until_ms)
