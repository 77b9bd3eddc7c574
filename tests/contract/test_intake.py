"""The ports Intake and Ledger: what is stored, what is known already, and for how long."""

from dataclasses import replace
from typing import Any

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    a_mark,
    a_task,
    an_id,
    claim_batch,
    claimed,
    outcome,
    place_of,
    pointer_of,
    record_of,
    stored,
)
from tradewind.limits import HOUR_MS, REQUEST_ID_WINDOW_MS, RESERVATION_LEASE_MS, TOMBSTONE_MS
from tradewind.state import Mark, State
from tradewind.task import (
    Bury,
    Failure,
    Finish,
    LedgerHit,
    LedgerMark,
    NewTask,
    RetryAt,
    Stored,
    Tombstoned,
)


def marked(mark: LedgerMark, **fields: Any) -> NewTask:
    """A task in the partition of its entry."""
    return a_task(an_id(place_of(mark)), mark=mark, **fields)


async def test_a_batch_is_answered_in_its_order_with_what_was_ready_before_in_each_partition(
    store: AnyStore,
) -> None:
    tasks = [a_task(an_id(place), delay_ms=delay) for place, delay in ((5, 0), (2, 9_000), (5, 0))]
    outcomes, depths = await store.enqueue(tasks, timeout_s=5)
    assert outcomes == [
        Stored(tasks[0].task_id, State.PENDING, created=True),
        Stored(tasks[1].task_id, State.SCHEDULED, created=True),
        Stored(tasks[2].task_id, State.PENDING, created=True),
    ]
    assert depths == {5: 0, 2: 0}
    _, depths = await store.enqueue([a_task(an_id(place)) for place in (2, 5)], timeout_s=5)
    assert depths == {5: 2, 2: 0}


async def test_a_known_id_answers_its_state_and_nothing_changes(store: AnyStore) -> None:
    claim = await claimed(store)
    await store.finish([Finish(claim, b"r", "", DAY_MS)])
    before = await record_of(store, claim.task_id)
    again = await outcome(store, a_task(claim.task_id, queue="other", packed=b"new"))
    assert again == Stored(claim.task_id, State.COMPLETED, created=False)
    assert await record_of(store, claim.task_id) == before


async def test_what_is_stored_is_read(store: AnyStore) -> None:
    task = await stored(store, a_task(packed=b"\x00\xff", fence=("eu", "us"), epoch=2))
    record = await record_of(store, task.task_id)
    assert (record.packed, record.fence, record.epoch) == (b"\x00\xff", ("eu", "us"), 2)
    assert (record.region, record.state, record.attempts) == ("eu-west", State.PENDING, 0)
    assert not record.settled


async def test_a_tombstone_refuses_its_epoch_and_lower_ones(store: AnyStore) -> None:
    task = a_task()
    assert await store.refuse(task.task_id, 2) is None
    assert await store.refuse(task.task_id, 1) is None
    for epoch in (1, 2):
        assert await outcome(store, task._replace(epoch=epoch)) == Tombstoned(task.task_id)
    pointer = await pointer_of(store, task.task_id)
    assert (pointer.mark, pointer.epoch) == (Mark.REFUSED, 2)
    await stored(store, task._replace(epoch=3))


async def test_a_task_that_is_here_cannot_be_refused(store: AnyStore) -> None:
    task = await stored(store)
    answer = await store.refuse(task.task_id, 9)
    assert answer == Stored(task.task_id, State.PENDING, created=False)
    await claimed(store, task)


async def test_a_tombstone_ends(world: World) -> None:
    task = a_task()
    await world.store.refuse(task.task_id, 1)
    await world.advance(TOMBSTONE_MS)
    assert await world.store.read(task.task_id) is None
    await stored(world.store, task)


