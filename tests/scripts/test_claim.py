"""claim: which tasks a worker gets, with which token, and what it leaves for others."""

from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    LEASE_MS,
    a_task,
    an_id,
    claim_batch,
    claimed,
    keys_at,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Failure, Finish, Priority, Release, RetryAt

H, N, L = Priority.HIGH, Priority.NORMAL, Priority.LOW
KEYS = keys_at()


async def test_nothing_ready_is_an_empty_batch(store: RegionStore) -> None:
    batch = await claim_batch(store)
    assert (batch.claims, batch.depth, batch.next_due_ms, batch.parked) == ((), 0, -1, False)
    assert batch.now_ms > 1_700_000_000_000


async def test_a_claim_carries_what_a_worker_needs(store: RegionStore, raw: Any) -> None:
    task = await stored(store, a_task(packed=b"\x00\xff"))
    batch = await claim_batch(store, lease_ms=5_000)
    (claim,) = batch.claims
    assert (claim.task_id, claim.queue, claim.name, claim.priority) == (
        *(task.task_id, "mail", "send", N),
    )
    assert (claim.attempt, claim.crashes, claim.epoch, claim.hop_count) == (1, 0, 1, 0)
    assert (claim.packed, claim.hops) == (b"\x00\xff", b"")
    assert claim.created_ms <= claim.ready_ms <= claim.claimed_ms == batch.now_ms
    assert raw.zscore(KEYS.leases, task.task_id) == batch.now_ms + 5_000
    record = await record_of(store, task.task_id)
    assert (record.state, record.token, record.attempts) == (State.PROCESSING, claim.token, 1)
    assert record.started_ms == batch.now_ms
    assert raw.hget(KEYS.task(task.task_id), "wk") == "w1"


async def test_plain_records_have_the_fields_that_the_scripts_count(
    store: RegionStore, raw: Any
) -> None:
    task = await stored(store, a_task())
    waiting = {"s", "n", "c", "p", "q"}  # FRESH in lib/tickets
    assert set(raw.hkeys(KEYS.task(task.task_id))) == waiting
    await claim_batch(store)
    running = waiting | {"rv", "tk", "at", "wk", "sa"}  # PLAIN in finish
    assert set(raw.hkeys(KEYS.task(task.task_id))) == running


async def test_high_goes_before_normal_before_low_and_oldest_first(store: RegionStore) -> None:
    order = [L, N, H, N, H, L]
    ids = [(await stored(store, a_task(priority=priority))).task_id for priority in order]
    batch = await claim_batch(store)
    assert [c.task_id for c in batch.claims] == [ids[i] for i in (2, 4, 1, 3, 0, 5)]


async def test_priorities_hold_across_queues(store: RegionStore) -> None:
    low = await stored(store, a_task(queue="a", priority=L))
    high = await stored(store, a_task(queue="b", priority=H))
    batch = await claim_batch(store, queues=["a", "b"])
    assert [(c.task_id, c.queue) for c in batch.claims] == [
        (high.task_id, "b"),
        (low.task_id, "a"),
    ]


async def test_each_queue_has_its_own_lease(store: RegionStore, raw: Any) -> None:
    short, long = await stored(store, a_task(queue="a")), await stored(store, a_task(queue="b"))
    batch = await store.claim(
        3, worker_id="w", lease_ms={"a": 1_000, "b": 9_000}, handlers=["send"], limit=5
    )
    assert raw.zscore(KEYS.leases, short.task_id) == batch.now_ms + 1_000
    assert raw.zscore(KEYS.leases, long.task_id) == batch.now_ms + 9_000


async def test_tasks_of_other_queues_are_left_alone(store: RegionStore, raw: Any) -> None:
    await stored(store, a_task(queue="other"))
    before = snapshot(raw)
    assert (await claim_batch(store)).claims == ()
    assert snapshot(raw) == before


async def test_the_limit_holds_and_the_hint_goes_on_while_work_remains(
    store: RegionStore, raw: Any
) -> None:
    for _ in range(3):
        await stored(store)
    raw.delete(KEYS.wake("mail"))  # its taker is this claim
    batch = await claim_batch(store, limit=2)
    assert (len(batch.claims), batch.depth) == (2, 1)
    assert raw.llen(KEYS.wake("mail")) == 1
    raw.delete(KEYS.wake("mail"))
    batch = await claim_batch(store, limit=2)
    assert (len(batch.claims), batch.depth) == (1, 0)
    assert raw.llen(KEYS.wake("mail")) == 0


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_nothing_takes_nothing(store: RegionStore, limit: int) -> None:
    await stored(store)
    batch = await claim_batch(store, limit=limit)
    assert (batch.claims, batch.depth) == ((), 1)


async def test_no_claim_takes_more_than_its_bound(store: RegionStore) -> None:
    await store.enqueue([a_task() for _ in range(150)], timeout_s=5)
    assert len((await claim_batch(store, limit=1_000)).claims) == 128


