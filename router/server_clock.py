"""The time of day by the regions' Redis servers: no host clock judges a caller's instants."""

from collections.abc import Sequence

from tradewind.clock import Clock
from tradewind.errors import StoreUnavailable
from tradewind.ports import Vitals


class ServerClock:
    """A clock that follows the first of `stores` that has told its time; see clock.Clock.

    When a task is due its own region decides. This one bounds what a router takes in: a router
    whose host is an hour off must not refuse a task as expired.
    """

    def __init__(self, host: Clock, stores: Sequence[Vitals]) -> None:
        """`host` measures spans, and stands in before any store has answered."""
        self._host, self._stores = host, stores

    def follow(self, stores: Sequence[Vitals]) -> None:
        """Follow others from now on."""
        self._stores = stores

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        told_ms = self.told_ms()
        return self._host.now_ms() if told_ms is None else told_ms

    def told_ms(self) -> int | None:
        """The same as far as a store has told it: never the host's."""
        for store in self._stores:
            now_ms = store.now_ms()
            if now_ms is not None:
                return now_ms
        return None

    def monotonic_ms(self) -> float:
        """Monotonic time in ms, the host's."""
        return self._host.monotonic_ms()


async def region_now_ms(store: Vitals) -> int:
    """Give the time of day by one region's own clock, by which its tasks end. Raises StoreError."""
    now_ms = store.now_ms()
    if now_ms is None:  # whatever it has answered so far came from nodes with other clocks
        await store.probe()
        now_ms = store.now_ms()
    if now_ms is None:
        raise StoreUnavailable(store.region, "it does not tell its time", sent=False)
    return now_ms
