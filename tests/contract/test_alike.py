"""The store in memory and the scripts, driven by the same random steps: every answer is the same.

Time stands still between steps on both sides, so tokens, times and revisions are compared, too.
Ageing is left to test_claims: a ticket of a task that has ended still ages its list in Redis.
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.any_store import AnyStore
from tests.conftest import fleet_on
from tests.contract.conftest import HERE, THERE, World, memory_world, redis_world
from tests.machine.clock import START_MS, build
from tests.scripts.world import FAILURE, PLACE, a_bury, a_mark, a_task, place_of
from tradewind import ids
from tradewind.fleet import DeadTaskHandler, Fleet, QueuePolicy
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store import scripts
from tradewind.task import (
    Cancel,
    ClaimBatch,
    Crash,
    Exported,
    Finish,
    Pointer,
    Priority,
    Progress,
    Record,
    Release,
    RetryAt,
)

QUEUES, NAMES = ("mail", "loud"), ("send", "burn")
KEEP_MS = 50_000
Rolls = Iterator[int]
Step = Callable[["Sides", Rolls], Awaitable[None]]
STEPS: dict[str, Step] = {}


def step(function: Step) -> Step:
    STEPS[function.__name__] = function
    return function


class Sides:
    """Both worlds, and what somebody holds in hand of both."""

    def __init__(self, memory: World, real: World) -> None:
        self.worlds = (memory, real)
        self.tasks: list[str] = []
        self.claims: list[tuple[Any, str]] = []
        self.records: list[tuple[Record, str]] = []
        self.moves: list[Any] = []
        self.notices: list[Any] = []

    async def same(self, call: Callable[[AnyStore], Awaitable[Any]], region: str = HERE) -> Any:
        """Make the call on both sides and return their answer."""
        answers = [await call(w.store if region == HERE else w.target) for w in self.worlds]
        if isinstance(answers[0], ClaimBatch) and not answers[0].parked:
            # Tickets of tasks that have ended stay parked until a sweep drops them.
            answers[1] = replace(answers[1], parked=False)
        ours, theirs = map(comparable, answers)
        assert ours == theirs, f"memory: {ours}\nredis:  {theirs}"
        return answers[1]

    async def look(self) -> None:
        """Everything that can be read is the same."""
        for region in (HERE, THERE):
            for task_id in self.tasks:
                await self.same(lambda s, t=task_id: s.read(t), region)
            await self.same(lambda s: s.counts(), region)
            await self.same(lambda s: s.oldest(), region)
            await self.same(lambda s: s.dead_total(), region)
            await self.same(lambda s: s.dead_page(PLACE, after="", limit=3), region)
            await self.same(lambda s: s.outbox(PLACE, limit=5), region)
            await self.same(lambda s: s.moving(PLACE, limit=5), region)
            await self.same(lambda s: s.unsettled(PLACE, older_than_ms=0), region)
            await self.same(lambda s: s.reconcile(PLACE, self.tasks), region)


def comparable(answer: Any) -> Any:
    """Without the end of a dedup window, which a store tells from an estimate of the clock."""
    if isinstance(answer, list):
        return [comparable(each) for each in cast("list[Any]", answer)]
    if isinstance(answer, Exported):
        return replace(answer, done_key=answer.done_key.partition(b":")[0])
    return answer


def region_of(roll: int) -> str:
    return THERE if roll % 4 == 3 else HERE


def mark_of(roll: int) -> Any:
    """Of few keys and payloads: they meet. Those of a business key lie where the tasks do."""
    keys = [key for key in (bytes([n]) * 32 for n in range(99)) if place_of(a_mark(key)) == PLACE]
    return a_mark(
        keys[roll % 2],
        business=roll % 3 > 0,
        digest=bytes([roll % 5 // 4]) * 16,
        request_tag=bytes([roll % 4 // 2]) * 16 if roll % 7 else b"",
        window_ms=120_000,
    )


@step
async def enqueue(sides: Sides, roll: Rolls) -> None:
    kind = next(roll)
    known = bool(sides.tasks) and kind % 6 == 5
    task_id = sides.tasks[next(roll) % len(sides.tasks)] if known else new_id(len(sides.tasks))
    now_ms = sides.worlds[0].now_ms()
    task = a_task(
        task_id,
        queue=QUEUES[kind % 5 // 4],
        name=NAMES[kind % 4 // 3],
        priority=Priority(next(roll) % 3),
        epoch=1 + kind % 11 // 10,
        delay_ms=(0, 0, 0, 20_000)[next(roll) % 4],
        expires_ms=(0, 0, now_ms + 45_000, now_ms - 5)[next(roll) % 4],
        fence=((), ("eu",))[next(roll) % 2],
        max_crashes=(2, 3)[next(roll) % 2],
        done_key=(b"", b"", bytes(32))[next(roll) % 3],
        mark=mark_of(next(roll)) if next(roll) % 3 == 0 else None,
    )
    if not known:
        sides.tasks.append(task_id)
    await sides.same(lambda s: s.enqueue([task], timeout_s=5), region_of(kind))


def new_id(number: int) -> str:
    return ids.mint(1_700_000_000_000, ids.region_code(HERE), PLACE, number)


@step
async def claim(sides: Sides, roll: Rolls) -> None:
    kind = next(roll)
    region = region_of(kind)
    names = NAMES[: 1 + next(roll) % 2]
    suspects = next(roll) % 2
    batch = await sides.same(
        lambda s: s.claim(
            PLACE,
            worker_id=f"w{kind % 2}",
            lease_ms=dict.fromkeys(QUEUES[: 1 + kind % 3], 30_000),
            handlers=names,
            limit=kind % 3,
            suspects=suspects,
        ),
        region,
    )
    sides.claims += [(each, region) for each in batch.claims]


@step
async def settle(sides: Sides, roll: Rolls) -> None:
    if not sides.claims:
        return
    held, region = sides.claims[-1 - next(roll) % min(3, len(sides.claims))]
    note = "n" * (next(roll) % 5)
    calls: dict[str, Callable[[AnyStore], Awaitable[Any]]] = {
        "finish": lambda s: s.finish([Finish(held, b"r", "t", KEEP_MS)]),
        "retry": lambda s: s.retry([RetryAt(held, 10_000, FAILURE)]),
        "bury": lambda s: s.bury([a_bury(held, retention_ms=KEEP_MS)]),
        "settled": lambda s: s.bury([a_bury(held, may_move=False, retention_ms=KEEP_MS)]),
        "release": lambda s: s.release([Release(held)]),
        "cancel": lambda s: s.confirm_cancel([Cancel(held, KEEP_MS)]),
        "crash": lambda s: s.crashed([Crash(held, "signal 9", KEEP_MS, may_move=True)]),
        "renew": lambda s: s.renew([held], dict.fromkeys(QUEUES, 30_000)),
        "progress": lambda s: s.progress([Progress(held, 0.12345, note)]),
    }
    await sides.same(list(calls.values())[next(roll) % len(calls)], region)


@step
async def time_passes(sides: Sides, roll: Rolls) -> None:
    by_ms = (1, 11_000, 31_000, 61_000, 700_000)[next(roll) % 5]
    for world in sides.worlds:
        await world.advance(by_ms)


@step
async def keep_in_order(sides: Sides, roll: Rolls) -> None:
    kind = next(roll)
    region = region_of(kind)
    if kind % 2:
        await sides.same(lambda s: s.reap(PLACE, limit=2), region)
    else:
        await sides.same(
            lambda s: s.sweep(PLACE, worker_id=f"w{kind % 5}", queues=QUEUES, courier=kind % 3 > 0),
            region,
        )


@step
async def intervene(sides: Sides, roll: Rolls) -> None:
    if not sides.tasks:
        return
    task_id, region = sides.tasks[next(roll) % len(sides.tasks)], region_of(next(roll))
    epoch = 1 + next(roll) % 2
    calls: list[Callable[[AnyStore], Awaitable[Any]]] = [
        lambda s: s.cancel(task_id, retention_ms=KEEP_MS),
        lambda s: s.redrive(task_id, epoch),
        lambda s: s.purge(task_id, epoch),
        lambda s: s.refuse(task_id, epoch),
        lambda s: s.watch(task_id),
    ]
    await sides.same(calls[next(roll) % len(calls)], region)


@step
async def look_up(sides: Sides, roll: Rolls) -> None:
    """Somebody reads a task, and acts on it much later."""
    if sides.tasks:
        task_id, region = sides.tasks[next(roll) % len(sides.tasks)], region_of(next(roll))
        found = await sides.same(lambda s: s.read(task_id), region)
        if isinstance(found, Record):
            sides.records.append((found, region))
        assert found is None or isinstance(found, Record | Pointer)


@step
async def export(sides: Sides, roll: Rolls) -> None:
    if not sides.records:
        return
    record, region = sides.records[-1 - next(roll) % min(3, len(sides.records))]
    to, groups = (THERE if region == HERE else HERE), (("eu", "us"), ("us",))[next(roll) % 4 // 3]
    if next(roll) % 4 == 0:
        after_ms = (None, 5_000)[next(roll) % 2]
        await sides.same(lambda s: s.keep(record, reason="r", retry_after_ms=after_ms), region)
        return
    moved = await sides.same(lambda s: s.begin_export(record, to, groups=groups), region)
    if moved is not None:
        sides.moves.append(moved)


@step
async def move(sides: Sides, roll: Rolls) -> None:
    if not sides.moves:
        return
    moved = sides.moves[-1 - next(roll) % min(3, len(sides.moves))]
    task_id, epoch, there = moved.record.task_id, moved.epoch, moved.target
    here = HERE if there == THERE else THERE
    after_ms = (None, 5_000)[next(roll) % 2]
    calls: list[tuple[Callable[[AnyStore], Awaitable[Any]], str]] = [
        (lambda s: s.import_task(moved, hops=b"h", timeout_s=5), there),
        (lambda s: s.import_task(moved, hops=b"h", timeout_s=5), there),
        (lambda s: s.ack_export(task_id, epoch, there, keep_ms=KEEP_MS), here),
        (lambda s: s.settle_import(task_id, epoch), there),
        (lambda s: s.refuse_import(task_id, epoch), there),
        (
            lambda s: s.abort_export(task_id, epoch, there, reason="r", retry_after_ms=after_ms),
            here,
        ),
    ]
    await sides.same(*calls[next(roll) % len(calls)])


@step
async def ask_the_ledger(sides: Sides, roll: Rolls) -> None:
    mark, task_id = mark_of(next(roll)), new_id(next(roll) % 4)
    epoch, where = 1 + next(roll) % 3 // 2, (HERE, THERE)[next(roll) % 2]
    ended = (State.CANCELLED, State.DEAD_LETTER)[next(roll) % 2]
    calls: list[Callable[[AnyStore], Awaitable[Any]]] = [
        lambda s: s.reserve(mark, task_id, where, epoch),
        lambda s: s.reserve(mark, task_id, where, epoch),
        lambda s: s.confirm(mark, task_id, epoch),
        lambda s: s.unreserve(mark, task_id, epoch),
        lambda s: s.forget(mark, task_id),
        lambda s: s.forget(mark, task_id, ended=ended),
    ]
    await sides.same(calls[next(roll) % len(calls)])


@step
async def hear_of_the_dead(sides: Sides, roll: Rolls) -> None:
    if sides.notices and next(roll) % 2:
        notice = sides.notices[-1 - next(roll) % min(3, len(sides.notices))]
        after_ms = (None, 5_000)[next(roll) % 2]
        await sides.same(lambda s: s.noticed(notice, retry_after_ms=after_ms))
    else:
        sides.notices += await sides.same(lambda s: s.notices(PLACE, limit=2, hold_ms=8_000))


def two_regions(servers: list[RedisProcess]) -> Fleet:
    """Deaths in one of the queues are heard of."""
    loud = QueuePolicy(on_dead=DeadTaskHandler("bury"), max_crashes=2)
    return replace(fleet_on(servers), queues={"loud": loud})


async def drive(servers: list[RedisProcess], names: list[str], dice: random.Random) -> None:
    fleet = two_regions(servers)
    real = await redis_world(fleet, servers)
    memory = memory_world(fleet)
    await memory.advance(START_MS - memory.now_ms())
    sides = Sides(memory, real)
    try:
        for name in names:
            await STEPS[name](sides, iter(lambda: dice.randrange(10_000), -1))
            await sides.look()
    finally:
        await real.store.close()
        await real.target.close()


# What happens all the time, more often than what happens rarely.
OFTEN = ["enqueue", "claim", "claim", "settle", "settle"]
LENGTH = 60


LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 500)]


@pytest.mark.parametrize("seed", [*range(6), *LONG])
async def test_memory_and_redis_answer_alike(
    redis_servers: list[RedisProcess], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(scripts, "load", build())
    dice = random.Random(seed)
    names = [*STEPS, *OFTEN]
    await drive(redis_servers, [dice.choice(names) for _ in range(LENGTH)], dice)
