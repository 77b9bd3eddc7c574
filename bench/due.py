"""How late delayed tasks start: start minus due, by the clock of the region's Redis.

One region, one router, one worker pool with four slots, real processes on one machine. Three
situations side by side in each repetition, in turns: an idle region; the same with a hundred
thousand tasks before it that are due in a day or more; and with one of the four slots free. A
plain timer of this process, armed for as long, says how late the machine itself is.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, quantile
from bench.fleet import REGION, Place, one_region
from bench.marks import ENTRY
from tradewind import Client, ids
from tradewind.fleet import Fleet
from tradewind.limits import DAY_MS
from tradewind.store.keys import partition_keys
from tradewind.store.region_store import RegionStore
from tradewind.task import NewTask, Priority, Stored

SLOTS = 4
SHORTEST_S, LONGEST_S = 1.0, 3.0  # of a delay


@dataclass(frozen=True, slots=True)
class _World:
    """What the measurement touches."""

    client: Client
    place: Place


def measure(*, repetitions: int, tasks: int, far: int) -> dict[str, Any]:
    """Run the measurement: `tasks` a repetition and situation. Milliseconds."""
    with tempfile.TemporaryDirectory(prefix="tradewind-bench-") as folder:
        return asyncio.run(_with(Path(folder), repetitions, tasks, far))


async def _with(home: Path, repetitions: int, tasks: int, far: int) -> dict[str, Any]:
    async with (
        one_region(home, "--concurrency", str(SLOTS)) as place,
        Client(place.router, origin_region=REGION) as client,
    ):
        return await _measure(_World(client, place), repetitions, tasks, far)


async def _measure(world: _World, repetitions: int, tasks: int, far: int) -> dict[str, Any]:
    late: dict[str, list[list[float]]] = {}
    numbers = iter(range(1, 10**9))
    for repetition in range(repetitions + 1):  # the first warms up
        taken = {
            "timer": await _timers(tasks),
            "idle": await _lateness(world, numbers, tasks),
        }
        held = await _hold(world, SLOTS - 1)
        taken["one_slot_free"] = await _lateness(world, numbers, tasks)
        await _let_go(world, held)
        waiting = await _fill(world, far)
        taken["far_future_in_front"] = await _lateness(world, numbers, tasks)
        await asyncio.to_thread(_clear, world, waiting)
        if repetition:
            for name, values in taken.items():
                late.setdefault(name, []).append(sorted(values))
    figures: dict[str, Any] = {"tasks": tasks, "repetitions": repetitions, "far_future": far}
    for name, rounds in late.items():
        for share in (50, 95, 99):
            values = [quantile(values, share / 100) for values in rounds]
            figures[f"{name}_p{share}_ms"] = str(Figure.of(values))
        figures[f"{name}_worst_ms"] = f"{max(values[-1] for values in rounds):.2f}"
    for name in ("one_slot_free", "far_future_in_front"):
        ratios = [
            quantile(one, 0.5) / quantile(idle, 0.5)
            for one, idle in zip(late[name], late["idle"], strict=True)
        ]
        figures[f"{name}_p50_over_idle"] = str(Figure.of(ratios))
    return figures


async def _lateness(world: _World, numbers: Iterator[int], tasks: int) -> list[float]:
    """Start minus due, ms, of tasks with delays of all lengths."""
    wanted = [next(numbers) for _ in range(tasks)]
    receipts = await asyncio.gather(
        *(
            world.client.submit(
                "bench.mark", {"number": n}, delay=random.uniform(SHORTEST_S, LONGEST_S)
            )
            for n in wanted
        )
    )
    ids_ = [receipt.task_id for receipt in receipts]
    due_ms = await asyncio.to_thread(_due_ms, world.place, ids_)
    due_s = {n: due_ms[id_] / 1000 for n, id_ in zip(wanted, ids_, strict=True) if id_ in due_ms}
    if len(due_s) < tasks:
        raise RuntimeError("this machine is too slow: some were due before they were looked at")
    begun = await asyncio.to_thread(_begun, world.place.ledger, wanted)
    offset_s = await asyncio.to_thread(_clock_offset_s, world.place.raw)
    return [(begun[n] + offset_s - due_s[n]) * 1000 for n in wanted]


def _due_ms(place: Place, task_ids: Sequence[str]) -> dict[str, float]:
    """When each is due, of those that still wait."""
    keys = partition_keys(place.fleet.partitions)
    with place.raw.pipeline(transaction=False) as pipe:
        for task_id in task_ids:
            pipe.zscore(keys[ids.parse(task_id).partition].due_normal, task_id)
        scores = pipe.execute()
    return {id_: at for id_, at in zip(task_ids, scores, strict=True) if at is not None}


def _clock_offset_s(raw: Any) -> float:
    """The Redis's clock minus the monotonic one, by the fastest of some answers."""
    best = (float("inf"), 0.0)
    for _ in range(20):
        asked_s = time.perf_counter()
        seconds, micros = raw.time()
        took_s = time.perf_counter() - asked_s
        best = min(best, (took_s, seconds + micros / 1e6 - asked_s - took_s / 2))
    return best[1]


