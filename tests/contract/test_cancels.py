"""Claims.cancels: holders hear at once of what they should stop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import pytest

from tests.redis_keys import connected
from tests.scripts.world import DAY_MS, a_task, an_id, claimed, client_of, stored
from tradewind.store.region_store import RegionStore
from tradewind.task import Cancelled, CancelRequested

SOON_S = 20.0


@pytest.fixture
async def cancels(store: RegionStore) -> AsyncIterator[AsyncIterator[str]]:
    """Subscribed to every partition."""
    listening = cast("AsyncGenerator[str]", store.cancels())
    for _ in client_of(store).nodes.owned_together():
        assert await heard(listening) == ""
    yield listening
    await listening.aclose()


async def heard(cancels: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(cancels), SOON_S)


async def test_every_cancel_of_a_running_task_is_heard_in_every_partition(
    store: RegionStore, cancels: AsyncIterator[str]
) -> None:
    for place in range(16):
        claim = await claimed(store, await stored(store, a_task(an_id(place))))
        answer = await store.cancel(claim.task_id, retention_ms=DAY_MS)
        assert answer == CancelRequested(claim.task_id)
        assert await heard(cancels) == claim.task_id


async def test_asking_again_tells_the_holder_again(
    store: RegionStore, cancels: AsyncIterator[str]
) -> None:
    claim = await claimed(store)
    for _ in range(2):
        await store.cancel(claim.task_id, retention_ms=DAY_MS)
        assert await heard(cancels) == claim.task_id


async def test_nobody_is_woken_for_a_task_that_waits(
    store: RegionStore, cancels: AsyncIterator[str], raw: Any
) -> None:
    waiting = await stored(store)
    answer = await store.cancel(waiting.task_id, retention_ms=DAY_MS)
    assert answer == Cancelled(waiting.task_id)
    claim = await claimed(store)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert await heard(cancels) == claim.task_id


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


async def test_watchers_hear_of_a_cancel_as_well(store: RegionStore) -> None:
    changes = cast("AsyncGenerator[str]", store.changes())
    for _ in client_of(store).nodes.owned_together():
        assert await heard(changes) == ""
    claim = await claimed(store)
    await store.watch(claim.task_id)
    await store.cancel(claim.task_id, retention_ms=DAY_MS)
    assert await heard(changes) == claim.task_id
    await changes.aclose()
