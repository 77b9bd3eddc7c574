"""A loop whose partitions nobody sweeps: it must know by itself when to look for what is due."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from tests.redis_keys import connected
from tests.unit.worker.world import PLACE, Parts, a_task
from tradewind.fleet import Fleet
from tradewind.store.keys import partition_keys
from tradewind.store.region_store import RegionStore
from tradewind.task import NewTask
from worker.loop import Loop

HOUR_MS = 3_600_000


def delayed(index: int, delay_ms: int) -> NewTask:
    return a_task(index)._replace(delay_ms=delay_ms)


@asynccontextmanager
async def looping(
    home: RegionStore, fleet: Fleet, handler: Callable[..., object]
) -> AsyncGenerator[Loop]:
    """A worker's loop with four slots, and nothing else of a worker."""
    parts = Parts(home, fleet, handler)
    loop = Loop(
        home,
        parts.pool,
        children=parts.children,
        guard=parts.guard,
        pace=parts.pace,
        reach=parts.reach,
        clock=parts.clock,
        on_buried=lambda _partition, _in_ms: None,
    )
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(20):
            yield loop
    finally:
        over = asyncio.get_running_loop().create_future()
        over.set_result(None)
        await loop.drain(over)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_idle_worker_hears_of_a_task_that_is_due_before_all_it_knows(
    home: RegionStore, one_region: Fleet
) -> None:
    begun = asyncio.Event()

    async def handler() -> None:
        begun.set()

    async with looping(home, one_region, handler):
        for index, delay_ms in enumerate((HOUR_MS, 300, HOUR_MS)):
            await home.enqueue([delayed(index, delay_ms)], timeout_s=5)
        await begun.wait()


async def test_one_after_the_other_starts_when_it_is_due(
    home: RegionStore, one_region: Fleet
) -> None:
    begun: list[float] = []
    all_have = asyncio.Event()

    async def handler() -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) == 5:
            all_have.set()

    async with looping(home, one_region, handler):
        tasks = [delayed(index, 100 * (index + 1)) for index in range(5)]
        await home.enqueue(tasks, timeout_s=5)
        await all_have.wait()

    assert begun[-1] - begun[0] > 0.3, "each at its own time"


async def test_a_busy_worker_that_knows_the_due_times_makes_others_hear_of_them(
    home: RegionStore, one_region: Fleet
) -> None:
    keys = partition_keys(one_region.partitions)[PLACE]
    raw = connected(int(one_region.regions["eu-west"].redis.nodes[0].rpartition(":")[2]))
    begun: list[int] = []
    full, release = asyncio.Event(), asyncio.Event()

    async def handler() -> None:
        begun.append(1)
        if len(begun) == 4:
            full.set()
        await release.wait()

    async with looping(home, one_region, handler):
        await home.enqueue([delayed(0, 600), delayed(1, 900)], timeout_s=5)
        while raw.exists(keys.wake("default")):  # noqa: ASYNC110 - until the loop has been told
            await asyncio.sleep(0.01)
        await home.enqueue([a_task(index) for index in range(10, 14)], timeout_s=5)
        await full.wait()
        while raw.llen(keys.ready("default", 1)) < 2:  # noqa: ASYNC110 - both were due meanwhile
            await asyncio.sleep(0.01)
        assert raw.exists(keys.wake("default"))
        release.set()


async def test_a_worker_that_drains_still_makes_others_hear_of_what_comes_due(
    home: RegionStore, one_region: Fleet
) -> None:
    keys = partition_keys(one_region.partitions)[PLACE]
    raw = connected(int(one_region.regions["eu-west"].redis.nodes[0].rpartition(":")[2]))
    begun, release = asyncio.Event(), asyncio.Event()

    async def handler() -> None:
        begun.set()
        await release.wait()

    async with looping(home, one_region, handler) as loop:
        await home.enqueue([a_task(1), delayed(2, 600), delayed(3, 900)], timeout_s=5)
        await begun.wait()
        grace: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        draining = asyncio.create_task(loop.drain(grace))
        while raw.llen(keys.ready("default", 1)) < 2:  # noqa: ASYNC110 - both come due meanwhile
            await asyncio.sleep(0.01)
        assert raw.exists(keys.wake("default"))
        assert not draining.done()
        release.set()
        await draining
