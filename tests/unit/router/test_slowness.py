import pytest

from router.slowness import KNOWN_SLICES, LEAST_CALLS, SLICE_MS, SLOW_SLICES, Slowness


class Calls:
    """Calls to one region, by slices of time, and a clock."""

    def __init__(self) -> None:
        self.slowness, self.now_ms = Slowness(), 0.0

    def slices(self, number: int, *took_ms: float, calls: int = LEAST_CALLS) -> "Calls":
        for _ in range(number):
            for nth in range(calls):
                self.slowness.add(self.now_ms + nth * SLICE_MS / calls, took_ms[nth % len(took_ms)])
            self.now_ms += SLICE_MS
        return self

    @property
    def is_slow(self) -> bool:
        self.slowness.add(self.now_ms, 0.1)  # the next slice begins
        return self.slowness.at(self.now_ms)


def usual() -> Calls:
    return Calls().slices(KNOWN_SLICES, 80.0, 90.0)


SLOW: dict[str, tuple[Calls, bool]] = {
    "four times as long for 15 s": (usual().slices(SLOW_SLICES, 360.0), True),
    "for 10 s only": (usual().slices(SLOW_SLICES - 1, 360.0), False),
    "with 5 s between that were as usual": (
        usual().slices(SLOW_SLICES - 1, 360.0).slices(1, 80.0).slices(1, 360.0),
        False,
    ),
    "twice as long": (usual().slices(SLOW_SLICES, 180.0), False),
    "one call in twenty": (usual().slices(SLOW_SLICES, *[80.0] * 19, 360.0), True),
    "one call in two hundred": (
        usual().slices(SLOW_SLICES, *[80.0] * 199, 360.0, calls=200),
        False,
    ),
    "ten times as long, but 9 ms": (
        Calls().slices(KNOWN_SLICES, 1.0).slices(SLOW_SLICES, 10.0),
        False,
    ),
    "too few calls": (usual().slices(SLOW_SLICES, 360.0, calls=LEAST_CALLS - 1), False),
    "before anything is known to compare with": (
        Calls().slices(KNOWN_SLICES - 1, 80.0).slices(SLOW_SLICES, 360.0),
        False,
    ),
    "slow again after ten minutes of it: that is usual now": (
        usual().slices(120 + SLOW_SLICES, 360.0),
        False,
    ),
    "as usual again": (usual().slices(SLOW_SLICES, 360.0).slices(1, 80.0), False),
}


@pytest.mark.parametrize(("calls", "is_slow"), SLOW.values(), ids=SLOW)
def test_against_ten_minutes(calls: Calls, is_slow: bool) -> None:
    assert calls.is_slow is is_slow


def test_nothing_is_known_of_one_that_is_not_called_any_more() -> None:
    calls = usual().slices(SLOW_SLICES, 360.0)
    assert calls.is_slow
    assert not calls.slowness.at(calls.now_ms + 2 * SLICE_MS)
