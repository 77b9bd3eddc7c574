"""Claims.claim: who gets what, in which order."""

from typing import Any

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
    record_of,
    stored,
)
from tradewind.state import State
from tradewind.task import Finish, Priority, Release, RetryAt

H, N, L = Priority.HIGH, Priority.NORMAL, Priority.LOW


async def taken(store: AnyStore, **options: Any) -> list[str]:
    """Ids of what a claim brings."""
    settings: dict[str, Any] = {
        "worker_id": "w1",
        "lease_ms": {"mail": LEASE_MS},
        "handlers": ["send"],
        "limit": 10,
        **options,
    }
    return [claim.task_id for claim in (await store.claim(PLACE, **settings)).claims]


async def test_a_claim_says_all_that_a_worker_needs(world: World) -> None:
    task = await stored(world.store, a_task(priority=H, packed=b"p", epoch=4))
    await world.advance(250)
    batch = await claim_batch(world.store, worker_id="w7")
    (claim,) = batch.claims
    assert (claim.task_id, claim.region, claim.partition) == (task.task_id, "eu-west", PLACE)
    assert (claim.queue, claim.name, claim.priority) == ("mail", "send", H)
    assert (claim.epoch, claim.attempt, claim.crashes, claim.hop_count) == (4, 1, 0, 0)
    assert (claim.packed, claim.hops, claim.suspect) == (b"p", b"", False)
    assert claim.claimed_ms - claim.ready_ms == 250
    assert (claim.claimed_ms, claim.created_ms) == (world.now_ms(), world.now_ms() - 250)
    assert claim.token >= world.now_ms() * 1000
    assert (batch.depth, batch.next_due_ms, batch.parked) == (0, -1, False)
    record = await record_of(world.store, task.task_id)
    assert (record.state, record.token, record.started_ms) == (
        *(State.PROCESSING, claim.token, world.now_ms()),
    )


async def test_high_goes_before_normal_before_low_and_each_in_order(store: AnyStore) -> None:
    given = [await stored(store, a_task(priority=p)) for p in (L, N, H, L, N, H)]
    ids = [task.task_id for task in given]
    assert await taken(store, limit=4) == [ids[2], ids[5], ids[1], ids[4]]
    assert await taken(store) == [ids[0], ids[3]]


async def test_only_the_callers_queues_are_claimed_and_the_limit_holds(store: AnyStore) -> None:
    ours = [await stored(store) for _ in range(3)]
    await stored(store, a_task(queue="other"))
    await stored(store, a_task(an_id(PLACE + 1)))
    assert await taken(store, limit=0) == []
    assert await taken(store, limit=2) == [task.task_id for task in ours[:2]]
    assert await taken(store) == [ours[2].task_id]


async def test_what_nobody_runs_stands_in_nobodys_way(store: AnyStore) -> None:
    strange = [await stored(store, a_task(name="resize")) for _ in range(3)]
    ours = await stored(store)
    batch = await claim_batch(store, limit=1)
    assert [claim.task_id for claim in batch.claims] == [ours.task_id]
    assert (batch.parked, batch.depth) == (True, 3)
    assert (await record_of(store, strange[0].task_id)).attempts == 0
    assert await taken(store, handlers=["resize"]) == [task.task_id for task in strange]


async def test_tokens_grow_whatever_happens(store: AnyStore) -> None:
    claim = await claimed(store)
    tokens = [claim.token]
    for _ in range(3):
        await store.release([Release(claim)])
        (claim,) = (await claim_batch(store)).claims
        tokens.append(claim.token)
    await store.bury([a_bury(claim)])
    await store.redrive(claim.task_id, claim.epoch)
    (claim,) = (await claim_batch(store)).claims
    tokens.append(claim.token)
    assert tokens == sorted(set(tokens))
    assert claim.attempt == 1


async def test_what_is_due_is_claimed_in_the_same_call(world: World) -> None:
    store = world.store
    late = await stored(store, a_task(delay_ms=30_000, priority=H))
    later = await stored(store, a_task(delay_ms=70_000))
    batch = await claim_batch(store)
    assert (batch.claims, batch.next_due_ms) == ((), 30_000)
    await world.advance(45_000)
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == [late.task_id]
    assert batch.next_due_ms == 25_000
    (claim,) = batch.claims
    assert claim.claimed_ms - claim.ready_ms == 15_000, "it could have started when it was due"
    assert (await record_of(store, later.task_id)).state is State.SCHEDULED


async def test_a_lower_priority_that_has_waited_too_long_goes_first(world: World) -> None:
    store = world.store
    low = await stored(store, a_task(priority=L))
    await world.advance(5_000)
    normal = await stored(store, a_task(priority=N))
    await world.advance(6_001)
    high = await stored(store, a_task(priority=H))
    patience = {"mail": 11_000}
    assert await taken(store, starvation_ms=patience) == [
        *(low.task_id, high.task_id, normal.task_id)
    ]


async def test_without_patience_the_order_is_strict(world: World) -> None:
    low = await stored(world.store, a_task(priority=L))
    await world.advance(DAY_MS)
    high = await stored(world.store, a_task(priority=H))
    assert await taken(world.store) == [high.task_id, low.task_id]


async def test_what_expired_is_not_taken_and_uses_no_place(world: World) -> None:
    store = world.store
    over = await stored(store, a_task(expires_ms=world.now_ms() + 5_000))
    good = await stored(store, a_task(expires_ms=world.now_ms() + 5_001))
    await world.advance(5_000)
    assert await taken(store, limit=1) == [good.task_id]
    record = await record_of(store, over.task_id)
    assert (record.state, record.settled, record.finished_ms) == (
        *(State.EXPIRED, True, world.now_ms()),
    )


async def test_a_task_that_runs_does_not_expire(world: World) -> None:
    store = world.store
    task = await stored(store, a_task(expires_ms=world.now_ms() + 5_000))
    claim = await claimed(store, task)
    await world.advance(6_000)
    await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=False)
    (settled,) = await store.finish([Finish(claim, b"", "", DAY_MS)])
    assert (await record_of(store, task.task_id)).state is State.COMPLETED
    assert settled


async def test_released_work_comes_first_and_a_retry_when_it_is_due(world: World) -> None:
    store = world.store
    first = await claimed(store)
    second = await stored(store)
    await store.release([Release(first)])
    claims = (await claim_batch(store)).claims
    assert [claim.task_id for claim in claims] == [first.task_id, second.task_id]
    assert claims[0].attempt == 1, "no attempt was used"
    failure = a_bury(claims[0]).failure
    await store.retry([RetryAt(claims[0], 10_000, failure)])
    assert await taken(store) == []
    await world.advance(10_000)
    (again,) = (await claim_batch(store)).claims
    assert (again.task_id, again.attempt) == (first.task_id, 2)


async def test_nobody_claims_what_is_dead_or_on_its_way(world: World) -> None:
    record = await dead(world.store)
    await dead(world.store)
    await world.store.begin_export(record, "us-east", groups=["eu"])
    assert await taken(world.store, suspects=5) == []


async def test_what_was_released_last_comes_first(store: AnyStore) -> None:
    claims = [await claimed(store) for _ in range(3)]
    await store.release([Release(claim) for claim in claims])
    assert await taken(store) == [claim.task_id for claim in reversed(claims)]