# --- stale tickets


async def test_stale_tickets_are_dropped_and_hide_nothing(store: RegionStore, raw: Any) -> None:
    stale = await stored(store)
    raw.lpush(KEYS.ready("mail", 1), *(f"{an_id()}:1:1" for _ in range(100)))
    raw.rpush(KEYS.ready("mail", 1), f"{stale.task_id}:99:1", f"{stale.task_id}:1:1")
    batch = await claim_batch(store, limit=1)
    assert [claim.task_id for claim in batch.claims] == [stale.task_id]
    assert (await claim_batch(store)).claims == ()
    assert tickets(raw) == []


async def test_one_call_drops_a_bounded_number_of_stale_tickets(
    store: RegionStore, raw: Any
) -> None:
    raw.rpush(KEYS.ready("mail", 1), *(f"{an_id()}:1:1" for _ in range(1_000)))
    assert (await claim_batch(store, limit=2)).claims == ()
    assert raw.llen(KEYS.ready("mail", 1)) == 1_000 - 130
    assert raw.llen(KEYS.wake("mail")) == 1
    raw.delete(KEYS.ready("mail", 1))


async def test_a_ticket_is_redeemed_once(store: RegionStore, raw: Any) -> None:
    await stored(store)
    raw.rpush(KEYS.ready("mail", 1), *raw.lrange(KEYS.ready("mail", 1), 0, -1))
    assert len((await claim_batch(store)).claims) == 1
    assert tickets(raw) == []


# --- handlers


async def test_what_the_caller_cannot_run_is_parked_for_one_that_can(
    store: RegionStore, raw: Any
) -> None:
    unknown, known = await stored(store, a_task(name="resize")), await stored(store)
    raw.delete(KEYS.wake("mail"))
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == [known.task_id]
    assert batch.parked
    assert batch.depth == 1
    assert raw.hgetall(KEYS.parked) == {"mail": "1", "mail resize": "1"}
    # An idle worker with the other handlers may be waiting; for others nothing is left.
    assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.others("mail"))] == [0, 1]
    batch = await claim_batch(store, handlers=["send", "resize"])
    assert [claim.task_id for claim in batch.claims] == [unknown.task_id]
    assert not batch.parked
    assert not raw.exists(KEYS.parked)
    assert raw.keys(f"{KEYS.prefix}parked:*") == []


async def test_a_claim_that_parks_uses_no_attempt(store: RegionStore) -> None:
    task = await stored(store, a_task(name="resize"))
    await claim_batch(store)
    record = await record_of(store, task.task_id)
    assert (record.state, record.attempts, record.token) == (State.PENDING, 0, 0)


async def test_tasks_that_cannot_be_run_hide_nothing_behind_them(store: RegionStore) -> None:
    await store.enqueue([a_task(name="resize") for _ in range(100)], timeout_s=5)
    last = await stored(store)
    batch = await claim_batch(store, limit=1)
    assert [claim.task_id for claim in batch.claims] == [last.task_id]


async def test_the_hint_goes_on_until_a_worker_that_can_run_it_takes_it(
    store: RegionStore, raw: Any
) -> None:
    await stored(store, a_task(name="resize"))
    for _ in range(3):
        raw.delete(KEYS.wake("mail"), KEYS.others("mail"))
        batch = await claim_batch(store)
        assert batch.parked
        assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.others("mail"))] == [0, 1]


async def test_parked_tasks_return_in_their_order_and_by_priority(store: RegionStore) -> None:
    order = [N, L, H, N]
    ids = [(await stored(store, a_task(name="x", priority=p))).task_id for p in order]
    await claim_batch(store)
    batch = await claim_batch(store, handlers=["x"], limit=3)
    assert [c.task_id for c in batch.claims] == [ids[i] for i in (2, 0, 3)]
    assert [c.task_id for c in (await claim_batch(store, handlers=["x"])).claims] == [ids[1]]


async def test_more_parked_than_wanted_stay_for_the_next_claim(
    store: RegionStore, raw: Any
) -> None:
    await store.enqueue([a_task(name="x") for _ in range(5)], timeout_s=5)
    await claim_batch(store)
    raw.delete(KEYS.wake("mail"))
    taken = [len((await claim_batch(store, handlers=["x"], limit=2)).claims) for _ in range(4)]
    assert taken == [2, 2, 1, 0]
    assert not raw.exists(KEYS.parked)


async def test_another_queues_parked_tasks_do_not_concern_the_caller(store: RegionStore) -> None:
    await stored(store, a_task(queue="other", name="x"))
    await claim_batch(store, queues=["other"])
    assert not (await claim_batch(store)).parked