async def test_a_task_waits_for_the_later_of_delay_and_instant(world: World) -> None:
    now_ms = world.now_ms()
    both = a_task(delay_ms=5_000)._replace(not_before_ms=now_ms + 9_000)
    past = a_task()._replace(not_before_ms=now_ms)
    answers, _ = await world.store.enqueue([both, past], timeout_s=5)
    assert [a.state for a in answers if isinstance(a, Stored)] == [State.SCHEDULED, State.PENDING]
    assert (await record_of(world.store, both.task_id)).next_attempt_ms == now_ms + 9_000


# --- the entry that is stored with its task


async def test_an_entry_answers_the_next_submit_with_the_first_id(store: AnyStore) -> None:
    mark = a_mark()
    first = await stored(store, marked(mark))
    hit = await outcome(store, marked(mark._replace(request_tag=b"x" * 16)))
    assert hit == LedgerHit(first.task_id, "eu-west", 1, True, 0, mine=False, same_payload=True)
    repeat = await outcome(store, marked(mark))
    assert isinstance(repeat, LedgerHit)
    assert repeat.mine
    other = await outcome(store, marked(mark._replace(digest=b"o" * 16)))
    assert isinstance(other, LedgerHit)
    assert not other.same_payload


async def test_without_request_ids_no_submit_is_anothers_repeat(store: AnyStore) -> None:
    mark = a_mark(request_tag=b"")
    await stored(store, marked(mark))
    hit = await outcome(store, marked(mark))
    assert isinstance(hit, LedgerHit)
    assert not hit.mine


async def test_an_entry_lives_for_its_window_from_the_first_start(world: World) -> None:
    mark = a_mark(window_ms=60_000)
    await stored(world.store, marked(mark, delay_ms=30_000))
    await world.advance(60_000)
    assert isinstance(await outcome(world.store, marked(mark)), LedgerHit)
    await world.advance(30_000)
    await stored(world.store, marked(mark))


# --- reservations


async def test_a_reservation_is_left_alone_for_its_lease_and_then_adopted_once(
    world: World,
) -> None:
    store, mark, first = world.store, a_mark(), an_id()
    assert await store.reserve(mark, first, "us-east", 1) is None
    hit = await store.reserve(mark, an_id(), "eu-west", 1)
    assert hit is not None
    assert (hit.task_id, hit.region, hit.confirmed, hit.adopted) == (first, "us-east", False, False)
    assert hit.lease_left_ms == RESERVATION_LEASE_MS
    await world.advance(RESERVATION_LEASE_MS)
    answers = [await store.reserve(mark, an_id(), "eu-west", 1) for _ in range(2)]
    assert [hit.adopted for hit in answers if hit] == [True, False]


async def test_another_payload_adopts_nothing(world: World) -> None:
    mark = a_mark()
    await world.store.reserve(mark, an_id(), "us-east", 1)
    await world.advance(RESERVATION_LEASE_MS)
    hit = await world.store.reserve(mark._replace(digest=b"o" * 16), an_id(), "eu-west", 1)
    assert hit is not None
    assert (hit.same_payload, hit.adopted, hit.lease_left_ms) == (False, False, 0)


async def test_a_confirmed_entry_is_nobodys_to_adopt(world: World) -> None:
    store, mark, task_id = world.store, a_mark(), an_id()
    await store.reserve(mark, task_id, "us-east", 1)
    assert not await store.confirm(mark, task_id, 2)
    assert not await store.confirm(mark, an_id(), 1)
    assert await store.confirm(mark, task_id, 1)
    await world.advance(RESERVATION_LEASE_MS)
    hit = await store.reserve(mark, an_id(), "eu-west", 1)
    assert hit is not None
    assert (hit.confirmed, hit.adopted) == (True, False)
    assert not await store.unreserve(mark, task_id, 1)


async def test_a_reservation_moves_on_by_one_epoch_and_one_region(store: AnyStore) -> None:
    mark, task_id = a_mark(), an_id()
    await store.reserve(mark, task_id, "us-east", 1)
    assert await store.reserve(mark, task_id, "us-east", 1) is None, "a repeat"
    assert await store.reserve(mark, task_id, "ap-south", 1) is not None, "the region is chosen"
    assert await store.reserve(mark, task_id, "ap-south", 3) is not None, "one epoch at a time"
    assert await store.reserve(mark, task_id, "ap-south", 2) is None
    assert not await store.confirm(mark, task_id, 1)


