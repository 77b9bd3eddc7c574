"""How often garbage is looked for while a worker runs, and that it is Python's way again after."""

import gc
from collections.abc import Generator

import pytest

from worker.litter import rarely_collected


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_an_app_brought_is_not_looked_at_while_it_runs() -> None:
    _, middle, old = before = gc.get_threshold()
    frozen = gc.get_freeze_count()
    with rarely_collected():
        assert gc.get_threshold() == (10_000, middle, old)
        assert gc.get_freeze_count() > frozen
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_an_app_that_has_thresholds_of_its_own_keeps_them() -> None:
    gc.set_threshold(50, 5, 5)
    with rarely_collected():
        assert gc.get_threshold() == (50, 5, 5)
    assert gc.get_threshold() == (50, 5, 5)
