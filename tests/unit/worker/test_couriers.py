"""What a courier takes out of a region that is evacuated, or where nobody serves a queue."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.scripts.world import DAY_MS, FAILURE, PLACE, a_bury, claim_batch, record_of
from tests.unit.worker.moving_yard import FAR, FLEET, HERE, ORDERED_MS, THERE, Yard, a_beat
from tradewind import codec
from tradewind.control import Control, Order, Pause, Stamp
from tradewind.fleet import Durability, QueuePolicy
from tradewind.limits import MOVE_AGAIN_MS
from tradewind.state import State
from tradewind.task import RetryAt
from worker.courier import Courier


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.courier._JITTER_S", 0.0)


@pytest.fixture
def yard() -> Yard:
    return Yard()


# --- evacuation


async def test_all_that_waits_leaves_an_evacuated_region(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    source, courier = yard.stores[HERE], yard.courier()
    retried = await yard.submit()
    (claim,) = (await claim_batch(source)).claims
    await source.retry([RetryAt(claim, 60_000, FAILURE)])
    waiting = [await yard.submit() for _ in range(40)] + [await yard.submit(delay_ms=60_000)]
    await courier.work(PLACE)
    assert await yard.where(retried, *waiting) == {HERE: 42}, "nothing is ordered"
    yard.evacuate()
    for _ in range(2):  # in memory no ticket of what has left keeps the places of those behind
        await courier.work(PLACE)
    assert await yard.where(retried, *waiting) == {THERE: 42}
    told = await source.evacuated(ORDERED_MS)
    assert (told.moved, told.remaining, told.kept) == (42, 0, {})
    arrived = await record_of(yard.stores[THERE], retried)
    (stay,) = codec.hops(arrived.hops)
    assert (stay.region, stay.attempts, stay.reason) == (HERE, 1, "evacuation")
    assert (arrived.state, arrived.attempts) == (State.SCHEDULED, 0)
    assert arrived.next_attempt_ms == yard.clock.now_ms() + 60_000


async def test_what_may_not_leave_says_why_and_is_counted(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    yard.evacuate()
    pinned = await yard.submit(pin_region=HERE)
    fenced = await yard.submit(fence=("eu",))
    both = await yard.submit(fence=("eu", "west"))
    other = await yard.submit(name="rare")
    await yard.courier().work(PLACE)
    assert await yard.where(pinned, fenced, both, other) == {HERE: 3, THERE: 1}
    reasons = {
        pinned: "pinned",
        fenced: "no other permitted region",
        other: "ap-south: no worker for handler, us-east: no worker for handler",
    }
    for task_id, reason in reasons.items():
        record = await record_of(yard.stores[HERE], task_id)
        assert (record.state, record.failover) == (State.PENDING, reason)
    told = await yard.stores[HERE].evacuated(ORDERED_MS)
    assert (told.moved, told.remaining, told.kept) == (1, 0, dict.fromkeys(reasons.values(), 1))


async def test_no_region_that_is_not_active_takes_what_leaves(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    yard.evacuate()
    closed = {**yard.control.regions, THERE: Order("CORDONED")}
    yard.control = replace(yard.control, regions=closed)
    task_id = await yard.submit()
    await yard.courier().work(PLACE)
    assert await yard.is_in(task_id) == FAR


async def test_an_order_s_rate_is_kept(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate(rate_per_s=5.0)
    waiting = [await yard.submit() for _ in range(40)]
    courier = yard.courier()
    for expected in (5, 10, 15):
        await courier.work(PLACE)
        assert (await yard.where(*waiting)).get(THERE, 0) <= expected
        yard.clock.advance(1_000)
        await yard.working(THERE)
    assert (await yard.where(*waiting)).get(THERE, 0) >= 10


async def test_a_share_of_what_the_target_completes_is_not_exceeded(yard: Yard) -> None:
    await yard.working(THERE, service_s=1.0)  # 16 a second, of which 30 %
    yard.evacuate()
    waiting = [await yard.submit() for _ in range(40)]
    await yard.courier().work(PLACE)
    assert await yard.where(*waiting) == {THERE: 4, HERE: 36}


async def test_a_courier_that_holds_half_of_the_leases_takes_half_of_the_rate(yard: Yard) -> None:
    await yard.working(THERE, service_s=1.0)
    yard.evacuate()
    waiting = [await yard.submit() for _ in range(40)]
    courier = yard.courier()
    courier.shares(lambda: 0.5)
    await courier.work(PLACE)
    assert await yard.where(*waiting) == {THERE: 2, HERE: 38}


async def test_an_order_that_is_taken_back_stops_the_courier(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate()
    waiting = [await yard.submit(delay_ms=60_000) for _ in range(200)]
    courier = yard.courier()
    before = yard.stores[HERE].stranded

    async def then_taken_back(*args: Any, **kwargs: Any) -> Any:
        part = await before(*args, **kwargs)
        yard.control = Control(Stamp(2, "b"))
        return part

    yard.stores[HERE].stranded = then_taken_back
    await courier.work(PLACE)
    assert await yard.where(*waiting) == {THERE: 128, HERE: 72}


async def test_what_moved_lately_does_not_move_again(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate()
    task_id = await yard.submit()
    lately = codec.add_hop(
        b"",
        region=THERE,
        state=State.PENDING,
        attempts=0,
        reason="evacuation",
        at_ms=yard.clock.now_ms(),
    )
    cell = yard.stores[HERE].room.cell(task_id)
    assert cell is not None
    cell.hops = lately
    yard.clock.advance(MOVE_AGAIN_MS - 1)
    await yard.working(THERE)
    await yard.courier().work(PLACE)
    assert await yard.is_in(task_id) == HERE
    yard.clock.advance(1)
    await yard.working(THERE)
    await yard.courier().work(PLACE)
    assert await yard.is_in(task_id) == THERE


# --- unserved


async def rescued(yard: Yard, courier: Courier, after_ms: int, *alive: str) -> None:
    """So much time passes, second by second, then the courier looks."""
    for _ in range(after_ms // 1_000):
        yard.clock.advance(1_000)
        courier.saw([a_beat(HERE)] if HERE in alive else [])
    await yard.working(*{*alive, THERE}, queues=("mail", "rare"))
    await courier.work(PLACE)


async def test_what_nobody_serves_is_moved_once_it_has_waited_long_enough(yard: Yard) -> None:
    courier = yard.courier()
    task_id, served = await yard.submit(queue="rare"), await yard.submit()
    await rescued(yard, courier, 119_000, HERE)
    assert await yard.is_in(task_id) == HERE
    await rescued(yard, courier, 11_000, HERE)  # it looks every ten seconds
    assert await yard.is_in(task_id) == THERE
    assert await yard.is_in(served) == HERE
    (stay,) = codec.hops((await record_of(yard.stores[THERE], task_id)).hops)
    assert (stay.region, stay.reason) == (HERE, "unserved")


async def test_a_handler_that_nobody_has_is_not_served(yard: Yard) -> None:
    courier = yard.courier()
    task_id = await yard.submit(name="other")
    await claim_batch(yard.stores[HERE])  # parks it
    beat = replace(a_beat(THERE), handlers=("other",))
    for _ in range(120):
        yard.clock.advance(1_000)
        courier.saw([a_beat(HERE)])
    await yard.stores[THERE].heartbeat(beat)
    await courier.work(PLACE)
    assert await yard.is_in(task_id) == THERE


async def test_a_queue_that_was_served_a_moment_ago_is_served(yard: Yard) -> None:
    courier = yard.courier()
    task_id = await yard.submit()
    await rescued(yard, courier, 200_000, HERE)
    await rescued(yard, courier, 15_000)
    assert await yard.is_in(task_id) == HERE
    await rescued(yard, courier, 1_000)
    assert await yard.is_in(task_id) == THERE


@pytest.mark.parametrize(
    "control",
    [
        Control(Stamp(2, "b"), pauses={"rare": Pause()}),
        Control(Stamp(2, "b"), regions={HERE: Order("DRAINING")}),
    ],
    ids=["a paused queue", "a drained region"],
)
async def test_what_was_stopped_is_not_unserved(yard: Yard, control: Control) -> None:
    yard.control, courier = control, yard.courier()
    task_id = await yard.submit(queue="rare")
    due = await yard.submit(queue="rare", delay_ms=1_000)
    await rescued(yard, courier, 300_000)
    assert await yard.where(task_id, due) == {HERE: 2}


# --- for another region


async def test_what_was_due_and_waits_where_nobody_works_is_moved_by_another_region(
    yard: Yard,
) -> None:
    courier = yard.courier(of=THERE)
    due = await yard.submit(delay_ms=1_000)
    later = await yard.submit(delay_ms=DAY_MS)
    await rescued(yard, courier, 121_000)
    assert await yard.is_in(due) == THERE
    assert await yard.is_in(later) == HERE


async def test_another_region_reads_and_moves_only_what_it_may_see(yard: Yard) -> None:
    courier, source = yard.courier(of=THERE), yard.stores[HERE]
    fence = ("eu", "apac")
    waits, later = await yard.submit(fence=fence), await yard.submit(fence=fence, delay_ms=1)
    dead = await yard.submit(queue="dead", fence=fence)
    batch = await claim_batch(source, queues=["dead"])
    await source.bury([a_bury(claim) for claim in batch.claims])
    moving = await yard.submit(fence=fence)
    record = await record_of(source, moving)
    assert await source.begin_export(record, FAR, groups=["eu"], reason="unserved")
    ours = await yard.submit(fence=("west",))
    seen: list[str] = []

    def heard(name: str) -> None:
        method = getattr(source, name)

        async def hear(*args: Any, **kwargs: Any) -> Any:
            answer = await method(*args, **kwargs)
            seen.extend(re.findall(r"task_id='(\w+)'", repr(answer)))
            return answer

        setattr(source, name, hear)

    for name in ("moving", "outbox", "stranded"):
        heard(name)
    await yard.working(FAR)
    await rescued(yard, courier, 121_000)
    assert set(seen) == {ours}
    assert await yard.where(ours, waits, later, dead, moving) == {THERE: 1, HERE: 4}


# --- dead tasks


async def test_moves_of_a_dead_task_are_counted_since_its_redrive(yard: Yard) -> None:
    await yard.working(THERE, FAR)
    source, courier = yard.stores[HERE], yard.courier()
    task_id = await yard.submit()
    cell = source.room.cell(task_id)
    assert cell is not None
    cell.hops, cell.hop_count = (
        codec.add_hop(
            b"", region=THERE, state=State.DEAD_LETTER, attempts=1, reason="exhausted", at_ms=0
        ),
        1,
    )
    for expected in (HERE, FAR):
        batch = await claim_batch(source)
        await source.bury([a_bury(claim) for claim in batch.claims])
        await courier.work(PLACE)
        assert await yard.is_in(task_id) == expected
        if expected == HERE:
            record = await record_of(source, task_id)
            assert record.failover == "no moves left (max_hops)"
            assert await source.redrive(task_id, record.epoch)


# --- before each step what was written down has to last


@pytest.mark.parametrize("region", [HERE, THERE])
async def test_no_step_is_built_on_one_that_a_crash_could_undo(yard: Yard, region: str) -> None:
    await yard.working(THERE)
    yard.evacuate()
    task_id = await yard.submit()
    store, sure = yard.stores[region], yard.stores[region].seal

    async def unsure(partition: int) -> bool:
        return partition != PLACE

    store.seal = unsure
    await yard.courier().work(PLACE)
    left = await record_of(yard.stores[HERE], task_id)
    assert (left.state, left.target) == (State.MOVING, THERE)
    arrived = await yard.stores[THERE].read(task_id)
    assert (arrived is None) is (region == HERE)
    store.seal = sure
    await yard.courier().work(PLACE)
    assert await yard.is_in(task_id) == THERE


async def test_a_target_forgets_nothing_that_its_source_may_not_remember(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate()
    await yard.submit()
    source, answers = yard.stores[HERE], iter([True, False])

    async def sure_once(partition: int) -> bool:
        del partition
        return next(answers)

    source.seal = sure_once
    await yard.courier().work(PLACE)
    assert len(await yard.stores[THERE].unsettled(PLACE, older_than_ms=0)) == 1


# --- on record


async def test_what_was_moved_is_on_record_with_why_and_where_to(yard: Yard) -> None:
    await yard.working(THERE)
    yard.evacuate()
    courier = yard.courier()
    for _ in range(3):
        await yard.submit()
    await courier.work(PLACE)
    await courier.tell()
    source = yard.stores[HERE]
    assert await source.audited(before="", limit=9) == [], "added up over some seconds"
    yard.clock.advance(10_000)
    for _ in range(2):
        await courier.tell()
    (record,) = await source.audited(before="", limit=9)
    assert (record.deed, record.on, record.why) == ("moved", HERE, "evacuation")
    assert record.counts == {THERE: 3}


async def test_where_nothing_may_leave_it_is_looked_ever_more_seldom(yard: Yard) -> None:
    yard.evacuate()
    await yard.submit(pin_region=HERE)
    courier, source = yard.courier(), yard.stores[HERE]
    looks: list[int] = []
    passed = source.passed

    async def noted(partition: int, order_ms: int, kept: Mapping[str, int]) -> None:
        looks.append(yard.clock.now_ms())
        await passed(partition, order_ms, kept)

    source.passed = noted
    for _ in range(400):
        swept = await source.sweep(PLACE, worker_id="w", queues=[], courier=False)
        if await courier.wanted(PLACE, swept):
            await courier.work(PLACE)
        yard.clock.advance(1_000)
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert len(pauses) >= 4
    assert all(later > earlier for earlier, later in itertools.pairwise(pauses[:4]))
    assert pauses[3] >= 120_000


@pytest.mark.parametrize("asked", ["memory", "fsync"])
async def test_no_task_moves_to_where_it_would_be_kept_less_safely(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, asked: Durability
) -> None:
    async def lacks() -> Mapping[Durability, str]:
        return {"fsync": "no log"}

    await yard.working(THERE, FAR)
    yard.evacuate()
    monkeypatch.setattr(yard.stores[THERE], "lacks", lacks)
    task_id, courier = await yard.submit(), yard.courier()
    targets = {name: store for name, store in yard.stores.items() if name != HERE}
    courier.follow(replace(FLEET, default_queue=QueuePolicy(durability=asked)), targets)
    await courier.work(PLACE)
    assert await yard.is_in(task_id) == (THERE if asked == "memory" else FAR)
