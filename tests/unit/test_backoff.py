import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradewind.backoff import MAX_DELAY_MS, delay_ms

TOP = math.nextafter(1.0, 0.0)  # the highest jitter

DELAYS = {
    "the first retry waits the initial delay": ((1, 2_000, 2.0, 600_000, TOP), 2_000),
    "... or down to half of it": ((1, 2_000, 2.0, 600_000, 0.0), 1_000),
    "the second waits factor times as long": ((2, 2_000, 2.0, 600_000, TOP), 4_000),
    "the middle of the jitter is three quarters": ((2, 2_000, 2.0, 600_000, 0.5), 3_000),
    "the cap holds": ((20, 2_000, 2.0, 600_000, TOP), 600_000),
    "attempt 47 overflows a timedelta elsewhere": ((47, 1_000, 2.0, 600_000, TOP), 600_000),
    "attempt 1,024 overflows a double elsewhere": ((1_024, 1, 2.0, 50, TOP), 50),
    "attempt 1,025 too": ((1_025, 1, 2.0, 50, TOP), 50),
    "a thousand million attempts": ((10**9, 1, 2.0, 50, TOP), 50),
    "more attempts than a double can count": ((10**400, 1, 1.0, 50, TOP), 1),
    "factor 1 never grows": ((10**9, 30, 1.0, 50, TOP), 30),
    "the largest factor": ((3, 1, 1.7e308, 50, TOP), 50),
    "a cap below the initial delay wins": ((1, 2_000, 2.0, 500, TOP), 500),
    "the shortest delay is 1 ms, never 0": ((1, 1, 2.0, 50, 0.0), 1),
    "a fractional factor above 1": ((3, 1_000, 1.5, 600_000, TOP), 2_250),
    "the longest cap": ((10**9, 1, 2.0, MAX_DELAY_MS, TOP), MAX_DELAY_MS),
}


@pytest.mark.parametrize(("given_", "expected"), DELAYS.values(), ids=DELAYS)
def test_delay(given_: tuple[int, int, float, int, float], expected: int) -> None:
    attempt, initial_ms, factor, max_ms, jitter = given_
    assert (
        delay_ms(attempt, initial_ms=initial_ms, factor=factor, max_ms=max_ms, jitter=jitter)
        == expected
    )


FLOORS = {
    "Retry(after) lifts a shorter delay": (5_000, 0.0, 5_000),
    "... above the cap too": (9_000_000, 0.0, 9_000_000),
    "... and leaves a longer delay alone": (10, TOP, 2_000),
    "all who are asked at once do not come back at once": (5_000, 0.5, 6_250),
    "... they take up to half as much again": (5_000, TOP, 7_500),
    "the longest of all": (MAX_DELAY_MS, TOP, MAX_DELAY_MS),
}


@pytest.mark.parametrize(("floor_ms", "jitter", "expected"), FLOORS.values(), ids=FLOORS)
def test_retry_after_is_a_floor(floor_ms: int, jitter: float, expected: int) -> None:
    assert (
        delay_ms(1, initial_ms=2_000, factor=2.0, max_ms=600_000, jitter=jitter, floor_ms=floor_ms)
        == expected
    )


def test_1200_retries_never_wait_zero_and_never_pass_the_cap() -> None:
    """C27: base 1 ms, factor 2, cap 50 ms, 1,200 retries."""
    for jitter in (0.0, 0.5, TOP):
        delays = [
            delay_ms(n, initial_ms=1, factor=2, max_ms=50, jitter=jitter) for n in range(1, 1_201)
        ]
        assert min(delays) >= 1
        assert max(delays) <= 50
        assert delays == sorted(delays)


@given(
    attempt=st.integers(1, 10**12),
    initial_ms=st.integers(1, 10**7),
    factor=st.floats(1, 1e300),
    max_ms=st.integers(1, MAX_DELAY_MS),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_stays_in_the_upper_half_of_its_cap(
    attempt: int, initial_ms: int, factor: float, max_ms: int, jitter: float
) -> None:
    delay = delay_ms(attempt, initial_ms=initial_ms, factor=factor, max_ms=max_ms, jitter=jitter)
    assert min(initial_ms, max_ms) / 2 <= delay <= max_ms


BAD = {
    "attempt 0": ({"attempt": 0}, "attempt"),
    "a negative attempt": ({"attempt": -1}, "attempt"),
    "no initial delay": ({"initial_ms": 0}, "initial_ms"),
    "a negative initial delay": ({"initial_ms": -1}, "initial_ms"),
    "a cap of 0": ({"max_ms": 0}, "max_ms"),
    "a negative cap": ({"max_ms": -5}, "max_ms"),
    "a cap of 1e308": ({"max_ms": 1e308}, "max_ms"),
    "a cap that is no number": ({"max_ms": math.nan}, "max_ms"),
    "a factor below 1": ({"factor": 0.5}, "factor"),
    "a factor that is no number": ({"factor": math.nan}, "factor"),
    "an endless factor": ({"factor": math.inf}, "factor"),
    "jitter 1": ({"jitter": 1.0}, "jitter"),
    "negative jitter": ({"jitter": -0.1}, "jitter"),
    "jitter that is no number": ({"jitter": math.nan}, "jitter"),
    "a negative floor": ({"floor_ms": -1}, "floor_ms"),
}


@pytest.mark.parametrize(("changed", "name"), BAD.values(), ids=BAD)
def test_a_bad_setting_is_refused_by_name(changed: dict[str, float], name: str) -> None:
    good = {"attempt": 1, "initial_ms": 1, "factor": 2.0, "max_ms": 50, "jitter": 0.5}
    options: dict[str, int] = {**good, **changed}  # pyright: ignore[reportAssignmentType] - bad on purpose
    with pytest.raises(ValueError, match=f"^{name} must be "):
        delay_ms(options.pop("attempt"), **options)
