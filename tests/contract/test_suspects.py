"""Crashes: suspects are claimed apart, and counted whoever dies with them."""

from collections.abc import Awaitable, Callable

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import World
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LEASE_MS,
    PLACE,
    a_bury,
    a_task,
    claim_batch,
    claimed,
    record_of,
    stored,
)
from tradewind.errors import StoreError
from tradewind.state import State
from tradewind.task import (
    Cancel,
    Claim,
    Crash,
    Failure,
    Finish,
    Priority,
    Record,
    Release,
    RetryAt,
    Settled,
)

REPORTS: dict[str, Callable[[AnyStore, Claim], Awaitable[list[Settled | StoreError]]]] = {
    "finish": lambda store, claim: store.finish([Finish(claim, b"", "", DAY_MS)]),
    "retry": lambda store, claim: store.retry([RetryAt(claim, 5_000, FAILURE)]),
    "bury": lambda store, claim: store.bury([a_bury(claim)]),
    "release": lambda store, claim: store.release([Release(claim)]),
    "confirm_cancel": lambda store, claim: store.confirm_cancel([Cancel(claim, DAY_MS)]),
}


def a_crash(claim: Claim, *, may_move: bool = True) -> Crash:
    return Crash(claim, "killed by signal 9", DAY_MS, may_move, failover="" if may_move else "no")


async def suspect(store: AnyStore, *, ready: int = 0) -> Claim:
    """The claim of the only suspect, beside `ready` others."""
    batch = await store.claim(
        PLACE,
        worker_id="w2",
        lease_ms={"mail": LEASE_MS},
        handlers=["send"],
        limit=ready,
        suspects=1,
    )
    (claim,) = [claim for claim in batch.claims if claim.suspect]
    return claim


async def crashed(store: AnyStore, claim: Claim) -> Settled:
    (answer,) = await store.crashed([a_crash(claim)])
    assert isinstance(answer, Settled)
    return answer


async def test_a_crash_is_counted_and_uses_no_attempt(store: AnyStore) -> None:
    claim = await claimed(store)
    assert await crashed(store, claim) == Settled(claim.task_id, lost=False)
    record = await record_of(store, claim.task_id)
    assert (record.state, record.crashes, record.attempts) == (State.PENDING, 1, 0)
    assert record.failure == Failure("worker-lost", "killed by signal 9")


async def test_suspects_take_no_place_and_come_only_to_who_asks(store: AnyStore) -> None:
    await crashed(store, await claimed(store))
    other = await stored(store, a_task(priority=Priority.LOW))
    batch = await claim_batch(store, limit=5)
    assert [claim.task_id for claim in batch.claims] == [other.task_id]
    claim = await suspect(store)
    assert (claim.suspect, claim.crashes, claim.attempt) == (True, 2, 1)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
async def test_any_report_takes_the_booked_crash_back(
    store: AnyStore, report: Callable[[AnyStore, Claim], Awaitable[list[Settled | StoreError]]]
) -> None:
    await crashed(store, await claimed(store))
    claim = await suspect(store)
    assert claim.crashes == 2
    await report(store, claim)
    assert (await record_of(store, claim.task_id)).crashes == 1


async def test_readers_see_the_crashes_that_were_suffered_and_not_the_booked_one(
    store: AnyStore,
) -> None:
    await crashed(store, await claimed(store))
    claim = await suspect(store)
    for read in (store.read, store.watch):
        found = await read(claim.task_id)
        assert isinstance(found, Record)
        assert (found.state, found.crashes) == (State.PROCESSING, 1)
    await crashed(store, claim)
    assert (await record_of(store, claim.task_id)).crashes == 2


async def test_too_many_crashes_are_a_death_of_their_own(store: AnyStore) -> None:
    task = await stored(store, a_task(max_crashes=2))
    first = await claimed(store, task)
    await crashed(store, first)
    claim = await suspect(store)
    expected = Settled(task.task_id, lost=False, state=State.DEAD_LETTER)
    assert await crashed(store, claim) == expected
    assert await crashed(store, claim) == expected, "saying it twice is harmless"
    record = await record_of(store, task.task_id)
    assert (record.state, record.death, record.crashes) == (State.DEAD_LETTER, "crashed", 2)
    assert [dead.task_id for dead in await store.outbox(PLACE, limit=5)] == [task.task_id]
    assert (await crashed(store, first)).lost, "the death is another run's"


async def test_a_death_that_takes_the_holder_along_is_counted_once(world: World) -> None:
    store = world.store
    await crashed(store, await claimed(store, await stored(store, a_task(max_crashes=3))))
    claim = await suspect(store)
    await world.advance(LEASE_MS)
    (reaped,) = await store.reap(PLACE, limit=5)
    assert (reaped.task_id, reaped.worker_id, reaped.state) == (
        *(claim.task_id, "w2", State.PENDING),
    )
    assert (await record_of(store, claim.task_id)).crashes == 2


async def test_a_redrive_clears_the_suspicion(store: AnyStore) -> None:
    await crashed(store, await claimed(store))
    claim = await suspect(store)
    await store.bury([a_bury(claim)])
    assert await store.redrive(claim.task_id, 1)
    (again,) = (await claim_batch(store)).claims
    assert (again.suspect, again.crashes) == (False, 0)


async def test_a_crash_of_somebody_else_s_run_is_lost(store: AnyStore) -> None:
    claim = await claimed(store)
    await store.release([Release(claim)])
    (newer,) = (await claim_batch(store)).claims
    assert (await crashed(store, claim)).lost
    assert (await record_of(store, newer.task_id)).crashes == 0
