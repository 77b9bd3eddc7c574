"""The nets of the runner: a fault of the worker itself settles the claim and keeps nothing."""

import asyncio
import contextlib
import secrets
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from tests.unit.worker.world import KEEP_MS, PLACE, Parts, a_task, claims
from tradewind.attempts.settle import HandedBack
from tradewind.fleet import Fleet
from tradewind.handlers import Context
from tradewind.state import State
from tradewind.store.region_store import RegionStore
from tradewind.task import Claim, Crash, Record
from worker.pool import Pace
from worker.run import Ran
from worker.runner import Runner

SECRET = "hunter2"
LEASE = {"default": 60_000}


async def fine() -> int:
    return 1


async def fails() -> NoReturn:
    raise ValueError


def breaks(*_: object, **__: object) -> NoReturn:
    raise RuntimeError(SECRET)


def cancels(*_: object, **__: object) -> NoReturn:
    raise asyncio.CancelledError(SECRET)


@asynccontextmanager
async def runner_of(home: RegionStore, parts: Parts) -> AsyncGenerator[Runner]:
    runner = Runner(
        home,
        parts.pool,
        guard=parts.guard,
        pace=parts.pace,
        reach=parts.reach,
        children=parts.children,
        hears=parts.hears,
    )
    reporting = asyncio.create_task(runner.report())
    async with asyncio.timeout(10):
        yield runner
    reporting.cancel()


