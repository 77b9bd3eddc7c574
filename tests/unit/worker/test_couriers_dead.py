"""Dead letters leave an evacuated region as they are; what no courier may see is counted."""

from dataclasses import replace

import pytest

from tests.scripts.world import DAY_MS, PLACE, a_bury, claim_batch, record_of
from tests.unit.worker.moving_yard import FAR, FLEET, HERE, ORDERED_MS, THERE, Yard
from tradewind import codec
from tradewind.errors import StoreFull
from tradewind.fleet import Fleet, RegionLimits
from tradewind.limits import MOVE_AGAIN_MS
from tradewind.ports import ImportAnswer
from tradewind.state import State
from tradewind.task import Evacuated, Exported, Record
from worker.courier import UNSEEN


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.courier._JITTER_S", 0.0)


@pytest.fixture
def yard() -> Yard:
    return Yard()


async def dead(yard: Yard, *, may_move: bool = False, **spec: object) -> Record:
    """A dead letter; settled, unless it may move."""
    task_id = await yard.submit(**spec)  # pyright: ignore[reportArgumentType]
    (claim,) = (await claim_batch(yard.stores[HERE])).claims
    await yard.stores[HERE].bury([a_bury(claim, may_move=may_move)])
    return await record_of(yard.stores[HERE], task_id)


async def passed(yard: Yard, of: str = HERE) -> Evacuated:
    """One pass of a courier, and what it has done."""
    await yard.courier(of).work(PLACE)
    return await yard.stores[HERE].evacuated(ORDERED_MS)


def no_guests(*regions: str) -> Fleet:
    limits = RegionLimits(max_spill_in=0.0)
    closed = {name: replace(FLEET.regions[name], limits=limits) for name in regions}
    return replace(FLEET, regions={**FLEET.regions, **closed})


