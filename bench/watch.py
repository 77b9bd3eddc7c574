"""How soon a watcher hears that its task has ended, and what idle watchers cost the Redis.

From the last line of the handler to the message at the watcher: settling, the script, the report,
the router's read and gRPC are all in it. One task at a time, first with no other watcher, then
beside a thousand that watch tasks of their own, and with a thousand that watch the very one.
"""

import asyncio
import json
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from bench.figures import Figure, quantile
from bench.fleet import REGION, Place, one_region
from bench.marks import ENTRY
from tradewind.v1 import router_pb2, router_pb2_grpc, task_pb2

DELAY_S = 0.1  # a watcher is there before its task starts
FAR_S = 86_400


def measure(*, repetitions: int, tasks: int, watchers: int, idle_s: float) -> dict[str, Any]:
    """Run the measurement. Milliseconds, and script calls a second."""
    with tempfile.TemporaryDirectory(prefix="tradewind-bench-") as folder:
        return asyncio.run(_measure(Path(folder), repetitions, tasks, watchers, idle_s))


async def _measure(
    home: Path, repetitions: int, tasks: int, watchers: int, idle_s: float
) -> dict[str, Any]:
    heard: dict[str, list[list[float]]] = {}
    calls: dict[str, list[float]] = {}
    numbers = iter(range(1, 10**9))
    async with (
        one_region(home, "--concurrency", "4") as place,
        grpc.aio.insecure_channel(place.router) as channel,
    ):
        stub = router_pb2_grpc.RouterServiceStub(channel)
        for repetition in range(repetitions + 1):  # the first warms up
            taken = {"alone": await _one_by_one(place, stub, numbers, tasks, 1)}
            spent = {"0": await _scripts_a_second(place, idle_s)}
            async with _idle_watchers(stub, watchers):
                name = f"beside_{watchers}"
                taken[name] = await _one_by_one(place, stub, numbers, tasks, 1)
                spent[str(watchers)] = await _scripts_a_second(place, idle_s)
            taken[f"each_of_{watchers}"] = await _one_by_one(place, stub, numbers, 1, watchers)
            if repetition:
                for name, values in taken.items():
                    heard.setdefault(name, []).append(values)
                for name, value in spent.items():
                    calls.setdefault(name, []).append(value)
    figures: dict[str, Any] = {"tasks": tasks, "repetitions": repetitions, "idle_s": idle_s}
    for name, rounds in heard.items():
        for share in (50, 95, 99):
            values = [quantile(values, share / 100) for values in rounds]
            figures[f"{name}_p{share}_ms"] = str(Figure.of(values))
    for name, values in calls.items():
        figures[f"scripts_a_second_with_{name}_idle_watchers"] = str(Figure.of(values))
    return figures


async def _one_by_one(
    place: Place, stub: Any, numbers: Iterator[int], tasks: int, watchers: int
) -> list[float]:
    """From the handler's end to the last message, ms, of every watcher of each task."""
    took_ms: list[float] = []
    for _ in range(tasks):
        number = next(numbers)
        task_id = await _submit(stub, number, DELAY_S)
        ends_s = await asyncio.gather(*(_watched(stub, task_id) for _ in range(watchers)))
        ended_s = await asyncio.to_thread(_noted, place.ledger, number)
        took_ms += [(end_s - ended_s) * 1000 for end_s in ends_s]
    return took_ms


async def _submit(stub: Any, number: int, delay_s: float) -> str:
    delay = Duration()
    delay.FromNanoseconds(round(delay_s * 1e9))
    spec = task_pb2.TaskSpec(
        name="bench.mark",
        payload=json.dumps({"number": number}).encode(),
        request_id=uuid.uuid4().hex,
        origin_region=REGION,
        delay=delay,
    )
    return (await stub.SubmitTask(router_pb2.SubmitTaskRequest(spec=spec))).task_id


async def _watched(stub: Any, task_id: str) -> float:
    """When the message came that says that the task has ended."""
    async for answer in stub.WatchTask(router_pb2.WatchTaskRequest(task_id=task_id)):
        if answer.task.settled:
            return time.perf_counter()
    raise RuntimeError("the watch ended before its task")


@asynccontextmanager
async def _idle_watchers(stub: Any, number: int) -> AsyncGenerator[None]:
    """So many watchers of tasks to which nothing happens; each has had its first answer."""
    ids = await asyncio.gather(*(_submit(stub, 0, FAR_S) for _ in range(number)))
    calls = [stub.WatchTask(router_pb2.WatchTaskRequest(task_id=task_id)) for task_id in ids]
    await asyncio.gather(*(call.read() for call in calls))
    try:
        yield
    finally:
        for call in calls:
            call.cancel()
        await _cancelled(stub, ids)


async def _cancelled(stub: Any, ids: Sequence[str]) -> None:
    requests = [router_pb2.CancelTaskRequest(task_id=task_id) for task_id in ids]
    await asyncio.gather(*(stub.CancelTask(request) for request in requests))


async def _scripts_a_second(place: Place, seconds: float) -> float:
    """Script calls that reach the region's Redis: its upkeep, and whatever watchers make it do."""

    def called() -> int:
        return sum(
            place.raw.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"]
            for name in ("evalsha", "eval")
        )

    before, began_s = await asyncio.to_thread(called), time.perf_counter()
    await asyncio.sleep(seconds)
    after = await asyncio.to_thread(called)
    return (after - before) / (time.perf_counter() - began_s)


def _noted(ledger: Path, number: int) -> float:
    """When the handler of the task noted its time, its last act."""
    data = ledger.read_bytes()
    whole = len(data) - len(data) % ENTRY.size
    return dict(ENTRY.iter_unpack(data[:whole]))[number]
