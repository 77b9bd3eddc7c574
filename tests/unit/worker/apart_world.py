"""Attempts in real child processes: the children of one worker, without a store."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil

from tests.unit.worker.child_app import app
from tests.unit.worker.jobs import claim, packed
from tests.unit.worker.world import APP
from tradewind.attempts.job import Job, prepare
from tradewind.attempts.settle import Success, TimedOut
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import Signals
from tradewind.task import Failure
from tradewind.v1.task_pb2 import TaskSpec
from worker import apart
from worker.children import Children
from worker.run import Ran
from worker.slot import Halt

FLEET = Fleet(regions={}, default_queue=QueuePolicy(timeout_ms=60_000))
TOO_LONG = TimedOut(Failure("timeout", "the attempt ran longer than 0.1 s"))


class World:
    """The children of one worker, and attempts in them."""

    def __init__(self, target: str = f"{APP}:app", directory: Path | None = None) -> None:
        self.children = Children(target, region="eu", directory=directory or Path.cwd())
        self.said: list[tuple[float, str]] = []
        self.spoke = asyncio.Event()

    def job(self, name: str, limit_s: float = 60, *, token: int = 7, **arguments: Any) -> Job:
        spec = TaskSpec(name=name, payload=json.dumps(arguments).encode())
        spec.timeout.FromMilliseconds(int(limit_s * 1000))
        signals = Signals()
        signals.report = self.report
        prepared = prepare(claim(packed(spec), name)._replace(token=token), app, FLEET, signals)
        assert isinstance(prepared, Job)
        return prepared

    def report(self, fraction: float, note: str) -> None:
        self.said.append((fraction, note))
        self.spoke.set()

    async def run(self, name: str, limit_s: float = 60, **arguments: Any) -> Ran:
        return await apart.attempt(self.job(name, limit_s, **arguments), self.children, Halt())

    async def pid(self) -> int:
        """Of the child that answers now."""
        return json.loads(result_of(await self.run("fine")))["pid"]


async def until_gone(pid: int) -> None:
    """Of a process that is nobody's child any more."""
    while not gone(pid):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether it does not run any more; a zombie waits for whoever adopted it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def result_of(ran: Ran) -> bytes:
    assert isinstance(ran.verdict, Success), ran
    return ran.verdict.result
