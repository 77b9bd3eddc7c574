"""Case C53: nothing starts once a drain was confirmed, whoever is restarted meanwhile."""

import asyncio
import time

import pytest

from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

EU, US = "eu-west", "us-east"
SETTLE_S = 2.0  # docs/regions.md: nothing starts so long after the OK
DUE_S = 3.0  # of what is to come due in a region that drains
SOON_S = 5.0  # after it is over


async def restarted(world: Yard, *names: str) -> None:
    """kill -9 of these processes; they run again."""
    pid_of = world.supervisor.pid_of
    before = {name: pid_of(name) for name in names}
    for name in names:
        world.supervisor.kill(name)
    await until(lambda: all(pid_of(n) not in (None, before[n]) for n in names), "all run again")
    await world.fleet.until_served()


async def state_of(client: Client, region: str) -> str:
    regions, _ = await client.admin.regions()
    return next(each.state for each in regions if each.name == region)


@pytest.mark.parametrize(
    "drained_s",
    [
        pytest.param(DUE_S + 1, id="short"),
        pytest.param(30.0, id="full", marks=[pytest.mark.long, pytest.mark.timeout(180)]),
    ],
)
async def test_c53_nothing_starts_after_a_drain_until_it_is_taken_back(
    world: Yard, drained_s: float
) -> None:
    async with world.client(EU) as eu, world.client(US) as us:
        running = [await eu.submit("sleep", {"seconds": 1}, pin_region=EU) for _ in range(2)]
        due = [await eu.submit("sleep", pin_region=EU, delay=DUE_S) for _ in range(8)]
        ids = [receipt.task_id for receipt in running]
        await until(lambda: world.ledger.count("start").keys() >= set(ids), "two tasks run")
        # Its group has no other region, which a rule of the file names.
        await us.admin.set_region_state(EU, "DRAINING", reason="C53", force=True)
        answered_at = time.monotonic()
        try:
            # The other router may not have heard yet, and store them; this one refuses them for
            # now, and the SDK asks again until they may come in.
            unheard, refused = (
                [
                    asyncio.create_task(client.submit("sleep", pin_region=EU, deadline=120))
                    for _ in range(10)
                ]
                for client in (eu, us)
            )
            for receipt in running:
                task = await us.wait(receipt.task_id, timeout=30)
                assert (task.state, task.attempts) == (State.COMPLETED, 1)
            await restarted(world, f"worker-{EU}", f"router-{EU}", f"router-{US}")
            for client in (eu, us):
                assert await state_of(client, EU) == "DRAINING", "it outlives them all"
            free = [await client.submit("sleep") for client in (eu, us) for _ in range(5)]
            for receipt in free:
                task = await us.wait(receipt.task_id, timeout=30)
                assert task.state is State.COMPLETED
                assert EU not in world.ledger.regions(receipt.task_id)
            await asyncio.sleep(max(0.0, answered_at + drained_s - time.monotonic()))
            starts = [line for line in world.ledger.lines(event="start") if line.region == EU]
            assert [line for line in starts if line.at > answered_at + SETTLE_S] == []
            assert {line.task_id for line in starts} == set(ids)
            for receipt in due:
                task = await us.get(receipt.task_id)
                assert task.state in {State.SCHEDULED, State.PENDING}
            assert [each for each in refused if each.done()] == []
        finally:
            await us.admin.set_region_state(EU, "ACTIVE")
        active_at = time.monotonic()
        receipts = [*due, *await asyncio.gather(*unheard, *refused)]
        for receipt in receipts:
            task = await us.wait(receipt.task_id, timeout=60)
            assert (task.state, task.attempts) == (State.COMPLETED, 1)
            assert world.ledger.regions(receipt.task_id) == [EU]
        after = [line.at - active_at for line in world.ledger.lines(event="start")]
        first_s = min(each for each in after if each > 0)
        print(
            f"\nFIGURES drained for {drained_s:g} s: first start {first_s:.2f} s after it was over"
        )
        if drained_s > SOON_S:
            assert first_s < SOON_S
