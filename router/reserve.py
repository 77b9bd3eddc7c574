"""Ledger entries that live elsewhere than their task: reserve, then store, then confirm."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from router.census import Census
from router.job import Deadline
from tradewind.errors import HomeUnreachable, RegionsFull, StoreError, StoreFull, StoreUnavailable
from tradewind.limits import RESERVATION_LEASE_MS, SECOND_MS
from tradewind.ports import Ledger
from tradewind.task import LedgerHit, LedgerMark

_log = logging.getLogger(__name__)

#: How long a reservation is certainly ours alone, counted from before it was asked for.
HELD_S: Final = RESERVATION_LEASE_MS / SECOND_MS * 0.8
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Reservation:
    """An entry at `home` that says: (task_id, epoch) is being stored at `region`."""

    mark: LedgerMark
    home: str
    task_id: str
    region: str
    epoch: int
    asked_s: float  # monotonic, before the request
    adopted: bool = False  # somebody else made it; their writer may still be on its way

    @property
    def is_ours_alone(self) -> bool:
        """Whether nobody else can be carrying this very submit through."""
        return not self.adopted and time.monotonic() - self.asked_s < HELD_S


class Ledgers:
    """The ledgers of all regions."""

    def __init__(self, ledgers: Mapping[str, Ledger], census: Census) -> None:
        """`ledgers` by region name."""
        self._ledgers, self._census = ledgers, census

    async def reserve(self, wanted: Reservation, deadline: Deadline) -> LedgerHit | None:
        """Make, or move on, a reservation; a hit says who has it.

        Raises HomeUnreachable if the home does not answer (then the entry may be there, and a
        repeat adopts it), RegionsFull if it has no memory left for an entry.
        """
        home = wanted.home
        if self._census.view(home).health == "DOWN":
            raise HomeUnreachable(home)
        while True:
            try:
                async with asyncio.timeout(deadline.left_s()):
                    hit = await self._ledgers[home].reserve(
                        wanted.mark, wanted.task_id, wanted.region, wanted.epoch
                    )
            except TimeoutError:
                raise HomeUnreachable(home) from None
            except StoreFull as error:
                self._census.note(home, error)
                raise RegionsFull(
                    f"region {home}, which keeps the record of this submit, is out of memory"
                ) from None
            except StoreError as error:
                self._census.note(home, error)
                again = isinstance(error, StoreUnavailable) and error.sent
                if not again or deadline.left_s() <= _PAUSE_S:
                    raise HomeUnreachable(home) from None
                await asyncio.sleep(_PAUSE_S)
            else:
                self._census.note(home, None)
                return hit

    async def confirm(self, held: Reservation, deadline: Deadline) -> None:
        """Say that the task is stored. Without an answer the next repeat confirms it."""
        try:
            async with asyncio.timeout(deadline.left_s()):
                await self._ledgers[held.home].confirm(held.mark, held.task_id, held.epoch)
        except (StoreError, TimeoutError) as error:
            _log.warning(
                "a stored task is not confirmed in its ledger; the next repeat will do it",
                extra={"task_id": held.task_id, "home": held.home, "cause": type(error).__name__},
            )

    async def give_back(self, held: Reservation) -> bool:
        """Take back a reservation that has no task. False if it had to stay.

        Only while it is certainly ours: whoever adopts it has the same id and epoch.
        """
        if not held.is_ours_alone:
            return False
        try:
            async with asyncio.timeout(HELD_S - (time.monotonic() - held.asked_s)):
                return await self._ledgers[held.home].unreserve(held.mark, held.task_id, held.epoch)
        except (StoreError, TimeoutError):
            return False

    async def discard(self, dead: Reservation, deadline: Deadline) -> bool:
        """Remove a reservation whose task was refused for good, so that it can never come."""
        try:
            async with asyncio.timeout(deadline.left_s()):
                return await self._ledgers[dead.home].unreserve(dead.mark, dead.task_id, dead.epoch)
        except (StoreError, TimeoutError):
            return False
