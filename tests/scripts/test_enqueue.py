"""enqueue and refuse: what is stored, what is known, what may not be stored."""

from typing import Any

from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_mark,
    a_task,
    an_id,
    claim_batch,
    claimed,
    client_of,
    exporting,
    keys_at,
    outcome,
    place_of,
    pointer_of,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.errors import StoreError
from tradewind.state import Mark, State
from tradewind.store.region_store import RegionStore
from tradewind.task import Finish, LedgerHit, Priority, Stored, Tombstoned, TooLate

MARK = a_mark()
HOME = place_of(MARK)


async def test_a_new_task_is_stored_and_ready(store: RegionStore, raw: Any) -> None:
    task = a_task(fence=("eu", "uk"), max_crashes=7, priority=Priority.HIGH)
    assert await outcome(store, task) == Stored(task.task_id, State.PENDING, created=True)
    record = await record_of(store, task.task_id)
    assert (record.packed, record.fence, record.epoch) == (b"packed", ("eu", "uk"), 1)
    assert tickets(raw, priority=0) == [task.task_id]
    assert raw.hgetall(keys_at().counts) == {"p0:mail": "1", "P": "1"}
    assert raw.hget(keys_at().task(task.task_id), "mc") == "7"
    assert raw.llen(keys_at().wake("mail")) == 1
    assert 0 < raw.ttl(keys_at().wake("mail")) <= 60


async def test_a_second_task_sets_no_second_hint(store: RegionStore, raw: Any) -> None:
    await stored(store)
    await stored(store)
    assert raw.llen(keys_at().wake("mail")) == 1


async def test_a_delayed_task_waits_in_the_due_set(store: RegionStore, raw: Any) -> None:
    task = a_task(delay_ms=60_000)
    assert await outcome(store, task) == Stored(task.task_id, State.SCHEDULED, created=True)
    record = await record_of(store, task.task_id)
    assert record.next_attempt_ms == record.created_ms + 60_000
    assert raw.zscore(keys_at().due_normal, task.task_id) == record.next_attempt_ms
    assert tickets(raw) == []


async def test_the_answer_carries_what_was_ready_before_by_partition(store: RegionStore) -> None:
    tasks = [a_task(an_id(1)), a_task(an_id(2)), a_task(an_id(2)), a_task(an_id(9), delay_ms=9_000)]
    outcomes, depths = await store.enqueue(tasks, timeout_s=5)
    assert [type(o) for o in outcomes] == [Stored] * 4
    assert depths == {1: 0, 2: 0, 9: 0}
    _, depths = await store.enqueue([a_task(an_id(n)) for n in (1, 2, 9, 2)], timeout_s=5)
    assert depths == {1: 1, 2: 2, 9: 0}


async def test_a_known_id_answers_its_state_and_changes_nothing(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store)
    before = snapshot(raw)
    again = a_task(task.task_id, queue="other", packed=b"other")
    assert await outcome(store, again) == Stored(task.task_id, State.PENDING, created=False)
    assert snapshot(raw) == before


async def test_an_id_twice_in_one_call_is_stored_once(store: RegionStore, raw: Any) -> None:
    task = a_task()
    outcomes, _ = await store.enqueue([task, task], timeout_s=5)
    assert outcomes == [
        Stored(task.task_id, State.PENDING, created=True),
        Stored(task.task_id, State.PENDING, created=False),
    ]
    assert tickets(raw) == [task.task_id]


async def test_an_id_that_moved_on_is_known_as_moving(store: RegionStore) -> None:
    exported = await exporting(store)
    task_id = exported.record.task_id
    assert await store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    assert await outcome(store, a_task(task_id)) == Stored(task_id, State.MOVING, created=False)
    assert await store.refuse(task_id, 9) == Stored(task_id, State.MOVING, created=False)
    assert (await pointer_of(store, task_id)).target == "us-east"


