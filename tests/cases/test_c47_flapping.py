"""Case C47: a region whose link comes and goes with every health check."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from tests.cases.bare import bare, names_a_time
from tests.cases.pair import EU, US, cut_redis, pair, reach
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client, Receipt
from tradewind.errors import NoRegionReachable, TradewindError
from tradewind.local.wan import Reach
from tradewind.state import State

SUBMIT_EVERY_S = 0.1
CHANGES, SUCCESS = 3, 0.99
QUICKLY_S = 2.0
PROCESSES = ("router", "worker")


@dataclass(frozen=True, slots=True)
class Flaps:
    """For how many turns the link is so, each as long as health.interval, and then well for one."""

    reach: Reach
    turns: int
    turn_s: float
    full: bool = False


@dataclass(slots=True)
class Watched:
    """What callers of one router see."""

    changes: int = 0
    stored: list[Receipt] = field(default_factory=list[Receipt])
    failed: list[TradewindError] = field(default_factory=list[TradewindError])


FULL = (pytest.mark.long, pytest.mark.timeout(600))


@pytest.mark.parametrize(
    "flaps",
    [
        pytest.param(Flaps("refuses", 8, 0.25), id="short"),
        pytest.param(Flaps("silent", 90, 1.0, full=True), id="packets are lost", marks=FULL),
        pytest.param(Flaps("refuses", 90, 1.0, full=True), id="connections are cut", marks=FULL),
    ],
)
async def test_c47_a_flapping_region_changes_few_times_and_costs_nobody_a_submit(
    tmp_path: Path, ledger: Ledger, flaps: Flaps
) -> None:
    async with (
        pair(tmp_path, ledger.from_here(), f"{flaps.turn_s * 1_000:g}ms") as world,
        world.client(EU) as eu,
        world.client(US) as us,
    ):
        before = pids(world)
        async with watching(eu) as at_eu, watching(us) as at_us:
            for _ in range(flaps.turns):
                reach(world, [EU], flaps.reach)
                await asyncio.sleep(flaps.turn_s)
                reach(world, [EU], "ok")
                await asyncio.sleep(flaps.turn_s)
        for seen in (at_eu, at_us):
            assert seen.changes <= CHANGES
            count = len(seen.stored) + len(seen.failed)
            assert len(seen.stored) >= SUCCESS * count > 0, seen.failed

        ids = {receipt.task_id for seen in (at_eu, at_us) for receipt in seen.stored}
        await until(lambda: world.ledger.count("done").keys() == ids, "all that was stored has run")
        for task_id in ids:
            assert len((await us.get(task_id)).hops) <= 2

        for region in (EU, US):
            await cut_redis(world, region)
        for region in (EU, US):
            await all_are_refused(world, region, flaps)
        assert pids(world) == before
        for region in (EU, US):
            await world.supervisor.revive(f"redis-{region}")
        await until(lambda: stores_again(us), "us-east is back", patience_s=90)
        assert pids(world) == before


@asynccontextmanager
async def watching(client: Client) -> AsyncGenerator[Watched]:
    """Submit, and look at how the router finds eu-west, all the while."""
    seen = Watched()

    async def submit() -> None:
        try:
            seen.stored.append(await client.submit("sleep", {"seconds": 0.01}))
        except TradewindError as error:
            seen.failed.append(error)

    async def look() -> None:
        was_eligible = True
        while True:
            route = await client.explain("sleep", {})
            is_eligible = next(each.eligible for each in route.candidates if each.region == EU)
            seen.changes += is_eligible != was_eligible
            was_eligible = is_eligible
            await asyncio.sleep(SUBMIT_EVERY_S)

    async def go_on() -> None:
        async with asyncio.TaskGroup() as group:
            while not over.is_set():
                group.create_task(submit())
                await asyncio.sleep(SUBMIT_EVERY_S)

    over = asyncio.Event()
    looking, submitting = asyncio.create_task(look()), asyncio.create_task(go_on())
    try:
        yield seen
    finally:
        over.set()
        await submitting
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def all_are_refused(world: Yard, region: str, flaps: Flaps) -> None:
    """Once the router knows that no region is left, it says so, and at once."""
    async with bare(world, region) as router:

        async def is_known() -> bool:
            return isinstance(await router.refusal(timeout_s=1), NoRegionReachable)

        await until(is_known, "the router refuses all")
        for _ in range(20 if flaps.full else 3):
            begun = time.monotonic()
            error = await router.refusal()
            assert error.code is grpc.StatusCode.UNAVAILABLE
            assert names_a_time(error)
            assert not flaps.full or time.monotonic() - begun < QUICKLY_S


async def stores_again(client: Client) -> bool:
    """Whether a new submit is stored, and its task runs."""
    try:
        receipt = await client.submit("sleep", deadline=2)
    except TradewindError:
        return False
    return (await client.wait(receipt.task_id, timeout=30)).state is State.COMPLETED


def pids(world: Yard) -> list[int | None]:
    names = [f"{kind}-{region}" for kind in PROCESSES for region in world.regions]
    return [world.supervisor.pid_of(name) for name in names]
