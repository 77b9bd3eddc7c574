"""A coroutine that never gives the event loop back: nothing in its process can stop it."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from tests.flow.lab import Lab, ended_with, free_address
from tradewind.state import State

APP = ("--app", f"{Path(__file__).with_name('pool_app.py')}:app")


async def test_its_process_ends_and_it_is_killed_in_a_child_at_its_limit(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("{lease: 1s, attempts: 1, timeout: 2s}")
    address = free_address()
    parent = lab.start("eu-west", *APP, "--processes", "2", "--http", address)

    async def both_live() -> bool:
        return len(await lab.stores["eu-west"].workers()) == 2

    await lab.until(both_live)
    neighbours = [await lab.submit("sleep", {"seconds": 1}) for _ in range(8)]
    for neighbour in neighbours:
        await lab.begun(neighbour)
    holder = await lab.submit("hold.loop", {})
    [first] = await lab.begun(holder)

    async def is_told_of() -> bool:
        with contextlib.suppress(OSError):
            return "a coroutine holds the event loop" in await lab.page(address, "/readyz")
        return False

    await lab.until(is_told_of)
    dead = await lab.settled(holder)
    assert (dead.state, dead.crashes, dead.failure and dead.failure.kind) == (
        *(State.DEAD_LETTER, 1),
        "timeout",
    )
    records = [await lab.ended(neighbour) for neighbour in neighbours]
    assert {record.state for record in records} == {State.COMPLETED}
    assert {record.crashes for record in records} <= {0, 1}  # 1: its process was the holder's
    assert '"status": 75' in lab.logs()
    assert "pool_app.py:" in lab.logs()
    assert first.pid not in {line.pid for line in lab.lines(holder)[1:]}
    parent.terminate()
    assert await ended_with(parent) == 0


async def test_a_worker_that_is_to_end_does_not_wait_for_it_past_the_grace(lab: Lab) -> None:
    worker = await lab.worker("eu-west", *APP, "--grace", "0")
    holder = await lab.submit("hold.loop", {})
    await lab.begun(holder)
    worker.terminate()
    assert await ended_with(worker) == 75
    assert "pool_app.py:" in lab.logs()
