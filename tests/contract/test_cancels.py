"""Claims.cancels: holders hear at once of what they should stop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest

from tests.any_store import AnyStore
from tests.contract.conftest import connections
from tests.scripts.world import DAY_MS, a_task, an_id, claimed, stored
from tradewind.task import Cancelled, CancelRequested

SOON_S = 20.0


@pytest.fixture
async def cancels(store: AnyStore) -> AsyncIterator[AsyncIterator[str]]:
    """Subscribed to every partition."""
    listening = cast("AsyncGenerator[str]", store.cancels())
    for _ in range(connections(store)):
        assert await heard(listening) == ""
    yield listening
    await listening.aclose()


async def heard(cancels: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(cancels), SOON_S)


async def test_every_cancel_of_a_running_task_is_heard_in_every_partition(
    store: AnyStore, cancels: AsyncIterator[str]
) -> None:
    for place in range(16):
        claim = await claimed(store, await stored(store, a_task(an_id(place))))
        answer = await store.cancel(claim.task_id, retention_ms=DAY_MS)
        assert answer == CancelRequested(claim.task_id)
        assert await heard(cancels) == claim.task_id


async def test_asking_again_tells_the_holder_again(
    store: AnyStore, cancels: AsyncIterator[str]
) -> None:
    claim = await claimed(store)
    for _ in range(2):
        await store.cancel(claim.task_id, retention_ms=DAY_MS)
        assert await heard(cancels) == claim.task_id


async def test_nobody_is_woken_for_a_task_that_waits(
    store: AnyStore, cancels: AsyncIterator[str]
) -> None:
    waiting = await stored(store)
    answer = await store.cancel(waiting.task_id, retention_ms=DAY_MS)
    assert answer == Cancelled(waiting.task_id)
    claim = await claimed(store)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert await heard(cancels) == claim.task_id


async def test_watchers_hear_of_a_cancel_as_well(store: AnyStore) -> None:
    changes = cast("AsyncGenerator[str]", store.changes())
    for _ in range(connections(store)):
        assert await heard(changes) == ""
    claim = await claimed(store)
    await store.watch(claim.task_id)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert await heard(changes) == claim.task_id
    await changes.aclose()
