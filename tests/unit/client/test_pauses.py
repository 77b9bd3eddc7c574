"""How long a client waits before it asks again."""

import pytest

from tradewind.client import repeats

# attempt, what the router asked, the deadline -> the shortest pause and the longest, in seconds
PAUSES: dict[str, tuple[tuple[int, float, float], tuple[float, float]]] = {
    "after the first attempt": ((1, 0.0, 30.0), (0.025, 0.05)),
    "it doubles": ((4, 0.0, 30.0), (0.2, 0.4)),
    "up to 5 s": ((20, 0.0, 30.0), (2.5, 5.0)),
    "who waits for a quarter of an hour asks more seldom": ((20, 0.0, 900.0), (15.0, 30.0)),
    "but as soon at first": ((1, 0.0, 900.0), (0.025, 0.05)),
    "at least what the router asked, and not all at that moment": ((20, 5.0, 30.0), (5.0, 7.5)),
    "a little later at first": ((1, 5.0, 30.0), (5.0, 5.025)),
}


@pytest.mark.parametrize(("asked", "bounds"), PAUSES.values(), ids=PAUSES)
def test_a_pause(
    asked: tuple[int, float, float],
    bounds: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[float] = []
    for draw in (0.0, 0.5, 0.999999):
        monkeypatch.setattr(repeats.random, "random", lambda draw=draw: draw)
        found.append(repeats.pause_s(*asked))
    assert found == sorted(found)
    assert (found[0], found[-1]) == pytest.approx(bounds, rel=1e-3)
