"""The ports Outbox and Inbox: a task leaves one region and arrives in another, once."""

from dataclasses import replace

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_bury,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    pointer_of,
    record_of,
    stored,
)
from tradewind.limits import IMPORT_MEMORY_MS
from tradewind.state import Mark, State
from tradewind.task import Exported, Finish, Priority, Record


async def come(store: AnyStore, task: Exported) -> str:
    return await store.import_task(task, hops=b"hops", timeout_s=5)


async def moved(world: World) -> Exported:
    """A task that has arrived, and been let go."""
    task = await exporting(world.store)
    assert await come(world.target, task) == "imported"
    assert await world.store.ack_export(task.record.task_id, 2, "us-east", keep_ms=DAY_MS)
    return task


async def test_what_is_no_longer_fresh_when_it_is_sent_is_not_stored(world: World) -> None:
    task = await exporting(world.store)
    answer = await world.target.import_task(task, hops=b"h", timeout_s=5, is_fresh=lambda: False)
    assert answer == "late"
    assert await world.target.read(task.record.task_id) is None
    assert await come(world.target, task) == "imported"


# --- leaving


async def test_a_dead_task_waits_for_the_courier_until_it_is_kept(world: World) -> None:
    store, record = world.store, await dead(world.store)
    assert await store.outbox(PLACE, limit=5) == [record]
    assert await store.keep(record, reason="full", retry_after_ms=9_000)
    assert await store.outbox(PLACE, limit=5) == []
    await world.advance(9_000)
    (again,) = await store.outbox(PLACE, limit=5)
    assert (again.failover, again.settled) == ("full", False)
    assert await store.keep(again, reason="for good", retry_after_ms=None)
    assert not await store.keep(again, reason="once more", retry_after_ms=None)
    kept = await record_of(store, record.task_id)
    assert (kept.failover, kept.settled) == ("for good", True)


async def test_the_longest_waiting_goes_first_up_to_the_limit(world: World) -> None:
    ids: list[str] = []
    for _ in range(3):
        ids.append((await dead(world.store)).task_id)
        await world.advance(1)
    assert [r.task_id for r in await world.store.outbox(PLACE, limit=2)] == ids[:2]


async def test_an_export_names_one_target_and_says_all_that_it_needs(store: AnyStore) -> None:
    task = a_task(priority=Priority.HIGH, max_crashes=9, fence=("eu",))
    record = await dead(store, await stored(store, task))
    exported = await store.begin_export(record, "us-east", groups=["us", "eu"])
    assert exported is not None
    assert (exported.queue, exported.name, exported.priority) == ("mail", "send", Priority.HIGH)
    assert (exported.epoch, exported.target, exported.max_crashes) == (2, "us-east", 9)
    assert exported.record == await record_of(store, record.task_id)
    assert (exported.record.state, exported.record.target) == (State.MOVING, "us-east")
    assert await store.begin_export(record, "us-east", groups=["eu"]) == exported
    assert await store.begin_export(record, "ap-south", groups=["eu"]) is None
    assert await store.moving(PLACE, limit=5) == [exported]


async def test_a_courier_outside_the_fence_gets_nothing(store: AnyStore) -> None:
    record = await dead(store, await stored(store, a_task(fence=("eu",))))
    for groups in ([], ["us"], ["e"], ["eux"]):
        assert await store.begin_export(record, "us-east", groups=groups) is None
    assert await record_of(store, record.task_id) == record


async def test_what_is_settled_runs_or_has_changed_stays(store: AnyStore) -> None:
    settled, running = await dead(store, may_move=False), await claimed(store)
    record = await dead(store, await stored(store, a_task(queue="d")))
    for stale in (settled, replace(record, epoch=2), await record_of(store, running.task_id)):
        assert await store.begin_export(stale, "us-east", groups=["eu"]) is None


