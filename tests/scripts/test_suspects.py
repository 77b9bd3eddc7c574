"""Suspects: tasks with crashes are claimed apart, and a death is counted whoever dies with it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.scripts.suspects import child_died, reaped, suspect
from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    PLACE,
    a_bury,
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
from tradewind.errors import StoreError
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    CancelRequested,
    Claim,
    Finish,
    Priority,
    Progress,
    Release,
    RetryAt,
    Settled,
)

H, N, L = Priority.HIGH, Priority.NORMAL, Priority.LOW
KEYS = keys_at()
Settle = Callable[[RegionStore, Claim], Awaitable[list[Settled | StoreError]]]
REPORTS: dict[str, Settle] = {
    "finish": lambda store, claim: store.finish([Finish(claim, b"", "", DAY_MS)]),
    "retry": lambda store, claim: store.retry([RetryAt(claim, 5_000, FAILURE)]),
    "bury": lambda store, claim: store.bury([a_bury(claim)]),
    "release": lambda store, claim: store.release([Release(claim)]),
    "confirm_cancel": lambda store, claim: store.confirm_cancel([Cancel(claim, DAY_MS)]),
}
each_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


DEATHS = {"worker lost": reaped, "child died": child_died}
each_death = pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)


# --- claimed apart


async def test_suspects_are_claimed_beside_the_limit_and_never_within_it(
    store: RegionStore,
) -> None:
    odd = [await suspect(store) for _ in range(3)]
    even = [await stored(store) for _ in range(3)]
    batch = await claim_batch(store, limit=2, suspects=1)
    assert [(c.task_id, c.suspect) for c in batch.claims] == [
        (even[0].task_id, False),
        (even[1].task_id, False),
        (odd[2].task_id, True),
    ]
    assert batch.depth == 3
    batch = await claim_batch(store, limit=0, suspects=1)
    assert [c.task_id for c in batch.claims] == [odd[1].task_id]


async def test_a_caller_without_room_for_suspects_gets_none_and_everything_else(
    store: RegionStore, raw: Any
) -> None:
    odd = await suspect(store)
    even = [(await stored(store)).task_id for _ in range(3)]
    batch = await claim_batch(store, limit=2)
    assert [c.task_id for c in batch.claims] == even[:2]
    assert [c.task_id for c in (await claim_batch(store)).claims] == even[2:]
    before = snapshot(raw)
    assert (await claim_batch(store)).claims == ()
    assert snapshot(raw) == before
    assert tickets(raw, suspect=True) == [odd.task_id]


async def test_more_room_for_suspects_is_no_room_for_others(store: RegionStore) -> None:
    for _ in range(3):
        await stored(store)
    assert len((await claim_batch(store, limit=1, suspects=5)).claims) == 1


async def test_suspects_go_high_before_normal_before_low_the_latest_crash_first(
    store: RegionStore,
) -> None:
    order = [L, N, H, N]
    ids = [(await suspect(store, await stored(store, a_task(priority=p)))).task_id for p in order]
    batch = await claim_batch(store, suspects=9)
    assert [(c.task_id, c.priority) for c in batch.claims] == [
        (ids[2], H),
        (ids[3], N),
        (ids[1], N),
        (ids[0], L),
    ]


async def test_suspects_that_waited_too_long_go_first_among_themselves(
    store: RegionStore, raw: Any
) -> None:
    low = await suspect(store, await stored(store, a_task(priority=L)))
    key = KEYS.ready("mail", L, suspect=True)
    raw.lset(key, 0, raw.lindex(key, 0).rpartition(":")[0] + ":1")
    await suspect(store, await stored(store, a_task(priority=H)))
    batch = await store.claim(
        PLACE,
        worker_id="w",
        lease_ms={"mail": 1_000},
        handlers=["send"],
        limit=0,
        suspects=1,
        starvation_ms={"mail": 60_000},
    )
    assert [c.task_id for c in batch.claims] == [low.task_id]


async def test_no_claim_drops_more_than_a_bounded_number_of_stale_suspects(
    store: RegionStore, raw: Any
) -> None:
    key = KEYS.ready("mail", 1, suspect=True)
    raw.rpush(key, *(f"{an_id()}:1:1" for _ in range(1_000)))
    assert (await claim_batch(store, suspects=2)).claims == ()
    assert raw.llen(key) == 1_000 - 130
    raw.delete(key)


async def test_a_copy_of_a_completed_fingerprint_ends_though_it_is_a_suspect(
    store: RegionStore,
) -> None:
    copy = await suspect(store, await stored(store, a_task(done_key=b"f" * 32)))
    first = await claimed(store, await stored(store, a_task(queue="first", done_key=b"f" * 32)))
    await store.finish([Finish(first, b"42", "", DAY_MS)])
    assert (await claim_batch(store, suspects=1)).claims == ()
    assert (await record_of(store, copy.task_id)).state is State.COMPLETED


async def test_the_longest_wait_counts_suspects_too(store: RegionStore, raw: Any) -> None:
    await suspect(store)
    key = KEYS.ready("mail", 1, suspect=True)
    raw.lset(key, 0, raw.lindex(key, 0).rpartition(":")[0] + ":1")
    ages_ms = await store.oldest()
    assert ages_ms.keys() == {("mail", N)}
    assert ages_ms["mail", N] > DAY_MS


# --- hints


async def test_a_crash_sets_the_hint_of_suspects_and_no_other(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store)
    raw.delete(KEYS.wake("mail"))
    await child_died(store, claim)
    assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.suspects("mail"))] == [0, 1]


@pytest.mark.parametrize(("suspects", "left"), [(0, 1), (1, 1), (2, 0)])
async def test_a_claim_passes_the_hint_on_while_suspects_remain(
    store: RegionStore, raw: Any, suspects: int, left: int
) -> None:
    await suspect(store)
    await suspect(store)
    raw.delete(KEYS.wake("mail"), KEYS.suspects("mail"))  # its taker is this claim
    await claim_batch(store, suspects=suspects)
    assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.suspects("mail"))] == [0, left]


async def test_a_sweep_sets_the_hint_anew(store: RegionStore, raw: Any) -> None:
    await suspect(store)
    raw.delete(KEYS.wake("mail"), KEYS.suspects("mail"))
    await store.sweep(PLACE, worker_id="w", queues=["other", "mail"], courier=False)
    assert [raw.llen(KEYS.wake("mail")), raw.llen(KEYS.suspects("mail"))] == [0, 1]
    assert raw.llen(KEYS.suspects("other")) == 0


# --- booked at claim


async def test_the_claim_of_a_suspect_books_a_crash(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store, await suspect(store))
    assert (claim.suspect, claim.crashes, claim.attempt) == (True, 2, 1)
    assert raw.hget(KEYS.task(claim.task_id), "cr") == "2"
    assert (await record_of(store, claim.task_id)).crashes == 1, "readers are told what it suffered"


async def test_the_first_claim_books_nothing(store: RegionStore) -> None:
    claim = await claimed(store)
    assert (claim.suspect, claim.crashes) == (False, 0)
    assert (await record_of(store, claim.task_id)).crashes == 0


@each_report
async def test_any_report_of_the_holder_takes_the_booking_back(
    store: RegionStore, raw: Any, report: Settle
) -> None:
    claim = await claimed(store, await suspect(store))
    assert await report(store, claim) == [Settled(claim.task_id, lost=False)]
    assert (await record_of(store, claim.task_id)).crashes == 1
    before = snapshot(raw)
    assert await report(store, claim) == [Settled(claim.task_id, lost=False)]
    assert snapshot(raw) == before


@each_report
async def test_a_report_of_one_who_is_not_the_holder_takes_nothing_back(
    store: RegionStore, raw: Any, report: Settle
) -> None:
    claim = await claimed(store, await suspect(store))
    before = snapshot(raw)
    for stranger in (claim._replace(token=claim.token - 1), claim._replace(epoch=2)):
        answer = Settled(claim.task_id, lost=True, state="PROCESSING")
        assert await report(store, stranger) == [answer]
    assert snapshot(raw) == before


@pytest.mark.parametrize("kind", ["retry", "bury", "release"])
async def test_a_report_that_ends_it_cancelled_takes_the_booking_back(
    store: RegionStore, kind: str
) -> None:
    claim = await claimed(store, await suspect(store))
    asked = await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert asked == CancelRequested(claim.task_id)
    answer = Settled(claim.task_id, lost=False, state="CANCELLED")
    assert await REPORTS[kind](store, claim) == [answer]
    record = await record_of(store, claim.task_id)
    assert (record.state, record.crashes) == (State.CANCELLED, 1)


async def test_neither_renewals_nor_progress_take_it_back(store: RegionStore, raw: Any) -> None:
    claim = await claimed(store, await suspect(store))
    await store.renew([claim], {"mail": 1_000})
    await store.progress([Progress(claim, 0.5, "")])
    assert raw.hget(KEYS.task(claim.task_id), "cr") == "2"


@each_death
async def test_a_death_counts_the_booked_crash_once(
    store: RegionStore, death: Callable[[RegionStore, Claim], Awaitable[State]]
) -> None:
    claim = await claimed(store, await suspect(store), lease_ms=0)
    assert await death(store, claim) is State.PENDING
    assert (await record_of(store, claim.task_id)).crashes == 2


@pytest.mark.parametrize("max_crashes", [1, 2, 4])
@each_death
async def test_a_task_that_always_kills_starts_max_crashes_times(
    store: RegionStore,
    max_crashes: int,
    death: Callable[[RegionStore, Claim], Awaitable[State]],
) -> None:
    task = await stored(store, a_task(max_crashes=max_crashes))
    ends = [await death(store, await claimed(store, task, lease_ms=0)) for _ in range(max_crashes)]
    assert ends == [State.PENDING] * (max_crashes - 1) + [State.DEAD_LETTER]
    record = await record_of(store, task.task_id)
    assert (record.death, record.crashes, record.attempts) == ("crashed", max_crashes, 0)
    assert record.settled


async def test_handed_back_runs_do_not_bring_a_suspect_nearer_to_its_end(
    store: RegionStore,
) -> None:
    task = await suspect(store, await stored(store, a_task(max_crashes=2)))
    for _ in range(5):
        await store.release([Release(await claimed(store, task))])
    record = await record_of(store, task.task_id)
    assert (record.state, record.crashes, record.attempts) == (State.PENDING, 1, 0)
