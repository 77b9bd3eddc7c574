"""How a worker fills its slots: how much it claims at a time, and when."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.worker.world import KEEP_MS, PLACE, Parts, a_task
from tradewind.clock import Clock, ManualClock
from tradewind.errors import StoreMoving
from tradewind.fleet import Fleet
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Claim, ClaimBatch, Record
from worker.intake import Change, Intake, Says
from worker.line import Line
from worker.patience import MOVING_MS, lasting
from worker.runner import Runner


async def nothing() -> None:
    pass


class Seen:
    """A store that tells of its claims: what is asked for, and in what order with all else."""

    def __init__(self, store: RegionStore, say: Callable[[str], None]) -> None:
        self._store, self._say = store, say
        self.limits: list[int] = []
        self.moving: set[int] = set()
        self.answered = asyncio.Event()
        self.before_answer: Callable[[], Awaitable[None]] = nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, partition: int, *, limit: int, **more: Any) -> ClaimBatch:
        self._say("claim")
        self.limits.append(limit)
        if partition in self.moving:
            raise StoreMoving(self._store.region, partition)
        batch = await self._store.claim(partition, limit=limit, **more)
        await self.before_answer()
        self.answered.set()
        return batch


class Told(Runner):
    """A runner that tells when it is given something."""

    def __init__(self, said: list[str], *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._said = said

    def start(self, claims: Sequence[Claim], asked_ms: float, *, stopping: bool) -> None:
        self._said.append("given")
        super().start(claims, asked_ms, stopping=stopping)


@asynccontextmanager
async def filling(
    store: RegionStore,
    fleet: Fleet,
    slots: int,
    handler: Callable[[], Awaitable[None]],
    said: list[str],
    clock: Clock | None = None,
    *,
    hints: Sequence[int] = (PLACE,),
    due: Callable[[int, int], None] = lambda _partition, _in_ms: None,
) -> AsyncGenerator[tuple[Intake, Runner, Seen]]:
    """A worker's intake and runner, with hints in hand; "trouble" is a store without answer."""
    parts = Parts(store, fleet, handler, clock, slots=slots)
    seen, change, line = Seen(store, said.append), Change(), Line()
    parts.hears = parts.hears.__class__(
        change.tell, parts.hears.due, parts.hears.buried, parts.hears.worn_out
    )
    runner = Told(
        said,
        seen,
        parts.pool,
        children=parts.children,
        guard=parts.guard,
        pace=parts.pace,
        reach=parts.reach,
        hears=parts.hears,
    )
    intake = Intake(
        seen,  # pyright: ignore[reportArgumentType] - the store, and an ear
        parts.pool,
        line=line,
        runner=runner,
        pace=parts.pace,
        reach=parts.reach,
        change=change,
        says=Says(lambda error: said.append("trouble") if error else None, due),
    )
    for place in hints:
        line.hinted(place)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = [
            group.create_task(lasting(intake.run, "claiming")),
            group.create_task(lasting(runner.report, "settling")),
        ]
        yield intake, runner, seen
        for each in running:
            each.cancel()


async def stored(store: RegionStore, number: int) -> None:
    await store.enqueue([a_task(index) for index in range(number)], timeout_s=5)


@pytest.mark.parametrize(
    ("slots", "limits"),
    [
        pytest.param(1, [1], id="one"),
        pytest.param(20, [20], id="few at once"),
        pytest.param(40, [32, 8], id="forty in two claims, the first no smaller than is worth it"),
        pytest.param(100, [50, 50], id="many in halves"),
    ],
)
async def test_slots_are_filled_and_never_more_is_claimed_than_there_are(
    home: RegionStore, one_region: Fleet, slots: int, limits: list[int]
) -> None:
    full, end = asyncio.Event(), asyncio.Event()
    running = 0

    async def handler() -> None:
        nonlocal running
        running += 1
        if running == slots:
            full.set()
        await end.wait()

    await stored(home, slots + 50)
    async with filling(home, one_region, slots, handler, []) as (intake, runner, seen):
        await full.wait()
        assert (seen.limits, intake.free, runner.busy) == (limits, 0, slots)
        assert not intake.is_under_way
        intake.close()
        end.set()
        await runner.idle()
        assert running == slots


