"""Freeing the idempotency key, or payload, that a task stands for."""

import asyncio
from collections.abc import Mapping
from typing import Final

from tradewind import codec
from tradewind.codec import DamagedRecord
from tradewind.errors import HomeUnreachable, StoreError
from tradewind.fingerprint import ledger_key_business
from tradewind.fleet import Fleet
from tradewind.policy import affinity
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

        Raises HomeUnreachable if the region that keeps the entry does not answer.
        """
        entry = self._entry(record)
        if entry is None:
            return
        home, mark = entry
        try:
            async with asyncio.timeout(_CALL_S):
                await self._ledgers[home].forget(mark, record.task_id)
        except (StoreError, TimeoutError):
            raise HomeUnreachable(home) from None

    def _entry(self, record: Record) -> tuple[str, LedgerMark] | None:
        """Return home and mark, as the submit had them."""
        stored = stored_spec(record)
        if stored is None or not stored.deduplicated:
            return None
        spec, fence = stored.spec, tuple(stored.fence)
        key = ledger_key_business(spec.tenant, spec.queue, spec.name, fence, stored.fingerprint)
        if self._fleet.queue(spec.queue).dedup.scope == "region":
            home = stored.birth_region
        else:
            home = next(iter(affinity.unweighted(key, self._fleet.inside(fence))), "")
        if home not in self._ledgers:
            return None
        # What else a mark says is for those who make an entry.
        return home, LedgerMark(key, business=True, digest=b"", request_tag=b"", window_ms=0)


def stored_spec(record: Record) -> StoredSpec | None:
    """Return what was admitted, or None if it cannot be read."""
    try:
        return codec.unpack(record.packed)
    except DamagedRecord:
        return None