async def test_a_refused_id_cannot_be_stored_at_that_epoch_or_a_lower_one(
    store: RegionStore, raw: Any
) -> None:
    task_id = an_id()
    assert await store.refuse(task_id, 2) is None
    pointer = await pointer_of(store, task_id)
    assert (pointer.mark, pointer.epoch) == (Mark.REFUSED, 2)
    assert raw.ttl(keys_at().task(task_id)) > 60
    before = snapshot(raw)
    for epoch in (1, 2):
        assert await outcome(store, a_task(task_id, epoch=epoch)) == Tombstoned(task_id)
    assert snapshot(raw) == before
    assert await outcome(store, a_task(task_id, epoch=3)) == Stored(
        task_id, State.PENDING, created=True
    )
    assert raw.ttl(keys_at().task(task_id)) == -1


async def test_refusing_again_never_lowers_the_epoch(store: RegionStore) -> None:
    task_id = an_id()
    await store.refuse(task_id, 4)
    assert await store.refuse(task_id, 2) is None
    assert (await pointer_of(store, task_id)).epoch == 4


async def test_refusing_a_stored_id_answers_it_and_changes_nothing(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store)
    before = snapshot(raw)
    assert await store.refuse(task.task_id, 5) == Stored(task.task_id, State.PENDING, created=False)
    assert snapshot(raw) == before


async def test_nothing_is_stored_once_not_after_has_passed(store: RegionStore, raw: Any) -> None:
    # A paused writer: its idea of the server's clock is a minute old when the script runs.
    now_ms = await client_of(store).nodes.server_now_ms(PLACE)
    client_of(store).nodes.note_clock(PLACE, now_ms - 60_000)
    task = a_task()
    before = snapshot(raw)
    assert await outcome(store, task) == TooLate(task.task_id)
    assert snapshot(raw) == before
    # The late answer told the time, so a repeat is stored.
    assert isinstance(await outcome(store, task), Stored)


async def test_a_late_repeat_of_a_stored_task_is_known(store: RegionStore) -> None:
    task = await stored(store)
    now_ms = await client_of(store).nodes.server_now_ms(PLACE)
    client_of(store).nodes.note_clock(PLACE, now_ms - 60_000)
    assert await outcome(store, task) == Stored(task.task_id, State.PENDING, created=False)


async def test_a_marked_task_writes_its_confirmed_entry_with_its_window(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store, a_task(an_id(HOME), mark=MARK, delay_ms=5_000))
    entry = keys_at(HOME).entry(MARK.key)
    assert raw.hget(entry, "id") == task.task_id
    assert raw.hget(entry, "cf") == "1"
    # The window counts from when the task may first start.
    assert DAY_MS < raw.pttl(entry) <= DAY_MS + 5_000


async def test_a_repeat_with_the_same_request_id_is_its_own_submit(store: RegionStore) -> None:
    first = await stored(store, a_task(an_id(HOME), mark=MARK))
    hit = await outcome(store, a_task(an_id(HOME), mark=MARK))
    assert hit == LedgerHit(
        first.task_id, "eu-west", 1, confirmed=True, lease_left_ms=0, mine=True, same_payload=True
    )


async def test_another_submit_of_the_same_key_is_a_duplicate(store: RegionStore) -> None:
    first = await stored(store, a_task(an_id(HOME), mark=MARK))
    other = a_mark(request_tag=b"s" * 16, digest=b"e" * 16)
    hit = await outcome(store, a_task(an_id(HOME), mark=other))
    assert isinstance(hit, LedgerHit)
    assert (hit.task_id, hit.mine, hit.same_payload) == (first.task_id, False, False)


async def test_a_submit_without_request_id_is_never_mine(store: RegionStore) -> None:
    without = a_mark(request_tag=b"")
    await stored(store, a_task(an_id(HOME), mark=without))
    hit = await outcome(store, a_task(an_id(HOME), mark=without))
    assert isinstance(hit, LedgerHit)
    assert not hit.mine


async def test_a_hit_stores_nothing(store: RegionStore, raw: Any) -> None:
    await stored(store, a_task(an_id(HOME), mark=MARK))
    before = snapshot(raw, HOME)
    await outcome(store, a_task(an_id(HOME), mark=MARK))
    assert snapshot(raw, HOME) == before


async def test_two_tasks_of_one_key_in_one_call_become_one(store: RegionStore) -> None:
    first, second = a_task(an_id(HOME), mark=MARK), a_task(an_id(HOME), mark=MARK)
    outcomes, _ = await store.enqueue([first, second], timeout_s=5)
    assert isinstance(outcomes[0], Stored)
    assert isinstance(outcomes[1], LedgerHit)
    assert outcomes[1].task_id == first.task_id


