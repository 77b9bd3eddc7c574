"""Case C09: scripts are gone, primaries demoted or killed; all goes on without a restart."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases.clustered import clustered, is_in_order
from tests.cases.steady import Steady, all_have_run, ran_twice, steady, unknown
from tests.flow.lab import Lab
from tests.harness.patience import PATIENCE_S, until
from tradewind.errors import UnknownTask
from tradewind.ids import birth_partition
from tradewind.local.redis_server import ask
from tradewind.local.scratch import RedisProcess, cluster_nodes, fail_over, is_primary

RATE = 50.0
RESUMES_WITHIN_S = 15.0  # as the case has it
PARTITIONS, PRIMARIES = 16, 3
FULL = [pytest.mark.long, pytest.mark.timeout(300)]


@dataclass(slots=True)
class Trial:
    """One region under load, and how it takes what is done to it."""

    lab: Lab
    load: Steady
    nodes: Sequence[RedisProcess]
    patience_s: float

    async def resumes(self, what: str, done: Callable[[], Awaitable[None]]) -> None:
        """Do it, and wait until every partition has run something that was submitted since."""
        since = time.monotonic()
        await done()

        def everywhere() -> bool:
            new = {id_ for id_, call in self.load.kept.items() if call.began_at >= since}
            ran = {line.task_id for line in self.lab.lines(event="start")} & new
            return len({*map(birth_partition, ran)}) == PARTITIONS

        name = f"all {PARTITIONS} partitions run new work after: {what}"
        await until(everywhere, name, patience_s=self.patience_s)
        print(f"\nFIGURES {what}: resumed within {time.monotonic() - since:.1f} s")

    async def flush_scripts(self) -> None:
        """What a restart or a promotion does to cached scripts, everywhere at once."""
        for node in self.nodes:
            if is_primary(node):
                ask(node.port, "SCRIPT FLUSH SYNC")

    def failover(self, shard: int) -> Callable[[], Awaitable[None]]:
        """The replica of a shard takes over in order."""
        pair = (self.nodes[shard], self.nodes[PRIMARIES + shard])

        async def take_over() -> None:
            replica = next(node for node in pair if not is_primary(node))
            await asyncio.to_thread(fail_over, replica)

        return take_over

    async def kill(self) -> None:
        """kill -9 of the first primary."""
        next(node for node in self.nodes if is_primary(node)).kill()


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("shards", "patience_s"),
    [
        pytest.param([0], PATIENCE_S, id="short"),
        pytest.param([0, 1, 2], RESUMES_WITHIN_S, id="full", marks=FULL),
    ],
)
async def test_c09_scripts_that_are_gone_and_demoted_primaries_cost_nothing(
    tmp_path: Path, shards: list[int], patience_s: float
) -> None:
    with cluster_nodes(tmp_path / "cluster", PRIMARIES, replicas=1) as nodes:
        async with clustered(tmp_path, [node.port for node in nodes]) as region:
            lab = region.lab
            async with steady(region, RATE) as load:
                trial = Trial(lab, load, nodes, patience_s)
                await trial.resumes("nothing", nothing)
                await trial.resumes("SCRIPT FLUSH", trial.flush_scripts)
                for shard in shards:
                    await trial.resumes(f"failover of shard {shard}", trial.failover(shard))
            await all_have_run(lab, load)
            await is_in_order([node.port for node in nodes if is_primary(node)])
            print(f"\nFIGURES {load.figures(0, time.monotonic())}; {len(load.failed)} refused")
            load.refusals_are_ours()
            assert ran_twice(lab) == {}
            assert len(unknown(lab, load)) <= len(load.failed)


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_c09_a_killed_primary_is_replaced_and_what_it_costs_is_counted(
    tmp_path: Path,
) -> None:
    with cluster_nodes(tmp_path / "cluster", PRIMARIES, replicas=1) as nodes:
        ports = [node.port for node in nodes]
        async with clustered(tmp_path, ports, workers=2) as region:
            lab = region.lab
            async with steady(region, RATE) as load:
                trial = Trial(lab, load, nodes, RESUMES_WITHIN_S)
                await trial.resumes("nothing", nothing)
                await trial.resumes("kill -9 of a primary", trial.kill)
                await asyncio.sleep(5)
                lost = await lost_of(lab, load)
            lost |= await lost_of(lab, load)
            print(
                f"\nFIGURES {len(load.kept)} tasks accepted, {len(load.failed)} refused; "
                f"{len(lost)} lost, {len(ran_twice(lab))} ran again; "
                f"{load.figures(0, time.monotonic())}"
            )
            load.refusals_are_ours()
            assert len(unknown(lab, load)) <= len(load.failed)


async def nothing() -> None:
    pass


async def lost_of(lab: Lab, load: Steady) -> set[str]:
    """Wait until every accepted task has run or is nowhere; gives the latter."""
    lost: set[str] = set()

    async def all_are_known() -> bool:
        ran = {line.task_id for line in lab.lines(event="done")}
        for task_id in set(load.kept) - ran - lost:
            try:
                await load.client.get(task_id)
            except UnknownTask:
                lost.add(task_id)
        return set(load.kept) <= ran | lost

    await lab.until(all_are_known)
    return lost
