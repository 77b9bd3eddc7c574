"""What waits leaves a region that is evacuated, or where nobody works: with real processes."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import pytest

from tests.flow.lab import Lab
from tests.redis_keys import connected, wrong_counts
from tests.scripts.world import FAILURE, a_bury, claim_batch
from tradewind import codec
from tradewind.control import Control, Evacuation, Order, Stamp
from tradewind.state import State
from tradewind.task import Pointer, Record, Release

HERE, THERE = "eu-west", "us-east"
QUEUE = "{lease: 1s, attempts: 2, backoff: {initial: 20ms, factor: 2, max: 50ms}}"
# As short as may be: what is tested is what happens after it.
SOON = QUEUE + "\nfailover: {unserved_after: 1s, rescue_after: 1s}"
ORDERED_MS = 1_800_000_000_000


async def order(lab: Lab, control: Control) -> None:
    """As routers do once operators have asked for it."""
    for store in lab.stores.values():
        assert await store.control_accept(control, timeout_s=5) is None


def evacuation(epoch: int, rate_per_s: float = 0.0) -> Control:
    return Control(
        Stamp(epoch, "test"),
        regions={HERE: Order("DRAINING")},
        evacuations={HERE: Evacuation(rate_per_s, "test", ORDERED_MS)},
    )


async def counts(lab: Lab, task_ids: Collection[str]) -> Mapping[str, int]:
    """Where tasks are by their records, as "region STATE"."""
    found: Counter[str] = Counter()
    for name, store in lab.stores.items():
        for record in await asyncio.gather(*(store.read(task_id) for task_id in task_ids)):
            if isinstance(record, Record):
                found[f"{name} {record.state}"] += 1
    return found


async def all_ended(
    lab: Lab, region: str, task_ids: Collection[str], state: State = State.COMPLETED
) -> None:
    async def have_ended() -> bool:
        return await counts(lab, task_ids) == {f"{region} {state}": len(task_ids)}

    await lab.until(have_ended)


async def laid_to_rest(lab: Lab, *, number: int) -> list[str]:
    """Dead letters in a region that drains, which nothing would move on."""
    store, found = lab.stores[HERE], list[str]()
    for partition in range(number):
        task_id = await lab.submit("sleep", {"seconds": 0}, partition=partition % 16)
        batch = await claim_batch(
            store,
            place=partition % 16,
            queues=["default"],
            handlers=["sleep"],
            limit=100,
            worker_id="the test's own",
        )
        await store.bury([a_bury(c, may_move=False) for c in batch.claims if c.task_id == task_id])
        await store.release([Release(c) for c in batch.claims if c.task_id != task_id])
        found.append(task_id)
    return found


def runs(lab: Lab) -> Mapping[tuple[str, str], int]:
    """How often each task was started, and where."""
    return Counter((line.task_id, line.region) for line in lab.lines(event="start"))


async def test_an_evacuated_region_loses_nothing_though_its_courier_is_killed(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(QUEUE, regions=2)
    await order(lab, Control(Stamp(1, "test"), regions={HERE: Order("DRAINING")}))
    await lab.worker(THERE, "--concurrency", "64")
    first = await lab.worker(HERE)
    task_ids = await asyncio.gather(
        *(lab.submit("sleep", {"seconds": 0}) for _ in range(250)),
        *(lab.submit("sleep", {"seconds": 0}, partition=3) for _ in range(50)),
    )
    fenced = [await lab.submit("sleep", {"seconds": 0}, fence=("eu",)) for _ in range(3)]
    dead = await laid_to_rest(lab, number=8)
    await order(lab, evacuation(2))

    async def some_have_left() -> bool:
        return (await lab.stores[HERE].evacuated(ORDERED_MS)).moved >= 50

    await lab.until(some_have_left)
    first.kill()
    await lab.worker(HERE)
    await all_ended(lab, THERE, task_ids)
    await all_ended(lab, THERE, dead, State.DEAD_LETTER)
    assert runs(lab) == {(task_id, THERE): 1 for task_id in task_ids}
    for task_id in dead:
        lies = await lab.record(task_id, THERE)
        assert lies is not None
        assert lies.failure == FAILURE
        assert (lies.settled, lies.failover) == (True, "no")
    for task_id in task_ids[::30]:
        assert isinstance(await lab.stores[HERE].read(task_id), Pointer)
        arrived = await lab.record(task_id, THERE)
        assert arrived is not None
        stays = [(stay.region, stay.reason) for stay in codec.hops(arrived.hops)]
        assert stays == [(HERE, "evacuation")]

    async def the_rest_is_told_of() -> bool:
        told = await lab.stores[HERE].evacuated(ORDERED_MS)
        return (told.moved, told.remaining) == (308, 0) and told.kept == {
            "no other permitted region": 3
        }

    await lab.until(the_rest_is_told_of)
    for task_id in fenced:
        record = await lab.record(task_id, HERE)
        assert record is not None
        assert (record.state, record.failover) == (State.PENDING, "no other permitted region")
    assert [wrong_counts(port) for port in lab.ports.values()] == [{}, {}]
    for task_id in dead:
        assert await lab.stores[THERE].redrive(task_id, 2)
    await all_ended(lab, THERE, dead)


@pytest.mark.long  # a worker counts as gone after 10 s, and there are two looks in between
async def test_another_pool_stands_in_for_one_that_died(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(SOON, regions=2)
    gone = await lab.worker(HERE)
    running = await lab.submit("sleep", {"seconds": 600})
    await lab.begun(running)
    gone.send_signal(signal.SIGKILL)
    gone.wait()
    waiting = [await lab.submit("sleep", {"seconds": 0}) for _ in range(40)]
    fenced = await lab.submit("sleep", {"seconds": 0}, fence=("eu",), labels={"note": "marker-eu"})
    await lab.worker(THERE)
    await all_ended(lab, THERE, waiting)
    await lab.begun(running, times=2)
    assert [line.region for line in lab.lines(running, "start")] == [HERE, THERE]
    assert {run: n for run, n in runs(lab).items() if n > 1} == {}
    record = await lab.record(fenced, HERE)
    assert record is not None
    assert (record.state, record.failover) == (State.PENDING, "")
    there = connected(lab.ports[THERE])
    assert not [key for key in there.scan_iter() if fenced in key]
    assert "marker-eu" not in lab.logs()
    assert fenced not in lab.logs()