async def test_a_reservation_of_this_id_is_carried_through(store: RegionStore, raw: Any) -> None:
    task = a_task(an_id(HOME), mark=MARK)
    assert await store.reserve(MARK, task.task_id, "eu-west", 1) is None
    assert await outcome(store, task) == Stored(task.task_id, State.PENDING, created=True)
    assert raw.hget(keys_at(HOME).entry(MARK.key), "cf") == "1"


async def test_a_reservation_that_went_on_to_another_region_is_not_carried_through_late(
    store: RegionStore,
) -> None:
    task = a_task(an_id(HOME), mark=MARK)
    await store.reserve(MARK, task.task_id, "eu-west", 1)
    await store.reserve(MARK, task.task_id, "us-east", 2)
    hit = await outcome(store, task)
    assert isinstance(hit, LedgerHit)
    assert (hit.task_id, hit.region, hit.epoch) == (task.task_id, "us-east", 2)
    assert await store.read(task.task_id) is None


async def test_a_finished_and_forgotten_task_is_not_stored_again_by_its_repeat(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store, a_task(an_id(HOME), mark=MARK))
    claim = await claimed(store, task)
    await store.finish([Finish(claim, b"", "", retention_ms=DAY_MS)])
    raw.delete(keys_at(HOME).task(task.task_id))  # its retention has passed, its window has not
    hit = await outcome(store, task)
    assert isinstance(hit, LedgerHit)
    assert (hit.task_id, hit.confirmed) == (task.task_id, True)


async def test_an_abandoned_reservation_is_adopted_once(store: RegionStore, raw: Any) -> None:
    first_id = an_id(HOME)
    await store.reserve(MARK, first_id, "us-east", 1)
    in_flight = await outcome(store, a_task(an_id(HOME), mark=MARK))
    assert isinstance(in_flight, LedgerHit)
    assert in_flight.lease_left_ms > 0
    assert not in_flight.adopted
    raw.hset(keys_at(HOME).entry(MARK.key), "le", 1)
    adopted = await outcome(store, a_task(an_id(HOME), mark=MARK))
    assert isinstance(adopted, LedgerHit)
    assert (adopted.task_id, adopted.region, adopted.adopted) == (first_id, "us-east", True)
    again = await outcome(store, a_task(an_id(HOME), mark=MARK))
    assert isinstance(again, LedgerHit)
    assert not again.adopted
    assert again.lease_left_ms > 0


async def test_an_abandoned_reservation_of_another_payload_is_left_to_its_judge(
    store: RegionStore, raw: Any
) -> None:
    # Nobody can carry it through without its payload: the caller fences it, then removes it.
    await store.reserve(MARK, an_id(HOME), "us-east", 1)
    raw.hset(keys_at(HOME).entry(MARK.key), "le", 1)
    hit = await outcome(store, a_task(an_id(HOME), mark=a_mark(digest=b"e" * 16)))
    assert isinstance(hit, LedgerHit)
    assert (hit.confirmed, hit.lease_left_ms, hit.same_payload, hit.adopted) == (
        *(False, 0, False, False),
    )


async def test_a_task_of_every_size_of_queue_name_keeps_to_its_partition(
    store: RegionStore,
) -> None:
    odd = "a.b:c/d-e_f" * 18
    await stored(store, a_task(queue=odd, name=odd))
    batch = await claim_batch(store, queues=[odd], handlers=[odd])
    assert [claim.queue for claim in batch.claims] == [odd]


async def test_a_thousand_tasks_in_one_call_keep_their_order(store: RegionStore) -> None:
    tasks = [a_task(an_id(n % 16)) for n in range(1000)]
    outcomes, _ = await store.enqueue(tasks, timeout_s=10)
    assert [o.task_id for o in outcomes if not isinstance(o, StoreError)] == [
        task.task_id for task in tasks
    ]
    _, depths = await store.enqueue([a_task(an_id(n)) for n in range(16)], timeout_s=10)
    assert sum(depths.values()) == 1000
