"""Ledger entries that live elsewhere than their task: reserve, then store, then confirm.

An entry that exists only for a request_id has two homes, so that a region can be lost or full and
its callers' submits go on. It lives in one of them, and the spare home says in which:

* A first attempt keeps its entry at home, without asking the spare home. Only if home has
  certainly not taken it does it reserve at the spare home instead.
* A repeat asks the spare home first. What it finds there is its entry. If there is none it leaves
  a bar, in the same step: from then on the entry can live at home only. So a first attempt that is
  still on its way, and cannot reach a home that its repeat has reached, finds the bar.
* A repeat that gets no answer from the spare home uses an entry that home has, and makes none.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from router.census import Census
from router.job import Deadline
from tradewind.errors import (
    HomeUnreachable,
    RegionsFull,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TradewindError,
)
from tradewind.limits import RESERVATION_LEASE_MS, SECOND_MS
from tradewind.ports import Ledger
from tradewind.task import LedgerHit, LedgerMark

_log = logging.getLogger(__name__)

#: How long a reservation is certainly ours alone, counted from before it was asked for.
HELD_S: Final = RESERVATION_LEASE_MS / SECOND_MS * 0.8
_PAUSE_S: Final = 0.1
#: Epoch of an entry under which nothing is ever stored. At the spare home it is a bar, at home the
#: question of a repeat that was not allowed to make an entry, and has not taken it back.
BARE: Final = 0


class NotKept(Exception):
    """A home did not take an entry."""

    def __init__(self, home: str, error: TradewindError, *, certain: bool) -> None:
        """`error` is for the caller. `certain`: nothing of this request got there, or will."""
        self.home, self.error, self.certain = home, error, certain
        super().__init__(str(error))


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

        Raises NotKept with HomeUnreachable if the home does not answer, and unless that is certain
        the entry may be there and a repeat adopts it; with RegionsFull if it has no memory left.
        """
        home = wanted.home
        if self._census.view(home).health == "DOWN":
            raise NotKept(home, HomeUnreachable(home), certain=True)
        sent = False  # whether a request whose answer is missing may have made it
        while True:
            try:
                async with asyncio.timeout(deadline.left_s()):
                    hit = await self._ledgers[home].reserve(
                        wanted.mark, wanted.task_id, wanted.region, wanted.epoch
                    )
            except TimeoutError:
                raise NotKept(home, HomeUnreachable(home), certain=False) from None
            except StoreError as error:
                self._census.note(home, error)
                lost = isinstance(error, StoreUnavailable) and error.sent
                sent = sent or lost or isinstance(error, StoreContractBroken)
                if not _may_do_better(error) or deadline.left_s() <= _PAUSE_S:
                    raise NotKept(home, _for_caller(wanted, error), certain=not sent) from None
                await asyncio.sleep(_PAUSE_S)
            else:
                self._census.note(home, None)
                return hit

    async def settle(
        self, mark: LedgerMark, home: str, spare: str, task_id: str, deadline: Deadline
    ) -> tuple[str, LedgerHit | None]:
        """Say for a repeat where its entry lives, or has to be made, and what it found there.

        `task_id` is any new one in the submit's partition. Raises NotKept if the spare home is
        silent and home is, too, or has no entry.
        """
        half = Deadline.after(deadline.left_s() / 2, is_callers=False)
        bar = Reservation(mark, spare, task_id, home, BARE, time.monotonic())
        try:
            hit = await self.reserve(bar, half)
        except NotKept as silent:
            return home, await self._look(replace(bar, home=home), silent, deadline)
        if hit is None or hit.epoch == BARE:
            return home, None
        return spare, hit

    async def _look(self, question: Reservation, silent: NotKept, deadline: Deadline) -> LedgerHit:
        """Return the entry at home. Raises NotKept if there is none, and leaves none."""
        hit = await self.reserve(question, deadline)
        if hit is None:
            await self.discard(question, deadline)
        elif hit.epoch != BARE:
            return hit
        raise NotKept(silent.home, HomeUnreachable(silent.home), certain=False)

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


def _may_do_better(error: StoreError) -> bool:
    return isinstance(error, StoreUnavailable) and error.sent and not error.failed


def _for_caller(wanted: Reservation, error: StoreError) -> TradewindError:
    if not isinstance(error, StoreFull):
        return HomeUnreachable(wanted.home)
    kept = "this key" if wanted.mark.business else "the record of this submit"
    return RegionsFull(f"region {wanted.home}, which keeps {kept}, is full; retry later")
