"""Which queues and handlers the live workers of a region serve, and since when nobody does."""

from collections.abc import Iterable
from typing import Final

from tradewind.clock import Clock
from tradewind.limits import HOUR_MS
from tradewind.task import Heartbeat, Lane

_FORGOTTEN_MS: Final = HOUR_MS  # far above unserved_after: longer ago says no more
_ANY: Final = "*"  # a handler of that name runs them all


class Served:
    """Of one region, as one process has seen it since it began to look."""

    def __init__(self, clock: Clock) -> None:
        """Nothing has been seen yet: nothing counts as unserved."""
        self._clock = clock
        self._begun_ms = clock.monotonic_ms()
        self._seen_ms: dict[str, float] = {}  # queue, or "queue name" -> when it was served last

    def saw(self, beats: Iterable[Heartbeat]) -> None:
        """These workers live."""
        now_ms = self._clock.monotonic_ms()
        for beat in beats:
            for queue in beat.queues:
                self._seen_ms[queue] = now_ms
                for name in beat.handlers:
                    self._seen_ms[f"{queue} {name}"] = now_ms
        for key in [key for key, at in self._seen_ms.items() if now_ms - at > _FORGOTTEN_MS]:
            del self._seen_ms[key]

    def missed(self) -> None:
        """The region did not say who lives there: as if everything were served up to now."""
        self._begun_ms = self._clock.monotonic_ms()

    def unserved_for_ms(self, lane: Lane) -> float:
        """How long nobody has run what waits there; of a set of due times, anything at all."""
        if lane.kind == "due":
            keys = list(self._seen_ms)
        elif lane.kind == "parked":
            keys = [f"{lane.queue} {lane.name}", f"{lane.queue} {_ANY}"]
        else:
            keys = [lane.queue]
        last_ms = max((self._seen_ms.get(key, self._begun_ms) for key in keys), default=0.0)
        return self._clock.monotonic_ms() - max(last_ms, self._begun_ms)