def _begun(ledger: Path, wanted: Sequence[int]) -> dict[int, float]:
    """Start times by number, once all have started."""
    while True:
        data = ledger.read_bytes()
        whole = len(data) - len(data) % ENTRY.size
        begun = dict(ENTRY.iter_unpack(data[:whole]))
        if begun.keys() >= set(wanted):
            return begun
        time.sleep(0.05)


async def _timers(tasks: int) -> list[float]:
    """How late the event loop of an idle process calls, ms."""

    async def one(delay_s: float) -> float:
        due_s = time.perf_counter() + delay_s
        await asyncio.sleep(delay_s)
        return (time.perf_counter() - due_s) * 1000

    delays = [random.uniform(SHORTEST_S, LONGEST_S) for _ in range(tasks)]
    return list(await asyncio.gather(*map(one, delays)))


async def _hold(world: _World, slots: int) -> list[str]:
    """Take slots of the worker, until they are let go."""
    receipts = [await world.client.submit("bench.hold", {}) for _ in range(slots)]
    held = [receipt.task_id for receipt in receipts]
    for task_id in held:
        while (await world.client.get(task_id)).state != "PROCESSING":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return held


async def _let_go(world: _World, held: Sequence[str]) -> None:
    for task_id in held:
        await world.client.cancel(task_id)
    for task_id in held:
        while not (await world.client.get(task_id)).settled:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _fill(world: _World, far: int) -> int:
    """Tasks that are due in a day or more, stored as a router would."""
    fleet = world.place.fleet
    store = RegionStore(fleet.regions[REGION], fleet)
    try:
        for start in range(0, far, 5_000):
            tasks = [_far_task(fleet, n) for n in range(start, min(start + 5_000, far))]
            outcomes, _ = await store.enqueue(tasks, timeout_s=60)
            if not all(isinstance(outcome, Stored) for outcome in outcomes):
                raise RuntimeError(str(outcomes[:3]))
    finally:
        await store.close()
    return far


def _far_task(fleet: Fleet, number: int) -> NewTask:
    task_id = ids.mint(
        time.time_ns() // 1_000_000,
        ids.region_code(REGION),
        number % fleet.partitions,
        random.getrandbits(48),
    )
    return NewTask(task_id, "default", "bench.mark", Priority.NORMAL, b"", delay_ms=DAY_MS + number)


def _clear(world: _World, far: int) -> None:
    """Forget them: the next repetition begins without."""
    for keys in partition_keys(world.place.fleet.partitions):
        ids: list[str] = world.place.raw.zrange(keys.due_normal, 0, -1)
        for start in range(0, len(ids), 500):
            some = ids[start : start + 500]
            world.place.raw.unlink(*map(keys.task, some))
            world.place.raw.zrem(keys.due_normal, *some)
        world.place.raw.hdel(keys.counts, "s:default")
        far -= len(ids)
    if far:
        raise RuntimeError(f"{far} tasks were not where they belong")
