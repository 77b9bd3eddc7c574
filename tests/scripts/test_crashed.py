"""crashed: a child that died, and wherever a suspect may be besides its list."""

from dataclasses import replace
from typing import Any

import pytest

from tests.scripts.suspects import a_crash, child_died, suspect
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    PLACE,
    a_bury,
    a_task,
    claim_batch,
    claimed,
    dead,
    keys_at,
    let_expire,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Failure,
    Release,
    RetryAt,
    Settled,
)

KEYS = keys_at()


# --- crashed


async def test_a_dead_child_makes_a_suspect_at_the_head_without_using_an_attempt(
    store: RegionStore, raw: Any
) -> None:
    first = await suspect(store)
    claim = await claimed(store, await stored(store, a_task(queue="other")))
    claim = await claimed(store)
    await child_died(store, claim)
    record = await record_of(store, claim.task_id)
    assert (record.state, record.attempts, record.crashes) == (State.PENDING, 0, 1)
    assert record.failure == Failure("worker-lost", "the child died of signal 9")
    assert tickets(raw, suspect=True) == [claim.task_id, first.task_id]
    assert raw.hget(KEYS.task(claim.task_id), "wk") is None
    assert raw.zrange(KEYS.leases, 0, -1) != [claim.task_id]


@pytest.mark.parametrize("ends", ["waits", "dead", "cancelled"])
async def test_saying_that_a_child_died_twice_is_harmless(
    store: RegionStore, raw: Any, ends: str
) -> None:
    claim = await claimed(store, await stored(store, a_task(max_crashes=1 + (ends != "dead"))))
    if ends == "cancelled":
        await store.cancel(claim.task_id, retention_ms=DAY_MS)
    state = {"waits": "", "dead": "DEAD_LETTER", "cancelled": "CANCELLED"}[ends]
    answer = [Settled(claim.task_id, lost=False, state=state)]
    assert await store.crashed([a_crash(claim)]) == answer
    before = snapshot(raw)
    assert await store.crashed([a_crash(claim)]) == answer
    assert snapshot(raw) == before


async def test_only_the_holder_can_say_so(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store)
    before = snapshot(raw)
    for stranger in (claim._replace(token=claim.token - 1), claim._replace(epoch=2)):
        answer = Settled(claim.task_id, lost=True, state="PROCESSING")
        assert await store.crashed([a_crash(stranger)]) == [answer]
    assert snapshot(raw) == before
    await store.bury([a_bury(claim)])
    answer = Settled(claim.task_id, lost=True, state="DEAD_LETTER")
    assert await store.crashed([a_crash(claim)]) == [answer]
    raw.delete(*snapshot(raw))
    assert await store.crashed([a_crash(claim)]) == [Settled(claim.task_id, lost=True)]


async def test_the_last_crash_of_a_task_that_may_move_puts_it_before_the_courier(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store, await stored(store, a_task(max_crashes=1)))
    await store.crashed([a_crash(claim, may_move=True)])
    record = await record_of(store, claim.task_id)
    assert (record.state, record.settled) == (State.DEAD_LETTER, False)
    assert raw.zscore(KEYS.outbox, claim.task_id) == record.finished_ms + 7_000
    assert raw.zscore(KEYS.dead_until, claim.task_id) == record.finished_ms + DAY_MS


async def test_the_last_crash_of_one_that_may_not_says_why(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store, await stored(store, a_task(max_crashes=1)))
    await store.crashed([a_crash(claim)])
    record = await record_of(store, claim.task_id)
    assert (record.settled, record.failover) == (True, "stays")
    assert raw.zcard(KEYS.outbox) == 0


async def test_one_that_crashes_past_its_expiry_ends_at_the_next_look(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store, await stored(store, a_task(expires_ms=LATER_MS)))
    let_expire(raw, claim.task_id)
    assert await child_died(store, claim) is State.PENDING
    assert (await claim_batch(store, suspects=1)).claims == ()
    assert (await record_of(store, claim.task_id)).state is State.EXPIRED


# --- where else a suspect may be


async def test_a_suspect_that_the_caller_cannot_run_is_parked(store: RegionStore, raw: Any) -> None:
    odd = await suspect(store, await stored(store, a_task(name="resize")))
    batch = await claim_batch(store, suspects=1)
    assert (batch.claims, batch.parked) == ((), True)
    assert raw.hgetall(KEYS.parked) == {"mail": "1", "mail resize": "1"}
    assert tickets(raw, suspect=True) == []
    # One with the handler but no room takes it to the suspects, where it stands in nobody's way.
    raw.delete(KEYS.suspects("mail"), KEYS.others("mail"))
    assert (await claim_batch(store, handlers=["resize"])).claims == ()
    assert tickets(raw, suspect=True) == [odd.task_id]
    assert [raw.llen(KEYS.suspects("mail")), raw.llen(KEYS.others("mail"))] == [1, 0]
    (claim,) = (await claim_batch(store, handlers=["resize"], suspects=1)).claims
    assert (claim.task_id, claim.suspect) == (odd.task_id, True)


