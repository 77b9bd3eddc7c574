"""Where and when a caller is that did not say so: at the place and the time of its router."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress

import grpc.aio

from tradewind.client.calls import REPEATABLE, Refusal, Router
from tradewind.client.repeats import repeat
from tradewind.clock import Clock, SystemClock
from tradewind.limits import MINUTE_MS, SECOND_MS

#: Initial metadata of a router's health Check: its own region.
REGION_KEY = "tradewind-region"
#: The same: ms since 1970 by the clocks of the regions.
NOW_KEY = "tradewind-now-ms"

# Asked by hand: both messages may be empty, and the SDK needs no package for them.
_CHECK = "/grpc.health.v1.Health/Check"

# A router at the other end of the world answers in half a second. A submit must not wait long for
# what only makes it faster.
_ASK_S = 2.0

# How long an answer is counted on from: 30 ms in that time is the most that a host's clock may be
# slewed (500 ppm, adjtimex(2)).
_FRESH_MS = MINUTE_MS
_JUMP_MS = SECOND_MS  # of this host's clocks against each other: one was set, or the host slept

_NUMBER = re.compile("[0-9]{1,15}")
_HOST: Clock = SystemClock()


class Origin:
    """Asks the router's health service for its region and its time, once they are needed."""

    def __init__(self, router: Router, clock: Clock = _HOST) -> None:
        """Share the client's connection; nothing is asked yet. `clock` is this host's."""
        self._router, self._clock = router, clock
        self._region: str | None = None
        self._told_ms: int | None = None  # the router's time when it answered last
        self._answered_ms: tuple[float, int] | None = None  # this host's then: monotonic, wall
        self._asking: asyncio.Task[None] | None = None

    async def region(self, timeout_s: float) -> str:
        """Give the router's region, or nothing if it did not say.

        Callers that meet share one question. A router that was not reached is asked again at the
        next call; one that answered never.
        """
        if self._region is None:
            with suppress(Refusal):
                await self._answer(timeout_s)
        return self._region or ""

    async def now_ms(self, timeout_s: float) -> int:
        """Give the time by the regions' clocks, in ms since 1970: never ahead of them.

        Behind by what an answer takes. This host's clock stands in for a router that does not tell.
        Raises as a call does that nobody answers for `timeout_s`.
        """
        if self._is_stale():
            await repeat(self._answer, timeout_s)
        if self._told_ms is None or self._answered_ms is None:
            return self._clock.now_ms()
        return self._told_ms + int(self._clock.monotonic_ms() - self._answered_ms[0])

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def _is_stale(self) -> bool:
        """Whether the last answer is too old to count on from."""
        if self._answered_ms is None:
            return True
        monotonic_ms, wall_ms = self._answered_ms
        passed_ms = self._clock.monotonic_ms() - monotonic_ms
        jump_ms = abs(self._clock.now_ms() - wall_ms - passed_ms)
        return passed_ms > _FRESH_MS or jump_ms > _JUMP_MS

    async def _answer(self, timeout_s: float) -> None:
        """Return once the router has answered. Raises Refusal if nobody did."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(min(timeout_s, _ASK_S)))
            self._asking.add_done_callback(self._asked)
        await asyncio.shield(self._asking)

    def _asked(self, task: "asyncio.Task[None]") -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # seen, if nobody waits for it any more

    async def _ask(self, timeout_s: float) -> None:
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        check = self._router.channel.unary_unary(_CHECK, _as_it_is, _as_it_is)
        call = check(b"", timeout=timeout_s)
        try:
            await call
        except grpc.aio.AioRpcError as error:
            # A refusal is an answer, too, of one that has no health service for instance.
            if error.code() in REPEATABLE:
                raise self._router.refused(error, timeout_s) from None
        self._note(dict(await call.initial_metadata() or ()))

    def _note(self, said: "Mapping[str, str | bytes]") -> None:
        region, now_ms = said.get(REGION_KEY), said.get(NOW_KEY)
        if self._region is None:
            self._region = region if isinstance(region, str) else ""
        told = isinstance(now_ms, str) and _NUMBER.fullmatch(now_ms)
        self._told_ms = int(told[0]) if told else None
        self._answered_ms = self._clock.monotonic_ms(), self._clock.now_ms()


def _as_it_is(message: bytes) -> bytes:
    return message
