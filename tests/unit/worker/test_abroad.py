"""A pool stands in for that of another region once no worker of it lives, and only then."""

from collections.abc import Sequence

import pytest

from tests.scripts.world import PLACE, claim_batch, record_of
from tests.unit.worker.moving_yard import FAR, FLEET, HERE, THERE, Yard
from tradewind.handlers import App
from tradewind.state import State
from worker.couriers.abroad import Abroad
from worker.pool import Pool

ALL = tuple(range(16))


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.courier._JITTER_S", 0.0)


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Yard:
    yard = Yard()

    async def tick(seconds: float) -> None:
        yard.clock.advance(int(seconds * 1_000))

    monkeypatch.setattr("worker.couriers.abroad.tick", tick)
    return yard


def abroad(yard: Yard, of: str = THERE, share: Sequence[int] = ALL) -> Abroad:
    pool = Pool(f"{of}/w", of, ("mail",), 1, FLEET, App(), "1", 0)
    others = {name: store for name, store in yard.stores.items() if name != of}
    return Abroad(
        pool,
        yard.stores[of],
        others,
        clock=yard.clock,
        control=lambda: yard.control,
        share=lambda: share,
    )


async def pass_by(yard: Yard, seconds: int, *couriers: Abroad, alive: Sequence[str] = ()) -> None:
    """Time passes second by second, and they look at the first region every five."""
    for second in range(seconds):
        await yard.working(THERE, *alive)
        if second % 5 == 0:
            for courier in couriers:
                await courier.look(HERE)
        yard.clock.advance(1_000)


async def test_what_waits_where_nobody_works_is_moved_by_another_pool(yard: Yard) -> None:
    task_ids = [await yard.submit() for _ in range(40)]
    await pass_by(yard, 115, abroad(yard))
    assert await yard.where(*task_ids) == {HERE: 40}
    courier = abroad(yard)
    await pass_by(yard, 60, courier)
    assert await yard.where(*task_ids) == {THERE: 40}


async def test_as_long_as_one_worker_lives_nothing_is_done_there(yard: Yard) -> None:
    task_ids = [await yard.submit(queue="rare") for _ in range(3)]
    claimable = await yard.submit()
    (claim,) = (await claim_batch(yard.stores[HERE], lease_ms=1_000)).claims
    assert claim.task_id == claimable
    await pass_by(yard, 300, abroad(yard), alive=[HERE])
    assert await yard.where(*task_ids) == {HERE: 3}
    assert (await record_of(yard.stores[HERE], claimable)).state is State.PROCESSING


async def test_what_ran_there_is_taken_back_and_moved(yard: Yard) -> None:
    task_id = await yard.submit()
    (claim,) = (await claim_batch(yard.stores[HERE], lease_ms=1_000)).claims
    assert claim.task_id == task_id
    await pass_by(yard, 240, abroad(yard))
    assert await yard.is_in(task_id) == THERE
    arrived = await record_of(yard.stores[THERE], task_id)
    assert (arrived.state, arrived.crashes) == (State.PENDING, 1), "it stays a suspect"


async def test_a_partition_that_is_another_worker_s_share_is_left_to_it(yard: Yard) -> None:
    task_id = await yard.submit()
    await pass_by(yard, 200, abroad(yard, share=[p for p in ALL if p != PLACE]))
    assert await yard.is_in(task_id) == HERE


async def test_couriers_with_different_fences_take_turns(yard: Yard) -> None:
    """The first has more than it may move, so it never ends of itself."""
    for _ in range(50):
        await yard.submit(fence=("west",))
    ours = await yard.submit(fence=("apac", "eu"))
    near, far = abroad(yard), abroad(yard, of=FAR)
    for second in range(170):
        await yard.working(THERE, service_s=100.0)
        await yard.working(FAR)
        if second % 5 == 0:
            for courier in (near, far):
                await courier.look(HERE)
        yard.clock.advance(1_000)
    assert await yard.is_in(ours) == FAR
