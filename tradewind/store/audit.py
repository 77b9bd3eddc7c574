"""Records of what operators did, in the control partition of a region (port Audits)."""

from collections.abc import Sequence
from typing import cast

from tradewind.audit import MAX_RECORDS, AuditRecord, decode, encode
from tradewind.store.role import Role
from tradewind.store.upkeep import CONTROL


class AuditRole(Role):
    """See ports.Audits."""

    async def audit(self, record: AuditRecord) -> None:
        """Keep a record; see ports.Audits."""
        args = {"record": encode(record), "most": MAX_RECORDS}
        keys = {"audit": self._client.keys[CONTROL].audit}
        await self._client.run(self._client.call("audit", CONTROL, keys, args))

    async def audited(self, *, before: str, limit: int) -> Sequence[AuditRecord]:
        """The latest first; see ports.Audits."""
        last = f"({before}" if before else "+"
        key = self._client.keys[CONTROL].audit
        (found,) = await self._client.plain(
            CONTROL, [["XREVRANGE", key, last, "-", "COUNT", limit]]
        )
        entries = cast("list[tuple[bytes, list[bytes]]]", found)
        return [
            decode(fields[1], region=self.region, place=place.decode()) for place, fields in entries
        ]
