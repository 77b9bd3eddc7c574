"""Case C51: two regions lose sight of each other, both work on and take tasks, and meet again.

Each has its own router and workers, which see their own Redis all the time.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from tests.cases.cut_load import agreed
from tests.cases.pair import EU, US
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client, Receipt
from tradewind.errors import RegionSilent
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERY_S = 0.1  # between two submits while they are apart


@dataclass(frozen=True, slots=True)
class Scale:
    """How many tasks eu has, how long each takes, and how long the regions are apart.

    One of `broken` tasks, if that is not 0, cannot be finished in eu and is moved: where that was
    not possible couriers look again after 10 s.
    """

    tasks: int
    task_s: float
    apart_s: float
    broken: int

    def is_broken(self, number: int) -> bool:
        """Whether the task with that number is moved."""
        return self.broken > 0 and number % self.broken == 0


SCALES = {
    "short": pytest.param(Scale(20, 0.2, 2.5, broken=0), id="short"),
    "full": pytest.param(
        Scale(500, 0.2, 60.0, broken=10),
        id="full",
        marks=[pytest.mark.long, pytest.mark.timeout(300)],
    ),
}


@contextmanager
def apart(world: Yard) -> Generator[None]:
    """Neither region's router and workers hear anything of the other's Redis."""
    well = dict(world.fleet.links)
    between = [(EU, US), (US, EU)]
    world.fleet.set_links({way: replace(well[way], reach="silent") for way in between})
    try:
        yield
    finally:
        world.fleet.set_links({way: well[way] for way in between})


async def takes_tasks(client: Client, region: str) -> bool:
    regions, _ = await client.admin.regions()
    return [each.state for each in regions if each.name == region] == ["ACTIVE"]


async def fill(world: Yard, clients: Sequence[Client], scale: Scale) -> list[Receipt]:
    """Tasks that may be in both regions, and are in eu: the other one takes none for a moment."""
    client = clients[0]
    await client.admin.set_region_state(US, "CORDONED", force=True)
    try:
        broken = {"regions": [EU]}
        receipts = await asyncio.gather(
            *(
                client.submit("fail.in", broken)
                if scale.is_broken(number)
                else client.submit("sleep", {"seconds": scale.task_s})
                for number in range(scale.tasks)
            )
        )
    finally:
        await client.admin.set_region_state(US, "ACTIVE")
    assert {receipt.region for receipt in receipts} == {EU}
    await until(lambda: len(world.ledger) > 0, "eu works")
    for each in clients:  # of what it has not heard of before they are apart it hears after
        await until(lambda each=each: takes_tasks(each, US), "every router knows that us is back")
    return receipts


async def trickle(clients: list[Client], over: asyncio.Event) -> list[Receipt]:
    """Submits through both routers in turn, until they are to end."""
    under_way: list[asyncio.Task[Receipt]] = []
    while not over.is_set():
        client = clients[len(under_way) % len(clients)]
        under_way.append(asyncio.create_task(client.submit("sleep", deadline=90)))
        await asyncio.sleep(EVERY_S)
    return await asyncio.gather(*under_way)


@pytest.mark.parametrize("scale", SCALES.values())
async def test_c51_regions_that_lost_sight_of_each_other_lose_and_double_nothing(
    two_regions: Yard, scale: Scale
) -> None:
    world, over = two_regions, asyncio.Event()
    async with world.client(EU) as eu, world.client(US) as us:
        there = await fill(world, [eu, us], scale)
        cut_at = time.monotonic()
        with apart(world):
            trickling = asyncio.create_task(trickle([eu, us], over))
            last = there[-1].task_id
            with pytest.raises(RegionSilent, match=EU):
                await us.get(last, deadline=1)
            assert (await eu.get(last)).region == EU, "its own router sees it"
            await asyncio.sleep(cut_at + scale.apart_s - time.monotonic())
            meanwhile = [line for line in world.ledger.lines(event="start") if line.at > cut_at]
        healed_at = time.monotonic()
        over.set()
        receipts = [*there, *await trickling]
        ids = [receipt.task_id for receipt in receipts]
        assert len(set(ids)) == len(ids)
        first_seen = await asyncio.gather(*(world.settled(us, task_id) for task_id in ids))
        settled_s = time.monotonic() - healed_at
        tasks = await agreed([eu, us], ids)
        agreed_s = time.monotonic() - healed_at
    figures = {"settled": f"{settled_s:.1f} s", "all agree": f"{agreed_s:.1f} s after healing"}
    print(f"\nFIGURES {scale}: {len(ids)} tasks, {figures}")

    assert {line.region for line in meanwhile} == {EU, US}, "both worked on"
    lines = world.ledger.lines()
    assert {line.task_id for line in lines} == set(ids)
    in_flight = {line.task_id for line in lines if line.event == "start" and line.at < cut_at}
    in_flight -= {line.task_id for line in lines if line.event == "done" and line.at < cut_at}
    broken = {receipt.task_id for n, receipt in enumerate(there) if scale.is_broken(n)}
    for seen in first_seen:
        task = tasks[seen.task_id]
        assert (task.state, task.result) == (State.COMPLETED, seen.result)
        starts = Counter(world.ledger.regions(task.task_id))
        if task.task_id in broken:
            assert (starts[EU], starts[US], task.result) == (2, 1, US)
            assert [stay.region for stay in task.hops] == [EU, US]
        else:
            assert starts.total() == 1 or (starts.total() == 2 and task.task_id in in_flight)
            assert task.result in starts
