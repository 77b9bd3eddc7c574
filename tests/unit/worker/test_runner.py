"""The nets of the runner: a fault of the worker itself settles the claim and keeps nothing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from tests.unit.worker.world import KEEP_MS, Parts, claims
from tradewind.fleet import Fleet
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Record
from worker.runner import Runner

SECRET = "hunter2"


async def fine() -> int:
    return 1


def breaks(*_: object, **__: object) -> NoReturn:
    raise RuntimeError(SECRET)


async def breaks_later(*_: object) -> NoReturn:
    raise asyncio.CancelledError(SECRET)


@asynccontextmanager
async def runner_of(home: RegionStore, parts: Parts) -> AsyncGenerator[Runner]:
    runner = Runner(
        home,
        parts.pool,
        guard=parts.guard,
        pace=parts.pace,
        reach=parts.reach,
        on_change=lambda: None,
        on_due=lambda _partition, _in_ms: None,
        on_buried=lambda _partition, _in_ms: None,
    )
    reporting = asyncio.create_task(runner.report())
    async with asyncio.timeout(10):
        yield runner
    reporting.cancel()


FAULTS = {
    "preparing": ("worker.runner.prepare", breaks),
    "attempting": ("worker.runner.attempt", breaks),
    "attempting, in the guise of a cancellation": ("worker.runner.attempt", breaks_later),
    "encoding": ("worker.run._success", breaks),
    "settling": ("worker.runner.settle", breaks),
}


@pytest.mark.parametrize(("place", "fault"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_of_the_worker_is_a_failed_attempt(
    home: RegionStore,
    one_region: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    fault: object,
) -> None:
    monkeypatch.setattr(place, fault)
    parts = Parts(home, one_region, fine)
    (claim,) = await claims(home, 1)
    async with runner_of(home, parts) as runner:
        runner.start(claim, parts.clock.monotonic_ms(), stopping=False)
        await runner.idle()
    record = await home.read(claim.task_id)
    assert isinstance(record, Record)
    assert record.failure is not None
    assert (record.state, record.failure.kind, record.failure.message) == (
        State.FAILED,
        "error",
        "internal error of the worker; its log says where",
    )
    assert (runner.busy, parts.guard.held) == (0, 0)
    assert "the worker failed at a task" in caplog.text
    assert SECRET not in caplog.text


async def test_a_cancel_that_is_heard_before_its_claim_arrives_holds(
    home: RegionStore, one_region: Fleet
) -> None:
    """The store claims, is asked to cancel, and its word of it overtakes the claim's answer."""
    started: list[int] = []

    async def starts() -> None:
        started.append(1)

    parts = Parts(home, one_region, starts)
    first, second = await claims(home, 2)
    async with runner_of(home, parts) as runner:
        await home.cancel(first.task_id, retention_ms=KEEP_MS)
        runner.call_off(first.task_id)
        runner.start(first, parts.clock.monotonic_ms(), stopping=False)
        await runner.idle()
        assert started == []
        runner.call_off(second.task_id)
        runner.arrived()  # no claim was under way: that word was for others
        runner.start(second, parts.clock.monotonic_ms(), stopping=False)
        await runner.idle()
    records = [await home.read(claim.task_id) for claim in (first, second)]
    assert [r.state for r in records if isinstance(r, Record)] == [
        State.CANCELLED,
        State.COMPLETED,
    ]


async def test_what_arrives_while_the_worker_stops_is_handed_back(
    home: RegionStore, one_region: Fleet
) -> None:
    parts = Parts(home, one_region, fine)
    (claim,) = await claims(home, 1)
    async with runner_of(home, parts) as runner:
        runner.start(claim, parts.clock.monotonic_ms(), stopping=True)
        await runner.idle()
    record = await home.read(claim.task_id)
    assert isinstance(record, Record)
    assert (record.state, record.attempts, parts.guard.held) == (State.PENDING, 0, 0)
    assert runner.handed_back == {claim.partition}
