"""cancel and confirm_cancel: what waits ends at once, what runs is asked, and nobody revives it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.scripts.world import (
    DAY_MS,
    FAILURE,
    LATER_MS,
    LEASE_MS,
    PLACE,
    a_bury,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    keys_at,
    let_expire,
    record_of,
    snapshot,
    stored,
    tickets,
)
from tradewind.errors import StoreError
from tradewind.state import Mark, State
from tradewind.store.region_store import RegionStore
from tradewind.task import (
    Cancel,
    Cancelled,
    CancelRequested,
    Claim,
    Finish,
    Pointer,
    Priority,
    Reaped,
    Release,
    Renewed,
    RetryAt,
    Settled,
    TooLateToCancel,
)

KEYS = keys_at()
Make = Callable[[RegionStore], Awaitable[str]]


async def pending(store: RegionStore) -> str:
    return (await stored(store, a_task(expires_ms=LATER_MS))).task_id


async def scheduled(store: RegionStore) -> str:
    return (await stored(store, a_task(delay_ms=60_000, expires_ms=LATER_MS))).task_id


async def failed(store: RegionStore) -> str:
    claim = await claimed(store, await stored(store, a_task(expires_ms=LATER_MS)))
    await store.retry([RetryAt(claim, 60_000, FAILURE)])
    return claim.task_id


async def buried(store: RegionStore) -> str:
    return (await dead(store)).task_id


async def settled(store: RegionStore) -> str:
    return (await dead(store, may_move=False)).task_id


WAITING: dict[str, Make] = {
    "pending": pending,
    "scheduled": scheduled,
    "failed": failed,
    "dead": buried,
    "dead for good": settled,
}
each_waiting = pytest.mark.parametrize("make", WAITING.values(), ids=WAITING)


async def asked(store: RegionStore, claim: Claim | None = None) -> Claim:
    """A running task whose cancel was asked for."""
    claim = claim or await claimed(store)
    answer = await store.cancel(claim.task_id, retention_ms=90_000)
    assert answer == CancelRequested(claim.task_id)
    return claim


@each_waiting
async def test_what_waits_ends_at_once_and_is_in_no_index(
    store: RegionStore, raw: Any, make: Make
) -> None:
    task_id = await make(store)
    assert await store.cancel(task_id, retention_ms=90_000) == Cancelled(task_id)
    record = await record_of(store, task_id)
    assert (record.state, record.settled, record.death) == (State.CANCELLED, True, "")
    assert record.finished_ms > 0
    assert 0 < raw.pttl(KEYS.task(task_id)) <= 90_000
    for zset in (KEYS.due_normal, KEYS.expiry, KEYS.dead, KEYS.dead_until, KEYS.outbox):
        assert not raw.exists(zset)


@each_waiting
async def test_what_was_cancelled_is_never_claimed_again(
    store: RegionStore, raw: Any, make: Make
) -> None:
    task_id = await make(store)
    other = await stored(store)
    await store.cancel(task_id, retention_ms=DAY_MS)
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == [other.task_id]
    await store.sweep(PLACE, worker_id="w", queues=["mail"], courier=True)
    assert (await record_of(store, task_id)).state is State.CANCELLED
    assert tickets(raw) == []


@each_waiting
async def test_a_second_cancel_gives_the_same_answer_and_changes_nothing(
    store: RegionStore, raw: Any, make: Make
) -> None:
    task_id = await make(store)
    first = await store.cancel(task_id, retention_ms=DAY_MS)
    before = snapshot(raw)
    assert await store.cancel(task_id, retention_ms=1) == first
    assert snapshot(raw) == before


async def test_a_retention_of_nothing_forgets_at_once(store: RegionStore, raw: Any) -> None:
    task_id = await pending(store)
    assert await store.cancel(task_id, retention_ms=0) == Cancelled(task_id)
    assert raw.pttl(KEYS.task(task_id)) <= 1


async def test_an_unknown_task_is_nothing_and_a_pointer_says_where_it_went(
    store: RegionStore,
) -> None:
    assert await store.cancel(an_id(), retention_ms=1) is None
    exported = await exporting(store)
    task_id = exported.record.task_id
    await store.ack_export(task_id, 2, "us-east", keep_ms=DAY_MS)
    pointer = Pointer(task_id, Mark.FORWARDED, 2, "us-east")
    assert await store.cancel(task_id, retention_ms=1) == pointer
    refused = an_id()
    await store.refuse(refused, 1)
    assert await store.cancel(refused, retention_ms=1) == Pointer(refused, Mark.REFUSED, 1)


async def test_what_has_ended_or_is_moving_is_too_late_and_left_alone(
    store: RegionStore, raw: Any
) -> None:
    claim = await claimed(store)
    await store.finish([Finish(claim, b"r", "", DAY_MS)])
    moving = (await exporting(store)).record.task_id
    expired = (await stored(store, a_task(expires_ms=1))).task_id
    before = snapshot(raw)
    for task_id, state in (
        (claim.task_id, State.COMPLETED),
        (moving, State.MOVING),
        (expired, State.EXPIRED),
    ):
        answer = await store.cancel(task_id, retention_ms=DAY_MS)
        assert answer == TooLateToCancel(task_id, state)
    assert snapshot(raw) == before


# --- tickets


async def test_tickets_do_not_pile_up_where_nobody_claims(store: RegionStore, raw: Any) -> None:
    for _ in range(5):
        kept = await stored(store)
        await store.cancel((await stored(store)).task_id, retention_ms=DAY_MS)
        await store.cancel(kept.task_id, retention_ms=DAY_MS)
        assert not raw.exists(KEYS.ready("mail", 1))


async def test_the_list_stays_while_another_of_its_priority_waits(
    store: RegionStore, raw: Any
) -> None:
    kept, gone = await stored(store), await stored(store)
    other = await stored(store, a_task(priority=Priority.LOW))
    await store.cancel(gone.task_id, retention_ms=DAY_MS)
    await store.cancel(other.task_id, retention_ms=DAY_MS)
    assert tickets(raw) == [kept.task_id, gone.task_id]
    assert not raw.exists(KEYS.ready("mail", 2))
    batch = await claim_batch(store)
    assert [claim.task_id for claim in batch.claims] == [kept.task_id]


async def test_parked_tickets_of_cancelled_tasks_are_dropped_by_sweeps(
    store: RegionStore, raw: Any
) -> None:
    tasks = [a_task(name="x") for _ in range(40)]
    await store.enqueue([*tasks, a_task(name="y")], timeout_s=5)
    await claim_batch(store)
    for task in tasks:
        await store.cancel(task.task_id, retention_ms=DAY_MS)
    for _ in range(3):
        await store.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert raw.hgetall(KEYS.parked) == {"mail": "1", "mail y": "1"}
    assert not raw.exists(f"{KEYS.prefix}parked:mail x")


async def test_a_live_parked_ticket_is_left_with_those_behind_it(
    store: RegionStore, raw: Any
) -> None:
    first, second = a_task(name="x"), a_task(name="x")
    await store.enqueue([first, second], timeout_s=5)
    await claim_batch(store)
    await store.cancel(second.task_id, retention_ms=DAY_MS)
    before = snapshot(raw)
    await store.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert snapshot(raw) == before
    batch = await claim_batch(store, handlers=["x"])
    assert [claim.task_id for claim in batch.claims] == [first.task_id]


# --- a task that runs


async def test_one_that_runs_is_marked_and_goes_on(store: RegionStore, raw: Any) -> None:
    claim = await asked(store)
    record = await record_of(store, claim.task_id)
    assert (record.state, record.cancel_requested) == (State.PROCESSING, True)
    before = snapshot(raw)
    await asked(store, claim)
    assert snapshot(raw) == before
    assert await store.renew([claim], {"mail": LEASE_MS}) == [
        Renewed(claim.task_id, claim.token, lost=False, cancel_requested=True)
    ]


async def test_the_holder_confirms(store: RegionStore, raw: Any) -> None:
    claim = await asked(store)
    cancel = Cancel(claim, DAY_MS)
    assert await store.confirm_cancel([cancel]) == [Settled(claim.task_id, lost=False)]
    record = await record_of(store, claim.task_id)
    assert (record.state, record.cancel_requested) == (State.CANCELLED, True)
    assert 90_000 < raw.pttl(KEYS.task(claim.task_id)) <= DAY_MS
    assert await store.cancel(claim.task_id, retention_ms=1) == Cancelled(claim.task_id)
    (late,) = await store.finish([Finish(claim, b"r", "", DAY_MS)])
    assert late == Settled(claim.task_id, lost=True, state="CANCELLED")
    assert (await record_of(store, claim.task_id)).result == b""


async def test_a_success_that_comes_first_counts_and_the_cancel_is_too_late(
    store: RegionStore,
) -> None:
    claim = await asked(store)
    assert await store.finish([Finish(claim, b"r", "", DAY_MS)]) == [
        Settled(claim.task_id, lost=False)
    ]
    assert await store.confirm_cancel([Cancel(claim, DAY_MS)]) == [
        Settled(claim.task_id, lost=True, state="COMPLETED")
    ]
    late = await store.cancel(claim.task_id, retention_ms=1)
    assert late == TooLateToCancel(claim.task_id, State.COMPLETED)
    assert (await record_of(store, claim.task_id)).result == b"r"


Report = Callable[[RegionStore, Claim], Awaitable[list[Settled | StoreError]]]
REPORTS: dict[str, Report] = {
    "retry": lambda store, claim: store.retry([RetryAt(claim, 0, FAILURE)]),
    "bury": lambda store, claim: store.bury([a_bury(claim)]),
    "release": lambda store, claim: store.release([Release(claim)]),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
async def test_any_other_report_ends_it_cancelled_however_often_it_is_made(
    store: RegionStore, raw: Any, report: Report
) -> None:
    claim = await asked(
        store, await claimed(store, await stored(store, a_task(expires_ms=LATER_MS)))
    )
    answer = [Settled(claim.task_id, lost=False, state="CANCELLED")]
    assert await report(store, claim) == answer
    assert (await record_of(store, claim.task_id)).state is State.CANCELLED
    assert 0 < raw.pttl(KEYS.task(claim.task_id)) <= 90_000
    before = snapshot(raw)
    assert await report(store, claim) == answer
    assert snapshot(raw) == before
    assert (await claim_batch(store)).claims == ()
    for zset in (KEYS.leases, KEYS.due_normal, KEYS.expiry, KEYS.dead, KEYS.outbox):
        assert not raw.exists(zset)


@pytest.mark.parametrize("max_crashes", [1, 3])
async def test_a_holder_that_dies_before_it_confirms_is_no_reason_to_run_it_again(
    store: RegionStore, max_crashes: int
) -> None:
    task = await stored(store, a_task(max_crashes=max_crashes))
    claim = await asked(store, await claimed(store, task, lease_ms=0))
    assert await store.reap(PLACE, limit=10) == [
        Reaped(task.task_id, "w1", State.CANCELLED, "mail")
    ]
    record = await record_of(store, task.task_id)
    assert (record.state, record.settled) == (State.CANCELLED, True)
    (late,) = await store.finish([Finish(claim, b"r", "", DAY_MS)])
    assert late == Settled(task.task_id, lost=True, state="CANCELLED")


async def test_the_request_outlasts_the_expiry(store: RegionStore, raw: Any) -> None:
    task = await stored(store, a_task(expires_ms=LATER_MS))
    claim = await asked(store, await claimed(store, task))
    let_expire(raw, task.task_id)
    await store.retry([RetryAt(claim, 0, FAILURE)])
    assert (await record_of(store, task.task_id)).state is State.CANCELLED


async def test_a_cancelled_fingerprint_leaves_no_done_mark(store: RegionStore, raw: Any) -> None:
    claim = await asked(
        store, await claimed(store, await stored(store, a_task(done_key=b"f" * 32)))
    )
    await store.confirm_cancel([Cancel(claim, DAY_MS)])
    assert raw.keys(f"{KEYS.prefix}done:*") == []
    again = await stored(store, a_task(done_key=b"f" * 32))
    assert (await claimed(store, again)).task_id == again.task_id


# --- all at once (C59)


class Worker:
    """Claims, and reports what chance says: success, failure, a hand-back or a cancel."""

    def __init__(self, store: RegionStore, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.successes: set[str] = set()

    async def work(self) -> None:
        """Until nothing is ready."""
        while claims := (await claim_batch(self.store, limit=3)).claims:
            for claim in claims:
                await asyncio.sleep(self.chance.random() / 200)
                await self.chance.choice([self.finish, self.finish, self.retry, self.obey])(claim)

    async def finish(self, claim: Claim) -> None:
        (said,) = await self.store.finish([Finish(claim, b"r", "", DAY_MS)])
        assert isinstance(said, Settled)
        if not said.lost:
            self.successes.add(claim.task_id)

    async def retry(self, claim: Claim) -> None:
        await self.store.retry([RetryAt(claim, 0, FAILURE)])

    async def obey(self, claim: Claim) -> None:
        (renewed,) = await self.store.renew([claim], {"mail": LEASE_MS})
        assert isinstance(renewed, Renewed)
        if renewed.cancel_requested:
            await self.store.confirm_cancel([Cancel(claim, DAY_MS)])
        else:
            await self.store.release([Release(claim)])


async def test_a_cancel_that_was_answered_holds_whatever_workers_do_meanwhile(
    store: RegionStore,
) -> None:
    tasks = [a_task() for _ in range(120)]
    await store.enqueue(tasks, timeout_s=5)
    chance = random.Random(59)
    workers = [Worker(store, chance) for _ in range(4)]
    answers: dict[str, object] = {}

    async def cancel(task_id: str) -> None:
        await asyncio.sleep(chance.random() / 5)
        answers[task_id] = await store.cancel(task_id, retention_ms=DAY_MS)

    cancels = (cancel(task.task_id) for task in tasks)
    await asyncio.gather(*cancels, *(worker.work() for worker in workers))
    await workers[0].work()
    for task in tasks:
        done = any(task.task_id in worker.successes for worker in workers)
        answer, state = answers[task.task_id], (await record_of(store, task.task_id)).state
        assert state is (State.COMPLETED if done else State.CANCELLED)
        assert isinstance(answer, CancelRequested | (TooLateToCancel if done else Cancelled))
