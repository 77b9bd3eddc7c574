"""Ledger entries that live elsewhere than their task: reserve, then store, then confirm.

An entry that exists only for a request_id has two homes, so that a region can be lost or full and
its callers' submits go on. It lives in one of them, and the spare home says in which:

* A first attempt keeps its entry at home, without asking the spare home. Only if home has
  certainly not taken it does it reserve at the spare home instead.
* A repeat asks the spare home first. What it finds there is its entry. If there is none it leaves
  a bar, in the same step: from then on the entry can live at home only. So a first attempt that is
  still on its way, and cannot reach a home that its repeat has reached, finds the bar.
* A repeat that gets no answer from the spare home uses an entry that home has, and makes none.

While the set of regions changes, the entry of a business key has two homes (docs/decisions/0005):
it is reserved at both, always in the same order, before its task is stored.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
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
from tradewind.state import State
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
    """An entry at each of `homes` that says: (task_id, epoch) is being stored at `region`."""

    mark: LedgerMark
    homes: tuple[str, ...]
    task_id: str
    region: str
    epoch: int
    asked_s: float  # monotonic, before the request
    adopted: bool = False  # somebody else made it; their writer may still be on its way

    @property
    def is_ours_alone(self) -> bool:
        """Whether nobody else can be carrying this very submit through."""
        return not self.adopted and time.monotonic() - self.asked_s < HELD_S


@dataclass(frozen=True, slots=True)
class Met:
    """An entry that stands in the way of a reservation, and where."""

    home: str
    hit: LedgerHit


class Ledgers:
    """The ledgers of all regions."""

    def __init__(self, ledgers: Mapping[str, Ledger], census: Census) -> None:
        """`ledgers` by region name."""
        self._ledgers, self._census = ledgers, census

    def answers(self, region: str) -> bool:
        """Whether an entry could be kept there, as far as is known."""
        return self._census.answers(region)

    async def reserve(self, wanted: Reservation, deadline: Deadline) -> Met | None:
        """Make, or move on, a reservation at each of its homes; what was met says who has it.

        Then, and if a home has certainly not taken it, those before have given theirs back. Raises
        NotKept with HomeUnreachable if a home does not answer, and unless that is certain the entry
        may be there and a repeat adopts it; with RegionsFull if it has no memory left.
        """
        for number, home in enumerate(wanted.homes):
            so_far = replace(wanted, homes=wanted.homes[:number])
            try:
                hit = await self._reserve_at(home, wanted, deadline)
            except NotKept as kept:
                if kept.certain:
                    await self.give_back(so_far)
                raise
            if hit is not None:
                await self.give_back(so_far)
                return Met(home, hit)
        return None

    async def _reserve_at(
        self, home: str, wanted: Reservation, deadline: Deadline
    ) -> LedgerHit | None:
        if not self._census.answers(home):
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
                    told = _for_caller(home, wanted, error)
                    raise NotKept(home, told, certain=not sent) from None
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
        bar = Reservation(mark, (spare,), task_id, home, BARE, time.monotonic())
        try:
            met = await self.reserve(bar, deadline.half())
        except NotKept as silent:
            return home, await self._look(replace(bar, homes=(home,)), silent, deadline)
        if met is None or met.hit.epoch == BARE:
            return home, None
        return spare, met.hit

    async def _look(self, question: Reservation, silent: NotKept, deadline: Deadline) -> LedgerHit:
        """Return the entry at home. Raises NotKept if there is none, and leaves none."""
        met = await self.reserve(question, deadline)
        if met is None:
            await self.discard(question, deadline)
        elif met.hit.epoch != BARE:
            return met.hit
        raise NotKept(silent.home, HomeUnreachable(silent.home), certain=False)

    async def confirm(self, held: Reservation, deadline: Deadline) -> None:
        """Say that the task is stored. Without an answer the next repeat confirms it."""

        async def at(home: str) -> None:
            try:
                async with asyncio.timeout(deadline.left_s()):
                    await self._ledgers[home].confirm(held.mark, held.task_id, held.epoch)
            except (StoreError, TimeoutError) as error:
                _log.warning(
                    "a stored task is not confirmed in its ledger; the next repeat will do it",
                    extra={"task_id": held.task_id, "home": home, "cause": type(error).__name__},
                )

        await asyncio.gather(*map(at, held.homes))

    async def give_back(self, held: Reservation) -> bool:
        """Take back a reservation that has no task. False if it had to stay.

        Only while it is certainly ours: whoever adopts it has the same id and epoch.
        """
        if not held.is_ours_alone:
            return False
        return await self._unreserve(held, HELD_S - (time.monotonic() - held.asked_s))

    async def discard(self, dead: Reservation, deadline: Deadline) -> bool:
        """Remove a reservation whose task was refused for good, so that it can never come."""
        return await self._unreserve(dead, deadline.left_s())

    async def _unreserve(self, held: Reservation, timeout_s: float) -> bool:
        async def at(home: str) -> bool:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._ledgers[home].unreserve(held.mark, held.task_id, held.epoch)
            except (StoreError, TimeoutError):
                return False

        return all(await asyncio.gather(*map(at, held.homes)))

    async def forget(
        self,
        mark: LedgerMark,
        homes: Iterable[str],
        task_id: str,
        deadline: Deadline,
        *,
        ended: State | None,
    ) -> None:
        """Free a key whose task is cancelled, or gone (`ended` None). Raises HomeUnreachable."""
        for home in homes:
            try:
                async with asyncio.timeout(deadline.left_s()):
                    await self._ledgers[home].forget(mark, task_id, ended=ended)
            except (StoreError, TimeoutError):
                raise HomeUnreachable(home) from None


def _may_do_better(error: StoreError) -> bool:
    return isinstance(error, StoreUnavailable) and error.sent and not error.failed


def _for_caller(home: str, wanted: Reservation, error: StoreError) -> TradewindError:
    if not isinstance(error, StoreFull):
        return HomeUnreachable(home)
    kept = "this key" if wanted.mark.business else "the record of this submit"
    return RegionsFull(f"region {home}, which keeps {kept}, is full; retry later")
