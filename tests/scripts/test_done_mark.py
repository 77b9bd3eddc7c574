"""The done mark's life: no longer than the window that it stands for. Its effect: test_claim.py."""

from typing import Any

from tests.scripts.world import DAY_MS, a_task, claim_batch, claimed, keys_at, now_ms, stored
from tradewind.store.region_store import RegionStore
from tradewind.task import Failure, Finish, RetryAt

KEYS = keys_at()
KEY = b"f" * 32
MARK = f"{KEYS.prefix}done:{KEY.hex()}"


async def finish(store: RegionStore, raw: Any, *, until_ms: int = 0) -> None:
    """Complete a task whose record is kept for nine windows."""
    task = await stored(store, a_task(done_key=KEY))
    if until_ms:
        raw.hset(KEYS.task(task.task_id), "dd", f"{KEY.hex()}:{until_ms}")
    held = await claimed(store, task)
    (settled,) = await store.finish([Finish(held, b"1", "", 9 * DAY_MS)])
    assert not getattr(settled, "lost", True)


async def test_it_ends_with_the_window_however_long_the_record_is_kept(
    store: RegionStore, raw: Any
) -> None:
    await finish(store, raw)
    assert DAY_MS - 60_000 < raw.pttl(MARK) <= DAY_MS


async def test_a_task_that_ends_after_its_window_leaves_none(store: RegionStore, raw: Any) -> None:
    await finish(store, raw, until_ms=1)
    assert not raw.exists(MARK)


async def test_it_never_outlives_the_record_that_has_the_result(
    store: RegionStore, raw: Any
) -> None:
    await finish(store, raw, until_ms=await now_ms(store) + 30 * DAY_MS)
    assert 9 * DAY_MS - 60_000 < raw.pttl(MARK) <= 9 * DAY_MS


async def test_the_window_of_a_delayed_task_counts_from_its_start(
    store: RegionStore, raw: Any
) -> None:
    in_a_day_ms = await now_ms(store) + DAY_MS
    for task in (
        await stored(store, a_task(done_key=KEY, delay_ms=DAY_MS)),
        await stored(store, a_task(done_key=KEY, not_before_ms=in_a_day_ms)),
    ):
        _, until_ms = raw.hget(KEYS.task(task.task_id), "dd").split(":")
        assert abs(await now_ms(store) + 2 * DAY_MS - int(until_ms)) < 60_000


async def test_a_record_that_has_ended_keeps_no_key_of_it_and_a_repeat_needs_none(
    store: RegionStore, raw: Any
) -> None:
    first, again = await stored(store, a_task(done_key=KEY)), a_task(done_key=b"g" * 32)
    ends = [Finish(await claimed(store, first), b"1", "application/json", DAY_MS)]
    held = await claimed(store, await stored(store, again))
    await store.retry([RetryAt(held, 0, Failure("error", "x"))])  # a record with more fields
    ends.append(Finish(await claimed(store, again), b"1", "application/json", DAY_MS))
    for _ in range(2):
        answers = await store.finish(ends)
        assert [getattr(answer, "lost", True) for answer in answers] == [False, False]
    assert [raw.hget(KEYS.task(t.task_id), "dd") or "" for t in (first, again)] == ["", ""]
    raw.rpush(KEYS.ready("mail", 1), f"{first.task_id}:1:1")  # a stale ticket
    assert not (await claim_batch(store)).claims
