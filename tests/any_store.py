"""A region's store by its ports alone, whatever it is made of."""

from typing import Protocol

from tradewind.ports import (
    Audits,
    Cancels,
    Claims,
    DeadLetters,
    Durables,
    Evacuations,
    Inbox,
    Intake,
    Ledger,
    Notices,
    Outbox,
    Reads,
    Register,
    Repairs,
    Upkeep,
    Vitals,
)


class AnyStore(
    Intake,
    Ledger,
    Durables,
    Cancels,
    DeadLetters,
    Evacuations,
    Reads,
    Vitals,
    Claims,
    Upkeep,
    Notices,
    Outbox,
    Inbox,
    Repairs,
    Register,
    Audits,
    Protocol,
):
    """Every port, and its life."""

    async def start(self) -> None:
        """Connect."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...
