"""The port Repairs on regions in order: everything is found, and nothing is changed."""

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_task,
    an_id,
    claimed,
    dead,
    exporting,
    record_of,
    stored,
)
from tradewind.task import Finish


async def seen(store: AnyStore) -> dict[int, set[str]]:
    """Every task that a whole scan of all nodes finds, by partition."""
    found: dict[int, set[str]] = {}
    for partitions in await store.together():
        cursor, first = "", True
        while first or cursor:
            sighting = await store.scan(partitions[0], cursor, limit=100)
            for place, task_ids in sighting.task_ids.items():
                found.setdefault(place, set()).update(task_ids)
            cursor, first = sighting.cursor, False
    return found


async def test_the_nodes_serve_every_partition_once(store: AnyStore) -> None:
    served = [place for partitions in await store.together() for place in partitions]
    assert sorted(served) == list(range(16))


async def test_a_scan_finds_every_task_whatever_its_state(store: AnyStore) -> None:
    finished = await claimed(store, await stored(store, a_task(an_id(9))))
    await store.finish([Finish(finished, b"", "", DAY_MS)])
    buried = await dead(store)
    moving = (await exporting(store)).record
    waiting = await stored(store, a_task(delay_ms=60_000))
    assert await seen(store) == {
        9: {finished.task_id},
        PLACE: {buried.task_id, moving.task_id, waiting.task_id},
    }


async def test_indexes_name_what_has_not_ended(store: AnyStore) -> None:
    finished = await claimed(store)
    await store.finish([Finish(finished, b"", "", DAY_MS)])
    assert (await store.indexed(PLACE, "")).task_ids == {}
    running = await claimed(store)
    buried = await dead(store)
    assert (await store.indexed(PLACE, "")).task_ids == {PLACE: {running.task_id, buried.task_id}}


async def test_a_region_in_order_stays_as_it_is(world: World) -> None:
    store = world.store
    running, buried = await claimed(store), await dead(store)
    ready = await stored(store, a_task(queue="q"))
    moved = await exporting(world.target)
    await store.import_task(moved, hops=b"", timeout_s=5)
    ids = [running.task_id, buried.task_id, ready.task_id, moved.record.task_id]
    before = [await record_of(store, task_id) for task_id in ids]
    done = await store.reconcile(PLACE, ids)
    assert (done.repairs, done.unsearched) == ((), ())
    assert done.ready_queues == {"q", "mail"}
    assert await store.recount(PLACE, done.ready_queues) == []
    assert [await record_of(store, task_id) for task_id in ids] == before
