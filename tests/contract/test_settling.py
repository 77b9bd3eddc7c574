"""Reports of who holds a task, by token and epoch; renewals and progress."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

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
    an_id,
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
    Finish,
    Progress,
    Release,
    Renewed,
    RetryAt,
    Settled,
)

Report = Callable[[AnyStore, Claim], Awaitable[list[Settled | StoreError]]]
REPORTS: dict[str, tuple[Report, State]] = {
    "finish": (lambda s, c: s.finish([Finish(c, b"r", "t", DAY_MS)]), State.COMPLETED),
    "retry": (lambda s, c: s.retry([RetryAt(c, 5_000, FAILURE)]), State.FAILED),
    "bury": (lambda s, c: s.bury([a_bury(c)]), State.DEAD_LETTER),
    "release": (lambda s, c: s.release([Release(c)]), State.PENDING),
    "confirm_cancel": (lambda s, c: s.confirm_cancel([Cancel(c, DAY_MS)]), State.CANCELLED),
}
each_report = pytest.mark.parametrize(("report", "state"), REPORTS.values(), ids=REPORTS)
but_success = pytest.mark.parametrize(
    "report", [report for name, (report, _) in REPORTS.items() if name != "finish"]
)


async def only(answers: Awaitable[list[Settled | StoreError]]) -> Settled:
    (answer,) = await answers
    assert isinstance(answer, Settled), answer
    return answer


@each_report
async def test_a_report_counts_once_and_its_repeat_is_harmless(
    store: AnyStore, report: Report, state: State
) -> None:
    claim = await claimed(store)
    assert await only(report(store, claim)) == Settled(claim.task_id, lost=False)
    before = await record_of(store, claim.task_id)
    assert before.state is state
    assert await only(report(store, claim)) == Settled(claim.task_id, lost=False)
    assert await record_of(store, claim.task_id) == before


@each_report
async def test_an_old_token_another_epoch_and_an_unknown_task_are_lost(
    store: AnyStore, report: Report, state: State
) -> None:
    del state
    old = await claimed(store)
    await store.release([Release(old)])
    (claim,) = (await claim_batch(store)).claims
    before = await record_of(store, claim.task_id)
    for wrong in (old, claim._replace(epoch=2)):
        assert await only(report(store, wrong)) == Settled(
            claim.task_id, lost=True, state=State.PROCESSING
        )
    unknown = claim._replace(task_id=an_id())
    assert await only(report(store, unknown)) == Settled(unknown.task_id, lost=True)
    assert await record_of(store, claim.task_id) == before


@but_success
async def test_whatever_is_reported_but_success_a_requested_cancel_comes_first(
    store: AnyStore, report: Report
) -> None:
    claim = await claimed(store)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    answer = await only(report(store, claim))
    assert not answer.lost
    assert (await record_of(store, claim.task_id)).state is State.CANCELLED


async def test_a_success_that_comes_first_counts(store: AnyStore) -> None:
    claim = await claimed(store)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    await store.finish([Finish(claim, b"r", "", DAY_MS)])
    record = await record_of(store, claim.task_id)
    assert (record.state, record.result, record.cancel_requested) == (State.COMPLETED, b"r", True)


async def test_a_completed_task_keeps_result_and_last_failure_without_its_traceback(
    world: World,
) -> None:
    claim = await claimed(world.store)
    await world.store.retry([RetryAt(claim, 1_000, FAILURE)])
    failed = await record_of(world.store, claim.task_id)
    assert (failed.failure, failed.next_attempt_ms) == (FAILURE, world.now_ms() + 1_000)
    await world.advance(1_000)
    (claim,) = (await claim_batch(world.store)).claims
    await world.store.finish([Finish(claim, b"\x00", "x/y", DAY_MS)])
    record = await record_of(world.store, claim.task_id)
    assert (record.result, record.result_content_type) == (b"\x00", "x/y")
    assert (record.attempts, record.settled, record.next_attempt_ms) == (2, True, 0)
    assert record.failure == replace(FAILURE, traceback="")


async def test_a_retry_past_its_expiry_is_the_end(world: World) -> None:
    task = await stored(world.store, a_task(expires_ms=world.now_ms() + 5_000))
    claim = await claimed(world.store, task)
    await world.advance(5_000)
    answer = await only(world.store.retry([RetryAt(claim, 1_000, FAILURE)]))
    assert answer == Settled(claim.task_id, lost=False, state=State.EXPIRED)
    assert (await record_of(world.store, task.task_id)).state is State.EXPIRED


async def test_a_dead_task_says_why_and_whether_it_may_move(store: AnyStore) -> None:
    claims = [await claimed(store) for _ in range(2)]
    await store.bury([a_bury(claims[0]), a_bury(claims[1], may_move=False)])
    moving, settled = [await record_of(store, claim.task_id) for claim in claims]
    assert (moving.death, moving.failure, moving.settled) == ("exhausted", FAILURE, False)
    assert (settled.failover, settled.settled) == ("no", True)
    assert [r.task_id for r in await store.outbox(PLACE, limit=9)] == [moving.task_id]


async def test_items_of_several_partitions_are_answered_in_order(store: AnyStore) -> None:
    claims = [await claimed(store, await stored(store, a_task(an_id(p)))) for p in (9, 1, 9)]
    lost = claims[1]._replace(token=1)
    answers = await store.finish([Finish(c, b"", "", DAY_MS) for c in (claims[0], lost, claims[2])])
    assert [a.lost for a in answers if isinstance(a, Settled)] == [False, True, False]


# --- leases


async def test_a_renewed_lease_counts_from_now(world: World) -> None:
    claim = await claimed(world.store, lease_ms=10_000)
    await world.advance(9_999)
    assert await world.store.renew([claim], {"mail": 10_000}) == [
        Renewed(claim.task_id, claim.token, lost=False)
    ]
    await world.advance(9_999)
    assert await world.store.reap(PLACE, limit=9) == []
    await world.advance(1)
    assert len(await world.store.reap(PLACE, limit=9)) == 1
    assert await world.store.renew([claim], {"mail": 10_000}) == [
        Renewed(claim.task_id, claim.token, lost=True)
    ]


async def test_a_report_past_the_lease_counts_while_nobody_else_has_the_task(
    world: World,
) -> None:
    claim = await claimed(world.store, lease_ms=10_000)
    await world.advance(60_000)
    assert not (await only(world.store.finish([Finish(claim, b"", "", DAY_MS)]))).lost
    assert await world.store.reap(PLACE, limit=9) == []


async def test_a_renewal_tells_of_a_requested_cancel(store: AnyStore) -> None:
    claim = await claimed(store)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    (answer,) = await store.renew([claim], {"mail": LEASE_MS})
    assert answer == Renewed(claim.task_id, claim.token, lost=False, cancel_requested=True)


# --- progress


async def test_progress_is_read_until_the_next_attempt(store: AnyStore) -> None:
    claim = await claimed(store)
    assert not (await only(store.progress([Progress(claim, 0.25, "a quarter")]))).lost
    record = await record_of(store, claim.task_id)
    assert (record.progress, record.progress_note) == (0.25, "a quarter")
    await store.release([Release(claim)])
    assert (await record_of(store, claim.task_id)).progress == 0
    assert (await only(store.progress([Progress(claim, 0.5)]))).lost


async def test_progress_is_cut_to_what_a_record_holds(store: AnyStore) -> None:
    claim = await claimed(store)
    await store.progress([Progress(claim, 7.0, "é" * 1_000)])
    record = await record_of(store, claim.task_id)
    assert (record.progress, record.progress_note) == (1.0, "é" * 512)
