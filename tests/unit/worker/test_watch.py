"""The watch over an event loop: what it counts."""

import asyncio
import contextlib

from tradewind.clock import SystemClock
from tradewind.fleet import Fleet, QueuePolicy
from worker.watch import Watch

FLEET = Fleet(
    regions={},
    default_queue=QueuePolicy(timeout_ms=60_000),
    queues={"slow": QueuePolicy(timeout_ms=90_000)},
)


class Jumping(SystemClock):
    """Of a machine that sleeps for 20 s between any two looks."""

    def __init__(self) -> None:
        self._at_ms = 0.0

    def monotonic_ms(self) -> float:
        self._at_ms += 20_000
        return self._at_ms


async def test_time_in_which_the_watcher_did_not_run_either_is_not_counted() -> None:
    stood: list[str] = []
    watch = Watch(FLEET, Jumping(), lambda: stood.append("stands"))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(watch.look(), 1.3)  # two looks, no tick
    assert (stood, watch.stands) == ([], False)


def test_the_longest_limit_of_what_runs_counts_or_that_of_a_queue() -> None:
    watch = Watch(FLEET, SystemClock(), lambda: None)
    assert watch.allowed_ms == 90_000
    watch.allow("a", 1_000)
    watch.allow("b", 120_000)
    assert watch.allowed_ms == 120_000
    watch.forget("b")
    assert watch.allowed_ms == 1_000
    watch.forget("never seen")
