"""Records of what operators did (port Audits)."""

from collections.abc import Sequence

from tradewind.audit import MAX_RECORDS, AuditRecord, decode, encode
from tradewind.testing.memory.role import Role


class AuditRole(Role):
    """See ports.Audits."""

    async def audit(self, record: AuditRecord) -> None:
        """Keep a record; the oldest go."""
        kept = self.room.audit
        at_ms, number = kept[-1][0] if kept else (0, 0)
        now_ms = self.room.now_ms
        place = (now_ms, 0) if now_ms > at_ms else (at_ms, number + 1)
        kept.append((place, encode(record)))
        del kept[:-MAX_RECORDS]

    async def audited(self, *, before: str, limit: int) -> Sequence[AuditRecord]:
        """The latest first."""
        last = tuple(map(int, before.split("-"))) if before else None
        older = [each for each in reversed(self.room.audit) if last is None or each[0] < last]
        return [
            decode(data, region=self.region, place=f"{at_ms}-{number}")
            for (at_ms, number), data in older[:limit]
        ]
