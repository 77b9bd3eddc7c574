"""The ports Outbox and Inbox: a dead letter leaves as one, and is that dead letter elsewhere."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_bury,
    a_task,
    claim_batch,
    claimed,
    dead,
    pointer_of,
    record_of,
    stored,
)
from tradewind.limits import TELL_FIRST_MS
from tradewind.state import Mark, State
from tradewind.task import DEAD, Bury, Claim, Exported, Failure, Progress, Record, RetryAt

LATER_MS = 10_000  # after its death it leaves


async def settled(world: World) -> Record:
    """Dead for good, after two attempts and a word of how far it came."""
    task = a_task(expires_ms=world.now_ms() + DAY_MS, fence=("eu", "us"), max_crashes=7)
    claim = await claimed(world.store, await stored(world.store, task))
    await world.store.retry([RetryAt(claim, 0, FAILURE)])
    (claim,) = (await claim_batch(world.store)).claims
    await world.store.progress([Progress(claim, 0.5, "half")])
    await world.store.bury([_bury(claim)])
    await world.advance(LATER_MS)
    return await record_of(world.store, claim.task_id)


def _bury(claim: Claim) -> Bury:
    return replace(
        a_bury(claim, may_move=False), failure=Failure("error", "böse\x00\n", 'a "trace"')
    )


async def leave(world: World, record: Record, source: AnyStore | None = None) -> Exported:
    exported = await (source or world.store).begin_export(
        record, "us-east", groups=["eu"], reason="evacuation"
    )
    assert exported is not None
    return exported


async def arrive(world: World, task: Exported) -> Record:
    assert await world.target.import_task(task, hops=b"hops", timeout_s=5) == "imported"
    return await record_of(world.target, task.record.task_id)


async def gone(world: World, task: Exported, order_ms: int = 7) -> None:
    task_id = task.record.task_id
    assert await world.store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS, order_ms=order_ms)
    assert await world.target.settle_import(task_id, 2)


async def listed(world: World) -> list[str]:
    """Every place at which the dead are listed."""
    return [
        record.task_id
        for store in (world.store, world.target)
        for record in (await store.dead_page(PLACE, after="", limit=9))[0]
    ]


async def test_a_settled_dead_letter_arrives_as_the_one_it_was(world: World) -> None:
    record = await settled(world)
    task = await leave(world, record)
    assert (task.former, task.reason, task.is_revived) == (State.DEAD_LETTER, "evacuation", False)
    assert await leave(world, record) == task, "a repeat"
    assert await world.store.moving(PLACE, limit=5) == [task]
    arrived = await arrive(world, task)
    assert arrived == replace(
        record,
        region="us-east",
        epoch=2,
        attempts=0,  # of its stay there: those of the last one stand in its route
        hops=b"hops",
        revision=arrived.revision,
    )
    assert arrived.failure == Failure("error", "böse\x00\n", 'a "trace"')
    assert arrived.settled
    counts = (await world.target.counts())["mail"]
    assert (counts.dead, sum(counts.pending)) == (1, 0)
    assert (await claim_batch(world.target)).claims == ()
    assert await world.target.outbox(PLACE, limit=5) == []
    await gone(world, task)
    assert (await pointer_of(world.store, record.task_id)).mark is Mark.FORWARDED
    assert (await world.store.counts()) == {}
    told = await world.store.evacuated(7)
    assert (told.moved, told.remaining) == (1, 0)


async def test_it_is_listed_once_before_and_once_after_and_never_twice(world: World) -> None:
    record = await settled(world)
    assert await listed(world) == [record.task_id]
    task = await leave(world, record)
    assert await listed(world) == []
    on_its_way = await record_of(world.store, record.task_id)
    assert (on_its_way.state, on_its_way.settled) == (State.MOVING, False)
    await arrive(world, task)
    assert await listed(world) == [record.task_id]
    await gone(world, task)
    assert await listed(world) == [record.task_id]


async def test_its_retention_goes_on_and_does_not_start_again(world: World) -> None:
    record = await settled(world)
    task = await leave(world, record)
    await world.advance(LATER_MS)
    (task,) = await world.store.moving(PLACE, limit=5)
    await arrive(world, task)
    await gone(world, task)
    for after_ms, is_kept in ((DAY_MS - 2 * LATER_MS - 1, True), (1, False)):
        await world.advance(after_ms)
        await world.target.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
        assert (await world.target.read(record.task_id) is not None) is is_kept


async def test_what_outlives_its_retention_on_its_way_is_gone_soon_after(world: World) -> None:
    record = await settled(world)
    await leave(world, record)
    await world.advance(DAY_MS)
    (task,) = await world.store.moving(PLACE, limit=5)
    assert task.resting is not None
    assert task.resting.left_ms == 0
    assert (await arrive(world, task)).state is State.DEAD_LETTER
    await gone(world, task)
    await world.target.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert await world.target.read(record.task_id) is None


async def test_it_is_redriven_there_as_it_would_have_been_at_home(world: World) -> None:
    task = await leave(world, await settled(world))
    arrived = await arrive(world, task)
    assert await world.target.redrive(arrived.task_id, 2)
    (claim,) = (await claim_batch(world.target)).claims
    assert (claim.attempt, claim.crashes, claim.hop_count) == (1, 0, 0)
    assert claim.token > task.record.token
    assert claim.hops == b"hops"
    await world.target.bury([_bury(claim)])
    found = await record_of(world.target, claim.task_id)
    assert found.fence == ("eu", "us")
    back = await world.target.begin_export(found, "eu-west", groups=["us"], reason="evacuation")
    assert back is not None
    assert (back.max_crashes, back.epoch, back.record.expires_ms) == (
        *(task.max_crashes, 3, task.record.expires_ms),
    )
    assert task.max_crashes == 7


async def test_what_is_redriven_there_still_expires(world: World) -> None:
    task = await leave(world, await settled(world))
    await world.advance(DAY_MS - LATER_MS)
    arrived = await arrive(world, task)
    assert arrived.state is State.DEAD_LETTER, "the dead do not expire"
    assert await world.target.redrive(arrived.task_id, 2)
    await world.target.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert (await record_of(world.target, arrived.task_id)).state is State.EXPIRED


async def test_moves_after_a_death_are_as_many_as_before(world: World) -> None:
    first = await world.store.begin_export(await dead(world.store), "us-east", groups=["eu"])
    assert first is not None
    await arrive(world, first)
    await gone(world, first, 0)
    (claim,) = (await claim_batch(world.target)).claims
    await world.target.bury([_bury(claim)])
    found = await record_of(world.target, claim.task_id)
    back = await world.target.begin_export(found, "eu-west", groups=["us"], reason="evacuation")
    assert back is not None
    assert await world.store.import_task(back, hops=b"", timeout_s=5) == "imported"
    arrived = await record_of(world.store, claim.task_id)
    assert (arrived.hop_count, arrived.epoch) == (1, 3)


@pytest.mark.parametrize("retry_after_ms", [0, None])
async def test_what_may_not_arrive_is_the_dead_letter_that_it_was(
    world: World, retry_after_ms: int | None
) -> None:
    record = await settled(world)
    await leave(world, record)
    assert await world.target.refuse_import(record.task_id, 2) == "fenced"
    state = await world.store.abort_export(
        record.task_id, 2, "us-east", reason="us-east: full", retry_after_ms=retry_after_ms
    )
    assert state is State.DEAD_LETTER
    restored = await record_of(world.store, record.task_id)
    assert restored == replace(record, epoch=2, revision=restored.revision)
    assert await world.store.outbox(PLACE, limit=5) == []
    assert await listed(world) == [record.task_id]
    await world.advance(DAY_MS - LATER_MS)
    await world.store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert await world.store.read(record.task_id) is None, "dead for a day since it died"


async def test_only_what_is_settled_leaves_as_it_is_and_nothing_else_for_its_death(
    world: World,
) -> None:
    at_rest, to_move = await settled(world), await dead(world.store)
    none = await world.store.begin_export(at_rest, "us-east", groups=["eu"])
    assert none is None
    none = await world.store.begin_export(to_move, "us-east", groups=["eu"], reason="evacuation")
    assert none is None
    none = await world.store.begin_export(at_rest, "us-east", groups=["no"], reason="evacuation")
    assert none is None, "outside its fence"


async def test_the_dead_are_read_by_when_they_died(world: World) -> None:
    first, second = await settled(world), await dead(world.store)
    part = await world.store.stranded(PLACE, DEAD, offset=0, limit=2)
    assert [record.task_id for record in part.records] == [first.task_id, second.task_id]
    assert (part.seen, part.more) == (2, True)
    part = await world.store.stranded(PLACE, DEAD, offset=2, limit=2)
    assert (part.records, part.seen, part.more) == ((), 0, False)
    swept = await world.store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    assert swept.dead == 2


@pytest.mark.parametrize(
    ("pools", "unseen"), [((), 2), (("us",), 2), (("us", "apac"), 1), (("eu", "apac"), 0)]
)
async def test_what_no_living_pool_may_see_is_counted(
    world: World, pools: tuple[str, ...], unseen: int
) -> None:
    store = world.store
    await stored(store, a_task(fence=("eu",)))
    await stored(store, a_task(fence=("apac", "mars")))
    await stored(store, a_task(fence=("us",)))
    (lane,) = [lane for lane in await store.lanes(PLACE) if lane.kind == "ready"]
    part = await store.stranded(PLACE, lane, offset=0, limit=9, groups=["us"], pools=pools)
    assert (len(part.records), part.seen, part.unseen) == (1, 3, unseen)


# --- whoever is to be told


async def noticed(store: AnyStore, **how: Any) -> list[str]:
    found = await store.notices(PLACE, limit=9, hold_ms=30_000)
    for notice in found:
        assert await store.noticed(notice, retry_after_ms=how.get("retry_after_ms"))
    return [notice.record.task_id for notice in found]


async def test_who_has_heard_of_a_death_hears_of_it_no_more(loud_world: World) -> None:
    world, record = loud_world, await settled(loud_world)
    assert await noticed(world.store) == [record.task_id]
    task = await leave(world, record)
    assert task.resting is not None
    assert task.resting.notice_ms is None
    await arrive(world, task)
    await world.advance(DAY_MS // 2)
    assert await noticed(world.target) == []
    await gone(world, task)


@pytest.mark.parametrize("in_hand", [True, False])
async def test_word_of_a_death_has_a_minute_to_be_passed_on_before_it_leaves(
    loud_world: World, *, in_hand: bool
) -> None:
    world, record = loud_world, await settled(loud_world)
    if in_hand:
        assert len(await world.store.notices(PLACE, limit=9, hold_ms=LATER_MS)) == 1
        await world.advance(LATER_MS)
    await world.advance(TELL_FIRST_MS - LATER_MS - 1)
    again = await world.store.begin_export(record, "us-east", groups=["eu"], reason="evacuation")
    assert again is None
    await world.advance(LATER_MS + 1)
    task = await leave(world, record)
    assert await world.store.notices(PLACE, limit=9, hold_ms=1) == []
    await arrive(world, task)
    assert await noticed(world.target) == [record.task_id], "nobody has told of it before"
    assert await noticed(world.target) == []


async def test_what_could_not_be_told_yet_is_told_there_when_it_is_due(loud_world: World) -> None:
    world, record = loud_world, await settled(loud_world)
    await noticed(world.store, retry_after_ms=600_000)
    task = await leave(world, record)
    await world.advance(LATER_MS)
    (task,) = await world.store.moving(PLACE, limit=5)
    await arrive(world, task)
    assert await world.target.notices(PLACE, limit=9, hold_ms=1) == []
    await world.advance(600_000 - LATER_MS)
    (notice,) = await world.target.notices(PLACE, limit=9, hold_ms=1)
    assert (notice.tries, notice.record.token) == (1, record.token)


async def test_what_came_back_is_told_when_it_was_due(loud_world: World) -> None:
    world, record = loud_world, await settled(loud_world)
    await noticed(world.store, retry_after_ms=600_000)
    await leave(world, record)
    await world.store.abort_export(record.task_id, 2, "us-east", reason="r", retry_after_ms=None)
    assert await noticed(world.store) == []
    await world.advance(600_000)
    assert await noticed(world.store) == [record.task_id]


# --- who comes between


async def cancelled(store: AnyStore, record: Record) -> State:
    await store.cancel(record.task_id, retention_ms=DAY_MS)
    return State.CANCELLED


async def redriven(store: AnyStore, record: Record) -> State:
    assert await store.redrive(record.task_id, record.epoch)
    return State.PENDING


@pytest.mark.parametrize("change", [cancelled, redriven])
async def test_what_was_changed_meanwhile_does_not_leave(
    world: World, change: Callable[[AnyStore, Record], Awaitable[State]]
) -> None:
    record = await settled(world)
    state = await change(world.store, record)
    none = await world.store.begin_export(record, "us-east", groups=["eu"], reason="evacuation")
    assert none is None
    assert (await record_of(world.store, record.task_id)).state is state