async def test_a_reservation_is_taken_back_by_who_made_it(store: AnyStore) -> None:
    mark, task_id = a_mark(), an_id()
    await store.reserve(mark, task_id, "us-east", 1)
    assert not await store.unreserve(mark, an_id(), 1)
    assert not await store.unreserve(mark, task_id, 2)
    assert await store.unreserve(mark, task_id, 1)
    assert not await store.unreserve(mark, task_id, 1)
    assert await store.reserve(mark, an_id(), "us-east", 1) is None


async def test_the_key_of_a_cancelled_task_is_free_again(store: AnyStore) -> None:
    mark = a_mark()
    first = await stored(store, marked(mark))
    assert not await store.forget(mark, an_id())
    assert await store.forget(mark, first.task_id)
    assert not await store.forget(mark, first.task_id)
    await stored(store, marked(mark))


@pytest.mark.parametrize("ended", [State.CANCELLED, State.DEAD_LETTER])
async def test_a_freed_key_is_told_of_to_repeats_of_its_own_submit_only(
    store: AnyStore, ended: State
) -> None:
    mark = a_mark()
    first = await stored(store, marked(mark))
    assert await store.forget(mark, first.task_id, ended=ended)
    assert not await store.forget(mark, first.task_id, ended=ended)
    assert not await store.confirm(mark, first.task_id, 1)
    assert not await store.unreserve(mark, first.task_id, 1)

    told = LedgerHit(first.task_id, "eu-west", 1, True, 0, True, True, state=ended)
    assert await outcome(store, marked(mark)) == told
    for task_id in (an_id(), first.task_id):
        assert await store.reserve(mark, task_id, "us-east", 2) == told
    other = mark._replace(digest=b"e" * 16)
    assert await store.reserve(other, an_id(), "us-east", 1) == replace(told, same_payload=False)


@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("tag", [b"s" * 16, b""], ids=["another", "none"])
async def test_to_every_other_submit_a_freed_key_is_free(
    store: AnyStore, tag: bytes, confirmed: bool
) -> None:
    mark, first, second = a_mark(), an_id(), an_id()
    await store.reserve(mark, first, "us-east", 1)
    if confirmed:
        assert await store.confirm(mark, first, 1)
    assert await store.forget(mark, first, ended=State.CANCELLED)

    anew = mark._replace(request_tag=tag, digest=b"e" * 16)
    assert await store.reserve(anew, second, "ap-south", 1) is None

    hit = await store.reserve(anew._replace(request_tag=b"t" * 16), an_id(), "us-east", 1)
    assert hit is not None
    assert (hit.task_id, hit.confirmed, hit.mine, hit.state) == (second, False, False, None)
    assert await store.confirm(anew, second, 1)


async def test_a_task_that_is_stored_with_its_entry_takes_a_freed_key(store: AnyStore) -> None:
    mark = a_mark()
    first = await stored(store, marked(mark))
    assert await store.forget(mark, first.task_id, ended=State.CANCELLED)
    anew = mark._replace(request_tag=b"s" * 16)
    second = await stored(store, marked(anew))
    hit = await outcome(store, marked(anew))
    assert isinstance(hit, LedgerHit)
    assert (hit.task_id, hit.mine, hit.state) == (second.task_id, True, None)


async def test_a_submit_without_a_request_id_cannot_be_repeated_so_nothing_is_kept(
    store: AnyStore,
) -> None:
    mark = a_mark(request_tag=b"")
    first = await stored(store, marked(mark))
    assert await store.forget(mark, first.task_id, ended=State.CANCELLED)
    await stored(store, marked(mark))


