"""Moves under way, and the operator's last resort for one whose target is gone for good."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from router.lookup import SILENT_AFTER_S, Lookup
from tradewind import codec
from tradewind.errors import RegionSilent, StoreError
from tradewind.ports import Inbox, Outbox
from tradewind.state import State
from tradewind.task import Exported, Record
from tradewind.v1 import admin_pb2

_log = logging.getLogger(__name__)
_MOST: Final = 100  # moves of a partition: there are few unless a target is silent
_AT_ONCE: Final = 16  # partitions side by side, as for other lists
_BACK_AFTER_MS: Final = 10_000  # before couriers look at a dead task again
_REASON: Final = "an operator ended the move"


class MovePorts(Outbox, Inbox, Protocol):
    """What this needs of one region."""


@dataclass(frozen=True, slots=True)
class Retargeted:
    """The task afterwards; whether its move was ended, and whether without the target's word."""

    record: Record
    ended: bool
    may_run_twice: bool = False


class Moves:
    """Moves between the regions of a fleet."""

    def __init__(self, stores: Mapping[str, MovePorts], partitions: int, lookup: Lookup) -> None:
        """`stores` by region name."""
        self._stores, self._partitions, self._lookup = stores, partitions, lookup

    async def listed(self, regions: Sequence[str]) -> tuple[list[Exported], list[str]]:
        """Moves out of these regions, oldest first, and who did not answer."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def of(region: str, partition: int) -> list[Exported]:
            async with room, asyncio.timeout(SILENT_AFTER_S):
                return await self._stores[region].moving(partition, limit=_MOST)

        async def out_of(region: str) -> list[Exported] | None:
            if region not in self._stores:  # it has left the file meanwhile
                return None
            parts = [of(region, partition) for partition in range(self._partitions)]
            found = await asyncio.gather(*parts, return_exceptions=True)
            moves: list[Exported] = []
            for part in found:
                if isinstance(part, StoreError | TimeoutError):
                    return None
                if isinstance(part, BaseException):
                    raise part
                moves += part
            return moves

        answers = await asyncio.gather(*map(out_of, regions))
        heard = [move for moves in answers if moves is not None for move in moves]
        silent = [name for name, moves in zip(regions, answers, strict=True) if moves is None]
        return sorted(heard, key=lambda move: move.begun_ms), silent

    async def retarget(self, task_id: str, *, force: bool, by: str) -> Retargeted:
        """End the task's move: it is again what it was in the region that it was to leave.

        Raises InvalidTask and UnknownTask as a read does, and RegionSilent if its source does not
        answer, or its target does not and `force` is not set.
        """
        record = await self._lookup.find(task_id)
        if record.state is not State.MOVING:
            return Retargeted(record, ended=False)
        is_sure = await self._is_refused(record)
        if is_sure is False:  # it has arrived
            return Retargeted(await self._lookup.find(task_id), ended=False)
        if is_sure is None and not force:
            raise RegionSilent([record.target])
        ended = await self._abort(record)
        extra = {"task_id": task_id, "target": record.target, "by": by, "forced": is_sure is None}
        if ended and is_sure is None:
            _log.warning("a move was ended without its target: the task may run twice", extra=extra)
        elif ended:
            _log.warning("an operator ended a move", extra=extra)
        found = await self._lookup.find(task_id)
        return Retargeted(found, ended, may_run_twice=ended and is_sure is None)

    async def _is_refused(self, record: Record) -> bool | None:
        """Whether the target will never take it; False: it has it. None: it does not answer."""
        store = self._stores.get(record.target)
        if store is None:
            return None
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                answer = await store.refuse_import(record.task_id, record.epoch)
        except (StoreError, TimeoutError):
            return None
        return answer == "fenced"

    async def _abort(self, record: Record) -> bool:
        try:
            async with asyncio.timeout(SILENT_AFTER_S):
                state = await self._stores[record.region].abort_export(
                    record.task_id,
                    record.epoch,
                    record.target,
                    reason=_REASON,
                    retry_after_ms=_BACK_AFTER_MS,
                )
        except (StoreError, TimeoutError):
            raise RegionSilent([record.region]) from None
        return state is not None


def move(exported: Exported) -> admin_pb2.Move:
    """A move as a message."""
    shown = admin_pb2.Move(
        task_id=exported.record.task_id,
        source=exported.record.region,
        target=exported.target,
        epoch=exported.epoch,
        reason=exported.reason,
        state=codec.STATES[exported.former],
    )
    shown.began_at.FromMilliseconds(exported.begun_ms)
    return shown
