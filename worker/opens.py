"""What a worker process opens: stores, the guard's connection, what carries webhooks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tradewind.clock import Clock
from tradewind.fleet import Fleet, Region
from tradewind.ports import Claims, Intake, Notices, Register, Repairs, Upkeep
from worker.couriers.abroad import Foreign
from worker.couriers.carrier import Source, Target
from worker.couriers.imports import Memories, Origin
from worker.guard import Leases
from worker.herald import Sender


class Home(Claims, Upkeep, Repairs, Source, Memories, Target, Notices, Intake, Register, Protocol):
    """The store of the worker's own region."""

    async def start(self) -> None:
        """Connect and verify. Raises StoreError."""
        ...

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, in which this region is at the same address."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class Elsewhere(Foreign, Origin, Register, Protocol):
    """The store of another region: a courier's target."""

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, in which this region is at the same address."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


@dataclass(frozen=True, slots=True)
class Opens:
    """How a worker opens what it works with. All raise SetupError for what is not served here."""

    home: Callable[[Region, Fleet], Home]
    other: Callable[[Region, Fleet], Elsewhere]
    leases: Callable[[Region, Fleet], Leases]  # the guard's own, called in its thread
    sender: Callable[[Fleet, Clock], Sender | None]  # what carries webhooks, if there are any