async def test_a_suspect_whose_attempt_failed_is_one_when_it_is_due(
    store: RegionStore, raw: Any
) -> None:
    odd = await suspect(store)
    await store.retry([RetryAt(await claimed(store, odd), 0, FAILURE)])
    raw.delete(KEYS.wake("mail"), KEYS.suspects("mail"))
    assert (await claim_batch(store)).claims == ()
    assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.suspects("mail"))] == [0, 1]
    claim = await claimed(store, odd)
    assert (claim.suspect, claim.crashes, claim.attempt) == (True, 2, 2)


async def test_a_due_suspect_is_claimed_in_the_same_call(store: RegionStore) -> None:
    odd = await suspect(store)
    await store.retry([RetryAt(await claimed(store, odd), 0, FAILURE)])
    assert (await claimed(store, odd)).suspect


async def test_a_released_suspect_returns_to_the_head_of_its_list(
    store: RegionStore, raw: Any
) -> None:
    ids = [(await suspect(store)).task_id for _ in range(2)]
    (claim,) = (await claim_batch(store, suspects=1)).claims
    raw.delete(KEYS.wake("mail"), KEYS.suspects("mail"))
    await store.release([Release(claim)])
    assert tickets(raw, suspect=True) == [ids[1], ids[0]]
    assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.suspects("mail"))] == [0, 1]


async def test_a_redriven_task_is_no_suspect(store: RegionStore) -> None:
    task = await stored(store, a_task(max_crashes=1))
    await child_died(store, await claimed(store, task))
    assert await store.redrive(task.task_id, 1)
    (claim,) = (await claim_batch(store, limit=1)).claims
    assert (claim.suspect, claim.crashes) == (False, 0)


async def test_a_dead_suspect_that_moves_arrives_as_none(store: RegionStore) -> None:
    died = await dead(store, await suspect(store))
    assert died.crashes == 1
    exported = await store.begin_export(died, "us-east", groups=["eu"])
    assert exported is not None
    assert await store.ack_export(died.task_id, 2, "us-east", keep_ms=DAY_MS)
    back = replace(exported, epoch=3)  # as if it had died there and come back
    assert await store.import_task(back, hops=b"", timeout_s=5) == "imported"
    (claim,) = (await claim_batch(store, limit=1)).claims
    assert (claim.task_id, claim.suspect, claim.crashes) == (died.task_id, False, 0)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("ends", ["cancelled", "expired"])
async def test_a_waiting_suspect_that_ends_leaves_no_ticket_once_it_is_the_last(
    store: RegionStore, raw: Any, ends: str, last: bool
) -> None:
    odd = await suspect(store, await stored(store, a_task(expires_ms=LATER_MS)))
    if not last:
        await suspect(store)
    other = await stored(store)
    if ends == "cancelled":
        await store.cancel(odd.task_id, retention_ms=DAY_MS)
    else:
        let_expire(raw, odd.task_id)
        await store.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert (await record_of(store, odd.task_id)).state in {State.CANCELLED, State.EXPIRED}
    assert raw.exists(KEYS.ready("mail", 1, suspect=True)) == (0 if last else 1)
    assert tickets(raw) == [other.task_id]


# --- tickets made before suspects had lists of their own


async def test_an_older_ticket_of_a_suspect_is_not_run_among_the_others(
    store: RegionStore, raw: Any
) -> None:
    odd, even = await stored(store), await stored(store)
    raw.hset(KEYS.task(odd.task_id), "cr", 1)
    batch = await claim_batch(store, limit=1)
    assert [c.task_id for c in batch.claims] == [even.task_id]
    assert tickets(raw, suspect=True) == [odd.task_id]
    assert raw.llen(KEYS.suspects("mail")) == 1
    claim = await claimed(store, odd)
    assert (claim.suspect, claim.crashes) == (True, 2)


async def test_an_older_ticket_of_a_suspect_can_be_claimed_at_once(
    store: RegionStore, raw: Any
) -> None:
    odd = await stored(store)
    raw.hset(KEYS.task(odd.task_id), "cr", 1)
    (claim,) = (await claim_batch(store, limit=1, suspects=1)).claims
    assert (claim.task_id, claim.suspect) == (odd.task_id, True)