async def test_stale_parked_tickets_are_dropped(store: RegionStore, raw: Any) -> None:
    await stored(store, a_task(name="x"))
    await claim_batch(store)
    raw.lpush(f"{KEYS.prefix}parked:mail x", f"{an_id()}:1:1")
    raw.hincrby(KEYS.parked, "mail", 1)
    raw.hincrby(KEYS.parked, "mail x", 1)
    assert len((await claim_batch(store, handlers=["x"])).claims) == 1
    assert not raw.exists(KEYS.parked)


# --- due


async def test_what_is_due_is_claimed_in_the_same_call(store: RegionStore, raw: Any) -> None:
    delayed = await stored(store, a_task(delay_ms=60_000))
    assert 0 < (await claim_batch(store)).next_due_ms <= 60_000
    raw.zadd(KEYS.due_normal, {delayed.task_id: 1})
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == [delayed.task_id]
    assert batch.next_due_ms == -1
    assert (await record_of(store, delayed.task_id)).next_attempt_ms == 0


async def test_a_claim_promotes_for_other_queues_too_and_wakes_them(
    store: RegionStore, raw: Any
) -> None:
    other = await stored(store, a_task(queue="other", delay_ms=60_000))
    raw.zadd(KEYS.due_normal, {other.task_id: 1})
    await claim_batch(store)
    assert tickets(raw, "other") == [other.task_id]
    assert raw.llen(KEYS.wake("other")) == 1


async def test_due_tasks_come_after_those_already_ready(store: RegionStore, raw: Any) -> None:
    due = await stored(store, a_task(delay_ms=60_000))
    ready = await stored(store)
    raw.zadd(KEYS.due_normal, {due.task_id: 1})
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == [ready.task_id, due.task_id]


async def test_a_due_entry_without_a_waiting_task_is_dropped(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    raw.zadd(KEYS.due_normal, {task.task_id: 1, an_id(): 1})
    assert len((await claim_batch(store)).claims) == 1
    assert raw.zcard(KEYS.due_normal) == 0


# --- tokens


async def test_tokens_grow_with_every_claim(store: RegionStore) -> None:
    task = await stored(store)
    tokens: list[int] = []
    for _ in range(5):
        claim = await claimed(store, task)
        tokens.append(claim.token)
        await store.release([Release(claim)])
    assert tokens == sorted(set(tokens))


async def test_a_token_never_goes_back_even_if_the_clock_does(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    ahead = 9_000_000_000_000_000  # microseconds: in the year 2255
    raw.hset(KEYS.task(task.task_id), "tk", ahead)
    first = await claimed(store, task)
    assert first.token == ahead + 1
    await store.retry([RetryAt(first, 0, Failure("error"))])
    assert (await claimed(store, task)).token == ahead + 2


# --- the done mark


async def test_a_copy_of_a_completed_fingerprint_gets_its_result_and_is_not_run(
    store: RegionStore, raw: Any
) -> None:
    first = await claimed(store, await stored(store, a_task(done_key=b"f" * 32)))
    await store.finish([Finish(first, b"42", "text/plain", DAY_MS)])
    copy = await stored(store, a_task(done_key=b"f" * 32))
    other = await stored(store, a_task(done_key=b"g" * 32))
    batch = await claim_batch(store, limit=1)
    assert [claim.task_id for claim in batch.claims] == [other.task_id]
    record = await record_of(store, copy.task_id)
    assert (record.state, record.result, record.result_content_type) == (
        *(State.COMPLETED, b"42", "text/plain"),
    )
    assert record.attempts == 0
    assert 0 < raw.pttl(KEYS.task(copy.task_id)) <= DAY_MS


async def test_a_copy_under_way_when_the_first_completes_is_stopped_at_its_redelivery(
    store: RegionStore,
) -> None:
    first = await stored(store, a_task(done_key=b"f" * 32))
    copy = await stored(store, a_task(done_key=b"f" * 32))
    batch = await claim_batch(store)
    by_id = {claim.task_id: claim for claim in batch.claims}
    await store.finish([Finish(by_id[first.task_id], b"1", "", DAY_MS)])
    await store.retry([RetryAt(by_id[copy.task_id], 0, Failure("error", "boom", "at line 1"))])
    assert (await claim_batch(store)).claims == ()
    record = await record_of(store, copy.task_id)
    assert (record.state, record.result) == (State.COMPLETED, b"1")


async def test_the_same_task_is_not_its_own_copy(store: RegionStore, raw: Any) -> None:
    task = await stored(store, a_task(done_key=b"f" * 32))
    raw.set(f"{KEYS.prefix}done:{(b'f' * 32).hex()}", task.task_id, px=60_000)
    assert (await claimed(store, task)).task_id == task.task_id


async def test_a_claim_waits_for_its_lease(store: RegionStore) -> None:
    task = await stored(store)
    await claimed(store, task, lease_ms=LEASE_MS)
    assert (await claim_batch(store)).claims == ()
