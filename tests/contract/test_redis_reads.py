"""Reading on Redis: lost connections, pages inside one millisecond, foreign bytes, ages."""

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
    keys_at,
    now_ms,
    record_of,
    stored,
)
from tradewind import ids
from tradewind.store.region_store import RegionStore
from tradewind.task import NewTask, Priority, Release

SOON_S = 20.0


@pytest.fixture
def store(redis_store: RegionStore) -> RegionStore:
    """On Redis only: what is looked at, or done to it, no other store has."""
    return redis_store


@pytest.fixture
async def changes(store: RegionStore) -> AsyncIterator[AsyncIterator[str]]:
    """Subscribed to every partition."""
    listening = cast("AsyncGenerator[str]", store.changes())
    # One empty id per node: what came before it may have been missed.
    for _ in client_of(store).nodes.owned_together():
        assert await heard(listening) == ""
    yield listening
    await listening.aclose()


@pytest.fixture
async def cancels(store: RegionStore) -> AsyncIterator[AsyncIterator[str]]:
    """Subscribed to every partition."""
    listening = cast("AsyncGenerator[str]", store.cancels())
    for _ in client_of(store).nodes.owned_together():
        assert await heard(listening) == ""
    yield listening
    await listening.aclose()


async def heard(changes: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(changes), SOON_S)


async def until_heard(changes: AsyncIterator[str], task_id: str) -> None:
    while await heard(changes) != task_id:
        pass


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


async def test_listening_goes_on_after_every_connection_was_killed(
    store: RegionStore, store_ports: list[int], cancels: AsyncIterator[str]
) -> None:
    claim = await claimed(store)
    for port in store_ports:
        connected(port).execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    # Lost, then subscribed again: after that renew tells of what came meanwhile.
    for _ in range(1 + len(store_ports)):
        assert await heard(cancels) == ""
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert await heard(cancels) == claim.task_id
