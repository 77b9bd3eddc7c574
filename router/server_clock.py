"""The time of day by the regions' Redis servers: no host clock judges a caller's instants."""

from collections.abc import Sequence

from tradewind.clock import Clock
from tradewind.ports import Vitals


class ServerClock:
    """A clock that follows the first of `stores` that has told its time; see clock.Clock.

    When a task is due its own region decides. This one bounds what a router takes in: a router
    whose host is an hour off must not refuse a task as expired.
    """

    def __init__(self, host: Clock, stores: Sequence[Vitals]) -> None:
        """`host` measures spans, and stands in before any store has answered."""
        self._host, self._stores = host, stores

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        told = (store.now_ms() for store in self._stores)
        return next((now_ms for now_ms in told if now_ms is not None), self._host.now_ms())

    def monotonic_ms(self) -> float:
        """Monotonic time in ms, the host's."""
        return self._host.monotonic_ms()
