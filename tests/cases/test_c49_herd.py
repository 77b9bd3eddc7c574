"""Case C49: the nearest region is full. That nobody works there is test_unserved.py."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cases.pair import EU, SLOTS, US, begin_anew
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client, TaskOptions

pytestmark = pytest.mark.asyncio(loop_scope="session")

AFTERWARDS = 8
PACE_S = 0.5  # from one task to the next: what a region of two slots calls no load


@dataclass(frozen=True, slots=True)
class Load:
    """So many tasks, of so many callers who wait for their answers."""

    tasks: int
    seconds: float
    callers: int
    full: bool = False  # the numbers of the case: its time is asserted, too

    @property
    def bound_s(self) -> float:
        """Twice the ideal."""
        return 2 * self.tasks * self.seconds / sum(SLOTS.values())


FULL = (pytest.mark.long, pytest.mark.timeout(300))


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(Load(80, 0.1, 16), id="short"),
        pytest.param(Load(500, 1.0, 16, full=True), id="full", marks=FULL),
        pytest.param(Load(500, 1.0, 500, full=True), id="full, at once", marks=FULL),
    ],
)
async def test_c49_a_full_region_spills_over_and_once_the_load_ends_its_tasks_stay_home(
    two_regions: Yard, load: Load
) -> None:
    await begin_anew(two_regions)
    async with two_regions.client(EU) as client:
        for _ in range(2):  # the load ends, and starts again
            two_regions.ledger = two_regions.ledger.from_here()
            await herd(two_regions, client, load)
            await all_come_home(client, load)


async def herd(world: Yard, client: Client, load: Load) -> None:
    """A fiftieth may not leave, half of these by a pin and half by their fence."""
    kept = max(1, load.tasks // 100)
    pinned, fenced = TaskOptions(pin_region=EU), TaskOptions(residency=["eu"])
    bound = set[str]()
    begun = time.monotonic()

    async def submit(wanted: Iterator[TaskOptions]) -> None:
        for wish in wanted:
            receipt = await client.submit("sleep", {"seconds": load.seconds}, **wish)
            if wish:
                bound.add(receipt.task_id)

    free = [TaskOptions()] * (load.tasks - 2 * kept)
    wanted = iter([*[pinned, fenced] * kept, *free])
    async with asyncio.TaskGroup() as group:
        for _ in range(load.callers):
            group.create_task(submit(wanted))
    await until(lambda: len(world.ledger.count("done")) == load.tasks, "all have run")

    lines = world.ledger.lines(event="done")
    assert len(lines) == load.tasks  # none twice
    where = Counter(line.region for line in lines)
    assert where[US] > where[EU] > 0
    assert {line.region for line in lines if line.task_id in bound} == {EU}
    if load.full:
        assert max(line.at for line in lines) - begun < load.bound_s, where


async def all_come_home(client: Client, load: Load) -> None:
    """Tasks one by one: soon none leaves the nearest region, and from then on none does.

    Short ones with a pause: of several in one second nobody knows yet that they have ended.
    """
    seen: list[str] = []

    async def one_more() -> None:
        receipt = await client.submit("sleep", {"seconds": load.seconds})
        await client.wait(receipt.task_id, timeout=30)
        seen.append(receipt.region)

    async def is_home() -> bool:
        await one_more()
        route = await client.explain("sleep", {"seconds": load.seconds})
        return route.region == EU and not route.spills

    await until(is_home, "tasks go to the nearest region again")
    for _ in range(AFTERWARDS):
        await asyncio.sleep(0 if load.full else PACE_S)
        await one_more()
    assert seen[-AFTERWARDS:] == [EU] * AFTERWARDS
