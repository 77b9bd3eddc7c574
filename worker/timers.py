"""When a partition is to be looked at again: due times carry no hint, so their watchers arm one."""

import asyncio
from collections.abc import Callable


class Timers:
    """At most one timer a partition, for the earliest time asked for."""

    def __init__(self, fire: Callable[[int], None]) -> None:
        """`fire(partition)` is called on the event loop."""
        self._fire = fire
        self._stopped = False
        self._handles: dict[int, asyncio.TimerHandle] = {}

    def arm(self, partition: int, in_ms: float) -> None:
        """Fire `in_ms` from now, unless an earlier timer stands. Negative means never."""
        if in_ms < 0 or self._stopped:
            return
        loop = asyncio.get_running_loop()
        standing = self._handles.get(partition)
        when_s = loop.time() + in_ms / 1000
        if standing is not None:
            if standing.when() <= when_s:
                return
            standing.cancel()
        self._handles[partition] = loop.call_at(when_s, self._due, partition)

    def stop(self) -> None:
        """Disarm all, for good."""
        self._stopped = True
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _due(self, partition: int) -> None:
        del self._handles[partition]
        self._fire(partition)
