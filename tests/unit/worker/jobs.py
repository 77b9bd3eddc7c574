"""Attempts without a store: what tests of `attempt` run."""

from collections.abc import Callable
from typing import Any

from tradewind import codec
from tradewind.attempts.job import Job, prepare
from tradewind.attempts.threads import Threads
from tradewind.clock import ManualClock
from tradewind.fleet import Fleet, QueuePolicy
from tradewind.handlers import App, Signals
from tradewind.task import Claim, Draft, Priority
from tradewind.v1.task_pb2 import TaskSpec
from worker.run import Ran, attempt
from worker.slot import Halt

FLEET = Fleet(regions={}, default_queue=QueuePolicy(attempts=5, timeout_ms=60_000))


def claim(packed: bytes, name: str = "t") -> Claim:
    return Claim(
        task_id="t1",
        region="eu",
        partition=0,
        queue="default",
        name=name,
        priority=Priority.NORMAL,
        token=7,
        epoch=1,
        attempt=2,
        crashes=0,
        packed=packed,
        hops=b"",
        created_ms=0,
        ready_ms=0,
        claimed_ms=0,
        hop_count=0,
    )


def packed(spec: TaskSpec, *, deduplicated: bool = False) -> bytes:
    return codec.pack(
        Draft(name=spec.name, spec=spec.SerializeToString()),
        fingerprint=b"\xab" * 32,
        fence=(),
        traceparent="",
        birth_region="eu",
        deduplicated=deduplicated,
    )


def job(function: Callable[..., Any], **settings: Any) -> Job:
    app = App()
    app.task("t", **settings)(function)
    prepared = prepare(claim(packed(TaskSpec(name="t"))), app, FLEET, Signals())
    assert isinstance(prepared, Job)
    return prepared


async def run(function: Callable[..., Any], **settings: Any) -> Ran:
    return await attempt(job(function, **settings), Threads(), Halt(), ManualClock())
