"""Real worker processes on real servers, and a ledger that judges them."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import redis

from tests.sharded import ports_of
from tradewind import codec, ids, regions
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.leash import leashed
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Draft, NewTask, Priority, Record, Stored
from tradewind.v1.task_pb2 import TaskSpec

ROOT = Path(__file__).parents[2]
APP = Path(__file__).with_name("ledger_app.py")
REGIONS = {"eu-west": "eu", "us-east": "us", "ap-south": "apac"}
PATIENCE_S = 40.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger."""

    event: str
    task_id: str
    attempt: int
    region: str
    pid: int
    at: float
    worker: str = ""  # which of the lab's workers: a suspect runs in a child, with a pid of its own


class Server(Protocol):
    """A Redis as regions.yaml spells it."""

    @property
    def url(self) -> str:
        """Or a mapping."""
        ...

    @property
    def port(self) -> int:
        """Of one of its nodes."""
        ...


class Lab:
    """Regions by name, their stores, the workers started so far."""

    def __init__(
        self, home: Path, servers: Sequence[Server], queue: str, *, partitions: int = 16
    ) -> None:
        """`queue`: what queues.default says, as YAML."""
        self._home = home
        named = zip(REGIONS.items(), servers, strict=False)
        lines = [f"  {name}: {{redis: {s.url}, residency: [{g}]}}" for (name, g), s in named]
        text = "\n".join(
            [
                "version: 1",
                f"partitions: {partitions}",
                "regions:",
                *lines,
                "queues:",
                f"  default: {queue}",
            ]
        )
        self.config = home / "regions.yaml"
        self.env: dict[str, str] = {}  # what one more process must be told
        self.config.write_text(text + "\n")
        self.fleet = regions.load(self.config)
        self.stores = {
            name: RegionStore(region, self.fleet) for name, region in self.fleet.regions.items()
        }
        self.ports = {name: s.port for name, s in zip(REGIONS, servers, strict=False)}
        self.ledger = home / "ledger"
        self.ledger.touch()
        self.patience_s = PATIENCE_S
        self._workers: list[subprocess.Popen[bytes]] = []

    async def close(self) -> None:
        """End every worker, whatever it is doing."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        for store in self.stores.values():
            await store.close()

    def start(self, region: str = "eu-west", *options: str) -> "subprocess.Popen[bytes]":
        """A worker process, not waited for."""
        command = [sys.executable, "-m", "worker", "--config", str(self.config)]
        command += ["--region", region, "--app", f"{APP}:app", *options]
        log = (self._home / f"worker-{len(self._workers)}.log").open("wb")
        with log:
            worker = subprocess.Popen(
                leashed(command),
                cwd=ROOT,
                env={
                    **os.environ,
                    "LEDGER": str(self.ledger),
                    "LAB_WORKER": f"w{len(self._workers)}",
                },
                stderr=log,
                start_new_session=True,
            )
        self._workers.append(worker)
        return worker

    async def worker(self, region: str = "eu-west", *options: str) -> "subprocess.Popen[bytes]":
        """A worker process that has begun to say that it lives."""
        started = self.start(region, *options)

        async def lives() -> bool:
            assert started.poll() is None, self.logs()
            workers = await self.stores[region].workers()
            return any(f"/{started.pid}/" in w.heartbeat.worker_id for w in workers)

        await self.until(lives)
        return started

    async def submit(
        self,
        name: str,
        payload: dict[str, Any],
        region: str = "eu-west",
        *,
        partition: int | None = None,
        priority: Priority = Priority.NORMAL,
        fence: tuple[str, ...] = (),
        **spec: Any,
    ) -> str:
        """Store a task, as a router would. Returns its id."""
        if partition is None:
            partition = secrets.randbelow(self.fleet.partitions)
        data = json.dumps(payload).encode()
        message = TaskSpec(name=name, payload=data, content_type="application/json", **spec)
        task_id = ids.mint(
            time.time_ns() // 1_000_000,
            ids.region_code(region),
            partition,
            secrets.randbits(48),
        )
        packed = codec.pack(
            Draft(name=name, spec=message.SerializeToString()),
            fingerprint=secrets.token_bytes(32),
            fence=fence,
            traceparent="",
            birth_region=region,
            deduplicated=False,
        )
        new = NewTask(task_id, "default", name, priority, packed, fence=fence)

        async def is_stored() -> bool:  # the same id again: an answer may have been lost
            outcomes, _ = await self.stores[region].enqueue([new], timeout_s=10)
            return isinstance(outcomes[0], Stored)

        await self.until(is_stored)
        return task_id

    async def record(self, task_id: str, region: str = "eu-west") -> Record | None:
        """The task as the region holds it, if it is there."""
        found = await self.stores[region].read(task_id)
        return found if isinstance(found, Record) else None

    async def ended(self, task_id: str, region: str = "eu-west") -> Record:
        """Wait until the task is in a state that only a redrive changes."""
        seen: list[Record] = []

        async def has_ended() -> bool:
            record = await self.record(task_id, region)
            if record is None or record.state not in {State.COMPLETED, State.DEAD_LETTER}:
                return False
            seen.append(record)
            return record.settled or record.state is State.COMPLETED

        await self.until(has_ended)
        return seen[-1]

    async def settled(self, task_id: str, region: str = "eu-west") -> Record:
        """Wait until the task has ended in any way."""
        seen: list[Record] = []

        async def is_settled() -> bool:
            record = await self.record(task_id, region)
            if record is None or not record.settled:
                return False
            seen.append(record)
            return True

        await self.until(is_settled)
        return seen[-1]

    def lines(self, task_id: str = "", event: str = "") -> list[Line]:
        """What the ledger says, oldest first."""
        whole = self.ledger.read_text().rpartition("\n")[0]  # a line may be half written
        entries = [Line(**json.loads(text)) for text in whole.splitlines()]
        return [
            line for line in entries if task_id in {"", line.task_id} and event in {"", line.event}
        ]

    async def begun(self, task_id: str, times: int = 1) -> list[Line]:
        """Wait until the task has started `times` times."""

        async def has_begun() -> bool:
            return len(self.lines(task_id, "start")) >= times

        await self.until(has_begun)
        return self.lines(task_id, "start")

    def tell(self) -> None:
        """Let handlers `until.told` end."""
        self.ledger.with_suffix(".told").touch()

    async def until(self, holds: "Callable[[], Any]") -> None:
        """Ask again and again, for at most `patience_s`."""
        try:
            async with asyncio.timeout(self.patience_s):
                while not await holds():  # noqa: ASYNC110 - what happens is in other processes
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(self.logs()) from None

    async def page(self, address: str, path: str) -> str:
        """A page of a worker's HTTP side; it has 2 s to answer (case C55)."""

        def get() -> str:
            try:
                with urllib.request.urlopen(f"http://{address}{path}", timeout=2) as answer:
                    return answer.read().decode()
            except urllib.error.HTTPError as refused:
                with refused:
                    return refused.read().decode()

        return await asyncio.to_thread(get)

    def logs(self) -> str:
        """What the workers said."""
        files = sorted(self._home.glob("worker-*.log"))
        return "\n".join(f"--- {f.name}\n{f.read_text()}" for f in files)


def free_address() -> str:
    """HOST:PORT that nobody listens on."""
    return f"{LOOPBACK}:{free_ports(1)[0]}"


def cut_connections(server: RedisProcess) -> None:
    """What a network that resets does to every client."""
    for port in ports_of(server):
        client = redis.Redis(port=port)
        client.execute_command("CLIENT", "KILL", "TYPE", "normal")  # pyright: ignore[reportUnknownMemberType]


async def ended_with(worker: "subprocess.Popen[bytes]") -> int:
    """The exit status of a worker that has been asked to end."""
    return await asyncio.to_thread(worker.wait, PATIENCE_S)