async def test_the_dead_leave_an_evacuated_region_and_stay_dead(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    before = [await dead(yard) for _ in range(300)]
    ids = [record.task_id for record in before]
    await yard.courier().work(PLACE)
    assert await yard.where(*ids) == {HERE: 300}, "nothing is ordered"
    yard.evacuate()
    assert await passed(yard) == Evacuated(300, 0, {}), "nobody's work, so no share is in its way"
    assert await yard.where(*ids) == {THERE: 300}
    for record in before:
        arrived = await record_of(yard.stores[THERE], record.task_id)
        assert (arrived.state, arrived.settled) == (State.DEAD_LETTER, True)
        assert (arrived.failure, arrived.finished_ms) == (record.failure, record.finished_ms)
        (stay,) = codec.hops(arrived.hops)
        assert (stay.region, stay.attempts, stay.reason) == (HERE, 1, "evacuation")
        assert stay.at.ToMilliseconds() == yard.clock.now_ms()
        assert arrived.hop_count == 0


async def test_an_order_s_rate_is_of_dead_letters_too(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate(rate_per_s=5.0)
    for _ in range(40):
        await dead(yard)
    assert (await passed(yard)).moved == 5


async def test_the_dead_leave_although_the_living_have_to_wait(yard: Yard) -> None:
    await yard.working(THERE, service_s=100.0)
    records = [await dead(yard) for _ in range(9)]
    waiting = [await yard.submit() for _ in range(40)]
    yard.evacuate()
    await passed(yard)
    assert (await yard.where(*waiting)).get(HERE, 0) > 30
    assert await yard.where(*(record.task_id for record in records)) == {THERE: 9}


async def test_one_that_may_run_elsewhere_leaves_for_that_and_counts_until_then(
    yard: Yard,
) -> None:
    yard.evacuate()
    record = await dead(yard, may_move=True)
    told = await passed(yard)
    assert (told.moved, told.remaining) == (0, 0)
    assert told.kept == {"ap-south: no worker for handler, us-east: no worker for handler": 1}
    await yard.working(THERE)
    yard.clock.advance(10_000)
    await yard.working(THERE)
    told = await passed(yard)
    assert await yard.is_in(record.task_id) == THERE
    assert (await record_of(yard.stores[THERE], record.task_id)).state is State.PENDING
    assert (told.remaining, told.kept) == (0, {})


async def test_one_that_may_run_nowhere_else_leaves_as_it_is_in_the_same_pass(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    record = await dead(yard, may_move=True)
    cell = yard.stores[HERE].room.cell(record.task_id)
    assert cell is not None
    cell.hop_count = 1
    yard.evacuate()
    assert await passed(yard) == Evacuated(1, 0, {})
    arrived = await record_of(yard.stores[THERE], record.task_id)
    assert (arrived.state, arrived.failover) == (State.DEAD_LETTER, "no moves left (max_hops)")
    assert arrived.hop_count == 1


async def test_what_stays_is_counted_by_reason_and_keeps_its_own(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    yard.evacuate()
    pinned, fenced = await dead(yard, pin_region=HERE), await dead(yard, fence=("eu",))
    told = await passed(yard)
    assert told == Evacuated(0, 0, {"pinned": 1, "no other permitted region": 1})
    for record in (pinned, fenced):
        assert await record_of(yard.stores[HERE], record.task_id) == record


async def test_it_needs_no_worker_there_but_goes_where_one_could_run_it(yard: Yard) -> None:
    yard.evacuate()
    assert await yard.is_in((await dead(yard)).task_id) == HERE
    await passed(yard)
    found = [await store.dead_total() for store in yard.stores.values()]
    assert found == [0, 1, 0], "the first of the order"
    await yard.working(FAR)
    yard.clock.advance(5_000)
    await yard.working(FAR)
    second = await dead(yard)
    await passed(yard)
    assert await yard.is_in(second.task_id) == FAR


async def test_it_moves_once_in_a_while_only(yard: Yard) -> None:
    await yard.working(THERE)
    record = await dead(yard)
    cell = yard.stores[HERE].room.cell(record.task_id)
    assert cell is not None
    cell.hops = codec.add_hop(
        b"",
        region=FAR,
        state=State.DEAD_LETTER,
        attempts=1,
        reason="evacuation",
        at_ms=yard.clock.now_ms(),
    )
    yard.evacuate()
    assert (await passed(yard)).kept == {"moved less than 10 min ago": 1}
    yard.clock.advance(MOVE_AGAIN_MS)
    await yard.working(THERE)
    assert (await passed(yard)).moved == 1
    assert await yard.is_in(record.task_id) == THERE


async def test_a_courier_is_wanted_where_only_dead_letters_lie(yard: Yard) -> None:
    await yard.working(THERE)
    await dead(yard)
    source, courier = yard.stores[HERE], yard.courier()
    swept = await source.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert not await courier.wanted(PLACE, swept)
    yard.evacuate()
    assert await courier.wanted(PLACE, swept)


async def test_what_is_left_of_its_retention_is_reckoned_when_it_leaves(yard: Yard) -> None:
    await yard.working(THERE)
    record = await dead(yard)
    yard.clock.advance(DAY_MS - 1_000)
    await yard.working(THERE)
    yard.evacuate()
    await passed(yard)
    target = yard.stores[THERE]
    yard.clock.advance(999)
    await target.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert await target.read(record.task_id) is not None
    yard.clock.advance(1)
    await target.sweep(PLACE, worker_id="w", queues=[], courier=False)
    assert await target.read(record.task_id) is None


# --- whom no courier may see


async def test_what_no_living_pool_may_see_is_kept_for_that_reason(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate()
    lies = await dead(yard, fence=("eu",))
    theirs = [await yard.submit(fence=("eu",)), await yard.submit(fence=("apac",))]
    later = await yard.submit(fence=("apac",), delay_ms=60_000)
    ours = await yard.submit()
    await passed(yard, THERE)
    told = await passed(yard, THERE)
    assert await yard.is_in(ours) == THERE
    assert told == Evacuated(1, 0, {UNSEEN: 4})
    assert await yard.where(*theirs, later, lies.task_id) == {HERE: 4}


async def test_what_another_pool_may_see_remains_until_its_turn(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    yard.evacuate()
    task_id = await yard.submit(fence=("apac",))
    assert await passed(yard, THERE) == Evacuated(0, 1, {})
    assert await passed(yard, FAR) == Evacuated(1, 0, {})
    assert await yard.is_in(task_id) == FAR


# --- regions that take no guests


async def test_a_region_that_takes_no_guests_gets_nothing_moved_in(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    courier, targets = yard.courier(), dict(list(yard.stores.items())[1:])
    courier.follow(no_guests(THERE), targets)
    yard.evacuate()
    ids = [(await dead(yard, may_move=may_move)).task_id for may_move in (True, False)]
    ids.append(await yard.submit())
    await courier.work(PLACE)
    assert await yard.where(*ids) == {FAR: 3}


async def test_where_no_region_takes_guests_everything_stays_and_says_so(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    courier, targets = yard.courier(), dict(list(yard.stores.items())[1:])
    courier.follow(no_guests(THERE, FAR), targets)
    yard.evacuate()
    why = "every other permitted region takes no guests (max_spill_in 0%)"
    records = [await dead(yard, may_move=may_move) for may_move in (True, False)]
    waits = await yard.submit()
    for _ in range(60):  # a minute, in which a share of nothing would have grown to some tasks
        await courier.work(PLACE)
        yard.clock.advance(1_000)
        await yard.working(THERE, FAR)
    assert await yard.where(waits, *(record.task_id for record in records)) == {HERE: 3}
    told = await yard.stores[HERE].evacuated(ORDERED_MS)
    assert told == Evacuated(0, 0, {why: 3})
    assert (await record_of(yard.stores[HERE], waits)).failover == why


# --- a target that refuses what it seems to have room for


async def test_what_was_refused_there_is_tried_again_after_a_while_and_not_at_once(
    yard: Yard,
) -> None:
    await yard.working(THERE)
    yard.evacuate()
    ids = [await yard.submit() for _ in range(3)]
    courier, source, tried = yard.courier(), yard.stores[HERE], list[str]()

    async def full(task: Exported, **_: object) -> ImportAnswer:
        tried.append(task.record.task_id)
        raise StoreFull(THERE, partly=True)  # one of its nodes: others have room

    yard.stores[THERE].import_task = full
    for _ in range(20):
        swept = await source.sweep(PLACE, worker_id="w", queues=[], courier=False)
        if await courier.wanted(PLACE, swept):
            await courier.work(PLACE)
        yard.clock.advance(1_000)
        await yard.working(THERE)
    assert sorted(tried) == sorted(2 * ids), "at first, and 9 to 10 s later"
    assert await yard.where(*ids) == {HERE: 3}
