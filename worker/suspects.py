"""Places for suspects: tasks whose process has died before, and may well die of them again."""

import asyncio
from typing import Final

from tradewind.fleet import Fleet
from tradewind.task import Claim

# Design section 6. One that takes the whole worker along has one neighbour at most to be blamed
# with it; one that hangs leaves a place for the others.
MAX_SUSPECTS: Final = 2
_QUIET_TIMEOUT_S: Final = 5.0  # a store that does not answer must not hold them up


class Suspects:
    """Who is in which place of one worker, beside its slots.

    A suspect's crash is booked before it runs, so whoever takes the worker along has its neighbours
    counted, too. One whose next crash would be its last therefore runs with no other suspect beside
    it; one that cannot run now is handed back, which takes the crash back.
    """

    def __init__(self, fleet: Fleet) -> None:
        """`fleet` says how many crashes a queue's tasks have."""
        self._fleet = fleet
        self._here: dict[tuple[str, int], Claim] = {}
        self._returning: set[tuple[str, int]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._one_waits = False  # a last chance was handed back: it is to find nobody here

    def __len__(self) -> int:
        """How many are here."""
        return len(self._here)

    @property
    def free(self) -> int:
        """How many suspects may be asked for now."""
        if self._one_waits:
            return 0 if self._here else 1
        if any(map(self._is_last_chance, self._here.values())):
            return 0
        return MAX_SUSPECTS - len(self._here)

    def admit(self, claim: Claim) -> bool:
        """Take a place for it. False: hand it back, and say `returned`."""
        is_last = self._is_last_chance(claim)
        if self._here and (is_last or self.free == 0):
            self._one_waits = self._one_waits or is_last
            return False
        self._here[_key(claim)] = claim
        self._one_waits = False
        return True

    def leave(self, claim: Claim) -> None:
        """Its attempt is over."""
        self._here.pop(_key(claim), None)

    def returned(self, claim: Claim) -> None:
        """It is handed back, and is not to be there when another one starts."""
        self._returning.add(_key(claim))
        self._quiet.clear()

    def settled(self, claim: Claim) -> None:
        """The store has answered its report."""
        self._returning.discard(_key(claim))
        if not self._returning:
            self._quiet.set()

    async def quiet(self) -> None:
        """Return once the store has taken back what was returned: no crash is booked for it."""
        try:
            async with asyncio.timeout(_QUIET_TIMEOUT_S):
                await self._quiet.wait()
        except TimeoutError:
            self._returning.clear()
            self._quiet.set()

    def _is_last_chance(self, claim: Claim) -> bool:
        return claim.crashes >= self._fleet.queue(claim.queue).max_crashes


def _key(claim: Claim) -> tuple[str, int]:
    return claim.task_id, claim.token