async def test_what_is_let_go_is_a_pointer_for_its_time(world: World) -> None:
    task_id = (await moved(world)).record.task_id
    pointer = await pointer_of(world.store, task_id)
    assert (pointer.mark, pointer.epoch, pointer.target) == (Mark.FORWARDED, 2, "us-east")
    assert await world.store.moving(PLACE, limit=5) == []
    assert await world.store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS), "a repeat"
    assert not await world.store.ack_export(task_id, 3, "us-east", keep_ms=DAY_MS)
    assert not await world.store.ack_export(task_id, 2, "ap-south", keep_ms=DAY_MS)
    await world.advance(DAY_MS)
    assert await world.store.read(task_id) is None


async def test_an_aborted_move_restores_the_task_and_its_retention(world: World) -> None:
    store = world.store
    record = await dead(store, retention_ms=60_000)
    await world.advance(10_000)
    await store.begin_export(record, "us-east", groups=["eu"])
    for epoch, target in ((1, "us-east"), (3, "us-east"), (2, "ap-south")):
        answer = await store.abort_export(
            record.task_id, epoch, target, reason="r", retry_after_ms=0
        )
        assert answer is None
    state = await store.abort_export(
        record.task_id, 2, "us-east", reason="full", retry_after_ms=7_000
    )
    assert state is State.DEAD_LETTER
    restored = await record_of(store, record.task_id)
    assert restored == replace(record, epoch=2, failover="full", revision=restored.revision)
    assert await store.outbox(PLACE, limit=5) == []
    await world.advance(7_000)
    assert await store.outbox(PLACE, limit=5) == [restored]
    await world.advance(43_000)
    await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert await store.read(record.task_id) is None, "dead for a minute since it died"


async def test_an_aborted_move_may_settle_the_task(store: AnyStore) -> None:
    task_id = (await exporting(store)).record.task_id
    await store.abort_export(task_id, 2, "us-east", reason="for good", retry_after_ms=None)
    assert (await record_of(store, task_id)).settled
    again = await store.abort_export(task_id, 2, "us-east", reason="r", retry_after_ms=None)
    assert again is None


# --- arriving


async def test_an_imported_task_runs_afresh_with_its_history(world: World) -> None:
    task = await moved(world)
    (claim,) = (await claim_batch(world.target)).claims
    assert (claim.task_id, claim.packed) == (task.record.task_id, task.record.packed)
    assert (claim.attempt, claim.crashes, claim.epoch, claim.hop_count) == (1, 0, 2, 1)
    assert (claim.hops, claim.created_ms) == (b"hops", task.record.created_ms)
    assert claim.token > task.record.token
    record = await record_of(world.target, claim.task_id)
    assert (record.region, record.failure) == ("us-east", None)


