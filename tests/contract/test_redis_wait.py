"""Upkeep.wait on Redis: who is woken, by what, and what becomes of hints nobody took."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import fleet_at
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
from tradewind.errors import StoreError, StoreUnavailable
from tradewind.local.scratch import cluster_nodes
from tradewind.store import waits as waits_module
from tradewind.store.region_store import RegionStore
from tradewind.task import Claim, Crash, Release

ALL = range(16)
LONG_S, SHORT_S, SOON_S = 30.0, 0.05, 20.0


@pytest.fixture
def store(redis_store: RegionStore) -> RegionStore:
    """On Redis only: test_hints has what every store promises."""
    return redis_store


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


async def crashed(store: RegionStore, claim: Claim) -> None:
    await store.crashed([Crash(claim, "the child died", 1, may_move=False)])


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


async def test_suspects_wake_those_who_wait_for_them_and_nobody_else(store: RegionStore) -> None:
    await crashed(store, await claimed(store))
    while await store.wait(["mail"], list(ALL), timeout_s=SHORT_S) is not None:
        pass  # what was set when the task was stored
    assert await store.wait(["mail"], list(ALL), ready=False, timeout_s=SHORT_S) is None
    # Nobody took the hint of suspects meanwhile: a worker without room is not woken in a loop.
    for ready in (False, True):
        suspects = store.wait(["mail"], list(ALL), ready=ready, suspects=True, timeout_s=LONG_S)
        assert await asyncio.wait_for(suspects, SOON_S) == 3
        assert (await claim_batch(store)).claims == ()  # sets it anew


async def test_who_has_room_for_suspects_only_is_not_woken_for_others(store: RegionStore) -> None:
    await stored(store)
    only = store.wait(["mail"], list(ALL), ready=False, suspects=True, timeout_s=SHORT_S)
    assert await only is None
    assert await soon(waiting(store)) == 3


async def test_a_child_that_dies_and_a_lease_that_ends_wake_those_who_wait_for_suspects(
    store: RegionStore,
) -> None:
    for place in (4, 9):
        task = await stored(store, a_task(an_id(place)))
        wait = store.wait(["mail"], list(ALL), ready=False, suspects=True, timeout_s=LONG_S)
        waiter = asyncio.create_task(wait)
        claim = await claimed(store, task, lease_ms=0)
        if place == 4:
            await crashed(store, claim)
        else:
            await store.reap(place, limit=1)
        assert await soon(waiter) == place
        assert (await claimed(store, task)).suspect


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


async def test_the_other_waits_go_on_when_one_has_heard(store: RegionStore, raw: Any) -> None:
    """Or each task of an idle region would cost two commands for every partition."""
    hints = 10
    before = called(raw, "blpop"), called(raw, "client|unblock")
    for number in range(hints):
        wait = waiting(store)
        await blocked(raw, lines(raw, 1))
        task = await stored(store, a_task(an_id(number)))
        assert await soon(wait) == number
        await claimed(store, task)
    blpops, unblocks = called(raw, "blpop"), called(raw, "client|unblock")
    # Once each to begin with, and once for every hint; a slow machine may begin all anew at times.
    assert blpops - before[0] <= lines(raw, 1) * 4 + hints
    assert unblocks - before[1] <= lines(raw, 1) * 4


def called(raw: Any, command: str) -> int:
    """How often it was, on all nodes together."""
    if not _is_cluster(raw):
        stats = [raw.info("commandstats")]
    else:
        stats = raw.info("commandstats", target_nodes="primaries").values()
    return sum(each.get(f"cmdstat_{command}", {}).get("calls", 0) for each in stats)


@pytest.mark.cluster
async def test_a_dead_primary_is_no_end_to_waiting_for_the_rest(tmp_path: Path) -> None:
    with cluster_nodes(tmp_path) as nodes:
        fleet = fleet_at("cluster", [node.port for node in nodes])
        store = RegionStore(fleet.regions["eu-west"], fleet)
        await store.start()
        try:
            nodes[0].kill()
            wait = waiting(store)
            done, _ = await asyncio.wait([wait], timeout=SHORT_S)
            assert not done
            await stored(store, a_task(an_id(15)))
            assert await soon(wait) == 15
            with pytest.raises(StoreError):
                await soon(waiting(store, partitions=[0, 1]))
            assert await lost(store, 0) == [True]
            for node in nodes[1:]:
                node.kill()
            with pytest.raises(StoreError):
                await soon(waiting(store))
            assert await lost(store, 0) == [False]
        finally:
            await store.close()


async def lost(store: RegionStore, place: int) -> list[bool]:
    """Whether what cannot be stored there is said to be a part of what could."""
    outcomes, _ = await store.enqueue([a_task(an_id(place))], timeout_s=SOON_S)
    return [each.partly for each in outcomes if isinstance(each, StoreUnavailable)]


@pytest.mark.parametrize(("idle_s", "kept"), [(1_000.0, True), (0.0, False)])
async def test_a_connection_that_was_idle_for_long_is_not_waited_on(
    store: RegionStore,
    raw: Any,
    monkeypatch: pytest.MonkeyPatch,
    idle_s: float,
    kept: bool,
) -> None:
    """It may be half-open by now, and a wait on it deaf."""
    monkeypatch.setattr(waits_module, "_IDLE_S", idle_s)

    async def connection() -> str:
        wait = waiting(store, partitions=[3])
        await blocked(raw, 1)
        (client,) = [c for c in clients(raw) if c["cmd"] == "blpop"]
        task = await stored(store)
        assert await soon(wait) == 3
        await claimed(store, task)
        return client["id"]

    assert (await connection() == await connection()) is kept


def clients(raw: Any) -> list[dict[str, str]]:
    if not _is_cluster(raw):
        return raw.client_list()
    each: dict[str, list[dict[str, str]]] = raw.client_list(target_nodes="primaries")
    return [client for clients in each.values() for client in clients]
