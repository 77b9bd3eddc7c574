"""A claim in one of a worker's places, its lease, and the ways to have its handler stopped."""

import asyncio
from collections.abc import Callable

from tradewind.attempts.settle import Terms
from tradewind.handlers import Signals
from tradewind.task import Claim


class Halt:
    """What may interrupt an attempt. Belongs to the event loop.

    Two flags, and futures only for those who wait for them: most attempts end by themselves.
    """

    __slots__ = ("_cancel", "_stop", "heard", "is_called_off", "is_over")

    def __init__(self) -> None:
        """Nothing interrupts it."""
        self.is_called_off = False  # its cancel was asked for
        self.is_over = False  # the worker or the lease is gone
        self.heard: Callable[[], None] | None = None  # is called when one of them changes
        self._cancel: asyncio.Future[None] | None = None
        self._stop: asyncio.Future[None] | None = None

    @property
    def cancel(self) -> "asyncio.Future[None]":
        """Done once it is called off."""
        if self._cancel is None:
            self._cancel = asyncio.get_running_loop().create_future()
            _resolve(self._cancel, self.is_called_off)
        return self._cancel

    @property
    def stop(self) -> "asyncio.Future[None]":
        """Done once it is over."""
        if self._stop is None:
            self._stop = asyncio.get_running_loop().create_future()
            _resolve(self._stop, self.is_over)
        return self._stop

    def call_off(self) -> None:
        """Somebody asked for the task's cancel."""
        if not self.is_called_off:
            self.is_called_off = True
            _resolve(self._cancel, True)  # noqa: FBT003
            self._tell()

    def end(self) -> None:
        """The attempt cannot go on here."""
        if not self.is_over:
            self.is_over = True
            _resolve(self._stop, True)  # noqa: FBT003
            self._tell()

    def _tell(self) -> None:
        if self.heard is not None:
            self.heard()


class Slot:
    """One claim under way. The guard keeps its lease; the times of that are monotonic ms.

    `lost` and `called_off` may be called in any thread, the rest belongs to one each.
    """

    __slots__ = (
        "_loop",
        "began_ms",
        "claim",
        "due_ms",
        "halt",
        "is_reported",
        "lease_ms",
        "signals",
        "terms",
        "trusted_until_ms",
    )

    def __init__(
        self,
        claim: Claim,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[float, str], None] | None = None,
    ) -> None:
        """`claim` has just come; `loop` is the one that its attempt belongs to.

        `report` takes what its handler says of its progress.
        """
        self.claim = claim
        self.signals = Signals(report)
        self.halt = Halt()
        self.terms: Terms | None = None  # once it is prepared
        self.began_ms = 0.0  # when its handler did; 0 before that, and once it has ended
        self.lease_ms = 0
        self.due_ms = 0.0  # when to renew the lease
        self.trusted_until_ms = 0.0  # counted from before the request: a slow answer adds nothing
        self.is_reported = False  # its end is on its way to the store, and ends the lease
        self._loop = loop

    def lost(self) -> None:
        """The lease belongs to somebody else."""
        self.signals.cancelled.set()
        self._loop.call_soon_threadsafe(self.halt.end)

    def called_off(self) -> None:
        """The cancel of the task was asked for."""
        self.signals.cancelled.set()
        self._loop.call_soon_threadsafe(self.halt.call_off)


def _resolve(future: "asyncio.Future[None] | None", holds: bool) -> None:  # noqa: FBT001
    if holds and future is not None and not future.done():
        future.set_result(None)
