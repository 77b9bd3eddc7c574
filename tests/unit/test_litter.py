"""How often garbage is looked for while services run, and that it is Python's way again after."""

import asyncio
import gc
import weakref
from collections.abc import Generator

import pytest

from tradewind import litter
from tradewind.limits import MIB
from tradewind.litter import rarely_collected


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class Cycle:
    """Refers to itself, and holds memory."""

    def __init__(self, size_bytes: int) -> None:
        self.itself, self.held = self, b"x" * size_bytes


async def test_what_an_app_brought_is_not_looked_at_while_it_runs() -> None:
    _, middle, old = before = gc.get_threshold()
    frozen = gc.get_freeze_count()
    async with rarely_collected():
        assert gc.get_threshold() == (10_000, middle, old)
        assert gc.get_freeze_count() > frozen
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


async def test_an_app_that_has_thresholds_of_its_own_keeps_them() -> None:
    gc.set_threshold(50, 5, 5)
    async with rarely_collected():
        assert gc.get_threshold() == (50, 5, 5)
    assert gc.get_threshold() == (50, 5, 5)


async def test_few_objects_that_hold_much_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litter, "_LOOK_EVERY_S", 0.01)
    gone = asyncio.Event()
    async with rarely_collected():
        await asyncio.sleep(0)  # it has begun to look
        last = Cycle(100 * MIB)
        weakref.finalize(last, gone.set)
        del last
        await gone.wait()
