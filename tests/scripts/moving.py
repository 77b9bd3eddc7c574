"""Steps of a move, as the tests of moves take them."""

from tests.scripts.world import DAY_MS, a_bury, claim_batch, exporting, record_of
from tradewind.store.region_store import RegionStore
from tradewind.task import Exported, Record


async def come(target: RegionStore, task: Exported, *, hops: bytes = b"hops") -> str:
    return await target.import_task(task, hops=hops, timeout_s=5)


async def moved(store: RegionStore, target: RegionStore) -> Exported:
    task = await exporting(store)
    assert await come(target, task) == "imported"
    assert await store.ack_export(task.record.task_id, 2, "us-east", keep_ms=DAY_MS)
    assert await target.settle_import(task.record.task_id, 2)
    return task


async def dead_again(target: RegionStore) -> Record:
    (claim,) = (await claim_batch(target)).claims
    await target.bury([a_bury(claim)])
    return await record_of(target, claim.task_id)
