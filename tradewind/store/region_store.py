"""One region's store: every port on one Redis deployment."""

from tradewind.fleet import Fleet, Region
from tradewind.store.audit import AuditRole
from tradewind.store.claims import ClaimsRole
from tradewind.store.control import RegisterRole
from tradewind.store.endings import EndingsRole
from tradewind.store.intake import IntakeRole
from tradewind.store.moves import InboxRole, OutboxRole
from tradewind.store.notices import NoticesRole
from tradewind.store.reads import ReadsRole
from tradewind.store.region_client import RegionClient
from tradewind.store.repairs import RepairsRole
from tradewind.store.upkeep import UpkeepRole, VitalsRole


class RegionStore(
    IntakeRole,
    EndingsRole,
    ReadsRole,
    VitalsRole,
    ClaimsRole,
    UpkeepRole,
    NoticesRole,
    OutboxRole,
    InboxRole,
    RepairsRole,
    RegisterRole,
    AuditRole,
):
    """Implements every interface of ports.py. Belongs to one event loop.

    The sides share nothing but the client; they are one object so that a process hands the same
    value to each part, which sees only its own port.
    """

    def __init__(self, region: Region, fleet: Fleet) -> None:
        """Nothing is connected yet. Raises SetupError for a kind of Redis not served."""
        super().__init__(RegionClient(region, fleet))

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, in which this region is at the same address."""
        self._client.follow(fleet)

    async def start(self) -> None:
        """Connect and verify identity. Raises StoreError; calls connect on their own as well."""
        await self.probe()

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self.close_waits()
        await self.close_claims()
        await self.close_seals()
        await self._client.nodes.close()
