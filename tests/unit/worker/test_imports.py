"""Imports that no courier has settled: after an hour the target asks where they came from."""

import pytest

from tests.scripts.world import DAY_MS, PLACE, record_of
from tests.unit.worker.moving_yard import FAR, FLEET, HERE, THERE, Yard
from tradewind import codec
from tradewind.errors import StoreUnavailable
from tradewind.limits import HOUR_MS
from tradewind.state import State
from tradewind.task import Exported, Pointer, Record
from worker.couriers.imports import Imports


class Silent:
    """A region that does not answer."""

    async def read(self, task_id: str) -> Record | Pointer | None:
        raise StoreUnavailable(FAR, "no answer", sent=False)

    async def ack_export(
        self, task_id: str, epoch: int, target: str, *, keep_ms: int, order_ms: int = 0
    ) -> bool:
        raise StoreUnavailable(FAR, "no answer", sent=False)


@pytest.fixture
def yard() -> Yard:
    return Yard()


async def arrived(yard: Yard, *, with_history: bool = True) -> Exported:
    """A task that has come, and whose courier died before the source heard of it."""
    record = await record_of(yard.stores[HERE], await yard.submit())
    task = await yard.stores[HERE].begin_export(record, THERE, groups=["eu"], reason="evacuation")
    assert task is not None
    hops = codec.add_hop(
        b"", region=HERE, state=State.PENDING, attempts=0, reason="evacuation", at_ms=0
    )
    answer = await yard.stores[THERE].import_task(
        task, hops=hops if with_history else b"", timeout_s=5
    )
    assert answer == "imported"
    return task


async def unsettled(yard: Yard) -> int:
    return len(await yard.stores[THERE].unsettled(PLACE, older_than_ms=0))


def imports(yard: Yard, far: object = None) -> Imports:
    others = {HERE: yard.stores[HERE], FAR: far or yard.stores[FAR]}
    return Imports(yard.stores[THERE], FLEET, others)  # pyright: ignore[reportArgumentType]


async def test_the_source_lets_go_of_what_has_arrived_long_ago(yard: Yard) -> None:
    task = await arrived(yard)
    yard.clock.advance(HOUR_MS - 1)
    await imports(yard).settle(PLACE)
    assert await unsettled(yard) == 1
    yard.clock.advance(1)
    await imports(yard).settle(PLACE)
    assert await unsettled(yard) == 0
    left = await yard.stores[HERE].read(task.record.task_id)
    assert isinstance(left, Pointer)
    assert (left.target, left.epoch) == (THERE, 2)
    assert (await record_of(yard.stores[THERE], task.record.task_id)).state is State.PENDING


async def test_a_source_that_has_let_go_or_forgotten_is_believed(yard: Yard) -> None:
    task = await arrived(yard)
    await yard.stores[HERE].ack_export(task.record.task_id, 2, THERE, keep_ms=DAY_MS)
    yard.clock.advance(HOUR_MS)
    await imports(yard).settle(PLACE)
    assert await unsettled(yard) == 0


async def test_a_silent_source_is_asked_again(yard: Yard) -> None:
    await arrived(yard, with_history=False)  # nobody knows where it came from: all are asked
    yard.clock.advance(HOUR_MS)
    await imports(yard, Silent()).settle(PLACE)
    assert await unsettled(yard) == 1
    await imports(yard).settle(PLACE)
    assert await unsettled(yard) == 0


async def test_only_the_region_it_came_from_is_asked(yard: Yard) -> None:
    await arrived(yard)
    yard.clock.advance(HOUR_MS)
    await imports(yard, Silent()).settle(PLACE)
    assert await unsettled(yard) == 0
