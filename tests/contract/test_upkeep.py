"""The port Upkeep: sweeps, lost leases, hints. Vitals and wait on Redis have files of their own."""

import asyncio

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    LEASE_MS,
    PLACE,
    a_bury,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    record_of,
    stored,
)
from tradewind.limits import COURIER_LEASE_MS
from tradewind.state import State
from tradewind.task import Priority, Release, Swept

ALL, SHORT_S, SOON_S = range(16), 0.05, 20.0


async def swept(store: AnyStore, worker_id: str = "w1", *, courier: bool = False) -> Swept:
    return await store.sweep(PLACE, worker_id=worker_id, queues=["mail"], courier=courier)


async def test_a_sweep_promotes_what_is_due(world: World) -> None:
    store = world.store
    due = [await stored(store, a_task(delay_ms=ms)) for ms in (1_000, 2_000, 9_000)]
    await world.advance(2_000)
    found = await swept(store)
    assert (found.promoted, found.depth, found.next_due_ms) == (2, 2, 7_000)
    states = [(await record_of(store, task.task_id)).state for task in due]
    assert states == [State.PENDING, State.PENDING, State.SCHEDULED]
    assert found.now_ms == world.now_ms()


async def test_a_sweep_ends_what_expired_while_it_waited(world: World) -> None:
    store, soon_ms = world.store, world.now_ms() + 5_000
    ready = await stored(store, a_task(expires_ms=soon_ms))
    delayed = await stored(store, a_task(expires_ms=soon_ms, delay_ms=60_000))
    lasting = await stored(store)
    await world.advance(5_000)
    assert (await swept(store)).expired == 2
    for task in (ready, delayed):
        assert (await record_of(store, task.task_id)).state is State.EXPIRED
    assert (await record_of(store, lasting.task_id)).state is State.PENDING


async def test_a_sweep_counts_what_waits_for_others(world: World) -> None:
    store = world.store
    await dead(store)
    await exporting(store)
    await claimed(store, lease_ms=1_000)
    moved = await exporting(world.target)
    await store.import_task(moved, hops=b"", timeout_s=5)
    await world.advance(1_000)
    found = await swept(store)
    assert (found.outbox, found.moving, found.expired_leases) == (1, 1, 1)
    assert (found.unsettled_imports, found.depth, found.courier) == (1, 1, False)


async def test_dead_letters_are_purged_after_their_retention(world: World) -> None:
    store = world.store
    record = await dead(store, retention_ms=5_000)
    await world.advance(4_999)
    await swept(store)
    assert await store.dead_total() == 1
    await world.advance(1)
    found = await swept(store)
    assert (found.outbox, await store.dead_total()) == (0, 0)
    assert await store.read(record.task_id) is None


