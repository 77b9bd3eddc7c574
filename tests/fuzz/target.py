"""A router process under fire, and what it answered."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import psutil

from tests.conftest import REGIONS
from tests.redis_keys import connected
from tradewind.local.leash import leashed
from tradewind.local.scratch import RedisProcess
from tradewind.v1 import router_pb2

#: What a router may answer a client with (router.proto).
DOCUMENTED = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ABORTED,
    }
)
_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}
_SERVICE = "/tradewind.v1.RouterService/"
TOGETHER, TIMEOUT_S = 32, 60.0
MIB = 1024 * 1024


@dataclass(slots=True)
class Target:
    """The process, its regions, and the book of what it said."""

    process: psutil.Process
    wire: Any  # a channel: raw bytes are none of the types that its stubs know
    servers: Sequence[RedisProcess]
    codes: Counter[grpc.StatusCode] = field(default_factory=Counter[grpc.StatusCode])
    accepted: set[str] = field(default_factory=set[str])
    undocumented: list[tuple[grpc.StatusCode, bytes, str]] = field(
        default_factory=list[tuple[grpc.StatusCode, bytes, str]]
    )

    def rss_mib(self) -> float:
        """Resident memory of the router."""
        return self.process.memory_info().rss / MIB

    async def fire(self, method: str, answer: Any, requests: Iterable[bytes]) -> None:
        """Send raw requests of a unary method, some at a time, and book each answer."""
        call: Any = self.wire.unary_unary(
            _SERVICE + method, response_deserializer=answer.FromString
        )
        queue = iter(requests)

        async def shoot() -> None:
            for data in queue:
                try:
                    self.book(grpc.StatusCode.OK, data, await call(data, timeout=TIMEOUT_S))
                except grpc.aio.AioRpcError as error:
                    self.book(error.code(), data, error.details())

        await asyncio.gather(*(shoot() for _ in range(TOGETHER)))

    async def stream(self, requests: Iterable[bytes]) -> None:
        """Send raw messages over one SubmitTaskStream, until one ends it that cannot be read.

        In step with the answers: a write to a stream that has just ended fails in the client, with
        a status of its own.
        """
        call: Any = self.wire.stream_stream(
            _SERVICE + "SubmitTaskStream",
            response_deserializer=router_pb2.SubmitTaskStreamResponse.FromString,
        )(timeout=TIMEOUT_S)
        data = b""
        try:
            for data in requests:
                await call.write(data)
                self.book(grpc.StatusCode.OK, data, await call.read())
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
        except grpc.aio.AioRpcError as error:
            self.book(error.code(), data, error.details())

    async def watch(self, data: bytes) -> None:
        """Open a watch with a raw request and take its first answer."""
        call: Any = self.wire.unary_stream(
            _SERVICE + "WatchTask", response_deserializer=router_pb2.WatchTaskResponse.FromString
        )(data, timeout=TIMEOUT_S)
        try:
            self.book(grpc.StatusCode.OK, data, await call.read())
        except grpc.aio.AioRpcError as error:
            self.book(error.code(), data, error.details())
        call.cancel()

    def book(self, code: grpc.StatusCode, data: bytes, answer: Any) -> None:
        """One answer, and those inside it."""
        self.codes[code] += 1
        if code not in DOCUMENTED:
            self.undocumented.append((code, data[:500], str(answer)))
        if isinstance(answer, router_pb2.SubmitTaskResponse):
            self.accepted.add(answer.task_id)
        for result in getattr(answer, "results", ()):
            if result.HasField("accepted"):
                self.book(grpc.StatusCode.OK, b"", result.accepted)
            else:
                self.book(_BY_NUMBER[result.error.code], data, result.error.message)

    def stored(self) -> tuple[set[str], set[str]]:
        """Ids of the tasks that the regions hold, and those that confirmed entries name."""
        tasks: set[str] = set()
        entries: set[str] = set()
        for server in self.servers:
            raw = connected(server.port)
            for key in raw.scan_iter(match="tw:*}:t:*", count=1000):
                tasks.add(key.rpartition(":")[2])
            for key in raw.scan_iter(match="tw:*}:led:*", count=1000):
                task_id, confirmed = raw.hmget(key, "id", "cf")
                assert raw.ttl(key) > 0  # a reservation, or a bar at a spare home, goes by itself
                entries.update([task_id] if confirmed else [])
        return tasks, entries


@asynccontextmanager
async def under_fire(servers: Sequence[RedisProcess], home: Path) -> AsyncGenerator[Target]:
    """A router of eu-west over three regions, in a process of its own."""
    named = zip(REGIONS.items(), servers, strict=True)
    lines = [
        f"  {name}: {{redis: {one.url}, residency: [{group}]}}" for (name, group), one in named
    ]
    config = home / "regions.yaml"
    config.write_text("\n".join(["version: 1", "partitions: 16", "regions:", *lines, ""]))
    command = [sys.executable, "-P", "-m", "router", "--config", str(config)]
    command += ["--region", "eu-west", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    log = home / "router.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *leashed(command), stdout=asyncio.subprocess.PIPE, stderr=file, env={**os.environ}
        )
    assert process.stdout is not None
    ready = (await process.stdout.readline()).decode()
    assert ready.startswith("ready grpc="), log.read_text()
    address = ready.split()[1].removeprefix("grpc=")
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield Target(psutil.Process(process.pid), channel, servers)
    finally:
        process.terminate()
        assert await process.wait() == 0, log.read_text()[-2000:]
    said = log.read_text()
    assert "Traceback" not in said, said[-2000:]
