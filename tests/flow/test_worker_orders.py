"""Worker processes and routers under orders: what starts is judged by the ledger of the lab."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.flow.lab import Lab
from tests.redis_keys import connected
from tests.rpc.running import running
from tests.rpc.test_control import help_at_once, pause, resume, set_state, states
from tradewind.control import Control
from tradewind.limits import HEARTBEAT_EVERY_MS
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.keys import partition_keys

EU, US, AP = "eu-west", "us-east", "ap-south"


@pytest.fixture(autouse=True)
def however_busy_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order is answered once workers obey, not after a while."""
    monkeypatch.setattr("router.control.SETTLE_MS", 15_000)


async def told(lab: Lab, region: str, epoch: int) -> None:
    """Wait until every live worker of the region says that it obeys."""

    async def obeys() -> bool:
        workers = await lab.stores[region].workers()
        return bool(workers) and all(w.heartbeat.control >= epoch for w in workers)

    await lab.until(obeys)


async def twice(lab: Lab, region: str) -> None:
    """Wait until each worker of the region has beaten twice more: time to start what it may."""
    store = lab.stores[region]
    from_ms = (store.now_ms() or 0) + HEARTBEAT_EVERY_MS

    async def have_beaten() -> bool:
        workers, now_ms = await store.workers(), store.now_ms() or 0
        return all(now_ms - worker.age_ms > from_ms for worker in workers)

    await lab.until(have_beaten)


@asynccontextmanager
async def flow_of(lab: Lab, region: str, ids: list[str]) -> AsyncGenerator[None]:
    """Tasks come in all the time, past every router."""

    async def submit() -> None:
        while True:
            ids.append(await lab.submit("sleep", {"seconds": 0}, region))
            await asyncio.sleep(0.02)

    submitting = asyncio.create_task(submit())
    try:
        yield
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)


async def completed(lab: Lab, region: str, ids: list[str]) -> None:
    for task_id in ids:
        assert (await lab.ended(task_id, region)).state is State.COMPLETED


async def test_nothing_starts_once_a_drain_was_answered_and_all_of_it_once_it_is_over(
    make_lab: Callable[..., Lab],
) -> None:
    lab, ids = make_lab(regions=2), list[str]()
    await asyncio.gather(*(lab.worker(EU, "--concurrency", "4") for _ in range(2)))
    async with running(lab.fleet, EU) as router, running(lab.fleet, US) as other:
        long = await lab.submit("until.told", {"seconds": 0})
        await lab.begun(long)
        async with flow_of(lab, EU, ids):
            await lab.begun("", 20)
            shown = await set_state(router, EU, "DRAINING")
            answered_at = time.monotonic()
            await told(lab, EU, shown.epoch)
            await twice(lab, EU)
        late = [line for line in lab.lines(event="start") if line.at > answered_at]
        assert late == []
        waiting = [task_id for task_id in ids if not lab.lines(task_id, "start")]
        assert waiting, "nothing was held back: the test shows nothing"
        lab.tell()
        await completed(lab, EU, [long])

        async def is_seen() -> bool:
            return (await states(other))[EU] == "DRAINING"

        await lab.until(is_seen)
        await set_state(other, EU, "ACTIVE")
        await completed(lab, EU, ids)
        assert {line.attempt for line in lab.lines(event="start")} == {1}


async def test_a_paused_queue_starts_in_no_region_and_a_cordoned_one_goes_on(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(regions=2)
    await asyncio.gather(*map(lab.worker, (EU, US)))
    async with running(lab.fleet, EU) as router:
        epoch = (await set_state(router, US, "CORDONED")).epoch
        await told(lab, US, epoch)
        await lab.begun(await lab.submit("sleep", {"seconds": 0}, US))
        epoch = await pause(router, "default")
        ids = {region: await lab.submit("sleep", {"seconds": 0}, region) for region in (EU, US)}
        await asyncio.gather(*(told(lab, region, epoch) for region in ids))
        await asyncio.gather(*(twice(lab, region) for region in ids))
        assert lab.lines(event="start")[1:] == [], "but of the first one"
        await resume(router, "default")
        for region, task_id in ids.items():
            await completed(lab, region, [task_id])


async def test_a_new_worker_starts_nothing_of_a_region_that_drains_though_its_redis_forgot_it(
    make_lab: Callable[..., Lab], redis_servers: list[RedisProcess]
) -> None:
    lab = make_lab(regions=3)
    async with running(lab.fleet, US) as router:
        epoch = (await set_state(router, EU, "DRAINING")).epoch
    key = partition_keys(lab.fleet.partitions)[0].control
    connected(redis_servers[0].port).delete(key)
    task_id = await lab.submit("sleep", {"seconds": 0})
    await lab.worker(EU)
    await told(lab, EU, epoch)
    await twice(lab, EU)
    assert lab.lines(task_id) == []
    async with running(lab.fleet, AP) as router:
        help_at_once(router)

        async def is_repaired() -> bool:
            return (await held(lab, EU)).state(EU) == "DRAINING"

        await lab.until(is_repaired)
        await set_state(router, EU, "ACTIVE")
        await completed(lab, EU, [task_id])


async def held(lab: Lab, region: str) -> Control:
    return await lab.stores[region].control(timeout_s=5)
