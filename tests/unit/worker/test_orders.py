"""A loop that operators hold back, and that nobody sweeps for: it must find again what it left."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.redis_keys import connected
from tests.unit.worker.test_intake import Seen, nothing
from tests.unit.worker.world import PLACE, Parts, a_task
from tradewind.control import Control, Order, Pause, RegionState, Stamp
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.state import State
from tradewind.store.keys import partition_keys
from tradewind.store.region_store import RegionStore
from tradewind.task import NewTask, Record
from worker.gate import OrderedGate
from worker.loop import Loop

HERE, OTHER = "eu-west", "other"


class Held:
    """A loop with four slots that serves two queues, its gate, and what has started."""

    def __init__(self, home: RegionStore, fleet: Fleet, handler: Callable[..., object]) -> None:
        self.parts = Parts(home, fleet, handler)
        self.gate = OrderedGate(HERE, fleet, self.parts.clock)
        self.parts.pool.gate, self.parts.pool.queues = self.gate, ("default", OTHER)
        self.claims: list[str] = []
        self.store = Seen(home, self.claims.append)
        self.loop = Loop(
            self.store,  # pyright: ignore[reportArgumentType] - the store, and an ear
            self.parts.pool,
            children=self.parts.children,
            guard=self.parts.guard,
            pace=self.parts.pace,
            reach=self.parts.reach,
            clock=self.parts.clock,
            on_buried=lambda _partition, _in_ms: None,
        )
        self._epoch = 0
        self.gate.listen(self.loop.gate_changed)
        self.gate.looked_around()

    def order(self, state: RegionState = "ACTIVE", *paused: str) -> None:
        """A heartbeat is answered with this."""
        self._epoch += 1
        pauses = {queue: Pause() for queue in paused}
        control = Control(Stamp(self._epoch, "c"), {HERE: Order(state)}, pauses)
        self.gate.heard(control, self.parts.clock.monotonic_ms())


@asynccontextmanager
async def held(
    home: RegionStore, fleet: Fleet, handler: Callable[..., object]
) -> AsyncGenerator[Held]:
    one = Held(home, fleet, handler)
    running = asyncio.create_task(one.loop.run())
    try:
        async with asyncio.timeout(20):
            await asyncio.sleep(0)  # it runs
            yield one
    finally:
        over = asyncio.get_running_loop().create_future()
        over.set_result(None)
        await one.loop.drain(over)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Started:
    """A handler that counts, and another one to be waited for."""

    def __init__(self) -> None:
        self.number = 0
        self._some = asyncio.Event()

    async def handler(self) -> None:
        self.number += 1
        self._some.set()

    async def until(self, number: int) -> None:
        while self.number < number:
            self._some.clear()
            await self._some.wait()


async def state_of(home: RegionStore, index: int) -> Record:
    found = await home.read(a_task(index).task_id)
    assert isinstance(found, Record)
    return found


async def test_a_queue_that_is_resumed_starts_at_once_although_its_hints_were_taken(
    home: RegionStore, one_region: Fleet
) -> None:
    started = Started()
    async with held(home, one_region, started.handler) as worker:
        worker.order("ACTIVE", "default")
        await home.enqueue([a_task(1)], timeout_s=5)
        await home.enqueue([another(2)], timeout_s=5)
        await started.until(1)
        assert (await state_of(home, 1)).state is State.PENDING
        forget_hints(one_region)
        worker.order("ACTIVE")
        await started.until(2)


async def test_a_region_that_is_active_again_starts_at_once_what_has_gathered(
    home: RegionStore, one_region: Fleet
) -> None:
    started = Started()
    async with held(home, one_region, started.handler) as worker:
        worker.order("ACTIVE")
        worker.order("DRAINING")
        await home.enqueue([a_task(index) for index in range(20)], timeout_s=5)
        forget_hints(one_region)
        worker.order("CORDONED")
        await started.until(20)


async def test_a_wait_under_way_takes_no_hint_of_a_queue_that_is_paused_meanwhile(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.loop._WAIT_S", 60.0)  # it does not end by itself
    keys = partition_keys(one_region.partitions)[PLACE]
    raw = connected(port_of(one_region))
    started = Started()
    async with held(home, one_region, started.handler) as worker:
        worker.order("ACTIVE")
        await home.enqueue([a_task(1)], timeout_s=5)
        await started.until(1)
        wide = await waited_for(raw)
        worker.order("ACTIVE", "default")
        while await waited_for(raw) == wide:  # noqa: ASYNC110 - it waits for the other one alone
            await asyncio.sleep(0.01)
        await home.enqueue([a_task(2)], timeout_s=5)
        await home.enqueue([another(3)], timeout_s=5)
        await started.until(2)
        assert raw.exists(keys.wake("default")), "for whoever may start it"


async def test_what_was_claimed_as_the_order_came_is_handed_back_and_no_attempt_is_used(
    home: RegionStore, one_region: Fleet
) -> None:
    started = Started()
    async with held(home, one_region, started.handler) as worker:
        came = asyncio.Event()

        async def order_comes() -> None:
            if (await state_of(home, 1)).state is State.PROCESSING:
                worker.order("DRAINING")
                came.set()

        await home.enqueue([a_task(1)], timeout_s=5)
        worker.store.before_answer = order_comes
        worker.order("ACTIVE")
        await came.wait()
        while (await state_of(home, 1)).state is not State.PENDING:  # noqa: ASYNC110 - its report
            await asyncio.sleep(0.01)
        assert (await state_of(home, 1)).attempts == 0
        assert started.number == 0
        worker.store.before_answer = nothing
        worker.order("ACTIVE")
        await started.until(1)


async def test_what_runs_goes_on_while_the_region_drains(
    home: RegionStore, one_region: Fleet
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def handler() -> None:
        begun.set()
        await release.wait()

    async with held(home, one_region, handler) as worker:
        worker.order("ACTIVE")
        await home.enqueue([a_task(1)], timeout_s=5)
        await begun.wait()
        worker.order("DRAINING")
        release.set()
        while (await state_of(home, 1)).state is not State.COMPLETED:  # noqa: ASYNC110 - its report
            await asyncio.sleep(0.01)


async def test_a_worker_that_may_start_nothing_is_ready_again_once_a_sweep_was_answered(
    home: RegionStore, one_region: Fleet
) -> None:
    async with held(home, one_region, Started().handler) as worker:
        worker.order("DRAINING")
        worker.loop._failed(StoreUnavailable(HERE, "gone", sent=False))  # pyright: ignore[reportPrivateUsage]
        assert worker.loop.ready()[0] is False
        swept = await home.sweep(PLACE, worker_id="w", queues=["default"], courier=False)
        worker.loop.swept(PLACE, swept)
        assert worker.loop.ready()[0] is True


async def waited_for(raw: Any) -> int:
    """How much a blocked wait names, as soon as there is one."""
    while True:
        for client in raw.client_list():
            if "b" in client["flags"]:
                return int(client["argv-mem"])
        await asyncio.sleep(0.01)


def another(index: int) -> NewTask:
    return a_task(index)._replace(queue=OTHER)


def port_of(fleet: Fleet) -> int:
    return int(fleet.regions[HERE].redis.nodes[0].rpartition(":")[2])


def forget_hints(fleet: Fleet) -> None:
    """As if somebody who waited for other queues had taken them along."""
    raw, keys = connected(port_of(fleet)), partition_keys(fleet.partitions)[PLACE]
    raw.delete(*(keys.wake(queue) for queue in ("default", OTHER)))
