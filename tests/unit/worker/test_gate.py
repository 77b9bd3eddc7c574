"""What a worker may start, by what it has heard of the regions."""

import asyncio
from typing import Any

import pytest

from tests.unit.control.worlds import fleet_of
from tradewind.clock import ManualClock
from tradewind.control import EMPTY, Control, Order, Pause, RegionState, Stamp
from tradewind.errors import StoreUnavailable
from tradewind.limits import SECOND_MS, SETTLE_MS
from tradewind.testing import MemoryStore
from worker import gate
from worker.gate import Gate, Lookout, OrderedGate

HERE, OTHERS = "eu", ("us", "ap")


def version(epoch: int, state: RegionState = "ACTIVE", *paused: str) -> Control:
    orders = {} if state == "ACTIVE" else {HERE: Order(state)}
    pauses = {queue: Pause() for queue in paused}
    return Control(Stamp(epoch, "c"), regions=orders, pauses=pauses)


class World:
    """A gate of a worker in `eu`, one of three regions."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.gate = OrderedGate(HERE, fleet_of(HERE, *OTHERS), self.clock)
        self.changes = 0
        self.gate.listen(self._changed)
        self.gate.looked_around()
        self.changes = 0

    def _changed(self) -> None:
        self.changes += 1

    def heard(self, control: Control | None) -> bool:
        return self.gate.heard(control, self.clock.monotonic_ms())

    def looked(self, control: Control, *names: str) -> None:
        for name in names:
            self.gate.looked(name, control)


def test_without_orders_everything_starts() -> None:
    assert Gate().lets("mail")
    assert not Gate().is_shut


def test_nothing_starts_before_its_own_region_and_the_others_were_asked() -> None:
    for asked_first in (True, False):
        world = World()
        gate = OrderedGate(HERE, fleet_of(HERE, *OTHERS), world.clock)
        steps = [gate.looked_around, lambda gate=gate: gate.heard(EMPTY, 0.0)]
        changes: list[bool] = []
        gate.listen(lambda gate=gate, changes=changes: changes.append(gate.is_shut))
        for step in steps if asked_first else reversed(steps):
            assert gate.is_shut
            step()
        assert gate.lets("mail")
        assert changes[-1] is False, "nobody was told that it is open"


DRAIN, BACK = version(1, "DRAINING"), version(2)
Story = list[tuple[str, Control]]
SHUT: dict[str, Story] = {
    "its own region alone says so": [("eu", DRAIN)],
    "a majority elsewhere says so": [("us", DRAIN), ("ap", DRAIN)],
    "its own Redis has lost it": [("eu", DRAIN), ("us", DRAIN), ("eu", EMPTY)],
    "what ends it is not in force yet": [
        *(("eu", DRAIN), ("us", DRAIN), ("ap", DRAIN), ("eu", BACK)),
    ],
}
OPEN: dict[str, Story] = {
    "it is cordoned: what is here goes on": [("eu", version(1, "CORDONED"))],
    "a minority elsewhere says so": [("ap", EMPTY), ("us", DRAIN)],
    "its own Redis is behind what a majority holds": [("eu", DRAIN), ("us", BACK), ("ap", BACK)],
    "it did, and what ended that is in force": [
        *(("eu", DRAIN), ("us", DRAIN), ("ap", DRAIN), ("eu", BACK), ("us", BACK)),
    ],
}


def told(story: Story) -> World:
    world = World()
    world.heard(EMPTY)
    for region, control in story:
        if region == HERE:
            world.heard(control)
        else:
            world.looked(control, region)
    return world


@pytest.mark.parametrize("story", SHUT.values(), ids=SHUT)
def test_nothing_starts_if(story: Story) -> None:
    world = told(story)
    assert world.gate.is_shut
    assert not world.gate.lets("mail")


@pytest.mark.parametrize("story", OPEN.values(), ids=OPEN)
def test_work_starts_although(story: Story) -> None:
    world = told(story)
    assert not world.gate.is_shut
    assert world.gate.lets("mail")


def test_of_a_paused_queue_nothing_starts_and_of_others_everything() -> None:
    world = World()
    world.heard(version(1, "ACTIVE", "mail"))
    assert not world.gate.lets("mail")
    assert world.gate.lets("reports")
    assert world.gate.paused == {"mail"}


def test_it_tells_the_epoch_of_what_it_obeys_and_that_only_news_is_news() -> None:
    world = World()
    assert world.gate.epoch == 0
    assert world.heard(version(3, "DRAINING"))
    assert world.gate.epoch == 3, "stricter, and not in force yet"
    assert not world.heard(version(3, "DRAINING"))
    assert world.gate.is_behind
    world.looked(version(3, "DRAINING"), *OTHERS)
    assert not world.gate.is_behind
    assert world.gate.control == version(3, "DRAINING")


def test_whom_others_hold_for_gone_starts_nothing_until_it_is_answered_again() -> None:
    world = World()
    world.heard(EMPTY)
    world.clock.advance(9_999)
    assert not world.gate.is_shut
    world.clock.advance(1)
    assert world.gate.is_shut
    before = world.changes
    world.heard(version(4, "DRAINING"))
    assert world.gate.is_shut, "it drains: not for a moment it started what it knew of before"
    world.heard(version(5))
    world.looked(version(5), "us")
    assert not world.gate.is_shut
    assert world.changes > before


def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    world = World()
    asked_ms = world.clock.monotonic_ms()
    world.clock.advance(10_000)
    world.gate.heard(EMPTY, asked_ms)
    assert world.gate.is_shut


def test_a_document_that_cannot_be_read_takes_nothing_back() -> None:
    world = World()
    world.heard(version(1, "DRAINING"))
    world.heard(None)
    assert world.gate.is_shut


class Silent(MemoryStore):
    """A region that does not answer."""

    async def control(self, *, timeout_s: float) -> Control:
        raise StoreUnavailable(self.region, "gone", sent=False)


async def test_others_are_looked_at_again_at_once_while_its_own_region_is_ahead() -> None:
    world, fleet = World(), fleet_of(HERE, *OTHERS)
    stores: dict[str, Any] = {"us": MemoryStore("us", fleet), "ap": Silent("ap", fleet)}
    lookout = Lookout(world.gate, stores)
    world.heard(EMPTY)
    world.gate.listen(lookout.hurry)
    looking = asyncio.create_task(lookout.run())
    try:
        await stores["us"].control_accept(version(2, "CORDONED"), timeout_s=1)
        world.heard(version(2, "CORDONED"))
        async with asyncio.timeout(5):
            while world.gate.control.state(HERE) != "CORDONED":  # noqa: ASYNC110 - it looks
                await asyncio.sleep(0.01)
    finally:
        looking.cancel()


def test_who_waits_for_workers_to_obey_waits_for_their_look_at_other_regions() -> None:
    every_s = gate._LOOK_S  # pyright: ignore[reportPrivateUsage]
    assert every_s * SECOND_MS < SETTLE_MS
