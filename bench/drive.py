"""A client process: `python -m bench.drive MODE --at HOST:PORT ...` prints one JSON object.

Messages are built and serialised before the clock starts and answers are read after it has stopped,
except in mode `submits`, which is the SDK as users call it. Modes:
  bulk     SubmitTasks of --size, --outstanding at a time
  unary    SubmitTask, --outstanding at a time (--echo: the bare echo server's method)
  submits  Client.submit() from --outstanding coroutines
  paced    SubmitTask at --rate a second, whatever the answers do
"""

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import grpc.aio

from bench.figures import quantile
from bench.floors.echo import METHOD
from tradewind import Client
from tradewind.startup import run
from tradewind.v1 import router_pb2, task_pb2

TEXT = "".join("0123456789abcdef"[(at * 7 + at // 16) % 16] for at in range(200))

_SERVICE = "/tradewind.v1.RouterService/"
_DEADLINE_S = 60.0

Call = Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the tasks are like."""

    name: str
    text: str
    ledger: str  # none, request: a request_id each, key: an idempotency key each
    affinity: str
    delay_s: int

    def spec(self) -> task_pb2.TaskSpec:
        """One task, new."""
        spec = task_pb2.TaskSpec(
            name=self.name,
            payload=self.payload(0.0),
            affinity_key=self.affinity,
            origin_region="here",
        )
        if self.delay_s:
            spec.delay.seconds = self.delay_s
        if self.ledger == "request":
            spec.request_id = uuid.uuid4().hex
        elif self.ledger == "key":
            spec.idempotency_key = uuid.uuid4().hex
        return spec

    def payload(self, at_s: float) -> bytes:
        """The handler's arguments."""
        return json.dumps({"text": self.text, "at": at_s}, separators=(",", ":")).encode()


def main() -> int:
    """Drive, and print what it took."""
    parser = argparse.ArgumentParser(prog="python -m bench.drive", description=__doc__)
    add = parser.add_argument
    add("mode", choices=_MODES)
    add("--at", required=True)
    add("--n", type=int, default=1_000)
    add("--size", type=int, default=100)
    add("--outstanding", type=int, default=4)
    add("--rate", type=float, default=50.0)
    add("--channels", type=int, default=1)
    add("--echo", action="store_true")
    add("--name", default="bench.noop")
    add("--text", type=int, default=len(TEXT), help="characters of text in a payload")
    add("--ledger", choices=("none", "request", "key"), default="none")
    add("--affinity", default="")
    add("--delay", type=int, default=0)
    given = parser.parse_args()
    shape = Shape(given.name, TEXT[: given.text], given.ledger, given.affinity, delay_s=given.delay)
    print(json.dumps(run(_MODES[given.mode](given, shape))))
    return 0


async def _bulk(given: argparse.Namespace, shape: Shape) -> dict[str, float]:
    sizes = [min(given.size, given.n - start) for start in range(0, given.n, given.size)]
    messages = [
        router_pb2.SubmitTasksRequest(specs=[shape.spec() for _ in range(size)]).SerializeToString()
        for size in sizes
    ]
    async with _Channels(given, _SERVICE + "SubmitTasks") as calls:
        took, replies, _ = await _timed(calls.each, messages, given.outstanding)
    for reply in replies:
        for result in router_pb2.SubmitTasksResponse.FromString(reply).results:
            if not result.HasField("accepted"):
                raise SystemExit(f"a task was refused: {result.error.message}")
    return {"n": given.n, **took}


async def _unary(given: argparse.Namespace, shape: Shape) -> dict[str, float]:
    messages = [
        router_pb2.SubmitTaskRequest(spec=shape.spec()).SerializeToString() for _ in range(given.n)
    ]
    async with _Channels(given, METHOD if given.echo else _SERVICE + "SubmitTask") as calls:
        took, _, waits_s = await _timed(calls.each, messages, given.outstanding)
    return {"n": given.n, **took, **_quantiles(waits_s)}


async def _submits(given: argparse.Namespace, shape: Shape) -> dict[str, float]:
    left = iter(range(given.n))
    arguments = {"text": shape.text, "at": 0.0}
    async with Client(given.at, origin_region="here") as client:
        await client.submit(shape.name, arguments)  # connected

        async def one() -> None:
            for _ in left:
                await client.submit(shape.name, arguments)

        began_s, cpu_s = time.monotonic(), time.process_time()
        await asyncio.gather(*(one() for _ in range(given.outstanding)))
        return {
            "n": given.n,
            "seconds": time.monotonic() - began_s,
            "cpu_s": time.process_time() - cpu_s,
        }


async def _paced(given: argparse.Namespace, shape: Shape) -> dict[str, float]:
    waits_s: list[float] = []
    async with _Channels(given, METHOD if given.echo else _SERVICE + "SubmitTask") as calls:

        async def one() -> None:
            spec = shape.spec()
            at_s = time.monotonic()
            spec.payload = shape.payload(at_s)
            message = router_pb2.SubmitTaskRequest(spec=spec).SerializeToString()
            await calls.each(message)
            waits_s.append(time.monotonic() - at_s)

        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(given.n):
                await asyncio.sleep(max(0.0, began_s + number / given.rate - time.monotonic()))
                group.create_task(one())
    return {"n": given.n, **_quantiles(waits_s)}


class _Channels:
    """So many connections to one server, used in turn."""

    def __init__(self, given: argparse.Namespace, method: str) -> None:
        # A channel of its own would share its connection with the others without this.
        own = [("grpc.use_local_subchannel_pool", 1)]
        self._channels = [
            grpc.aio.insecure_channel(given.at, options=own) for _ in range(given.channels)
        ]
        self._calls: list[Any] = [channel.unary_unary(method) for channel in self._channels]
        self._next = 0

    async def __aenter__(self) -> Self:
        async with asyncio.timeout(_DEADLINE_S):
            for channel in self._channels:
                await channel.channel_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._channels:
            await channel.close()

    async def each(self, message: bytes) -> bytes:
        """One call."""
        self._next += 1
        return await self._calls[self._next % len(self._calls)](message, timeout=_DEADLINE_S)


async def _timed(
    call: Call, messages: Iterable[bytes], outstanding: int
) -> tuple[dict[str, float], list[bytes], list[float]]:
    """What it took, the answers, and how long each waited (s)."""
    left, replies, waits_s = iter(messages), list[bytes](), list[float]()

    async def one() -> None:
        for message in left:
            asked_s = time.monotonic()
            replies.append(await call(message))
            waits_s.append(time.monotonic() - asked_s)

    began_s, cpu_s = time.monotonic(), time.process_time()
    await asyncio.gather(*(one() for _ in range(outstanding)))
    took = {"seconds": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}
    return took, replies, waits_s


def _quantiles(waits_s: list[float]) -> dict[str, float]:
    return {f"p{share}_ms": quantile(waits_s, share / 100) * 1000 for share in (50, 99)}


_MODES: dict[str, Callable[[argparse.Namespace, Shape], Any]] = {
    "bulk": _bulk,
    "unary": _unary,
    "submits": _submits,
    "paced": _paced,
}

if __name__ == "__main__":
    sys.exit(main())
