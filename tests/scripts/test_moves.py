"""The five steps of a move and the way back: repeated, out of order, late, and by strangers."""

from dataclasses import replace
from typing import Any

import pytest

from tests.scripts.moving import come, dead_again, moved
from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_task,
    an_id,
    claim_batch,
    claimed,
    client_of,
    dead,
    exporting,
    keys_at,
    pointer_of,
    record_of,
    snapshot,
    stored,
)
from tradewind.errors import IdentityMismatch
from tradewind.state import Mark, State
from tradewind.store.region_store import RegionStore
from tradewind.task import Finish, Priority

KEYS = keys_at()


# --- the outbox


async def test_the_outbox_lists_dead_tasks_that_wait_for_a_courier_longest_first(
    store: RegionStore, raw: Any
) -> None:
    first, second, later = [await dead(store) for _ in range(3)]
    settled = await dead(store, may_move=False)
    raw.zadd(KEYS.outbox, {second.task_id: 1, first.task_id: 2, later.task_id: 9e15})
    listed = await store.outbox(PLACE, limit=10)
    assert [record.task_id for record in listed] == [second.task_id, first.task_id]
    assert settled.task_id not in {record.task_id for record in listed}
    assert listed[0] == await record_of(store, second.task_id)
    assert len(await store.outbox(PLACE, limit=1)) == 1


async def test_what_is_kept_for_now_says_why_and_comes_back(store: RegionStore, raw: Any) -> None:
    record = await dead(store)
    assert await store.keep(record, reason="us-east: full", retry_after_ms=60_000)
    assert await store.outbox(PLACE, limit=10) == []
    kept = await record_of(store, record.task_id)
    assert (kept.failover, kept.settled) == ("us-east: full", False)
    # The same reason again is no news.
    assert await store.keep(record, reason="us-east: full", retry_after_ms=60_000)
    assert (await record_of(store, record.task_id)).revision == kept.revision
    raw.zadd(KEYS.outbox, {record.task_id: 1})
    assert [r.task_id for r in await store.outbox(PLACE, limit=10)] == [record.task_id]


async def test_what_is_kept_for_good_is_settled(store: RegionStore, raw: Any) -> None:
    record = await dead(store)
    assert await store.keep(record, reason="no region permitted", retry_after_ms=None)
    kept = await record_of(store, record.task_id)
    assert (kept.failover, kept.settled) == ("no region permitted", True)
    assert raw.zcard(KEYS.outbox) == 0


async def test_a_settled_task_is_moved_by_no_late_courier(store: RegionStore, raw: Any) -> None:
    record = await dead(store)
    await store.keep(record, reason="for good", retry_after_ms=None)
    before = snapshot(raw)
    assert not await store.keep(record, reason="not yet", retry_after_ms=0)
    assert await store.begin_export(record, "us-east", groups=["eu"]) is None
    assert snapshot(raw) == before


async def test_a_late_keep_takes_nothing_from_the_courier_of_a_newer_epoch(
    store: RegionStore,
) -> None:
    task = await exporting(store)
    await store.abort_export(task.record.task_id, 2, "us-east", reason="full", retry_after_ms=0)
    old = replace(task.record, epoch=1)
    assert not await store.keep(old, reason="old news", retry_after_ms=None)
    assert [r.task_id for r in await store.outbox(PLACE, limit=10)] == [old.task_id]


async def test_keeping_what_moved_cleans_the_outbox(store: RegionStore, raw: Any) -> None:
    task = await exporting(store)
    raw.zadd(KEYS.outbox, {task.record.task_id: 1})
    assert not await store.keep(task.record, reason="x", retry_after_ms=0)
    assert raw.zcard(KEYS.outbox) == 0


# --- begin_export


async def test_a_begun_move_writes_epoch_and_target_down(store: RegionStore, raw: Any) -> None:
    task = await stored(
        store,
        a_task(priority=Priority.LOW, fence=("eu", "uk"), max_crashes=9, done_key=b"f" * 32),
    )
    record = await dead(store, task)
    exported = await store.begin_export(record, "us-east", groups=["uk"])
    assert exported is not None
    assert (exported.queue, exported.name, exported.priority) == ("mail", "send", Priority.LOW)
    assert (exported.epoch, exported.target, exported.hop_count) == (2, "us-east", 0)
    assert exported.max_crashes == 9
    assert exported.done_key.startswith((b"f" * 32).hex().encode() + b":")
    assert exported.record.state is State.MOVING
    assert exported.record.failure == record.failure
    for key in (KEYS.dead, KEYS.dead_until, KEYS.outbox):
        assert raw.zcard(key) == 0
    assert await store.moving(PLACE, limit=10) == [exported]


