"""Since when a region has answered this worker without interruption."""

import threading
from collections.abc import Iterable

from tradewind.clock import Clock
from tradewind.errors import StoreError, StoreMoving


class Reach:
    """Judges whether a silence was the holder's, or ours.

    After a restart of Redis, or while a slot moves, every lease looks expired although the holders
    live. So nobody reaps a partition that it has not reached for one lease.
    Safe from any thread.
    """

    def __init__(self, clock: Clock) -> None:
        """Nothing has been reached yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._since_ms: dict[int, float] = {}
        self._broken_ms = -float("inf")

    def reached(self, partitions: Iterable[int]) -> None:
        """A call to each of the partitions was answered."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for partition in partitions:
                self._since_ms.setdefault(partition, now_ms)

    def failed(self, error: StoreError) -> None:
        """A call ended so. Counts for all partitions, which may share the node.

        One that moves is out of reach by itself: its node answers.
        """
        with self._lock:
            if isinstance(error, StoreMoving):
                self._since_ms.pop(error.partition, None)
                return
            self._since_ms.clear()
            self._broken_ms = self._clock.monotonic_ms()

    def for_ms(self, partition: int) -> float:
        """How long the partition has been reached without interruption; 0 if it is not."""
        with self._lock:
            since_ms = self._since_ms.get(partition)
        return 0.0 if since_ms is None else self._clock.monotonic_ms() - since_ms

    def broken_for_ms(self) -> float:
        """How long ago the last interruption was; infinite if there was none."""
        with self._lock:
            return self._clock.monotonic_ms() - self._broken_ms
