"""Where records of what operators did are kept, and read."""

from collections.abc import Sequence
from typing import Protocol

from tradewind.audit import AuditRecord


class Audits(Protocol):
    """One region's records (router, worker)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def audit(self, record: AuditRecord) -> None:
        """Keep a record; the oldest beyond audit.MAX_RECORDS go."""
        ...

    async def audited(self, *, before: str, limit: int) -> Sequence[AuditRecord]:
        """Return the latest records, newest first; with `before`, those older than that place."""
        ...