async def test_beginning_again_for_the_same_target_answers_the_same(
    store: RegionStore, raw: Any
) -> None:
    record = await dead(store)
    first = await store.begin_export(record, "us-east", groups=["eu"])
    before = snapshot(raw)
    assert await store.begin_export(record, "us-east", groups=["eu"]) == first
    assert await store.begin_export(record, "ap-south", groups=["eu"]) is None
    assert await store.begin_export(replace(record, epoch=2), "us-east", groups=["eu"]) is None
    assert snapshot(raw) == before


@pytest.mark.parametrize("groups", [[], ["us"], ["e"], ["eux"]])
async def test_a_courier_outside_the_fence_gets_nothing(
    store: RegionStore, raw: Any, groups: list[str]
) -> None:
    record = await dead(store, await stored(store, a_task(fence=("eu",))))
    before = snapshot(raw)
    assert await store.begin_export(record, "us-east", groups=groups) is None
    assert snapshot(raw) == before
    assert await store.begin_export(record, "us-east", groups=["us", "eu"]) is not None
    assert await store.begin_export(record, "us-east", groups=groups) is None


async def test_what_runs_is_not_exported(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store)
    record = await record_of(store, claim.task_id)
    before = snapshot(raw)
    assert await store.begin_export(record, "us-east", groups=["eu"]) is None
    assert snapshot(raw) == before


async def test_nobody_claims_settles_or_purges_what_is_moving(store: RegionStore) -> None:
    task = await exporting(store)
    assert (await claim_batch(store)).claims == ()
    await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert await store.reap(PLACE, limit=9) == []
    assert await store.dead_total() == 0
    assert (await record_of(store, task.record.task_id)).state is State.MOVING


# --- import


