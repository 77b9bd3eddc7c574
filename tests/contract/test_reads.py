"""The port Reads: single tasks, watching, pages of dead tasks, counts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import pytest

from tests.redis_keys import connected
from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_task,
    an_id,
    claim_batch,
    claimed,
    client_of,
    dead,
    exporting,
    keys_at,
    now_ms,
    record_of,
    stored,
)
from tradewind import ids
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Finish, NewTask, Priority, QueueCounts, Release

SOON_S = 20.0


@pytest.fixture
async def changes(store: RegionStore) -> AsyncIterator[AsyncIterator[str]]:
    """Subscribed to every partition."""
    listening = cast("AsyncGenerator[str]", store.changes())
    # One empty id per node: what came before it may have been missed.
    for _ in client_of(store).nodes.owned_together():
        assert await heard(listening) == ""
    yield listening
    await listening.aclose()


async def heard(changes: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(changes), SOON_S)


async def until_heard(changes: AsyncIterator[str], task_id: str) -> None:
    while await heard(changes) != task_id:
        pass


async def test_an_unknown_id_is_nothing(store: RegionStore) -> None:
    assert await store.read(an_id()) is None
    assert await store.watch(an_id()) is None


async def test_a_watched_task_reads_like_any_other(store: RegionStore) -> None:
    task = await stored(store)
    assert await store.watch(task.task_id) == await record_of(store, task.task_id)


async def test_every_change_of_a_watched_task_is_heard_in_every_partition(
    store: RegionStore, changes: AsyncIterator[str]
) -> None:
    for place in range(16):
        task = await stored(store, a_task(an_id(place)))
        await store.watch(task.task_id)
        claim = await claimed(store, task)
        await until_heard(changes, task.task_id)
        await store.finish([Finish(claim, b"", "", DAY_MS)])
        await until_heard(changes, task.task_id)
        assert (await record_of(store, task.task_id)).state is State.COMPLETED


async def test_revisions_grow_with_every_change(store: RegionStore) -> None:
    task = await stored(store)
    revisions = [(await record_of(store, task.task_id)).revision]
    claim = await claimed(store, task)
    revisions.append((await record_of(store, task.task_id)).revision)
    await store.finish([Finish(claim, b"", "", DAY_MS)])
    revisions.append((await record_of(store, task.task_id)).revision)
    assert revisions == sorted(set(revisions))


async def test_an_unwatched_task_is_not_published(
    store: RegionStore, changes: AsyncIterator[str]
) -> None:
    await stored(store, a_task(an_id(5)))
    watched = await stored(store, a_task(an_id(5)))
    await store.watch(watched.task_id)
    await claim_batch(store, place=5)
    assert await heard(changes) == watched.task_id


async def test_subscriptions_come_back_after_every_connection_was_killed(
    store: RegionStore, store_ports: list[int], changes: AsyncIterator[str]
) -> None:
    for port in store_ports:
        connected(port).execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    assert await heard(changes) == ""
    task = await stored(store)
    await store.watch(task.task_id)

    async def change_on() -> None:
        while True:
            claim = await claimed(store, task)
            await store.release([Release(claim)])
            await asyncio.sleep(0.02)

    changing = asyncio.create_task(change_on())
    await until_heard(changes, task.task_id)
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)


@pytest.mark.parametrize("limit", [1, 2, 7, 64, 70, 200])
async def test_pages_hold_every_dead_task_once_even_of_one_millisecond(
    store: RegionStore, raw: Any, limit: int
) -> None:
    keys = keys_at()
    template = raw.hgetall(keys.task((await dead(store)).task_id))
    raw.delete(keys.dead)
    ids = sorted(an_id() for _ in range(150))
    pipe = raw.pipeline()
    for number, task_id in enumerate(ids):
        # Three moments; most of them share the middle one.
        died_ms = 1_000 + (number >= 3) + (number >= 147)
        pipe.hset(keys.task(task_id), mapping=template)
        pipe.zadd(keys.dead, {task_id: died_ms})
    pipe.execute()
    found: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        records, cursor = await store.dead_page(PLACE, after=cursor, limit=limit)
        assert len(records) <= limit
        found += [record.task_id for record in records]
        pages += 1
    assert found == ids
    assert pages == -(-150 // limit)
    raw.flushall()


async def test_an_empty_partition_is_one_empty_page(store: RegionStore) -> None:
    assert await store.dead_page(PLACE, after="", limit=10) == ([], "")


async def test_counts_and_totals_span_all_partitions(store: RegionStore) -> None:
    for place in (0, 5, 15):
        for priority in Priority:
            await stored(store, a_task(an_id(place), priority=priority))
        await stored(store, a_task(an_id(place), delay_ms=60_000))
        await stored(store, a_task(an_id(place), queue="a:b"))
        await dead(store, await stored(store, a_task(an_id(place), queue="d")))
        await exporting(store, await stored(store, a_task(an_id(place), queue="m")))
        await claimed(store, await stored(store, a_task(an_id(place), queue="r")))
    assert await store.counts() == {
        "mail": QueueCounts(pending=(3, 3, 3), scheduled=3),
        "a:b": QueueCounts(pending=(0, 3, 0)),
        "d": QueueCounts(dead=3),
        "m": QueueCounts(moving=3),
        "r": QueueCounts(processing=3),
    }
    assert await store.dead_total() == 3


async def test_text_that_is_no_text_is_read_all_the_same(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    raw.hset(keys_at().task(task.task_id), "fo", b"\xff\xfe")
    assert (await record_of(store, task.task_id)).failover == "\N{REPLACEMENT CHARACTER}" * 2


async def test_the_longest_wait_is_told_by_queue_and_priority(store: RegionStore, raw: Any) -> None:
    assert await store.oldest() == {}
    for place, age_ms in ((3, 5_000), (7, 90_000), (9, 1_000)):
        await aged(store, raw, a_task(an_id(place)), age_ms)
    await aged(store, raw, a_task(an_id(3), priority=Priority.LOW), 40_000)
    await aged(store, raw, a_task(an_id(3), queue="a:b", priority=Priority.HIGH), 30_000)
    await stored(store, a_task(an_id(3), delay_ms=60_000))
    ages_ms = await store.oldest()
    floors = {
        ("mail", Priority.NORMAL): 90_000,
        ("mail", Priority.LOW): 40_000,
        ("a:b", Priority.HIGH): 30_000,
    }
    assert ages_ms.keys() == floors.keys()
    for place, floor_ms in floors.items():
        assert floor_ms <= ages_ms[place] < floor_ms + 10_000


async def test_what_nobody_can_run_has_waited_as_well(store: RegionStore, raw: Any) -> None:
    await aged(store, raw, a_task(name="x"), 90_000)
    await claim_batch(store)
    await stored(store)
    assert (await store.oldest())["mail", Priority.NORMAL] >= 90_000


async def test_the_wait_of_what_was_cancelled_is_not_told(store: RegionStore, raw: Any) -> None:
    for _ in range(2):
        task = await aged(store, raw, a_task(), 90_000)
        await stored(store)
        await store.cancel(task.task_id, retention_ms=DAY_MS)
    assert (await store.oldest())["mail", Priority.NORMAL] < 90_000
    await claim_batch(store)
    assert await store.oldest() == {}


async def aged(store: RegionStore, raw: Any, task: NewTask, age_ms: int) -> NewTask:
    """A task that has been ready for so long, at the end of its list."""
    await stored(store, task)
    place = ids.parse(task.task_id).partition
    key = keys_at(place).ready(task.queue, task.priority)
    task_id, revision, _ = raw.lindex(key, -1).split(":")
    raw.lset(key, -1, f"{task_id}:{revision}:{await now_ms(store, place) - age_ms}")
    return task