FAULTS = {
    "preparing": ("worker.runner.prepare", breaks),
    "beginning": ("worker.runner.Attempts.begin", breaks),
    "beginning, in the guise of a cancellation": ("worker.runner.Attempts.begin", cancels),
    "judging": ("worker.run._ended", breaks),
    "judging, in the guise of a cancellation": ("worker.run._ended", cancels),
    "encoding": ("tradewind.attempts.outcome.returned", breaks),
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
        runner.start([claim], parts.clock.monotonic_ms(), stopping=False)
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


ASIDE = {
    "the pace": "worker.pool.Pace.ended",
    "the watch": "worker.watch.Watch.forget",
    "the log": "worker.runner.tell_failure",
    "the metrics": "tradewind.metrics.Distribution.observe_all",
}


@pytest.mark.parametrize("place", ASIDE.values(), ids=ASIDE)
async def test_a_fault_in_what_is_only_said_of_attempts_costs_no_slot(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Those that end in one turn of the event loop end in one step: none may take the rest along.

    A slot that is never left is one less until the worker ends; with all of them gone it claims
    nothing, and looks alive.
    """
    monkeypatch.setattr(place, breaks)
    parts = Parts(home, one_region, fails)
    held = await claims(home, 3)
    async with runner_of(home, parts) as runner:
        with contextlib.suppress(RuntimeError):
            runner.start(held, parts.clock.monotonic_ms(), stopping=False)
        await runner.idle()
    records = [await home.read(claim.task_id) for claim in held]
    assert [r.state for r in records if isinstance(r, Record)] == [State.FAILED] * 3
    assert (runner.busy, parts.guard.held) == (0, 0)


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
        runner.start([first], parts.clock.monotonic_ms(), stopping=False)
        await runner.idle()
        assert started == []
        runner.call_off(second.task_id)
        # Its claim was asked for after that word, which so was for others.
        runner.arrived(parts.clock.monotonic_ms() + 1)
        runner.start([second], parts.clock.monotonic_ms(), stopping=False)
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
        runner.start([claim], parts.clock.monotonic_ms(), stopping=True)
        await runner.idle()
    record = await home.read(claim.task_id)
    assert isinstance(record, Record)
    assert (record.state, record.attempts, parts.guard.held) == (State.PENDING, 0, 0)
    assert runner.handed_back == {claim.partition}


async def test_the_pace_sees_an_attempt_until_its_handler_ends_and_not_until_it_is_settled(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release, seen = asyncio.Event(), asyncio.Event(), list[object]()

    async def tells(ctx: Context) -> None:
        begun.set()
        await release.wait()
        ctx.progress(0.5)  # nobody sends it before the attempt ends: its settlement has to wait

    def ended(_: Pace, ended: Sequence[tuple[str, float]]) -> None:
        seen.append((ended[0][0], parts.pace.running(), runner.active()))

    monkeypatch.setattr("worker.pool.Pace.ended", ended)
    parts = Parts(home, one_region, tells)
    async with runner_of(home, parts) as runner:
        runner.start(await claims(home, 1), parts.clock.monotonic_ms(), stopping=False)
        await begun.wait()
        ((name, began_ms),) = parts.pace.running()
        assert 0 < began_ms <= parts.clock.monotonic_ms()
        assert parts.pace.beat().timings["t"].lately > 0.9
        release.set()
        await runner.idle()
    assert (name, seen) == ("t", [("t", [], True)])


async def suspect(home: RegionStore, crashes: int) -> Claim:
    """The claim of a task that has crashed before; `crashes` with the one that is booked now."""
    await home.enqueue([a_task(secrets.randbits(30))], timeout_s=5)
    first = await home.claim(PLACE, worker_id="w", lease_ms=LEASE, handlers=["t"], limit=1)
    (held,) = first.claims
    for _ in range(crashes - 1):
        await home.crashed([Crash(held, "as asked", KEEP_MS, may_move=False)])
        batch = await home.claim(
            PLACE, worker_id="w", lease_ms=LEASE, handlers=["t"], limit=0, suspects=1
        )
        (held,) = batch.claims
    assert (held.suspect, held.crashes) == (True, crashes)
    return held


async def test_a_suspect_takes_no_slot_and_its_death_is_counted(
    home: RegionStore, one_region: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts(home, one_region, fine)
    second, last = await suspect(home, 2), await suspect(home, 3)
    async with runner_of(home, parts) as runner:
        for claim in (second, last):
            runner.start([claim], parts.clock.monotonic_ms(), stopping=False)
            assert (runner.busy, len(runner.suspects), parts.pace.running()) == (0, 1, [])
            await runner.idle()
    await parts.children.close()
    records = [await home.read(claim.task_id) for claim in (second, last)]
    assert [(r.state, r.crashes, r.attempts) for r in records if isinstance(r, Record)] == [
        (State.PENDING, 2, 0),
        (State.DEAD_LETTER, 3, 0),
    ]
    assert (len(runner.suspects), parts.guard.held) == (0, 0)
    told = [(r.getMessage(), vars(r)) for r in caplog.records if "crashes" in vars(r)]
    assert [(what, facts["task_id"], facts["crashes"]) for what, facts in told] == [
        ("a task that crashed goes on as a suspect", second.task_id, 2),
        ("task failed and is dead-lettered", last.task_id, 3),
    ]
    assert told[-1][1]["kind"] == "crashed"


async def test_a_suspect_without_a_place_goes_back_and_its_crash_before_others_start(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(home, one_region, fine)
    second, last = await suspect(home, 2), await suspect(home, 3)
    seen: list[tuple[State, int]] = []

    async def looks(*_: object) -> Ran:
        record = await home.read(last.task_id)
        assert isinstance(record, Record)
        seen.append((record.state, record.crashes))
        return Ran(HandedBack())

    monkeypatch.setattr("worker.runner.apart.attempt", looks)
    async with runner_of(home, parts) as runner:
        for claim in (second, last):
            runner.start([claim], parts.clock.monotonic_ms(), stopping=False)
        await runner.idle()
    assert seen == [(State.PENDING, 2)]


async def test_half_of_the_slots_stuck_wear_a_process_out(
    home: RegionStore, one_region: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.run._STUCK_AFTER_S", 0.0)
    release = threading.Event()
    parts = Parts(home, one_region, lambda: release.wait(10), timeout=0.02)
    first, second = await claims(home, 2)
    async with runner_of(home, parts) as runner:
        runner.start([first], parts.clock.monotonic_ms(), stopping=False)
        await runner.idle(but_stuck=True)
        assert (parts.heard, runner.active()) == ([], True)
        runner.start([second], parts.clock.monotonic_ms(), stopping=False)
        await runner.idle(but_stuck=True)
        assert (parts.heard, runner.busy, parts.guard.held) == (["worn out"], 2, 2)
        runner.end_all()
        await runner.idle()
        assert (runner.busy, parts.guard.held) == (2, 0), "a slot is free when its thread is"
        release.set()
        while runner.busy:  # noqa: ASYNC110 - the end of a thread
            await asyncio.sleep(0.001)
    records = [await home.read(claim.task_id) for claim in (first, second)]
    kinds = [r.failure.kind for r in records if isinstance(r, Record) and r.failure]
    assert kinds == ["timeout", "timeout"]