async def test_an_imported_task_runs_afresh_with_its_history(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    source = await stored(store, a_task(priority=Priority.HIGH, max_crashes=9, fence=("eu",)))
    record = await dead(store, source)
    exported = await store.begin_export(record, "us-east", groups=["eu"])
    assert exported is not None
    assert await come(target, exported) == "imported"
    (claim,) = (await claim_batch(target)).claims
    assert (claim.task_id, claim.packed, claim.priority) == (
        *(source.task_id, b"packed", Priority.HIGH),
    )
    assert (claim.attempt, claim.crashes, claim.epoch, claim.hop_count) == (1, 0, 2, 1)
    assert (claim.hops, claim.created_ms) == (b"hops", record.created_ms)
    assert claim.token > record.token
    arrived = await record_of(target, source.task_id)
    assert (arrived.fence, arrived.failure) == (("eu",), None)
    assert there.hget(KEYS.task(source.task_id), "mc") == "9"
    await target.settle_import(source.task_id, 2)
    await target.finish([Finish(claim, b"", "", DAY_MS)])


async def test_the_token_carried_by_a_move_is_not_reset(
    store: RegionStore, target: RegionStore
) -> None:
    task = await exporting(store)
    ahead = replace(task, record=replace(task.record, token=9_000_000_000_000_000))
    await come(target, ahead)
    (claim,) = (await claim_batch(target)).claims
    assert claim.token == 9_000_000_000_000_001


async def test_importing_again_is_known_at_every_later_moment(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    await come(target, task)
    before = snapshot(there)
    assert await come(target, task) == "known"
    assert snapshot(there) == before
    (claim,) = (await claim_batch(target)).claims
    await target.finish([Finish(claim, b"", "", DAY_MS)])
    assert await come(target, task) == "known"
    there.delete(KEYS.task(task.record.task_id))  # forgotten after its retention
    assert await come(target, task) == "known"
    await target.settle_import(task.record.task_id, 2)
    assert await come(target, task) == "known"


async def test_the_memory_of_an_import_ends_only_after_it_is_settled(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    memory = KEYS.memory(task.record.task_id)
    await come(target, task)
    assert there.ttl(memory) == -1
    assert await target.unsettled(PLACE, older_than_ms=-1_000) == [(task.record.task_id, 2)]
    assert await target.unsettled(PLACE, older_than_ms=60_000) == []
    assert not await target.settle_import(task.record.task_id, 1)
    assert not await target.settle_import(task.record.task_id, 3)
    assert there.ttl(memory) == -1
    assert await target.settle_import(task.record.task_id, 2)
    assert await target.settle_import(task.record.task_id, 2)
    assert 0 < there.ttl(memory) <= 600
    assert await target.unsettled(PLACE, older_than_ms=-1_000) == []


async def test_a_late_import_stores_nothing(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    now_ms = await client_of(target).nodes.server_now_ms(PLACE)
    client_of(target).nodes.note_clock(PLACE, now_ms - 60_000)
    before = snapshot(there)
    assert await come(target, task) == "late"
    assert snapshot(there) == before


@pytest.mark.parametrize("field", ["deployment", "region"])
async def test_a_redis_of_another_owner_takes_nothing(
    store: RegionStore, target: RegionStore, there: Any, field: str
) -> None:
    task = await exporting(store)
    there.hset(KEYS.identity, field, "somebody-else")
    before = snapshot(there)
    with pytest.raises(IdentityMismatch) as caught:
        await come(target, task)
    assert (caught.value.field, caught.value.found) == (field, "somebody-else")
    assert snapshot(there) == before


async def test_a_redis_that_was_emptied_takes_nothing(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    there.flushall()
    with pytest.raises(IdentityMismatch):
        await come(target, task)
    assert there.dbsize() == 0


@pytest.mark.parametrize("epoch", [1, 2])
async def test_a_live_task_of_the_same_id_is_never_replaced(
    target: RegionStore, store: RegionStore, there: Any, epoch: int
) -> None:
    task = await exporting(store)
    await stored(target, a_task(task.record.task_id, epoch=epoch))
    before = snapshot(there)
    assert await come(target, task) == ("refused" if epoch == 1 else "known")
    assert snapshot(there) == before


@pytest.mark.parametrize(("epoch", "answer"), [(1, "imported"), (2, "refused"), (3, "refused")])
async def test_a_tombstone_of_this_epoch_or_a_higher_one_refuses_an_import(
    store: RegionStore, target: RegionStore, epoch: int, answer: str
) -> None:
    # "known" would make the courier let go of a task that nobody has.
    task = await exporting(store)
    await target.refuse(task.record.task_id, epoch)
    assert await come(target, task) == answer


# --- ack


async def test_a_let_go_task_is_a_pointer_with_nothing_of_the_task(
    store: RegionStore, target: RegionStore, raw: Any
) -> None:
    task = await moved(store, target)
    task_id = task.record.task_id
    pointer = await pointer_of(store, task_id)
    assert (pointer.mark, pointer.epoch, pointer.target) == (Mark.FORWARDED, 2, "us-east")
    assert set(raw.hkeys(KEYS.task(task_id))) == {"s", "ep", "mt", "rv"}
    assert 0 < raw.pttl(KEYS.task(task_id)) <= DAY_MS
    assert await store.moving(PLACE, limit=10) == []


async def test_letting_go_again_is_ok_and_with_other_facts_stale(
    store: RegionStore, target: RegionStore, raw: Any
) -> None:
    task_id = (await moved(store, target)).record.task_id
    before = snapshot(raw)
    assert await store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    assert not await store.ack_export(task_id, 2, "ap-south", keep_ms=DAY_MS)
    assert not await store.ack_export(task_id, 3, "us-east", keep_ms=DAY_MS)
    assert not await store.ack_export(an_id(), 2, "us-east", keep_ms=DAY_MS)
    assert snapshot(raw) == before


async def test_what_is_not_moving_cannot_be_let_go(store: RegionStore, raw: Any) -> None:
    record = await dead(store)
    before = snapshot(raw)
    assert not await store.ack_export(record.task_id, 1, "us-east", keep_ms=DAY_MS)
    assert not await store.ack_export(record.task_id, 2, "us-east", keep_ms=DAY_MS)
    assert snapshot(raw) == before


async def test_a_pointer_is_replaced_only_by_a_higher_epoch(
    store: RegionStore, target: RegionStore
) -> None:
    first = await moved(store, target)
    task_id = first.record.task_id
    back = await target.begin_export(await dead_again(target), "eu-west", groups=["us"])
    assert back is not None
    assert back.epoch == 3
    stale = replace(back, epoch=2)
    assert await store.import_task(stale, hops=b"", timeout_s=5) == "known"
    assert (await pointer_of(store, task_id)).epoch == 2
    assert await store.import_task(back, hops=b"h2", timeout_s=5) == "imported"
    record = await record_of(store, task_id)
    assert (record.state, record.epoch, record.target) == (State.PENDING, 3, "")
    # A late repeat of the first steps finds nothing to do.
    assert not await store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    assert await target.ack_export(task_id, 3, "eu-west", keep_ms=DAY_MS)
    assert await come(target, first) == "known"
    await store.settle_import(task_id, 3)


async def test_a_part_of_a_lane_ends_early_where_tasks_are_big(store: RegionStore) -> None:
    big = [await stored(store, a_task(packed=b"x" * 600_000)) for _ in range(3)]
    (lane,) = [lane for lane in await store.lanes(PLACE) if lane.kind == "ready"]
    first = await store.stranded(PLACE, lane, offset=0, limit=9)
    assert [record.task_id for record in first.records] == [task.task_id for task in big[:2]]
    assert (first.seen, first.more) == (2, True)
    rest = await store.stranded(PLACE, lane, offset=first.seen, limit=9)
    assert [record.task_id for record in rest.records] == [big[2].task_id]
    assert (rest.seen, rest.more) == (1, False)
