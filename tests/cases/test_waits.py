"""Tasks of a name that nobody has timed yet, after others that took no time: long queues at home.

The simulator has tasks of one name only.
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.cases.pair import EU, US, pair
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client, Receipt, TaskRequest

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

TASKS, SECONDS = 150, 1.0  # what us-east takes of guests in ten seconds, and three rounds there


async def test_slow_tasks_after_a_quick_one_leave_a_home_that_is_full_from_their_first_message_on(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with pair(tmp_path, ledger.from_here(), "5s") as world, world.client(EU) as client:
        for number in range(4):  # what home is known for: a task takes a millisecond
            receipt = await client.submit("quick", {"number": number})
            assert receipt.region == EU
            await asyncio.sleep(1.0)  # a heartbeat
        for name in ("not timed by anybody", "timed"):
            where = await message(world, client)
            assert where[EU] < TASKS / 5 < where[US], name


async def message(world: Yard, client: Client) -> Counter[str]:
    """Submit them all at once, and wait for their ends: where they went."""
    world.ledger = world.ledger.from_here()
    asked = [TaskRequest("slow", {"seconds": SECONDS})] * TASKS
    receipts = await client.submit_many(asked)
    await until(lambda: len(world.ledger.count("done")) == TASKS, "all have run")
    return Counter(each.region for each in receipts if isinstance(each, Receipt))