async def test_importing_again_is_known_at_every_later_moment(world: World) -> None:
    task = await moved(world)
    assert await come(world.target, task) == "known"
    (claim,) = (await claim_batch(world.target)).claims
    await world.target.finish([Finish(claim, b"", "", 1_000)])
    assert await come(world.target, task) == "known"
    await world.advance(1_000)
    assert await world.target.read(claim.task_id) is None
    assert await come(world.target, task) == "known", "remembered until it is settled"
    assert await world.target.settle_import(claim.task_id, 2)
    await world.advance(IMPORT_MEMORY_MS // 2)
    assert await come(world.target, task) == "known"


async def test_a_region_says_what_has_begun_what_has_come_and_what_may_not(world: World) -> None:
    source, target = world.store, world.target
    task = await exporting(source)
    task_id = task.record.task_id
    assert await source.is_moving(task_id, 2, "us-east")
    assert not await source.is_moving(task_id, 3, "us-east")
    assert not await source.is_moving(task_id, 2, "ap-south")
    assert await target.remembered(task_id) == (-1, -1)
    assert await come(target, task) == "imported"
    assert await target.remembered(task_id) == (2, -1)
    assert await source.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    assert not await source.is_moving(task_id, 2, "us-east")
    assert await target.settle_import(task_id, 2)
    await world.advance(IMPORT_MEMORY_MS + 1_000)
    assert await target.remembered(task_id) == (2, -1), "it is here, though the memory is gone"
    refused = await exporting(source)
    assert await target.refuse_import(refused.record.task_id, 2) == "fenced"
    assert await target.remembered(refused.record.task_id) == (-1, 2)
    tombstone = an_id()
    await target.refuse(tombstone, 2)
    assert await target.remembered(tombstone) == (-1, -1), "nothing has come"


async def test_unsettled_imports_are_listed_by_age(world: World) -> None:
    first = await exporting(world.store)
    await come(world.target, first)
    await world.advance(5_000)
    task_id = first.record.task_id
    assert await world.target.unsettled(PLACE, older_than_ms=5_001) == []
    assert await world.target.unsettled(PLACE, older_than_ms=5_000) == [(task_id, 2)]
    assert not await world.target.settle_import(task_id, 3)
    assert await world.target.settle_import(task_id, 2)
    assert await world.target.settle_import(task_id, 2)
    assert await world.target.unsettled(PLACE, older_than_ms=0) == []


async def test_a_fenced_import_can_never_happen(world: World) -> None:
    task = await exporting(world.store)
    task_id = task.record.task_id
    assert await world.target.refuse_import(task_id, 2) == "fenced"
    assert await come(world.target, task) == "refused"
    assert await world.target.read(task_id) is None
    assert await come(world.target, replace(task, epoch=3)) == "imported"
    assert await world.target.refuse_import(task_id, 3) == "imported"


async def test_a_live_task_of_the_same_id_is_never_replaced(world: World) -> None:
    task = await exporting(world.store)
    await stored(world.target, a_task(task.record.task_id))
    assert await come(world.target, task) == "refused"
    other = await exporting(world.store)
    await stored(world.target, a_task(other.record.task_id, epoch=2))
    assert await come(world.target, other) == "known"


async def test_a_tombstone_of_this_epoch_refuses_an_import(world: World) -> None:
    tasks = [await exporting(world.store) for _ in range(2)]
    for task, epoch, answer in zip(tasks, (1, 2), ("imported", "refused"), strict=True):
        await world.target.refuse(task.record.task_id, epoch)
        assert await come(world.target, task) == answer


async def test_a_task_comes_back_only_after_its_departure_is_acknowledged(world: World) -> None:
    store, target = world.store, world.target
    task = await exporting(store)
    await come(target, task)
    (claim,) = (await claim_batch(target)).claims
    await target.bury([a_bury(claim)])
    found = await target.read(claim.task_id)
    assert isinstance(found, Record)
    back = await target.begin_export(found, "eu-west", groups=["us"])
    assert back is not None
    assert (back.epoch, back.hop_count) == (3, 1)
    assert await come(store, back) == "refused"
    assert await store.ack_export(claim.task_id, 2, "us-east", keep_ms=DAY_MS)
    assert await come(store, back) == "imported"
    (again,) = (await claim_batch(store)).claims
    assert (again.epoch, again.hop_count) == (3, 2)
    assert again.token > claim.token


async def test_what_expired_on_its_way_is_stored_expired(world: World) -> None:
    task = await stored(world.store, a_task(expires_ms=world.now_ms() + 5_000))
    exported = await exporting(world.store, task)
    await world.advance(5_000)
    assert await come(world.target, exported) == "imported"
    assert (await record_of(world.target, task.task_id)).state is State.EXPIRED


async def test_nothing_is_known_of_a_task_that_never_was(store: AnyStore) -> None:
    task_id = an_id()
    assert not await store.settle_import(task_id, 1)
    assert not await store.ack_export(task_id, 1, "us-east", keep_ms=DAY_MS)
    aborted = await store.abort_export(task_id, 1, "us-east", reason="r", retry_after_ms=None)
    assert aborted is None
    assert await store.moving(PLACE, limit=5) == []
