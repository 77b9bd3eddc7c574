"""The way back of a move: refused at the target, restored at the source, and tasks that return."""

from dataclasses import replace
from typing import Any

from tests.scripts.moving import come, dead_again, moved
from tests.scripts.world import (
    DAY_MS,
    PLACE,
    dead,
    exporting,
    keys_at,
    record_of,
    snapshot,
    tickets,
)
from tradewind.state import State
from tradewind.store.region_store import RegionStore

KEYS = keys_at()


async def test_a_fenced_import_can_never_happen(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    task_id = task.record.task_id
    assert await target.refuse_import(task_id, 2) == "fenced"
    before = snapshot(there)
    assert await come(target, task) == "refused"
    assert await target.refuse_import(task_id, 1) == "fenced"
    assert await come(target, task) == "refused"
    assert await target.read(task_id) is None
    assert snapshot(there) == before
    assert await come(target, replace(task, epoch=3)) == "imported"
    await target.settle_import(task_id, 3)


async def test_refusing_after_the_import_says_so_and_changes_nothing(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    await come(target, task)
    before = snapshot(there)
    assert await target.refuse_import(task.record.task_id, 2) == "imported"
    there.delete(KEYS.memory(task.record.task_id))
    assert await target.refuse_import(task.record.task_id, 2) == "imported"
    assert snapshot(there) == {k: v for k, v in before.items() if ":imp:" not in k}


async def test_a_refusal_does_not_forget_an_import_that_is_not_settled(
    store: RegionStore, target: RegionStore, there: Any
) -> None:
    task = await exporting(store)
    task_id = task.record.task_id
    await come(target, task)
    there.delete(KEYS.task(task_id), KEYS.counts, KEYS.ready("mail", 1))
    assert await target.refuse_import(task_id, 4) == "fenced"
    assert await come(target, task) == "known"
    assert await come(target, replace(task, epoch=4)) == "refused"
    assert await target.unsettled(PLACE, older_than_ms=-1_000) == [(task_id, 2)]
    assert there.ttl(KEYS.memory(task_id)) == -1
    assert await target.settle_import(task_id, 2)
    assert there.ttl(KEYS.memory(task_id)) > 0


async def test_an_aborted_move_restores_the_task_and_its_retention(
    store: RegionStore, raw: Any
) -> None:
    record = await dead(store)
    until_ms = raw.zscore(KEYS.dead_until, record.task_id)
    await store.begin_export(record, "us-east", groups=["eu"])
    state = await store.abort_export(
        record.task_id, 2, "us-east", reason="us-east: full", retry_after_ms=60_000
    )
    assert state is State.DEAD_LETTER
    restored = await record_of(store, record.task_id)
    assert restored == replace(
        record, epoch=2, failover="us-east: full", revision=restored.revision
    )
    assert raw.zscore(KEYS.dead, record.task_id) == record.finished_ms
    assert raw.zscore(KEYS.dead_until, record.task_id) == until_ms
    assert raw.zscore(KEYS.outbox, record.task_id) > record.finished_ms + 50_000
    assert await store.moving(PLACE, limit=10) == []
    again = await store.begin_export(restored, "ap-south", groups=["eu"])
    assert again is not None
    assert (again.epoch, again.target) == (3, "ap-south")


async def test_an_aborted_move_may_settle_the_task(store: RegionStore, raw: Any) -> None:
    task = await exporting(store)
    await store.abort_export(
        task.record.task_id, 2, "us-east", reason="for good", retry_after_ms=None
    )
    assert (await record_of(store, task.record.task_id)).settled
    assert raw.zcard(KEYS.outbox) == 0


async def test_aborting_with_other_facts_or_twice_is_stale(store: RegionStore, raw: Any) -> None:
    task_id = (await exporting(store)).record.task_id

    async def abort(epoch: int, target: str) -> State | None:
        return await store.abort_export(task_id, epoch, target, reason="r", retry_after_ms=60_000)

    before = snapshot(raw)
    for epoch, target in ((1, "us-east"), (3, "us-east"), (2, "ap-south")):
        assert await abort(epoch, target) is None
    assert snapshot(raw) == before
    assert await abort(2, "us-east") is State.DEAD_LETTER
    before = snapshot(raw)
    assert await abort(2, "us-east") is None
    assert not await store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    assert snapshot(raw) == before


async def test_a_pointer_cannot_be_aborted(store: RegionStore, target: RegionStore) -> None:
    task_id = (await moved(store, target)).record.task_id
    assert await store.abort_export(task_id, 2, "us-east", reason="r", retry_after_ms=0) is None


async def test_many_moves_are_listed_oldest_first_up_to_the_limit(
    store: RegionStore, raw: Any
) -> None:
    moves = [await exporting(store) for _ in range(3)]
    for score, move in zip((2, 3, 1), moves, strict=True):
        raw.zadd(KEYS.moving, {move.record.task_id: score})
    listed = await store.moving(PLACE, limit=2)
    assert [m.record.task_id for m in listed] == [
        moves[2].record.task_id,
        moves[0].record.task_id,
    ]
    assert tickets(raw) == []


async def test_a_task_that_returns_before_its_departure_is_acknowledged_has_to_wait(
    store: RegionStore, target: RegionStore, raw: Any
) -> None:
    first = await exporting(store)
    task_id = first.record.task_id
    await come(target, first)
    back = await target.begin_export(await dead_again(target), "eu-west", groups=["us"])
    assert back is not None
    before = snapshot(raw)
    assert await store.import_task(back, hops=b"", timeout_s=5) == "refused"
    assert snapshot(raw) == before
    assert await store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    assert await target.settle_import(task_id, 2)
    assert await store.import_task(back, hops=b"", timeout_s=5) == "imported"
    assert await target.ack_export(task_id, 3, "eu-west", keep_ms=DAY_MS)
    assert await store.settle_import(task_id, 3)
