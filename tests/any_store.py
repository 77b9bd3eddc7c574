"""A region's store by its ports alone, whatever it is made of."""

from typing import Protocol

from tradewind.ports import (
    Cancels,
    Claims,
    DeadLetters,
    Inbox,
    Intake,
    Ledger,
    Notices,
    Outbox,
    Reads,
    Repairs,
    Upkeep,
    Vitals,
)


class AnyStore(
    Intake,
    Ledger,
    Cancels,
    DeadLetters,
    Reads,
    Vitals,
    Claims,
    Upkeep,
    Notices,
    Outbox,
    Inbox,
    Repairs,
    Protocol,
):
    """Every port, and its life."""

    async def start(self) -> None:
        """Connect."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...