async def test_one_worker_at_a_time_is_the_courier_of_a_partition(world: World) -> None:
    store = world.store
    assert (await swept(store, "w1", courier=True)).courier
    assert not (await swept(store, "w2", courier=True)).courier
    assert not (await swept(store, "w1")).courier, "who does not ask is none"
    await world.advance(COURIER_LEASE_MS // 5)
    assert (await swept(store, "w1", courier=True)).courier
    await world.advance(COURIER_LEASE_MS)
    assert (await swept(store, "w2", courier=True)).courier


async def test_expired_leases_are_taken_back_oldest_first(world: World) -> None:
    store, claims = world.store, [await claimed(world.store, lease_ms=5_000)]
    await world.advance(1_000)
    claims += [await claimed(store, lease_ms=5_000) for _ in range(2)]
    await world.advance(4_000)
    assert [r.task_id for r in await store.reap(PLACE, limit=9)] == [claims[0].task_id]
    await world.advance(1_000)
    (reaped,) = await store.reap(PLACE, limit=1)
    assert (reaped.worker_id, reaped.state, reaped.queue) == ("w1", State.PENDING, "mail")
    record = await record_of(store, reaped.task_id)
    assert (record.state, record.crashes, record.attempts) == (State.PENDING, 1, 0)
    assert record.failure is not None
    assert record.failure.kind == "worker-lost"
    assert "worker w1 was lost" in record.failure.message


async def test_a_lost_run_whose_cancel_was_asked_for_is_cancelled(world: World) -> None:
    claim = await claimed(world.store)
    await world.store.cancel(claim.task_id, retention_ms=DAY_MS)
    await world.advance(LEASE_MS)
    (reaped,) = await world.store.reap(PLACE, limit=9)
    assert reaped.state is State.CANCELLED


async def test_the_longest_wait_is_told_by_queue_and_priority(world: World) -> None:
    store = world.store
    assert await store.oldest() == {}
    await stored(store, a_task(an_id(2)))
    await stored(store, a_task(an_id(3), delay_ms=4_000, priority=Priority.LOW))
    await world.advance(5_000)
    await stored(store, a_task(an_id(5)))
    await stored(store, a_task(an_id(5), queue="a:b", priority=Priority.HIGH))
    await world.advance(1_000)
    assert await store.oldest() == {
        ("mail", Priority.NORMAL): 6_000,
        ("mail", Priority.LOW): 2_000,
        ("a:b", Priority.HIGH): 1_000,
    }


# --- hints


async def soon(store: AnyStore, cold: list[int] | None = None) -> int | None:
    waiting = store.wait(["mail"], ALL, cold=cold or (), timeout_s=SOON_S)
    return await asyncio.wait_for(waiting, SOON_S)


async def nothing(store: AnyStore, cold: list[int] | None = None) -> bool:
    return await store.wait(["mail"], ALL, cold=cold or (), timeout_s=SHORT_S) is None


async def test_a_new_task_wakes_one_waiter_in_its_partition(store: AnyStore) -> None:
    assert await nothing(store)
    await stored(store, a_task(an_id(11)))
    assert await soon(store) == 11
    assert await nothing(store), "there was one hint"


async def test_a_waiter_hears_of_a_task_that_comes_later(store: AnyStore) -> None:
    waiting = asyncio.create_task(store.wait(["mail"], ALL, timeout_s=SOON_S))
    await asyncio.sleep(0)
    await stored(store, a_task(an_id(7)))
    assert await asyncio.wait_for(waiting, SOON_S) == 7


async def test_a_claim_passes_the_hint_on_while_work_is_left(store: AnyStore) -> None:
    for _ in range(3):
        await stored(store)
    for _ in range(3):
        assert await soon(store) == PLACE
        await claim_batch(store, limit=1)
    assert await nothing(store)


async def test_released_work_wakes_again(store: AnyStore) -> None:
    claim = await claimed(store)
    await soon(store)
    await store.release([Release(claim)])
    assert await soon(store) == PLACE


async def test_other_queues_and_partitions_wake_nobody(store: AnyStore) -> None:
    await stored(store, a_task(an_id(PLACE), queue="other"))
    await stored(store, a_task(an_id(PLACE + 1)))
    assert await store.wait(["mail"], [PLACE], timeout_s=SHORT_S) is None


async def test_parked_work_wakes_who_may_have_other_handlers(store: AnyStore) -> None:
    await stored(store, a_task(name="resize"))
    assert await soon(store) == PLACE
    assert (await claim_batch(store)).parked
    assert await soon(store) == PLACE
    await claim_batch(store)
    assert await nothing(store, cold=[PLACE])
    await stored(store)
    assert await soon(store, cold=[PLACE]) == PLACE


async def test_suspects_have_a_hint_of_their_own(world: World) -> None:
    store = world.store
    await claimed(store, lease_ms=1_000)
    await soon(store)
    await world.advance(1_000)
    await store.reap(PLACE, limit=1)
    assert await nothing(store)
    waiting = store.wait(["mail"], ALL, ready=False, suspects=True, timeout_s=SOON_S)
    assert await asyncio.wait_for(waiting, SOON_S) == PLACE


async def test_a_sweep_sets_hints_anew(store: AnyStore) -> None:
    await stored(store)
    assert await soon(store) == PLACE  # and whoever took it died
    await swept(store)
    assert await soon(store) == PLACE
    (claim,) = (await claim_batch(store)).claims
    await store.bury([a_bury(claim)])
