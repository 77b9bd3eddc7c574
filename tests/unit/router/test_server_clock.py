from dataclasses import dataclass
from typing import Any, cast

from router.server_clock import ServerClock
from tradewind.clock import ManualClock

HOST_MS = 5_000


@dataclass(slots=True)
class Store:
    told_ms: int | None = None

    def now_ms(self) -> int | None:
        return self.told_ms


def clock(*stores: Store) -> ServerClock:
    return ServerClock(ManualClock(HOST_MS), cast("Any", stores))


def test_the_first_store_that_has_told_its_time_is_followed() -> None:
    own, other = Store(), Store(7_000)
    one = clock(own, other)
    assert one.now_ms() == 7_000
    own.told_ms = 9_000
    assert one.now_ms() == 9_000


def test_before_any_has_the_host_stands_in_and_spans_are_always_its_own() -> None:
    assert clock(Store()).now_ms() == HOST_MS
    assert clock(Store(7_000)).monotonic_ms() == 0
