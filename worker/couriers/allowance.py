"""How many tasks may leave now: by what the target completes, and by an order's rate.

Couriers agree on nothing but the leases of partitions. Whoever holds some of a region's leases
takes the same share of every rate: the shares add up to one, whoever holds which. What the targets
complete is measured; before a task has ended there, their slots and a guess stand for it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.policy.defaults import MOVE_WAIT_SHARE, SPILL_WINDOW_S
from tradewind.policy.scores import capacity, queue_length
from tradewind.view import RegionView

_FIRST_S: Final = 1.0  # of a rate, to begin with: couriers look every second
_BURST_S: Final = 3.0  # of a rate, saved up: so long a pass takes that waits for disks
_LEAST_PER_S: Final = 1 / SPILL_WINDOW_S  # a router sends at least one guest in that time, too


@dataclass(slots=True)
class _Bucket:
    """Tokens that come at a rate; at most those of _BURST_S, and at least one, are saved up."""

    tokens: float = 1.0
    at_ms: float | None = None

    def fill(self, rate_per_s: float, now_ms: float) -> None:
        began = self.at_ms is None
        passed_s = _FIRST_S if self.at_ms is None else (now_ms - self.at_ms) / SECOND_MS
        most = max(1.0, rate_per_s * (_FIRST_S if began else _BURST_S))
        self.tokens, self.at_ms = min(most, self.tokens + rate_per_s * passed_s), now_ms


@dataclass(slots=True)
class _Room:
    """What a target's queue still takes, of one view of it."""

    left: float
    view: RegionView


@dataclass(slots=True)
class Allowance:
    """Of one courier, for what leaves one region."""

    _rates: dict[str, _Bucket] = field(default_factory=dict[str, _Bucket])
    _rooms: dict[str, _Room] = field(default_factory=dict[str, _Room])
    _order: _Bucket = field(default_factory=_Bucket)

    def open(
        self,
        views: Iterable[RegionView],
        fleet: Fleet,
        *,
        share: float,
        rate_per_s: float,
        now_ms: float,
    ) -> None:
        """Say what is known now. `share`: of the source's courier leases, those that are held.

        `rate_per_s`: of the order; 0: as fast as the targets allow. `now_ms` is monotonic.
        """
        if rate_per_s:
            self._order.fill(rate_per_s * share, now_ms)
        else:
            self._order.tokens = math.inf
        for view in views:
            limits = fleet.regions[view.name].limits
            completes = capacity(view)
            bucket = self._rates.setdefault(view.name, _Bucket())
            bucket.fill(max(_LEAST_PER_S, limits.max_spill_in * completes * share), now_ms)
            room = self._rooms.get(view.name)
            if room is None or room.view is not view:  # a new look: what was sent is in it
                most = MOVE_WAIT_SHARE * limits.max_wait_ms / SECOND_MS * completes
                left = (most - queue_length(view) + view.free_slots) * share
                self._rooms[view.name] = _Room(left, view)

    def take(self, target: str, *, rests: bool = False) -> bool:
        """Whether one more task may leave for `target` now; if so, it counts.

        A dead letter that `rests` there is nobody's work: only an order's rate holds it up.
        """
        if rests:
            is_open = self._order.tokens >= 1
            self._order.tokens -= is_open
            return is_open
        bucket, room = self._rates.get(target), self._rooms.get(target)
        if bucket is None or room is None:
            return False
        if min(self._order.tokens, bucket.tokens, room.left) < 1:
            return False
        self._order.tokens -= 1
        bucket.tokens -= 1
        room.left -= 1
        return True
