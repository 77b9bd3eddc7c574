"""Case C59: cancel against claim and completion, answered by routers, judged by the ledger."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.conftest import APP, WORLD
from tests.harness.ledger import Ledger, Line
from tests.harness.yard import Yard, yard
from tradewind.client.views import Cancellation, TaskView
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

AT_ONCE = 40
ENDS = {State.CANCELLED, State.COMPLETED}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def eight_and_more(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger
) -> AsyncIterator[Yard]:
    """The case's eight workers, and one for symmetry: three in each region."""
    home = tmp_path_factory.mktemp("races")
    options = ("--processes", "3", "--concurrency", "4")
    async with yard(home, WORLD, APP, ledger, *options) as running:
        yield running
        await running.is_in_order()


async def test_c59_each_task_ends_as_its_cancel_was_answered(world: Yard) -> None:
    await race(world, 200)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_c59_at_full_length(eight_and_more: Yard) -> None:
    await race(eight_and_more, 2_000)


async def race(world: Yard, tasks: int) -> None:
    """Cancel each of `tasks` at a random moment, from its submit to 60 ms after."""
    dice = random.Random(59)
    room = asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stays:
        clients = [await stays.enter_async_context(world.client(r)) for r in world.regions]

        async def one(number: int) -> tuple[str, Cancellation, float]:
            async with room:
                args: dict[str, Any] = {"seconds": dice.uniform(0.02, 0.04)}
                receipt = await dice.choice(clients).submit("sleep", args)
                await asyncio.sleep(dice.uniform(0, 0.06))
                answer = await dice.choice(clients).cancel(receipt.task_id)
                return receipt.task_id, answer, time.monotonic()

        answers = await asyncio.gather(*map(one, range(tasks)))
        ends = {id_: await world.settled(dice.choice(clients), id_) for id_, _, _ in answers}
        again = {id_: await dice.choice(clients).get(id_) for id_ in ends}

    assert len(ends) == tasks
    lines: defaultdict[str, list[Line]] = defaultdict(list)
    for line in world.ledger.lines():
        lines[line.task_id].append(line)
    for task_id, answer, at in answers:
        agrees(lines[task_id], ends[task_id], answer, at)
    assert {id_: view.state for id_, view in again.items()} == {
        id_: view.state for id_, view in ends.items()
    }
    # Every race has been run: before the start, in mid-run, after the end.
    races = {(ends[id_].state, bool(lines[id_]), answer.cancelled) for id_, answer, _ in answers}
    assert races >= {
        (State.CANCELLED, False, True),
        (State.CANCELLED, True, True),
        (State.COMPLETED, True, False),
    }


def agrees(lines: list[Line], end: TaskView, answer: Cancellation, at: float) -> None:
    """One task: what was done, how it ended, what was answered and when."""
    events = [line.event for line in lines]
    assert events.count("start") <= 1, "never repeated"
    assert end.state in ENDS
    assert end.attempts <= 1
    if answer.cancelled:
        assert end.state is State.CANCELLED
        assert [line for line in lines if line.at > at] == [], "nothing is done after the answer"
        assert "done" not in events
    elif answer.requested:  # it ran: confirmed by its holder, or its completion won
        assert ("done" in events) is (end.state is State.COMPLETED)
    else:
        assert (end.state, events) == (State.COMPLETED, ["start", "done"])
