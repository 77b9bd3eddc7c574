"""The port Reads: single tasks, watching, pages of dead tasks, counts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import connections
from tests.scripts.world import (
    DAY_MS,
    PLACE,
    a_task,
    an_id,
    claim_batch,
    claimed,
    dead,
    exporting,
    record_of,
    stored,
)
from tradewind.state import State
from tradewind.task import Finish, Priority, QueueCounts

SOON_S = 20.0


@pytest.fixture
async def changes(store: AnyStore) -> AsyncIterator[AsyncIterator[str]]:
    """Subscribed to every partition."""
    listening = cast("AsyncGenerator[str]", store.changes())
    # One empty id per node: what came before it may have been missed.
    for _ in range(connections(store)):
        assert await heard(listening) == ""
    yield listening
    await listening.aclose()


async def heard(changes: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(changes), SOON_S)


async def until_heard(changes: AsyncIterator[str], task_id: str) -> None:
    while await heard(changes) != task_id:
        pass


async def test_an_unknown_id_is_nothing(store: AnyStore) -> None:
    assert await store.read(an_id()) is None
    assert await store.watch(an_id()) is None


async def test_a_watched_task_reads_like_any_other(store: AnyStore) -> None:
    task = await stored(store)
    assert await store.watch(task.task_id) == await record_of(store, task.task_id)


async def test_every_change_of_a_watched_task_is_heard_in_every_partition(
    store: AnyStore, changes: AsyncIterator[str]
) -> None:
    for place in range(16):
        task = await stored(store, a_task(an_id(place)))
        await store.watch(task.task_id)
        claim = await claimed(store, task)
        await until_heard(changes, task.task_id)
        await store.finish([Finish(claim, b"", "", DAY_MS)])
        await until_heard(changes, task.task_id)
        assert (await record_of(store, task.task_id)).state is State.COMPLETED


async def test_revisions_grow_with_every_change(store: AnyStore) -> None:
    task = await stored(store)
    revisions = [(await record_of(store, task.task_id)).revision]
    claim = await claimed(store, task)
    revisions.append((await record_of(store, task.task_id)).revision)
    await store.finish([Finish(claim, b"", "", DAY_MS)])
    revisions.append((await record_of(store, task.task_id)).revision)
    assert revisions == sorted(set(revisions))


async def test_an_unwatched_task_is_not_published(
    store: AnyStore, changes: AsyncIterator[str]
) -> None:
    await stored(store, a_task(an_id(5)))
    watched = await stored(store, a_task(an_id(5)))
    await store.watch(watched.task_id)
    await claim_batch(store, place=5)
    assert await heard(changes) == watched.task_id


async def test_an_empty_partition_is_one_empty_page(store: AnyStore) -> None:
    assert await store.dead_page(PLACE, after="", limit=10) == ([], "")


async def test_what_workers_put_aside_is_counted_by_queue_and_handler(store: AnyStore) -> None:
    for place in (0, 5):
        await stored(store, a_task(an_id(place), name="other"))
        await stored(store, a_task(an_id(place)))
        await claim_batch(store, place=place)
    assert await store.parked() == {("mail", "other"): 2}


async def test_counts_and_totals_span_all_partitions(store: AnyStore) -> None:
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
