"""A link is cut under load, both ways or one, or spoilt: nothing is lost or done twice.

Each router, and each pool of workers, has a way of its own to each region's Redis, so that one of
them can be cut alone. What is cut lets no packet through and tells nobody, and what was sent
meanwhile arrives late, once the link is well again (tradewind.local.wan). Part of the tasks are
fenced: whatever happens, nothing of them is found in the third region.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.cut_load import Load, Runs, agreed, is_one_of_its_runs
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard, yard
from tradewind.local.wan import Link

pytestmark = pytest.mark.asyncio(loop_scope="session")

APP = Path(__file__).with_name("cut_app.py")
EU, US, AP = "eu-west", "us-east", "ap-south"
SLOTS = 4
LEASE_S = 2.0
BEGUN = 12  # lines of the ledger
AFTER_S = 1.5

WORLD = """\
version: 1
partitions: 16
regions:
  eu-west: {redis: "redis://127.0.0.1:6401", residency: [eu]}
  us-east: {redis: "redis://127.0.0.1:6402", residency: [us]}
  ap-south: {redis: "redis://127.0.0.1:6403", residency: [apac]}
rtt:
  eu-west: {us-east: 40ms, ap-south: 60ms}
  us-east: {ap-south: 80ms}
rules:
  - {name: starts-in-eu, match: {labels: {start: eu}}, prefer: [eu-west]}
health: {interval: 250ms, timeout: 1s}
queues:
  default:
    lease: 2s
    attempts: 1
    timeout: 30s
    failover: {on: [exhausted], max_hops: 2}
