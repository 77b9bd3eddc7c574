"""Carries a change of the control document through the votes of all regions.

One round asks every region to promise an epoch, applies the change to the highest version that
those hold, and asks them to accept the result: see docs/decisions/0016-control-document.md, and
tradewind.control.force for how others read the outcome.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tradewind.control import (
    Barred,
    Control,
    Stamp,
    Standing,
    built_on,
    is_majority,
    next_version,
)
from tradewind.errors import (
    ControlConflict,
    ControlUnavailable,
    StoreError,
    StoreUnavailable,
    TradewindError,
)
from tradewind.ports import Register

Answer = TypeVar("Answer")

_ROUNDS: Final = 6  # of one change, before it gives way to the others
_PAUSE_S: Final = 0.3  # at most, before the first repetition; about a round trip around the world
#: Of one region's answer. Two of them, and what workers take to obey, fit into a call of 10 s.
ANSWER_S: Final = 2.0


def _unheard() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A change: `apply` makes of the version agreed on the one to be agreed on, or raises.

    `region`: the one that is meant, which must hold it, too; empty: none. `forced`: it is in force
    wherever any region has taken it. `above`: an epoch that it has to pass. `asked` is called
    before regions are asked to take it: from then on it may come into force.
    """

    apply: Callable[[Control], Control]
    region: str = ""
    forced: bool = False
    above: int = 0
    asked: Callable[[], None] = _unheard


async def shortly(tries: int) -> None:
    """Pause before the round `tries`, so that two changes do not meet again."""
    await asyncio.sleep(random.uniform(0.1, 1.0) * _PAUSE_S * tries)


class Vote:
    """The votes of all configured regions."""

    def __init__(
        self,
        registers: Mapping[str, Register],
        standing: Callable[[], Standing],
        *,
        pause: Callable[[int], Awaitable[None]] = shortly,
    ) -> None:
        """`registers`: of every configured region. `standing`: what is in force as seen here."""
        self._registers, self._standing, self._pause = dict(registers), standing, pause

    async def stands(self, wish: Wish) -> Control | None:
        """Return the version in force if `wish` changes nothing of it; None: it is to be agreed on.

        Raises what `wish.apply` does of that version. Neither uses an epoch. What this router acts
        on may be a second old, so the regions are read: what a majority holds, and none of those
        that answer has a later one, was the last that anybody had been answered OK for. Only where
        by this router's word nothing changes; so a change costs nothing more.
        """
        if _changes(wish, self._standing().control):
            return None
        answers = await self._ask(lambda one: one.control(timeout_s=ANSWER_S))
        held = {name: found for name, found in answers.items() if isinstance(found, Control)}
        base = built_on(held.values(), self._standing())
        holders = {name for name, found in held.items() if found.stamp == base.stamp}
        is_meant = not wish.region or wish.region in holders
        if not (is_majority(holders, self._registers) and is_meant):
            return None
        return base if wish.apply(base) == base else None

    async def carry(self, wish: Wish) -> Control:
        """Agree on a change; returns the version that holds it.

        Raises what `wish.apply` does, ControlUnavailable if too few regions answered, and
        ControlConflict if other changes came first each time. After those two the change may be in
        force, or come into force later.
        """
        change_id = secrets.token_hex(8)
        held = (register.held() for register in self._registers.values())
        known = [control.stamp.epoch for control in held if control is not None]
        epoch = max([*known, self._standing().control.stamp.epoch, wish.above]) + 1
        for tries in range(_ROUNDS):
            if tries:
                await self._pause(tries)
            stamp = Stamp(epoch, change_id)
            version, barred = await self._round(stamp, wish, is_last=tries == _ROUNDS - 1)
            if version is not None:
                return version
            epoch = max(epoch, barred) + 1
        raise ControlConflict

    async def _round(
        self, stamp: Stamp, wish: Wish, *, is_last: bool
    ) -> tuple[Control | None, int]:
        """One round: the version that is agreed on; or None, and an epoch that came first."""
        promises = await self._ask(lambda one: one.control_promise(stamp, timeout_s=ANSWER_S))
        promised = {name: held for name, held in promises.items() if isinstance(held, Control)}
        barred = _highest(promises)
        if not is_majority(promised, self._registers) and not (wish.forced and promised):
            if barred:
                return None, barred
            raise ControlUnavailable(sorted(self._registers.keys() - promised))
        base = built_on(promised.values(), self._standing())
        if base.stamp.epoch >= stamp.epoch:  # it has been lost by all of them
            return None, base.stamp.epoch
        # In by an earlier round whose answers were lost: others may have built on it since.
        is_in = stamp.change_id in base.recent
        changed = base if is_in else wish.apply(base)
        version = next_version(base, changed, stamp, forced=wish.forced)
        wish.asked()
        answers = await self._ask(lambda one: one.control_accept(version, timeout_s=ANSWER_S))
        took = {name for name, answer in answers.items() if answer is None}
        barred = _highest(answers)
        is_meant = not wish.region or wish.region in took
        if is_majority(took, self._registers) and is_meant:
            return version, 0
        if wish.forced and took and (is_last or not barred):
            return version, 0
        if barred:
            return None, barred
        meant = {wish.region} if is_majority(took, self._registers) else self._registers.keys()
        raise ControlUnavailable(sorted(meant - took))

    async def _ask(
        self, question: Callable[[Register], Awaitable[Answer]]
    ) -> dict[str, Answer | StoreError]:
        """Ask every region, side by side."""

        async def ask(register: Register) -> Answer | StoreError:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await question(register)
            except TimeoutError:  # also of one that cannot even be connected to
                return StoreUnavailable(register.region, "no answer in time", sent=True)
            except StoreError as error:
                return error

        answers = await asyncio.gather(*map(ask, self._registers.values()))
        return dict(zip(self._registers, answers, strict=True))


def _changes(wish: Wish, control: Control) -> bool:
    """Whether it would make another version of this one. A refused one would not."""
    try:
        return wish.apply(control) != control
    except TradewindError:
        return False


def _highest(answers: Mapping[str, object]) -> int:
    """The highest epoch that bars us; 0: none does."""
    return max((a.epoch for a in answers.values() if isinstance(a, Barred)), default=0)
