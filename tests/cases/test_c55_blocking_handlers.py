"""Case C55: a handler that blocks the event loop costs its neighbours nothing."""

import asyncio
from collections.abc import Callable

import pytest

from tests.cases.scale import Scale, short_and_full
from tests.flow.lab import Lab, free_address
from tradewind.state import State


@short_and_full(5)
@pytest.mark.parametrize("kind", ["block", "burn"])
async def test_c55_a_blocking_handler_does_not_cost_its_neighbours_their_leases(
    make_lab: Callable[..., Lab], scale: Scale, kind: str
) -> None:
    lab = make_lab(scale.queue)
    lab.patience_s = 90
    address = free_address()
    await lab.worker("eu-west", "--concurrency", "10", "--http", address)
    ids = [await lab.submit("sleep", {"seconds": 3 * scale.lease_s}) for _ in range(9)]
    for task_id in ids:
        await lab.begun(task_id)
    ids.append(await lab.submit(kind, {"seconds": 4 * scale.lease_s}))
    await lab.begun(ids[-1])
    await lab.worker()  # idle

    async def keep_asking() -> None:
        while not lab.lines(ids[-1], "done"):
            assert await lab.page(address, "/healthz") == "alive\n"  # within 2 s, each time
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:
        group.create_task(keep_asking())
        records = [await lab.ended(task_id) for task_id in ids]
    assert {(r.state, r.attempts, r.crashes) for r in records} == {(State.COMPLETED, 1, 0)}
    assert [[line.event for line in lab.lines(task_id)] for task_id in ids] == [
        ["start", "done"]
    ] * 10
    assert {line.worker for line in lab.lines()} == {"w0"}
