"""A courier fails at every step of a move, in every way, with everybody coming between."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.machine.clock import build
from tests.moves import matrix
from tests.moves.matrix import EVERYWHERE, QUICK, Case, Route
from tests.moves.play import Play
from tests.moves.verdict import wrongs
from tests.moves.world import World
from tradewind.local.scratch import RedisProcess, redis_process
from tradewind.store import scripts

EACH_AT_LENGTH = 25  # cases of one fault at one step, of some 500: all 101,496 take hours


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    """Three without a log: what is lost, and that seals tell, is up to the wire."""
    home, options = tmp_path_factory.mktemp("moves"), ["--appendonly", "no"]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(redis_process(home / name, options)) for name in "abc"]


@pytest.fixture
async def world(
    servers: list[RedisProcess], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr(scripts, "load", build())
    monkeypatch.setattr("worker.courier._JITTER_S", 0.0)
    one = World(servers)
    await one.start()
    yield one
    await one.close()


@pytest.mark.parametrize(("route", "step"), QUICK)
async def test_a_courier_that_fails_leaves_one_task(world: World, route: Route, step: str) -> None:
    await judged(world, matrix.some(matrix.cases(route, step), 0))


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("route", "step"), EVERYWHERE)
async def test_no_interleaving_loses_or_doubles_a_task(
    world: World, route: Route, step: str
) -> None:
    await judged(world, matrix.some(matrix.cases(route, step), EACH_AT_LENGTH))


async def judged(world: World, cases: list[Case]) -> None:
    """Play each; show the shortest history in which something is wrong."""
    reached: set[str] = set()
    found: list[tuple[int, str, list[str]]] = []
    for case in cases:
        play = Play(world, case)
        try:
            await play.play()
            wrong = await wrongs(play)
        except AssertionError as error:
            wrong = [str(error)]
        if play.was_reached:
            reached.add(case.fault)
        if wrong:
            found.append((len(world.told), str(case), [*wrong, *world.told]))
    found.sort(key=lambda one: one[0])
    text = "\n".join([name for _, name, _ in found] + ["", *(found[0][2] if found else [])])
    assert not found, f"{len(found)} of {len(cases)} cases, the shortest first:\n{text}"
    assert reached == {case.fault for case in cases}