failover: {unserved_after: 1s, rescue_after: 3s}
"""

# What is cut: ways (viewer, region), and whether the region is this end of the link.
LINKS: Mapping[str, Mapping[tuple[str, str], bool]] = {
    "a router and its own region": {("router-eu-west", EU): False},
    "a router and another region": {("router-us-east", EU): False},
    "workers and their own region": {("worker-eu-west", EU): False},
    "workers of two regions": {("worker-eu-west", US): False, ("worker-us-east", EU): True},
    "a region and all but its workers": {
        **{(f"router-{region}", EU): False for region in (EU, US, AP)},
        **{(f"worker-{region}", EU): False for region in (US, AP)},
        **{("worker-eu-west", region): True for region in (US, AP)},
    },
}

# How it is meanwhile, in fields of Link: from this end, and from the other.
Fields = Mapping[str, Any]
THERE: Fields = {"reach": "silent-there"}
BACK: Fields = {"reach": "silent-back"}
SILENT: Fields = {"reach": "silent"}
FORGOTTEN: Fields = {"reach": "silent", "forgets": True}
RESET: Fields = {"reach": "resets"}
LOST: Fields = {"loses": 0.05}
CUT_OFF: dict[str, tuple[Fields, Fields]] = {
    "both ways": (SILENT, SILENT),
    "there": (THERE, BACK),
    "back": (BACK, THERE),
}
SPOILT: dict[str, tuple[Fields, Fields]] = {
    "its connections forgotten": (FORGOTTEN, FORGOTTEN),
    "its connections reset": (RESET, RESET),
    "answers lost": (LOST, LOST),
}


@dataclass(frozen=True, slots=True)
class Cut:
    """Which ways are cut, how, and for how long."""

    link: str
    how: str
    seconds: float

    def spoilt(self, well: Mapping[tuple[str, str], Link]) -> dict[tuple[str, str], Link]:
        """The ways concerned, as they are meanwhile."""
        ends = (CUT_OFF | SPOILT)[self.how]
        return {way: replace(well[way], **ends[turned]) for way, turned in LINKS[self.link].items()}

    @property
    def loses_leases(self) -> bool:
        """Whether workers cannot say that they go on."""
        return ("worker-eu-west", EU) in LINKS[self.link]

    @property
    def is_whole(self) -> bool:
        """Whether nothing can be asked and answered meanwhile."""
        return self.how != "answers lost"


SHORT = Cut("workers and their own region", "both ways", 5)
CUTS = [Cut(*each) for each in (*product(LINKS, CUT_OFF, (5, 30)), *product(LINKS, SPOILT, (5,)))]


def case(cut: Cut) -> Any:
    """One in every run, all at length."""
    marks = [pytest.mark.timeout(300), *([] if cut == SHORT else [pytest.mark.long])]
    return pytest.param(cut, id=f"{cut.link}, {cut.how}, {cut.seconds:g} s", marks=marks)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running_far(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger
) -> AsyncIterator[Yard]:
    home = tmp_path_factory.mktemp("far")
    options = ("--concurrency", f"{SLOTS}")
    async with yard(home, WORLD, APP, ledger, *options, wan=True, wan_apart=True) as running:
        yield running
        await running.is_in_order()


@pytest_asyncio.fixture(loop_scope="session")
async def far(running_far: Yard, ledger: Ledger) -> Yard:
    """Three regions, all ways between them well, and routers that remember no cut before.

    A region that goes out again and again would be kept out for half an hour.
    """
    await asyncio.gather(*(anew(running_far, f"router-{each}") for each in running_far.regions))
    await running_far.is_served_everywhere("work")
    running_far.ledger = ledger.from_here()
    return running_far


@contextmanager
def is_so(world: Yard, cut: Cut) -> Generator[None]:
    """Cut the ways for the length of a block."""
    well = dict(world.fleet.links)
    world.fleet.set_links(cut.spoilt(well))
    try:
        yield
    finally:
        world.fleet.set_links(well)


async def anew(world: Yard, name: str) -> None:
    """Let a process forget what it knows."""
    world.supervisor.disable_restart(name)
    world.supervisor.kill(name)
    await until(lambda: world.supervisor.pid_of(name) is None, f"{name} has ended")
    await world.supervisor.revive(name)


@pytest.mark.parametrize("cut", [case(cut) for cut in CUTS])
async def test_a_cut_link_loses_nothing_and_runs_no_waiting_task_twice(far: Yard, cut: Cut) -> None:
    async with AsyncExitStack() as stays:
        clients = {
            region: await stays.enter_async_context(far.client(region)) for region in far.regions
        }
        load = Load(far, {each: clients[each] for each in (EU, US)}, random.Random(repr(cut)))
        await stays.enter_async_context(far.unseen(AP, load.marks))
        load.burst()
        trickling = asyncio.create_task(load.trickle())
        await until(lambda: len(far.ledger) >= BEGUN, "the load runs")

        cut_at = time.monotonic()
        with is_so(far, cut):
            await asyncio.sleep(cut.seconds)
        healed_at = time.monotonic()

        await asyncio.sleep(AFTER_S)
        load.stop()
        await trickling
        await load.answered()
        first_seen = await load.settled()
        settled_at = time.monotonic()
        again = await load.repeated()
        tasks = await agreed(list(clients.values()), list(first_seen))
        for part, mark in load.marks.items():  # it can be found at all
            assert any(far.mentions(region, mark) for region in (EU, US)), part

    assert load.failed == {}
    assert {number: receipt.task_id for number, receipt in again.items()} == {
        number: load.receipts[number].task_id for number in again
    }
    # Nothing was done that nobody was told of: a second task of one submit would be.
    assert {line.task_id for line in far.ledger.lines()} == set(tasks)
    broken = {load.receipts[each].task_id for each in load.receipts if load.is_broken(each)}
    runs = Runs.of(far.ledger, broken)
    assert [view for view in tasks.values() if not is_one_of_its_runs(view, runs)] == []
    for task_id, seen in first_seen.items():
        assert (seen.state, seen.result) == (tasks[task_id].state, tasks[task_id].result)
    starts = far.ledger.lines(event="start")
    during = [line for line in starts if cut_at + LEASE_S < line.at < healed_at]
    late = [line for line in runs.first.values() if line.at > healed_at]
    in_cut = [line for line in during if line.region == EU]
    moved = [view for view in tasks.values() if len(view.hops) > 1]
    counts = {
        "tasks": len(tasks),
        "ran twice": len(runs.extra),
        "waited": len(late),
        "moved": len(moved),
        "started in eu-west meanwhile": len(in_cut),
    }
    print(f"\nFIGURES {cut}: {counts}, all settled {settled_at - healed_at:.1f} s after healing")
    if cut.loses_leases and cut.is_whole:  # such workers start nothing once leases are over
        assert in_cut == []
    assert set(runs.extra.values()) <= {1}
    assert cut.loses_leases or not runs.extra
    for task_id in runs.extra:
        first = runs.first[task_id]
        # It was held by the workers that were cut off as they were, and by nobody else.
        assert first.region == EU
        assert first.at < (cut_at + LEASE_S if cut.is_whole else healed_at)
