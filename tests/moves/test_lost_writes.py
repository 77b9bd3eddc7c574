"""A region loses its last second of writes: on a Cluster, and for real, with a log cut short.

`appendfsync everysec` loses what was written since its last write to disk when the machine stops.
Here the server is killed and its log cut where it was before the step: all before it was on disk.
"""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.machine.clock import build
from tests.moves import matrix
from tests.moves.matrix import ALONE, EVERYWHERE, LOST, MATTERS, SEAL, Case, Fault, Route
from tests.moves.test_crash_matrix import judged
from tests.moves.wire import Killed
from tests.moves.world import World
from tradewind.errors import StoreUnavailable
from tradewind.local.scratch import RedisProcess, cluster_nodes, redis_process
from tradewind.store import scripts
from tradewind.store.scripts import Script

UNNOTICED = LOST[2]  # its courier goes on
DRAWN, SEED = 30, 2
EVERYSEC = ["--appendonly", "yes", "--appendfsync", "everysec"]
RECONNECT_S = 0.05


def losses(*kinds: str) -> list[Case]:
    """Each step that writes, with each of these ways to lose that, of one matter or another."""
    return [
        min(
            (
                Case(route, Fault(step, kind), matter, ALONE, "")
                for matter in MATTERS
                if route != "kept" or not matter.stays
            ),
            key=lambda case: case.place,
        )
        for route, step in EVERYWHERE
        if not step.startswith(SEAL)
        for kind in kinds
    ]


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.courier._JITTER_S", 0.0)


# --- a Cluster


def across_slots(load: Callable[[str], Script]) -> Callable[[str], Script]:
    """Scripts that may read the test's clock, which lies in a slot of its own."""

    def loaded(name: str) -> Script:
        script = load(name)
        first, _, rest = script.source.partition(b"\n")
        flags = b"," if b"flags=" in first else b" flags="
        source = first + flags + b"allow-cross-slot-keys\n" + rest
        sha = hashlib.sha1(source, usedforsecurity=False).hexdigest()
        return replace(script, source=source, sha=sha)

    return loaded


@pytest.fixture
async def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(scripts, "load", across_slots(build()))
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(cluster_nodes(tmp_path / name, 1, ["--appendonly", "no"]))[0]
            for name in "abc"
        ]
        one = World(nodes, "cluster")
        await one.start()
        yield one
        await one.close()


@pytest.mark.long
async def test_no_step_on_a_cluster_is_built_on_a_lost_one(clusters: World) -> None:
    await judged(clusters, losses(UNNOTICED))


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("route", "step"), EVERYWHERE)
async def test_no_interleaving_on_a_cluster_loses_or_doubles_a_task(
    clusters: World, route: Route, step: str
) -> None:
    await judged(clusters, matrix.some(matrix.cases(route, step), 1))
    await judged(clusters, matrix.drawn(route, step, DRAWN, SEED), surely=False)


# --- a log that is cut short


class Disks(World):
    """Regions that keep their writes in logs, and lose the end of them when they crash."""

    def __init__(self, servers: list[RedisProcess]) -> None:
        """The servers run with EVERYSEC."""
        super().__init__(servers)
        self._servers = dict(zip(self.raw, servers, strict=True))
        self.crashes = 0

    def remember(self, region: str) -> Callable[[], None]:
        """All that is written by now is on disk; what is returned loses whatever comes later."""
        server, raw = self._servers[region], self.raw[region]
        with self._room():
            raw.set("test:mark", 1, px=1_000)
        assert raw.execute_command("WAITAOF", 1, 0, 5_000)[0] == 1
        (log,) = (server.data_dir / "appendonlydir").glob("*.incr.aof")
        size = log.stat().st_size

        def crash() -> None:
            self.crashes += 1
            server.kill()
            os.truncate(log, size)
            server.start()
            with self._room():  # and who had none before has none again
                self.clock.advance(0)

        return crash

    async def advance(self, by_ms: int) -> None:
        """Time passes; who has lost a connection makes a new one."""
        for store in (store for stores in self.everybody for store in stores.values()):
            while True:
                try:
                    await store.probe()
                    break
                except Killed:
                    break
                except StoreUnavailable:
                    if store.region in self.out:
                        break
                    await asyncio.sleep(RECONNECT_S)
        await super().advance(by_ms)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[RedisProcess]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(redis_process(tmp_path / name, EVERYSEC)) for name in "abc"]


async def played(logs: list[RedisProcess], cases: list[Case]) -> None:
    for case in cases:
        world = Disks(logs)  # whose couriers have no connection yet that could break and tell
        await world.start()
        try:
            await judged(world, [case])
            assert world.crashes == 1
        finally:
            await world.close()


async def test_no_step_is_built_on_one_that_a_region_lost_with_the_end_of_its_log(
    logs: list[RedisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "load", build())
    at_each_end = {"begin_export", "import_task"}
    cases = [case for case in losses(UNNOTICED) if case.route == "carried"]
    await played(logs, [case for case in cases if case.fault.step in at_each_end])


@pytest.mark.long
@pytest.mark.timeout(3_600)
async def test_nor_is_any_other_however_it_was_lost(
    logs: list[RedisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "load", build())
    await played(logs, losses(*LOST))
