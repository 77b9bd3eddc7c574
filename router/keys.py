"""Freeing the idempotency key, or payload, that a task stands for."""

import asyncio
from collections.abc import Mapping
from typing import Final

from tradewind import codec
from tradewind.admission.identity import homes
from tradewind.codec import DamagedRecord
from tradewind.errors import HomeUnreachable, StoreError
from tradewind.fingerprint import ledger_key_business
from tradewind.fleet import Fleet
from tradewind.ports import Ledger
from tradewind.task import LedgerMark, Record
from tradewind.v1.record_pb2 import StoredSpec

_CALL_S: Final = 3.0  # of one region's answer, as for a read


class Keys:
    """The ledger entries of stored tasks, found again from what was stored."""

    def __init__(self, fleet: Fleet, ledgers: Mapping[str, Ledger]) -> None:
        """`ledgers` by region name."""
        self._fleet, self._ledgers = fleet, ledgers

    def has_one(self, record: Record) -> bool:
        """Whether the task stands for a key that can be freed.

        The entry of a request_id stays: a late repeat of a submit must not be a second task.
        """
        return self._entry(record) is not None

    async def free(self, record: Record) -> None:
        """Make the task's key free again, unless another task has it by now.

        Raises HomeUnreachable if a region that keeps the entry does not answer, but not where that
        is accepted: then, and at a stand-in, a submit that finds a cancelled task starts over.
        """
        entry = self._entry(record)
        if entry is None:
            return
        mark, kept_at, insists = entry
        freed = await asyncio.gather(
            *(self._forget(home, mark, record.task_id) for home in kept_at)
        )
        for home, free in zip(kept_at, freed, strict=True):
            if insists and not free:
                raise HomeUnreachable(home)

    async def _forget(self, home: str, mark: LedgerMark, task_id: str) -> bool:
        try:
            async with asyncio.timeout(_CALL_S):
                await self._ledgers[home].forget(mark, task_id)
        except (StoreError, TimeoutError):
            return False
        return True

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
        # What else a mark says is for those who make an entry.
        mark = LedgerMark(key, business=True, digest=b"", request_tag=b"", window_ms=0)
        return mark, known, dedup.on_home_unreachable == "reject"


def stored_spec(record: Record) -> StoredSpec | None:
    """Return what was admitted, or None if it cannot be read."""
    try:
        return codec.unpack(record.packed)
    except DamagedRecord:
        return None
