"""For whom a change waits, and what it says of whom it waited for in vain."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from router import control
from router.control import Orders
from router.vote import Wish
from tests.unit.control.worlds import fleet_of
from tradewind.control import Control, RegionState, Stamp, pause
from tradewind.task import Heartbeat, LiveWorker
from tradewind.testing import MemoryStore

NAMES = ("eu", "us", "ap")
OBEYS = Heartbeat("w", "us", ("default",), ("*",), 1, 0, 0, 0, 1, "1", control=9)
WISH = Wish(lambda held: pause(held, "mail"), above=8)


class Crews:
    """A census whose looks at a region go as a test has them go."""

    def __init__(self, **musters: "Callable[[], Sequence[Heartbeat]]") -> None:
        self.heard: Callable[[str], None] = lambda _: None
        self._musters = musters
        self._found: dict[str, Sequence[Heartbeat]] = {}

    def workers(self, region: str) -> Sequence[LiveWorker]:
        return [LiveWorker(beat, 0) for beat in self._found.get(region, ())]

    def answers(self, region: str) -> bool:
        return True

    def steer(self, states: Mapping[str, RegionState]) -> None:
        pass

    async def muster(self, region: str) -> None:
        if (muster := self._musters.get(region)) is not None:
            self._found[region] = muster()
            self.heard(region)


def raises() -> Sequence[Heartbeat]:
    message = "no heartbeat at all"
    raise ValueError(message)


async def changed(
    census: Crews, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> tuple[Control, list[object]]:
    """A change for all regions: what came of it, and whom it waited for in vain."""
    monkeypatch.setattr(control, "SETTLE_MS", 100)
    fleet = fleet_of(*NAMES)
    orders = Orders(fleet, {name: MemoryStore(name, fleet) for name in NAMES}, census)
    census.heard = orders.heard
    version = await orders.change(WISH, settles=NAMES)
    lines = [line.__dict__ for line in caplog.records if "obey" in line.message]
    return version, [(line["workers"], line["silent"]) for line in lines]


def nobody() -> Sequence[Heartbeat]:
    return ()


def obeying() -> Sequence[Heartbeat]:
    return (OBEYS,)


def astray() -> Sequence[Heartbeat]:
    return (replace(OBEYS, control=8),)


CASES: dict[str, tuple[Crews, list[object]]] = {
    "all obey": (Crews(eu=nobody, us=obeying, ap=nobody), []),
    "a worker does not": (Crews(eu=nobody, us=astray, ap=nobody), [(["w"], [])]),
    "a region does not answer": (Crews(eu=nobody, us=obeying), [([], ["ap"])]),
    "a look fails in a way of its own": (
        Crews(eu=nobody, us=obeying, ap=raises),
        [([], ["ap"])],
    ),
}


@pytest.mark.parametrize(("census", "late"), CASES.values(), ids=CASES)
async def test_a_change_is_answered_and_waits_to_the_end_for_whom_it_cannot_hear(
    census: Crews,
    late: list[object],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version, waited_for = await changed(census, caplog, monkeypatch)
    assert version.is_paused("mail")
    assert waited_for == late


async def test_what_comes_back_over_a_version_of_a_majority_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = fleet_of(*NAMES)
    stores = {name: MemoryStore(name, fleet) for name in NAMES}
    orders = Orders(fleet, stores, Crews(), later=lambda: 0.0)
    await orders.change(WISH)
    for store in stores.values():  # set back, and changed by a router that began after that
        store.room.control = Control(Stamp(2, "another"))
        store.room.promised = Stamp(2, "another")
    for _ in range(2):
        for name in NAMES:
            orders.heard(name)
        await orders._help()  # pyright: ignore[reportPrivateUsage]
    (line,) = [line.__dict__ for line in caplog.records if "set back" in line.message]
    assert (line["epoch"], line["overwritten"]) == (9, 2)
    assert all(store.room.control.is_paused("mail") for store in stores.values())
