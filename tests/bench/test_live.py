"""bench.live: what is played live agrees with the simulator, step by step and without a clock."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from bench.live.app import HANDLER
from bench.live.place import Place, place
from bench.live.plan import NAMES, Plan, plan
from bench.live.seen import NOBODY, Figures, Record, Seen, disagreements, figures, middle
from bench.live.simulated import simulate
from bench.sim import outages
from bench.sim.outages import GOOD, Condition
from tests.harness.patience import until
from tradewind import Client, Receipt
from tradewind.errors import HomeUnreachable, NoRegionReachable

TASKS = 10


async def submitted(client: Client, index: int, residency: str = "") -> Receipt:
    groups = [residency] if residency else []
    return await client.submit(HANDLER, {"index": index, "seconds": 0.0}, residency=groups)


async def is_eligible(client: Client, region: str) -> bool:
    route = await client.explain(HANDLER, {"index": 0, "seconds": 0.0})
    return next(each.eligible for each in route.candidates if each.region == region)


@pytest.fixture
def three(tmp_path: Path) -> Plan:
    return plan("hard-down", tmp_path / "regions.yaml", 3, 0.05)


@pytest.mark.long
async def test_who_takes_over_and_who_comes_back_is_as_the_simulator_says(
    three: Plan, tmp_path: Path
) -> None:
    simulated = figures(three, simulate(three, 1))
    assert simulated.taken_by not in {NOBODY, three.broken}
    assert math.isfinite(simulated.back_s)
    ledger = tmp_path / "ledger"
    ledger.touch()
    async with place(three, tmp_path / "regions.yaml", tmp_path, ledger) as running:
        receipts = await outage(running, three, simulated.taken_by)

        def has_all() -> bool:
            return len(ledger.read_text().splitlines()) == len(receipts)

        await until(has_all, "all has run")
    started = [line.split()[:3] for line in ledger.read_text().splitlines()]
    expected = [[str(index), each.task_id, each.region] for index, each in enumerate(receipts)]
    assert sorted(started) == sorted(expected)


async def outage(running: Place, three: Plan, heir: str) -> list[Receipt]:
    """Submit before, during and after; returns what was stored, task 0 first."""
    broken = three.broken
    (group,) = three.world.fleet().regions[broken].residency
    stored: list[Receipt] = []

    async def submit(client: Client, residency: str = "") -> str:
        stored.append(await submitted(client, len(stored), residency))
        return stored[-1].region

    async with running.client(broken, 60) as client:

        async def is_home() -> bool:
            return await submit(client) == broken

        await until(is_home, "its callers' tasks are at home")
        await running.become(broken, Condition(reach="refuses"))

        async def is_out() -> bool:
            return not await is_eligible(client, broken)

        await until(is_out, "its own router holds the region for down")

        async def heir_leads() -> bool:
            route = await client.explain(HANDLER, {"index": 0, "seconds": 0.0})
            return max(route.candidates, key=lambda each: each.share).region == heir

        await until(heir_leads, "most of its callers' tasks go where the simulator says")
        assert broken not in {await submit(client) for _ in range(TASKS)}
        with pytest.raises((NoRegionReachable, HomeUnreachable)):  # alone in its group
            await client.submit(HANDLER, {}, residency=[group], deadline=0.5)

        await running.become(broken, GOOD)
        await until(is_home, "its callers' tasks are at home again")
        assert await submit(client, group) == broken
    return stored


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_as_the_simulator_plays_it_but_for_its_times(name: str, tmp_path: Path) -> None:
    chosen = plan(name, tmp_path / "regions.yaml")
    named = chosen.world.matrix.regions
    original = outages.ordered(outages.SHAPES[name](named, 150.0, 250.0))
    assert chosen.world.fleet().health.interval_ms == 500
    assert [(each.region, each.condition) for each in chosen.script.changes] == [
        (each.region, each.condition) for each in original.changes
    ]
    times_s = [each.at_s for each in chosen.script.changes]
    assert times_s == pytest.approx([each.at_s / 10 for each in original.changes])


def run_of(three: Plan, tasks: list[Seen]) -> Figures:
    one, _, broken = three.world.matrix.regions
    return figures(three, Record(tasks, {(one, broken): [1.0, 2.0], (broken, one): [1.0] * 9}))


def test_figures_count_what_goes_wrong(three: Plan) -> None:
    one, other, broken = three.world.matrix.regions
    anywhere, at_home = frozenset((one, other, broken)), frozenset((broken,))
    during_s = three.script.ends_s - 1
    tasks = [
        Seen(0.0, one, anywhere, had_place=True),  # while routers warmed up
        Seen(6.0, broken, at_home, True, broken, 6.0, 6.0, (broken,), 6.5),
        Seen(7.0, broken, at_home, True, one, 7.0, 7.0, (one,), 7.0),
        Seen(8.0, broken, at_home, had_place=False),
        Seen(9.0, broken, at_home, had_place=True),
        Seen(during_s, broken, anywhere, True, one, during_s, during_s, (one, other), during_s),
        Seen(during_s, broken, anywhere, True, one, during_s, during_s),
    ]
    found = run_of(three, tasks)
    assert found.tasks == 6
    assert (found.outside_fence, found.twice, found.lost, found.changes) == (1, 1, 1, 2)
    assert found.success == 4 / 5
    assert found.home == 1 / 4
    assert found.taken_by == one
    assert found.shares == (0.5, 0.0, 0.0)
    assert (found.p50_s, found.p99_s) == (0.0, 0.5)
    assert found.back_s == math.inf


GOOD_RUN = Figures(
    tasks=100,
    p50_s=0.0,
    p99_s=0.1,
    home=0.8,
    shares=(0.3, 0.0, 0.3),
    taken_by="near",
    back_s=4.0,
    peak=0.7,
    success=1.0,
    outside_fence=0,
    twice=0,
    lost=0,
    changes=2,
)
DIFFERENT = {
    "another takes over": (replace(GOOD_RUN, taken_by="far"), "far takes over, not near"),
    "its share stays": (replace(GOOD_RUN, shares=(0.3, 0.3, 0.3)), "its share does not fall"),
    "it does not come back": (replace(GOOD_RUN, back_s=math.inf), "shares do not come back"),
    "a fence": (replace(GOOD_RUN, outside_fence=2), "2 tasks outside their fence"),
    "submits": (replace(GOOD_RUN, success=0.98), "98.0% of submits succeed"),
    "losses": (replace(GOOD_RUN, lost=1), "1 tasks never ran"),
}


@pytest.mark.parametrize(("live", "said"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_from_the_simulator_is_said(live: Figures, said: str) -> None:
    assert disagreements(GOOD_RUN, [GOOD_RUN]) == []
    assert disagreements(replace(GOOD_RUN, back_s=20.0, p99_s=9.0), [GOOD_RUN]) == []
    assert disagreements(live, [GOOD_RUN, GOOD_RUN]) == [said]


def test_what_one_seed_of_the_simulator_does_may_happen_live() -> None:
    other = replace(GOOD_RUN, shares=(0.3, 0.3, 0.3), taken_by=NOBODY, back_s=math.inf)
    for live in (GOOD_RUN, other):
        assert disagreements(live, [other, GOOD_RUN, GOOD_RUN]) == []
    assert middle([other, GOOD_RUN, GOOD_RUN]) is GOOD_RUN
