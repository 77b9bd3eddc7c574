"""A claim in one of a worker's places, and the ways to have its handler stopped."""

import asyncio
from dataclasses import dataclass, field

from tradewind.handlers import Signals
from tradewind.task import Claim


class Halt:
    """What may interrupt an attempt. Belongs to the event loop, as futures do."""

    def __init__(self) -> None:
        """Nothing interrupts it."""
        loop = asyncio.get_running_loop()
        self.cancel: asyncio.Future[None] = loop.create_future()  # its cancel was asked for
        self.stop: asyncio.Future[None] = loop.create_future()  # the worker or the lease is gone

    def call_off(self) -> None:
        """Somebody asked for the task's cancel."""
        _resolve(self.cancel)

    def end(self) -> None:
        """The attempt cannot go on here."""
        _resolve(self.stop)


@dataclass(eq=False, slots=True)
class Slot:
    """One claim under way."""

    claim: Claim
    signals: Signals = field(default_factory=Signals)
    halt: Halt = field(default_factory=Halt)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
