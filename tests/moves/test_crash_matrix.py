"""A courier fails at every step of a move, in every way, with everybody coming between."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.machine.clock import build
from tests.moves import matrix
from tests.moves.matrix import EVERYWHERE, QUICK, STAYING, Case, Route
from tests.moves.play import Play
from tests.moves.verdict import wrongs
from tests.moves.world import World
from tradewind.local.scratch import RedisProcess, redis_process
from tradewind.store import scripts

EACH_AT_LENGTH = 25  # cases of one fault at one step, of some 700
DRAWN, SEED = 150, 1  # cases of a step in which more goes wrong, of millions


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


@pytest.mark.timeout(240)  # of CPU it takes a second
@pytest.mark.parametrize(("route", "step"), QUICK)
async def test_a_courier_that_fails_leaves_one_task(world: World, route: Route, step: str) -> None:
    await judged(world, matrix.some(matrix.cases(route, step), 0))


async def test_what_is_not_to_be_moved_is_left_where_it_died(world: World) -> None:
    ordered = sorted(matrix.left(), key=lambda case: case.place)
    await judged(world, [next(c for c in ordered if c.matter == matter) for matter in STAYING])


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_what_is_not_to_be_moved_is_left_whoever_comes(world: World) -> None:
    await judged(world, matrix.left())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("route", "step"), EVERYWHERE)
async def test_no_interleaving_loses_or_doubles_a_task(
    world: World, route: Route, step: str
) -> None:
    await judged(world, matrix.some(matrix.cases(route, step), EACH_AT_LENGTH))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("route", "step"), EVERYWHERE)
async def test_nor_does_one_in_which_more_goes_wrong(world: World, route: Route, step: str) -> None:
    await judged(world, matrix.drawn(route, step, DRAWN, SEED), surely=False)


async def judged(world: World, cases: list[Case], *, surely: bool = True) -> None:
    """Play each; show the shortest history in which something is wrong.

    `surely`: every fault happens in one of them at least.
    """
    reached: set[str] = set()
    found: list[tuple[int, str, list[str]]] = []
    for case in cases:
        play = Play(world, case)
        wrong = await judgement(play)
        if play.was_reached:
            reached.add(case.fault.kind)
        if wrong:
            found.append((len(world.told), str(case), [*wrong, *world.told]))
    found.sort(key=lambda one: one[0])
    text = "\n".join([name for _, name, _ in found] + ["", *(found[0][2] if found else [])])
    assert not found, f"{len(found)} of {len(cases)} cases, the shortest first:\n{text}"
    assert not surely or reached == {case.fault.kind for case in cases if case.fault.kind}


async def judgement(play: Play) -> list[str]:
    """What is wrong once a case has been played."""
    try:
        await play.play()
        return await wrongs(play)
    except AssertionError as error:
        return [str(error)]
