import pytest

from tradewind.stops import Stops

CASES = {
    "one signal is one request": ([0.0], 1),
    "a parent's threads that end one after the other are one request": ([0, 0.005, 0.017, 0.03], 1),
    "also where they end slowly": ([0, 0.09, 0.18, 0.27], 1),
    "a second Ctrl-C is a second request": ([0, 0.2], 2),
    "and may itself be repeated": ([0, 0.005, 0.2, 0.205], 2),
}


@pytest.mark.parametrize(("at_s", "requests"), CASES.values(), ids=CASES.keys())
def test_signals_that_come_together_are_one_request(at_s: list[float], requests: int) -> None:
    clock = iter(at_s)
    stops = Stops(lambda: next(clock))

    assert sum(stops.is_new() for _ in at_s) == requests
