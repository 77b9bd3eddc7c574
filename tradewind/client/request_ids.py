"""Mints the request ids of a client's submits, in groups; see tradewind.request_ids."""

import time
import uuid
from collections.abc import Callable
from typing import Final

from tradewind.limits import MAX_CLAIM
from tradewind.request_ids import group_of

_IDS: Final = MAX_CLAIM  # of one group: what a worker claims at once
_SPAN_S: Final = 0.005  # from its first to its last: a lone submit has a group of its own


class RequestIds:
    """Gives ids to one client's submits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds."""
        self._clock = clock
        self._group, self._number, self._since_s = "", _IDS, 0.0

    def mint(self, instead_of: str = "") -> str:
        """Return a new one; of another group than `instead_of`, whose partition may be moving."""
        now_s = self._clock()
        is_over = self._number >= _IDS or now_s - self._since_s > _SPAN_S
        if is_over or group_of(instead_of) == self._group:
            self._group, self._number, self._since_s = uuid.uuid4().hex, 0, now_s
        self._number += 1
        return f"{self._group}.{self._number}"
