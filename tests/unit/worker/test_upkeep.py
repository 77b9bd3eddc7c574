import asyncio

from tests.unit.worker.world import PLACE, Parts, a_task
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet
from tradewind.limits import MAX_EXPIRE
from tradewind.store.region_store import RegionStore
from worker.courier import Courier
from worker.upkeep import Keeper
from worker.views import Views


async def test_more_than_one_sweep_ends_is_ended_at_once(
    home: RegionStore, one_region: Fleet
) -> None:
    """The clock stands still: a partition is swept again only where a sweep asks for it."""
    batch = await home.claim(
        PLACE, worker_id="w", lease_ms={"default": 1_000}, handlers=["t"], limit=1
    )
    number = 2 * MAX_EXPIRE + 2
    soon_ms = batch.now_ms + 500
    await home.enqueue([a_task(i, expires_ms=soon_ms) for i in range(number)], timeout_s=5)
    clock = ManualClock()
    parts = Parts(home, one_region, clock=clock)
    swept: list[int] = []
    all_ended = asyncio.Event()

    def note(partition: int, ended: int) -> None:
        if partition == PLACE:
            swept.append(ended)
        if sum(swept) == number:
            all_ended.set()

    keeper = Keeper(
        home,
        parts.pool,
        courier=Courier(home, one_region, {}, Views("eu-west", one_region, {}, clock), clock=clock),
        reach=parts.reach,
        clock=clock,
        on_swept=lambda partition, what: note(partition, what.expired),
        on_dead=lambda _partition: None,
    )
    # By the server's clock, which rules: it promotes nothing, and sweeps nothing of ours.
    while (await home.sweep(0, worker_id="w", queues=["default"], courier=False)).now_ms < soon_ms:
        pass
    keeping = asyncio.create_task(keeper.run())
    async with asyncio.timeout(10):
        await all_ended.wait()
    keeping.cancel()
    assert swept == [MAX_EXPIRE, MAX_EXPIRE, 2]
