"""More routers for a fleet that runs, each a process of its own, which a test may kill."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from tradewind.local.leash import leashed


class Described(Protocol):
    """What one more router must know of a fleet."""

    @property
    def config(self) -> Path:
        """Its file."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Where each Redis is, if not where the file says."""
        ...


class Gateway:
    """A router process that serves gRPC at `address`, and its pages at `http`."""

    def __init__(self, process: Process, address: str, http: str) -> None:
        self.process, self.address, self.http = process, address, http

    async def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        await self.process.wait()

    async def stop(self, log: Path) -> None:
        """SIGTERM; a router that is not killed leaves with 0."""
        if self.process.returncode is None:
            self.process.terminate()
            assert await self.process.wait() == 0, f"see {log}"


async def started(world: Described, region: str, log: Path, **env: str) -> Gateway:
    """Start one more router of a region, in an environment of its own."""
    command = [sys.executable, "-P", "-m", "router", "--config", str(world.config)]
    command += ["--region", region, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *leashed(command), stdout=PIPE, stderr=file, env={**os.environ, **world.env, **env}
        )
    assert process.stdout is not None
    ready = (await process.stdout.readline()).decode()
    assert ready.startswith("ready grpc="), f"see {log}"
    _, grpc, http = ready.split()
    return Gateway(process, grpc.removeprefix("grpc="), http.removeprefix("http="))


@asynccontextmanager
async def gateway(world: Described, region: str, log: Path, **env: str) -> AsyncGenerator[str]:
    """The same for the length of a block. Gives its address."""
    one = await started(world, region, log, **env)
    try:
        yield one.address
    finally:
        await one.stop(log)
