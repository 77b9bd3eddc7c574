"""Places for suspects: tasks whose process has died before, and may well die of them again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tradewind.clock import Clock
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.task import Claim

# Design section 6. One that takes the whole worker along has one neighbour at most to be blamed
# with it; one that hangs leaves a place for the others.
MAX_SUSPECTS: Final = 2
_QUIET_TIMEOUT_S: Final = 5.0  # a store that does not answer must not hold them up
# The shortest time that a last chance is alone: a child needs seconds to import a large app, and
# to be blamed before that is what it is to be spared.
_ALONE_MS: Final = 10 * SECOND_MS
_PAUSE_MS: Final = 2 * SECOND_MS  # between two looks at whether a last chance may run now
_FORGET_MS: Final = 5 * _PAUSE_MS  # one that did not come back by then has gone to another worker
_LOOK_PAST: Final = 16  # last chances in front of others that one claim brings and hands back


@dataclass(slots=True)
class _Waiting:
    """A last chance that was handed back. Times are monotonic ms."""

    partition: int
    until_ms: float  # then it runs beside others
    seen_ms: float


class Suspects:
    """Who is in which place of one worker, beside its slots.

    A suspect's crash is booked before it runs, so whoever takes the worker along has its neighbours
    counted, too. One whose next crash would be its last, a last chance, therefore runs with no
    other suspect beside it; one that cannot run now is handed back, which takes the crash back.

    That has a bound, since a neighbour may run for hours. A last chance waits for the others, and
    the others for one that runs, for a lease of its queue, and no less than _ALONE_MS: so long a
    death that takes the worker along stays unnoticed anyway. Then it has a place beside them, if
    need be one more than MAX_SUSPECTS: those may have been taken while it waited, as nobody queues
    behind it.
    """

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        *,
        on_change: Callable[[], None],
        on_due: Callable[[int, int], None],
    ) -> None:
        """`fleet` knows max_crashes and leases.

        Called on the event loop: `on_change()` when there may be a place, `on_due(partition, 0)`
        when a last chance from there has waited long enough.
        """
        self._fleet, self._clock = fleet, clock
        self._on_change, self._on_due = on_change, on_due
        self._here: dict[tuple[str, int], tuple[Claim, float]] = {}  # and until when it is alone
        self._waiting: dict[str, _Waiting] = {}  # last chances by task id
        self._paused_until_ms = 0.0
        self._returning: set[tuple[str, int]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet."""
        self._fleet = fleet

    def __len__(self) -> int:
        """How many are here."""
        return len(self._here)

    @property
    def free(self) -> int:
        """How many suspects may be asked for now."""
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms)
        if not self._here:
            return 1 if self._waiting else MAX_SUSPECTS
        if now_ms < self._paused_until_ms or self._one_is_alone(now_ms):
            return 0
        is_due = any(one.until_ms <= now_ms for one in self._waiting.values())
        return max(MAX_SUSPECTS - len(self._here), int(is_due and not self._has_extra))

    def in_front(self, partition: int) -> int:
        """How many last chances may stand there in front of those that can run now."""
        if not self._here:
            return 0
        there = sum(one.partition == partition for one in self._waiting.values())
        return min(there, _LOOK_PAST)

    def admit(self, claim: Claim) -> bool:
        """Take a place for it. False: hand it back, and say `returned`."""
        now_ms = self._clock.monotonic_ms()
        is_last = self._is_last_chance(claim)
        waiting = self._waiting.get(claim.task_id) if is_last else None
        if self._here and not self._fits(is_last, waiting, now_ms):
            if is_last:
                self._wait(claim, now_ms)
            self._pause(now_ms)
            return False
        self._waiting.pop(claim.task_id, None)
        alone_ms = self._alone_ms(claim) if is_last else 0
        self._here[_key(claim)] = claim, now_ms + alone_ms
        if alone_ms:
            _later(alone_ms, self._on_change)
        return True

    def leave(self, claim: Claim) -> None:
        """Its attempt is over."""
        self._here.pop(_key(claim), None)

    def returned(self, claim: Claim) -> None:
        """It is handed back, and is not to be there when another one starts."""
        self._returning.add(_key(claim))
        self._quiet.clear()

    def settled(self, claim: Claim) -> None:
        """The store has answered its report."""
        self._returning.discard(_key(claim))
        if not self._returning:
            self._quiet.set()

    async def quiet(self) -> None:
        """Return once the store has taken back what was returned: no crash is booked for it."""
        try:
            async with asyncio.timeout(_QUIET_TIMEOUT_S):
                await self._quiet.wait()
        except TimeoutError:
            self._returning.clear()
            self._quiet.set()

    def _fits(self, is_last: bool, waiting: _Waiting | None, now_ms: float) -> bool:  # noqa: FBT001
        """Whether it may run beside those that are here."""
        if self._one_is_alone(now_ms):
            return False
        if is_last:
            return waiting is not None and waiting.until_ms <= now_ms and not self._has_extra
        return len(self._here) < MAX_SUSPECTS

    @property
    def _has_extra(self) -> bool:
        return len(self._here) > MAX_SUSPECTS

    def _one_is_alone(self, now_ms: float) -> bool:
        return any(now_ms < until_ms for _, until_ms in self._here.values())

    def _wait(self, claim: Claim, now_ms: float) -> None:
        if claim.task_id not in self._waiting:
            alone_ms = self._alone_ms(claim)
            self._waiting[claim.task_id] = _Waiting(claim.partition, now_ms + alone_ms, now_ms)
            _later(alone_ms, lambda: self._on_due(claim.partition, 0))
        self._waiting[claim.task_id].seen_ms = now_ms

    def _pause(self, now_ms: float) -> None:
        """It was handed back: whoever asks again at once would get it again."""
        self._paused_until_ms = now_ms + _PAUSE_MS
        _later(_PAUSE_MS, self._on_change)

    def _forget(self, now_ms: float) -> None:
        """Those that have not come back although there was room."""
        for task_id, one in list(self._waiting.items()):
            if now_ms - max(one.seen_ms, one.until_ms) > _FORGET_MS:
                del self._waiting[task_id]

    def _alone_ms(self, claim: Claim) -> int:
        return max(self._fleet.queue(claim.queue).lease_ms, _ALONE_MS)

    def _is_last_chance(self, claim: Claim) -> bool:
        return claim.crashes >= self._fleet.queue(claim.queue).max_crashes


def _later(in_ms: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(in_ms / SECOND_MS, call)


def _key(claim: Claim) -> tuple[str, int]:
    return claim.task_id, claim.token
