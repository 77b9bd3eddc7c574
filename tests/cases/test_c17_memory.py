"""Case C17: keys and memory are back once retention is over, however often and however it ended.

A Redis without tasks uses 2 MB, of which the heap of its Lua and the buffers of connections come
and go with 0.3 MB (measured with MEMORY STATS). So "within 5 %" is held beside tasks that wait.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tests.cases.conftest import APP
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard, yard
from tests.rpc.running import answered, spec
from tradewind.client.admin import DeadFilter
from tradewind.limits import MAX_ERROR_BYTES, MIB
from tradewind.v1 import router_pb2, router_pb2_grpc, task_pb2

REGION = "eu-west"
NEAR = 1.05  # "within 5 %"
BATCH = 250
AT_ONCE = 4
WORLD = """\
version: 1
partitions: 64
regions: {{eu-west: {{redis: "redis://127.0.0.1:6401", residency: [eu]}}}}
queues:
  default:
    attempts: 1
    retention: {{completed: {keep_s}s, dead: {keep_s}s}}
    dedup: {{by: key, window: {keep_s}s}}
"""


@dataclass(frozen=True, slots=True)
class Size:
    """One round. Of its tasks `failing` end badly with a text of `text_bytes`."""

    tasks: int
    failing: int
    text_bytes: int
    keep_s: int
    patience_s: float
    near: float = NEAR  # of memory
    # Far-future tasks that are there all the time. Fewer than 16,384: Redis shrinks a hash table
    # once it is less than an eighth full (HASHTABLE_MIN_FILL in its dict.c), and the smaller
    # round's 75,000 keys make one of 131,072.
    waiting: int = 15_000


FULL = [pytest.mark.long, pytest.mark.timeout(1_800)]
SIZES = [
    pytest.param(Size(400, 10, MIB, 2, 45.0, near=1.25, waiting=100), id="short"),
    pytest.param(Size(100_000, 1_000, MIB, 60, 400.0), id="full", marks=FULL),
    pytest.param(Size(50_000, 0, 0, 60, 400.0), id="50,000 that succeed", marks=FULL),
]


@dataclass(frozen=True, slots=True)
class Use:
    """What a Redis holds."""

    keys: int
    memory_bytes: int


def use_of(world: Yard) -> Use:
    with world.redis(REGION) as store:
        facts: Any = store.info("memory")  # pyright: ignore[reportUnknownMemberType]
        return Use(int(store.dbsize()), facts["used_memory"])  # pyright: ignore[reportUnknownMemberType]


@asynccontextmanager
async def submitting(world: Yard) -> AsyncGenerator[Any]:
    """RouterService without the SDK, whose request ids are remembered for 15 minutes."""
    async with grpc.aio.insecure_channel(world.router(REGION)) as channel:
        yield router_pb2_grpc.RouterServiceStub(channel)


async def submit_all(
    router: Any, tasks: int, task: Callable[[int], task_pb2.TaskSpec]
) -> list[str]:
    """Submit in batches; return the ids."""
    room, ids = asyncio.Semaphore(AT_ONCE), list[str]()

    async def batch(first: int) -> None:
        specs = [task(number) for number in range(first, min(first + BATCH, tasks))]
        request = router_pb2.SubmitTasksRequest(specs=specs)
        async with room:
            answer = await answered(router.SubmitTasks(request, timeout=60))
        ids.extend(result.accepted.task_id for result in answer.results)

    await asyncio.gather(*(batch(first) for first in range(0, tasks, BATCH)))
    assert len(set(ids)) == tasks
    return ids


def a_later_task(number: int) -> task_pb2.TaskSpec:
    """One that nobody runs while this test does."""
    args = json.dumps({"number": number}).encode()
    return spec(name="quick", payload=args, delay=timedelta(days=1))


async def one_round(world: Yard, router: Any, size: Size, name: str) -> list[str]:
    """Submit a round, every other task with an idempotency key; return ids once all have run."""

    def task(number: int) -> task_pb2.TaskSpec:
        args = {"number": number}
        handler = "quick"
        if number >= size.tasks - size.failing:  # the last ones, so that they are still there
            handler, args = "fail.loudly", {**args, "size": size.text_bytes}
        key = f"{name}-{number}" if number % 2 else ""
        return spec(name=handler, payload=json.dumps(args).encode(), idempotency_key=key)

    ids = await submit_all(router, size.tasks, task)

    def all_ran() -> bool:
        return len(world.ledger) >= size.tasks

    await until(all_ran, "all tasks have run", patience_s=size.patience_s)
    return ids


@pytest.mark.parametrize("size", SIZES)
async def test_c17_what_has_ended_leaves_nothing_behind(
    tmp_path: Path, ledger: Ledger, size: Size
) -> None:
    options = ("--processes", "2", "--concurrency", "20")
    async with (
        yard(tmp_path, WORLD.format(keep_s=size.keep_s), APP, ledger, *options) as world,
        submitting(world) as router,
    ):
        world.ledger = ledger.from_here()
        # What stays: scripts, identities, counts, connections at work, and tasks that wait.
        warm = Size(400, 4, size.text_bytes, size.keep_s, 45.0)
        await one_round(world, router, warm, "warm")
        await submit_all(router, size.waiting, a_later_task)
        await asyncio.sleep(size.keep_s)
        start = await steady(world)
        figures = [f"at rest {start}"]
        for number in range(3):
            world.ledger = ledger.from_here()
            ids = await one_round(world, router, size, f"round-{number}")
            if size.failing:
                await errors_are_cut(world)
            peak = use_of(world)
            now = await at_rest(world, start, size)
            figures.append(f"{peak.keys:,} keys, {peak.memory_bytes:,} B; then {now}")
            print("\n".join(figures))
            assert world.ledger.count("done") == dict.fromkeys(ids, 1)
            assert peak.keys > start.keys * NEAR or size.tasks < 1_000, "there was something to go"
        await world.is_in_order()


async def steady(world: Yard) -> Use:
    """What it holds once nothing expires any more."""
    before = use_of(world)
    while True:
        await asyncio.sleep(1)
        now = use_of(world)
        if now.keys == before.keys:
            return now
        before = now


async def at_rest(world: Yard, start: Use, size: Size) -> Use:
    """Wait until retention has emptied it. Fails if it does not come near what it was."""
    last: list[Use] = []

    def is_back() -> bool:
        last[:] = [use_of(world)]
        return (
            last[0].keys <= start.keys * NEAR
            and last[0].memory_bytes <= start.memory_bytes * size.near
        )

    await asyncio.sleep(size.keep_s)
    try:
        await until(is_back, "what has ended is gone", patience_s=max(60.0, size.keep_s))
    except AssertionError as error:
        raise AssertionError(f"{error}: {last[0]} after {start}") from None
    return await steady(world)


async def errors_are_cut(world: Yard) -> None:
    """Of texts of 1 MB no task keeps more than the documented 16 KiB."""
    async with world.client(REGION) as client:
        page = await client.admin.dead_tasks(DeadFilter(), page_size=5)
        assert page.tasks
        for listed in page.tasks:
            task = await client.get(listed.task_id)
            assert task.error is not None
            kept = len(task.error.message.encode()) + len(task.error.traceback.encode())
            assert 1_000 < kept <= MAX_ERROR_BYTES
