import asyncio

import pytest

from tradewind import ticks
from tradewind.ticks import tick


@pytest.mark.parametrize(
    ("every_s", "since_s", "wait_s"),
    [
        (1.0, 0.0, 1.0),
        (1.0, 0.25, 0.75),
        (1.0, 0.9, 0.1),
        (1.0, 0.999, 1.001),  # its timer was early
        (1.0, 7.25, 0.75),
        (2.0, 7.25, 0.75),  # at the same moment as one of every second
        (2.0, 6.25, 1.75),
        (0.001, 0.25, 0.001),
        (0.0, 0.25, 0.0),
    ],
)
async def test_a_wait_ends_with_the_period(
    monkeypatch: pytest.MonkeyPatch, every_s: float, since_s: float, wait_s: float
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: 1_000.0)
    monkeypatch.setattr(ticks, "_PHASE_S", 1_000.0 - since_s)
    monkeypatch.setattr("tradewind.ticks.asyncio.sleep", sleep)
    await tick(every_s)
    monkeypatch.undo()

    assert slept == [pytest.approx(wait_s)]