@pytest.mark.parametrize(
    ("holds_s", "ahead"),
    [
        pytest.param(0.0, True, id="of tasks that let the loop go"),
        pytest.param(0.003, False, id="not of such that hold it: nobody would renew its leases"),
    ],
)
async def test_the_next_claim_is_on_its_way_before_the_tasks_of_the_last_start(
    home: RegionStore, one_region: Fleet, holds_s: float, ahead: bool
) -> None:
    said: list[str] = []
    over = asyncio.Event()

    async def handler() -> None:
        time.sleep(holds_s)  # noqa: ASYNC251 - that is the point
        said.append("start")
        if said.count("start") == 1_000:
            over.set()

    await stored(home, 1_000)
    async with filling(home, one_region, 100, handler, said) as (_, runner, seen):
        await over.wait()
        await runner.idle()
    under_way = [
        said[:index].count("claim") - said[:index].count("given")
        for index, what in enumerate(said)
        if what == "start"
    ]
    assert under_way[0] == 0, "nothing is known yet"
    assert max(under_way) == int(ahead)
    assert max(seen.limits) == 50


async def test_a_claim_whose_answer_lay_until_its_leases_were_over_is_handed_back(
    home: RegionStore, one_region: Fleet
) -> None:
    started: list[int] = []
    clock = ManualClock()

    async def handler() -> None:
        started.append(1)

    await stored(home, 10)
    async with filling(home, one_region, 10, handler, [], clock) as (_, runner, seen):

        async def lie() -> None:
            clock.advance(one_region.default_queue.lease_ms)

        seen.before_answer = lie
        await seen.answered.wait()
        await runner.idle()
    records = [await home.read(a_task(index).task_id) for index in range(10)]
    assert {(r.state, r.attempts, r.crashes) for r in records if isinstance(r, Record)} == {
        (State.PENDING, 0, 0)
    }
    assert started == []


async def test_suspects_that_come_with_tasks_for_all_slots_take_none_of_these(
    home: RegionStore, one_region: Fleet
) -> None:
    """Nor do they go on counting as free places, until they are started."""
    end, free = asyncio.Event(), list[tuple[int, int]]()

    async def handler() -> None:
        await end.wait()

    await stored(home, 2)
    await home.claim(PLACE, worker_id="w", lease_ms={"default": 1}, handlers=["t"], limit=2)
    while not await home.reap(PLACE, limit=2):
        pass
    await home.enqueue([a_task(index) for index in range(10, 60)], timeout_s=5)
    async with filling(home, one_region, 40, handler, []) as (intake, runner, seen):
        arrived = intake._start  # pyright: ignore[reportPrivateUsage] - between two steps

        def looks(arrival: Any) -> None:
            free.append((intake.free, intake.places))
            arrived(arrival)

        intake._start = looks  # pyright: ignore[reportPrivateUsage]
        await seen.answered.wait()
        await asyncio.sleep(0)
        assert free[0] == (8, 0)
        intake.close()
        end.set()
        await runner.idle()


async def test_a_cancel_that_is_heard_while_its_task_waits_to_be_started_holds(
    home: RegionStore, one_region: Fleet
) -> None:
    started = 0
    others, first = asyncio.Event(), a_task(0).task_id

    async def handler() -> None:
        nonlocal started
        started += 1
        if started == 99:
            others.set()

    async def cancel() -> None:
        await home.cancel(first, retention_ms=KEEP_MS)

    await stored(home, 100)
    # A clock that stands: however slow this machine is, no answer lies for long.
    async with filling(home, one_region, 100, handler, [], ManualClock()) as (intake, runner, seen):
        # As of a worker whose handlers let the loop go.
        intake._held_ms = 0.0  # pyright: ignore[reportPrivateUsage]
        seen.before_answer = cancel
        await seen.answered.wait()
        assert (started, intake.is_under_way) == (0, True)
        runner.call_off(first)
        intake.forget_cancels()
        await others.wait()
        await runner.idle()
    record = await home.read(first)
    assert isinstance(record, Record)
    assert (record.state, started) == (State.CANCELLED, 99)


async def test_a_partition_that_moves_is_asked_again_in_a_moment_and_no_other_waits_for_it(
    home: RegionStore, one_region: Fleet
) -> None:
    done, heard = asyncio.Event(), list[tuple[int, int]]()

    async def handler() -> None:
        done.set()

    await stored(home, 1)
    said, moving = list[str](), PLACE + 1
    async with filling(
        home,
        one_region,
        4,
        handler,
        said,
        hints=(moving, PLACE),
        due=lambda partition, in_ms: heard.append((partition, in_ms)),
    ) as (_, _, seen):
        seen.moving = {moving}
        await done.wait()
        assert (moving, MOVING_MS) in heard
        assert "trouble" not in said
