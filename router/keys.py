"""Freeing the idempotency key, or payload, that a task stands for."""

import asyncio
from collections.abc import Mapping

from router.lookup import SILENT_AFTER_S
from tradewind import codec
from tradewind.admission.identity import homes, request_homes
from tradewind.codec import DamagedRecord
from tradewind.errors import StoreError
from tradewind.fingerprint import ledger_key_business, ledger_key_request
from tradewind.fleet import Fleet
from tradewind.ports import Ledger
from tradewind.task import LedgerMark, Record
from tradewind.v1.record_pb2 import StoredSpec


class Keys:
    """The ledger entries of stored tasks, found again from what was stored."""

    def __init__(self, fleet: Fleet, ledgers: Mapping[str, Ledger]) -> None:
        """`ledgers` by region name."""
        self._fleet, self._ledgers = fleet, ledgers

    def has_one(self, record: Record) -> bool:
        """Whether the task stands for a key that can be freed."""
        return self._entry(record) is not None

    async def free(self, record: Record) -> set[str]:
        """Make the key of a cancelled or purged task free again, unless another task has it by now.

        Returns the regions that keep the entry and did not answer, but not where that is accepted.
        Whatever is not freed here, the next submit that meets it frees (router.carry).
        """
        entry = self._entry(record)
        if entry is None:
            return set()
        mark, kept_at, insists = entry
        silent = await self._forget_all(kept_at, mark, record)
        return silent if insists else set()

    async def leave_word(self, record: Record) -> None:
        """Let a late repeat of a purged task's submit find that it was dead, and start nothing.

        For a task that has no key. A cancelled one has its record for that.
        """
        stored = stored_spec(record)
        if stored is None or stored.deduplicated or not stored.spec.request_id:
            return
        spec, fence = stored.spec, tuple(stored.fence)
        key = ledger_key_request(spec.tenant, spec.request_id)
        kept_at = request_homes(key, spec.origin_region, fence, self._fleet)
        await self._forget_all(
            [home for home in kept_at if home in self._ledgers], _mark(key, business=False), record
        )

    async def _forget_all(self, homes: list[str], mark: LedgerMark, record: Record) -> set[str]:
        async def answers(home: str) -> bool:
            try:
                async with asyncio.timeout(SILENT_AFTER_S):
                    await self._ledgers[home].forget(mark, record.task_id, ended=record.state)
            except (StoreError, TimeoutError):
                return False
            return True

        answered = await asyncio.gather(*map(answers, homes))
        return {home for home, freed in zip(homes, answered, strict=True) if not freed}

    def _entry(self, record: Record) -> tuple[LedgerMark, list[str], bool] | None:
        """Return mark and homes, as the submit had them, and whether these must answer."""
        stored = stored_spec(record)
        if stored is None or not stored.deduplicated:
            return None
        spec, fence = stored.spec, tuple(stored.fence)
        dedup = self._fleet.queue(spec.queue).dedup
        key = ledger_key_business(spec.tenant, spec.queue, spec.name, fence, stored.fingerprint)
        by_region = dedup.scope == "region"
        found = (stored.birth_region,) if by_region else homes(key, fence, self._fleet)
        known = [home for home in found if home in self._ledgers]
        if not known:
            return None
        return _mark(key, business=True), known, dedup.on_home_unreachable == "reject"


def _mark(key: bytes, *, business: bool) -> LedgerMark:
    # What else a mark says is for those who make an entry.
    return LedgerMark(key, business=business, digest=b"", request_tag=b"", window_ms=0)


def stored_spec(record: Record) -> StoredSpec | None:
    """Return what was admitted, or None if it cannot be read."""
    try:
        return codec.unpack(record.packed)
    except DamagedRecord:
        return None