async def test_a_freed_key_is_told_of_for_as_long_as_a_submit_may_be_repeated(
    world: World,
) -> None:
    mark = a_mark()
    first = await stored(world.store, marked(mark))
    assert await world.store.forget(mark, first.task_id, ended=State.CANCELLED)
    await world.advance(REQUEST_ID_WINDOW_MS - 60_000)
    assert isinstance(await outcome(world.store, marked(mark)), LedgerHit)
    await world.advance(120_000)
    await stored(world.store, marked(mark))


async def test_an_entry_of_a_request_id_lies_with_its_task(store: AnyStore) -> None:
    mark = a_mark(business=False)
    first, elsewhere = an_id(2), an_id(9)
    await store.reserve(mark, first, "eu-west", 1)
    assert await store.reserve(mark, elsewhere, "eu-west", 1) is None
    hit = await store.reserve(mark, an_id(2), "eu-west", 1)
    assert hit is not None
    assert hit.task_id == first


async def test_our_own_reservation_is_carried_through(store: AnyStore) -> None:
    mark = a_mark()
    task = marked(mark)
    await store.reserve(mark, task.task_id, "eu-west", 1)
    assert isinstance(await outcome(store, marked(mark)), LedgerHit)
    await stored(store, task)
    hit = await outcome(store, marked(mark))
    assert isinstance(hit, LedgerHit)
    assert (hit.task_id, hit.confirmed) == (task.task_id, True)


# --- copies of what was completed


async def test_a_copy_of_a_completed_fingerprint_gets_its_result(store: AnyStore) -> None:
    first, copy = (a_task(done_key=b"f" * 32) for _ in range(2))
    claim = await claimed(store, await stored(store, first))
    await store.finish([Finish(claim, b"the first's", "text/plain", DAY_MS)])
    await stored(store, copy)
    assert (await claim_batch(store)).claims == ()
    record = await record_of(store, copy.task_id)
    assert (record.state, record.attempts) == (State.COMPLETED, 0)
    assert (record.result, record.result_content_type) == (b"the first's", "text/plain")


@pytest.mark.parametrize("pass_ms", [DAY_MS, DAY_MS // 2])
async def test_a_completion_stops_copies_until_its_window_or_its_record_ends(
    world: World, pass_ms: int
) -> None:
    first, copy = (a_task(done_key=b"f" * 32) for _ in range(2))
    claim = await claimed(world.store, await stored(world.store, first))
    await world.store.finish([Finish(claim, b"r", "", 2 * pass_ms)])
    await world.advance(min(2 * pass_ms, DAY_MS) + 1_000)
    await stored(world.store, copy)
    assert len((await claim_batch(world.store)).claims) == 1


@pytest.mark.parametrize("dead", [False, True], ids=["waits for its retry", "redriven"])
async def test_past_its_own_window_a_task_is_nobodys_copy_and_is_run(
    world: World, dead: bool
) -> None:
    store, first, later = world.store, a_task(done_key=b"f" * 32), a_task(done_key=b"f" * 32)
    claim, failure = await claimed(store, await stored(store, first)), Failure("error", "boom")
    if dead:
        await store.bury([Bury(claim, "exhausted", failure, 9 * DAY_MS, may_move=False)])
    else:
        await store.retry([RetryAt(claim, DAY_MS + HOUR_MS, failure)])
    await world.advance(DAY_MS + 1_000)
    second = await claimed(store, await stored(store, later))
    await store.finish([Finish(second, b"the second's", "", DAY_MS)])
    if dead:
        assert await store.redrive(first.task_id, 1)
    await world.advance(HOUR_MS)
    assert [claim.task_id for claim in (await claim_batch(store)).claims] == [first.task_id]


async def test_a_finished_task_is_forgotten_after_its_retention(world: World) -> None:
    claim = await claimed(world.store)
    await world.store.finish([Finish(claim, b"r", "", REQUEST_ID_WINDOW_MS)])
    await world.advance(REQUEST_ID_WINDOW_MS // 2)
    assert (await record_of(world.store, claim.task_id)).settled
    await world.advance(REQUEST_ID_WINDOW_MS // 2)
    assert await world.store.read(claim.task_id) is None
