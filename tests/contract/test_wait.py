"""Upkeep.wait: who is woken, by what, and what becomes of hints nobody took."""

import asyncio
from typing import Any

from tests.harness.patience import until
from tests.redis_keys import connected
from tests.scripts.world import (
    a_task,
    an_id,
    claim_batch,
    claimed,
    keys_at,
    stored,
)
from tradewind.store.region_store import RegionStore
from tradewind.task import Release

ALL = range(16)
LONG_S, SHORT_S, SOON_S = 30.0, 0.05, 20.0


def waiting(
    store: RegionStore, *queues: str, partitions: Any = ALL, timeout_s: float = LONG_S
) -> "asyncio.Task[int | None]":
    return asyncio.create_task(
        store.wait(queues or ("mail",), list(partitions), timeout_s=timeout_s)
    )


async def blocked(raw: Any, number: int) -> None:
    """Returns once so many clients block."""

    def counted() -> int:
        if not _is_cluster(raw):
            return raw.info("clients")["blocked_clients"]
        infos = raw.info("clients", target_nodes="primaries")  # by node
        return sum(info["blocked_clients"] for info in infos.values())

    await until(lambda: counted() == number, f"{number} clients block")


def _is_cluster(raw: Any) -> bool:
    return hasattr(raw, "get_primaries")


def lines(raw: Any, waits: int) -> int:
    """Connections that so many waits on all partitions block."""
    return waits * (len(ALL) if _is_cluster(raw) else 1)


async def soon(task: "asyncio.Task[int | None]") -> int | None:
    return await asyncio.wait_for(task, SOON_S)


async def test_a_waiter_wakes_on_a_new_task_and_hears_its_partition(
    store: RegionStore, raw: Any
) -> None:
    for place in (0, 7, 15):
        wait = waiting(store)
        await blocked(raw, lines(raw, 1))
        task = await stored(store, a_task(an_id(place)))
        assert await soon(wait) == place
        await claimed(store, task)


async def test_a_hint_set_before_the_wait_is_taken_at_once(store: RegionStore) -> None:
    await stored(store, a_task(an_id(4)))
    assert await soon(waiting(store)) == 4
    assert await store.wait(["mail"], list(ALL), timeout_s=SHORT_S) is None


async def test_a_wait_that_sees_nothing_ends_in_time(store: RegionStore) -> None:
    assert await store.wait(["mail"], list(ALL), timeout_s=SHORT_S) is None
    assert await store.wait(["mail"], [], timeout_s=SHORT_S) is None


async def test_other_queues_and_partitions_do_not_wake(store: RegionStore) -> None:
    await stored(store, a_task(an_id(3), queue="other"))
    await stored(store, a_task(an_id(5)))
    assert await store.wait(["mail"], [3], timeout_s=SHORT_S) is None
    assert await soon(waiting(store, "mail", "other", partitions=[3])) == 3
    assert await soon(waiting(store, partitions=[5])) == 5


async def test_a_hint_wakes_one_of_many_waiters(store: RegionStore, raw: Any) -> None:
    waits = [waiting(store, partitions=[3]) for _ in range(3)]
    await blocked(raw, 3)
    await stored(store)
    await asyncio.wait(waits, timeout=SOON_S, return_when=asyncio.FIRST_COMPLETED)
    await blocked(raw, 2)
    assert [wait.done() for wait in waits].count(True) == 1
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_a_claim_that_leaves_work_wakes_the_next(store: RegionStore) -> None:
    for _ in range(3):
        await stored(store)
    for left in (2, 1, 0):
        assert await soon(waiting(store)) == 3
        assert (await claim_batch(store, limit=1)).depth == left
    assert await store.wait(["mail"], list(ALL), timeout_s=SHORT_S) is None


async def test_released_and_retried_tasks_wake(store: RegionStore) -> None:
    claim = await claimed(store)
    assert await soon(waiting(store)) == 3
    await store.release([Release(claim)])
    assert await soon(waiting(store)) == 3


async def test_every_partition_has_its_turn(store: RegionStore, raw: Any) -> None:
    for place in ALL:
        await stored(store, a_task(an_id(place)))
    found: set[int | None] = set()
    async with asyncio.timeout(SOON_S):
        while found != set(ALL):
            found.add(await soon(waiting(store)))
            raw.rpush(keys_at(0).wake("mail"), "1")  # the first partition always has more


async def test_a_cancelled_wait_keeps_its_connections_usable_and_loses_no_hint(
    store: RegionStore, raw: Any
) -> None:
    for round_ in range(20):
        place = round_ % 16
        wait = waiting(store)
        if round_ % 2:
            await blocked(raw, lines(raw, 1))
        else:
            await asyncio.sleep(0)
        task = await stored(store, a_task(an_id(place)))
        wait.cancel()
        (left,) = await asyncio.gather(wait, return_exceptions=True)
        if not isinstance(left, int):
            assert await soon(waiting(store)) == place
        await claimed(store, task)
    await blocked(raw, 0)


async def test_hints_of_several_partitions_at_once_are_all_heard(store: RegionStore) -> None:
    for _ in range(5):
        wait = waiting(store)
        await asyncio.sleep(0.01)
        tasks = [a_task(an_id(place)) for place in (1, 8, 14)]
        await store.enqueue(tasks, timeout_s=5)
        heard = {await soon(wait), await soon(waiting(store)), await soon(waiting(store))}
        assert heard == {1, 8, 14}
        for task in tasks:
            await claimed(store, task)


async def test_a_wait_on_killed_connections_fails_and_the_next_works(
    store: RegionStore, raw: Any, store_ports: list[int]
) -> None:
    wait = waiting(store)
    await blocked(raw, lines(raw, 1))
    for port in store_ports:
        connected(port).execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    (failed,) = await asyncio.gather(wait, return_exceptions=True)
    assert type(failed).__name__ == "StoreUnavailable"
    await store.probe()
    task = await stored(store)
    assert await soon(waiting(store)) == 3
    await claimed(store, task)


async def test_parked_work_wakes_others_and_never_hides_new_work(store: RegionStore) -> None:
    await stored(store, a_task(name="resize"))
    assert await soon(waiting(store)) == 3
    assert (await claim_batch(store)).parked
    cold = asyncio.create_task(store.wait(["mail"], list(ALL), cold=[3], timeout_s=LONG_S))
    assert await soon(waiting(store)) == 3
    assert not cold.done()
    await stored(store)
    assert await soon(cold) == 3
