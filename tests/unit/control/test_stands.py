"""An order that changes nothing, or is refused, uses no epoch; and none is answered by old news."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from router.vote import Vote, Wish
from tradewind.control import EMPTY, Barred, Control, Pause, Stamp, Standing, pause, resume
from tradewind.errors import ControlUnavailable, InvalidTask, StoreUnavailable

NAMES = ("a", "b", "c")
OLD = Control(Stamp(4, "old"), recent=("old",))
NEW = Control(Stamp(5, "new"), pauses={"mail": Pause("ann", 1)}, recent=("old", "new"))


class Region:
    """A register that tells what it holds and counts what it is asked to promise."""

    def __init__(self, name: str, holds: Control | None) -> None:
        self.region, self.holds = name, holds
        self.promised: list[Stamp] = []

    def held(self) -> Control | None:
        return self.holds

    async def control(self, *, timeout_s: float) -> Control:
        del timeout_s
        if self.holds is None:
            raise StoreUnavailable(self.region, "gone", sent=False)
        return self.holds

    async def control_promise(self, stamp: Stamp, *, timeout_s: float) -> Control | Barred:
        self.promised.append(stamp)
        return await self.control(timeout_s=timeout_s)

    async def control_accept(self, control: Control, *, timeout_s: float) -> Barred | None:
        await self.control(timeout_s=timeout_s)
        self.holds = control
        return None


def same(control: Control) -> Control:
    return pause(control, "mail", by="bob", at_ms=9)


def refused(control: Control) -> Control:
    if not control.is_paused("mail"):
        return control
    raise InvalidTask.field("queue", "is paused")


def voting(acts_on: Control, *held: Control | None) -> tuple[Vote, list[Region]]:
    regions = [Region(name, one) for name, one in zip(NAMES, held, strict=True)]
    registers: dict[str, Any] = {region.region: region for region in regions}
    return Vote(registers, lambda: Standing(acts_on, sure=True)), regions


STANDS: Mapping[str, tuple[Wish, Control, tuple[Control | None, ...], Control | None]] = {
    "a pause that all regions hold": (Wish(same), NEW, (NEW, NEW, NEW), NEW),
    "one that a majority holds": (Wish(same), NEW, (NEW, NEW, OLD), NEW),
    "one that a majority holds, while a region is away": (Wish(same), NEW, (NEW, None, NEW), NEW),
    "one that the region that is meant does not hold": (
        Wish(same, "c"),
        NEW,
        (NEW, NEW, OLD),
        None,
    ),
    "one that no majority answers for": (Wish(same), NEW, (NEW, None, None), None),
    "one that most regions have lost": (Wish(same), NEW, (NEW, OLD, OLD), None),
    "a change": (Wish(lambda c: resume(c, "mail")), NEW, (NEW, NEW, NEW), None),
    "what by this router's old news stands, and does not": (
        *(Wish(lambda c: resume(c, "mail")), OLD, (NEW, NEW, NEW)),
        None,
    ),
    "what by a later version stands, too": (Wish(lambda c: c), OLD, (NEW, NEW, OLD), NEW),
    "the end of a pause that there never was": (
        *(Wish(lambda c: resume(c, "mail")), EMPTY, (EMPTY, EMPTY, EMPTY)),
        EMPTY,
    ),
}


@pytest.mark.parametrize(("wish", "acts_on", "held", "found"), STANDS.values(), ids=STANDS)
def test_what_stands(
    wish: Wish, acts_on: Control, held: tuple[Control | None, ...], found: Control | None
) -> None:
    vote, regions = voting(acts_on, *held)
    assert asyncio.run(vote.stands(wish)) == found
    assert not any(region.promised for region in regions)


def test_a_refusal_by_what_is_in_force_uses_no_epoch() -> None:
    vote, regions = voting(NEW, NEW, NEW, OLD)
    with pytest.raises(InvalidTask):
        asyncio.run(vote.stands(Wish(refused)))
    assert not any(region.promised for region in regions)


def test_a_refusal_by_old_news_is_none() -> None:
    """What it is refused for may be over: the regions decide."""
    vote, _ = voting(NEW, OLD, OLD, None)
    later = Control(Stamp(6, "later"), recent=("old", "new", "later"))
    vote_later, regions = voting(NEW, later, later, None)
    assert asyncio.run(vote.stands(Wish(refused))) is None, "they have lost it: to be agreed on"
    assert asyncio.run(vote_later.stands(Wish(refused))) == later
    assert not any(region.promised for region in regions)


def test_regions_that_are_asked_to_take_a_change_are_told_of_first() -> None:
    told: list[str] = []
    vote, regions = voting(NEW, NEW, NEW, NEW)
    wish = Wish(lambda control: resume(control, "mail"), asked=lambda: told.append("asked"))
    assert asyncio.run(vote.carry(wish)).stamp.epoch == 6
    assert told == ["asked"]
    gone, _ = voting(NEW, NEW, None, None)
    with pytest.raises(ControlUnavailable, match="b, c"):
        asyncio.run(gone.carry(Wish(same, asked=lambda: told.append("in vain"))))
    assert told == ["asked"], "nobody was asked to take it"
    assert regions[0].promised
