"""What runs in children: it can be killed, it may die, and its worker lives."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from google.protobuf.duration_pb2 import Duration

from tests.flow.lab import Lab, ended_with
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.task import CancelRequested, Crash, Record

APP = Path(__file__).with_name("isolated_app.py")
SHORT = Duration(nanos=200_000_000)
LONG = 60


async def worker(lab: Lab, *options: str) -> "subprocess.Popen[bytes]":
    return await lab.worker("eu-west", "--app", f"{APP}:app", *options)


def lives(pid: int) -> bool:
    """Whether it runs; a zombie only waits to be counted by its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(lab: Lab, pid: int) -> None:
    async def is_gone() -> bool:
        return not lives(pid)

    await lab.until(is_gone)


@pytest.mark.parametrize(
    ("name", "arguments"), [("apart.sleep", {"seconds": LONG}), ("apart.hold", {})]
)
async def test_past_its_limit_a_handler_is_gone_before_its_task_goes_on(
    lab: Lab, name: str, arguments: dict[str, float]
) -> None:
    running = await worker(lab)
    task_id = await lab.submit(name, arguments, timeout=SHORT, max_attempts=2)
    record = await lab.ended(task_id)
    assert record.failure is not None
    assert (record.death, record.attempts, record.crashes) == ("timeout", 2, 0)
    assert record.failure.message == "the attempt ran longer than 0.2 s"
    pids = [line.pid for line in lab.lines(task_id, "start")]
    assert len({*pids, running.pid}) == 3, "a child for each"
    assert [lives(pid) for pid in pids] == [False, False]
    assert running.poll() is None


async def test_a_cancelled_one_is_gone_before_its_task_is_cancelled(lab: Lab) -> None:
    await worker(lab)
    task_id = await lab.submit("apart.sleep", {"seconds": LONG})
    (begun,) = await lab.begun(task_id)
    answer = await lab.stores["eu-west"].cancel(task_id, retention_ms=3_600_000)
    assert answer == CancelRequested(task_id)
    record = await lab.settled(task_id)
    assert (record.state, lives(begun.pid)) == (State.CANCELLED, False)


async def test_one_that_is_killed_from_outside_is_run_again_as_a_suspect(lab: Lab) -> None:
    running = await worker(lab)
    task_id = await lab.submit("apart.sleep", {"seconds": 1})
    (begun,) = await lab.begun(task_id)
    os.kill(begun.pid, signal.SIGKILL)
    record = await lab.ended(task_id)
    assert record.failure is not None
    assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 1)
    assert "was killed by SIGKILL" in record.failure.message
    first, second = lab.lines(task_id, "start")
    assert (first.attempt, second.attempt) == (1, 1)
    assert running.pid not in {first.pid, second.pid}
    assert running.poll() is None


async def test_no_child_outlives_its_worker(lab: Lab) -> None:
    killed = await worker(lab)
    ids = [await lab.submit(name, {}) for name in ("apart.burn", "apart.hold")]
    ids.append(await lab.submit("apart.sleep", {"seconds": LONG}))
    pids = [(await lab.begun(task_id))[0].pid for task_id in ids]
    killed.kill()
    for pid in pids:
        await gone(lab, pid)


async def test_progress_and_results_come_from_a_child_as_from_a_worker(lab: Lab) -> None:
    await worker(lab)
    task_id = await lab.submit("apart.report", {})
    seen: list[Record] = []

    async def has_reported() -> bool:
        record = await lab.record(task_id)
        seen[:] = [record] if record else []
        return record is not None and record.progress > 0

    await lab.until(has_reported)
    assert (seen[0].progress, seen[0].progress_note) == (0.5, "half-way")
    record = await lab.ended(await lab.submit("apart.too.much", {}))
    assert record.failure is not None
    assert (record.death, record.failure.kind) == ("rejected", "result-too-large")


async def test_an_app_that_does_not_load_in_a_child_is_a_failure_and_no_crash(
    lab: Lab, tmp_path: Path
) -> None:
    app = tmp_path / "shy.py"
    app.write_text(
        "from tests.flow.isolated_app import IN_A_CHILD, app\n"
        "if IN_A_CHILD:\n    raise ImportError('no display')\n"
    )
    running = await lab.worker("eu-west", "--app", f"{app}:app")
    task_id = await lab.submit("apart.sleep", {"seconds": 0}, max_attempts=2)
    record = await lab.ended(task_id)
    assert record.failure is not None
    assert (record.death, record.attempts, record.crashes) == ("exhausted", 2, 0)
    assert record.failure.message == (
        f"the app cannot be used in a child process: --app {app}:app: "
        f"importing it failed at {app}:3 with ImportError: no display"
    )
    plain = await lab.ended(await lab.submit("sleep", {"seconds": 0}))
    assert (plain.state, json.loads(plain.result)) == (State.COMPLETED, running.pid)


async def test_with_the_grace_over_a_child_is_killed_and_its_task_handed_back(lab: Lab) -> None:
    leaving = await worker(lab, "--grace", "0.2")
    task_id = await lab.submit("apart.sleep", {"seconds": LONG})
    (begun,) = await lab.begun(task_id)
    leaving.terminate()
    assert await ended_with(leaving) == 0
    record = await lab.record(task_id)
    assert record is not None
    assert (record.state, record.attempts, record.crashes) == (State.PENDING, 0, 0)
    assert not lives(begun.pid)


async def test_a_signal_to_all_processes_of_a_worker_is_no_crash(lab: Lab) -> None:
    """As systemd ends a unit: children go on until their worker ends them."""
    leaving = await worker(lab)
    task_id = await lab.submit("apart.sleep", {"seconds": 0.5})
    (begun,) = await lab.begun(task_id)
    os.kill(begun.pid, signal.SIGTERM)
    leaving.terminate()
    assert await ended_with(leaving) == 0
    record = await lab.ended(task_id)
    assert (record.state, record.crashes) == (State.COMPLETED, 0)


async def test_what_crashed_with_its_worker_runs_in_a_child_beside_full_slots(lab: Lab) -> None:
    """One slot, and it is taken: a suspect needs none."""
    victim = await worker(lab)
    task_id = await lab.submit("kill.itself", {"times": 1})
    await asyncio.to_thread(victim.wait)
    running = await worker(lab, "--concurrency", "1")
    filler = await lab.submit("sleep", {"seconds": LONG})
    await lab.begun(filler)
    record = await lab.ended(task_id)
    assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 1)
    pids = [line.pid for line in lab.lines(task_id, "start")]
    assert pids[0] == victim.pid
    assert running.pid not in pids
    assert lab.lines(filler, "done") == []


async def make_suspect(lab: Lab, task_id: str, partition: int) -> None:
    """As if it had taken a child along."""
    store = lab.stores["eu-west"]
    batch = await store.claim(
        partition,
        worker_id="w",
        lease_ms={"default": 60_000},
        handlers=["apart.sleep"],
        limit=1,
    )
    (claim,) = batch.claims
    assert claim.task_id == task_id
    await store.crashed([Crash(claim, "as asked", 3_600_000, may_move=False)])


def calls(server: RedisProcess) -> int:
    """How many scripts it has run, and how often somebody has waited for a hint."""
    client: Any = redis.Redis(port=server.port)
    stats = client.info("commandstats")
    return sum(stats[f"cmdstat_{name}"]["calls"] for name in ("evalsha", "blpop"))


@pytest.mark.standalone
async def test_a_suspect_that_has_to_wait_costs_nothing_meanwhile(
    lab: Lab, redis_servers: list[RedisProcess]
) -> None:
    ids: list[str] = []
    for partition in range(3):
        ids.append(await lab.submit("apart.sleep", {"seconds": 5}, partition=partition))
        await make_suspect(lab, ids[-1], partition)
    await worker(lab)

    async def two_run() -> bool:
        return len(lab.lines(event="start")) == 2

    await lab.until(two_run)
    before = calls(redis_servers[0])
    await asyncio.sleep(2)
    # 25 a second are upkeep, after a start; a worker that cannot let go of a hint makes hundreds.
    assert calls(redis_servers[0]) - before < 100
    assert len(lab.lines(event="start")) == 2, "two at most"
    for task_id in ids:
        assert (await lab.ended(task_id)).state is State.COMPLETED
    starts, ends = lab.lines(event="start"), lab.lines(event="done")
    assert starts[2].at > min(line.at for line in ends)


@pytest.mark.parametrize(
    "name", ["kill.itself", pytest.param("kill.its.parent", marks=pytest.mark.long)]
)
async def test_what_kills_every_process_is_dead_after_its_crashes(lab: Lab, name: str) -> None:
    parent = lab.start("eu-west", "--app", f"{APP}:app", "--processes", "2")
    task_id = await lab.submit(name, {})
    record = await lab.ended(task_id)
    assert record.failure is not None
    assert (record.death, record.crashes, record.attempts) == ("crashed", 3, 0)
    assert record.failure.kind == "worker-lost"
    assert len({line.pid for line in lab.lines(task_id, "start")}) == 3

    async def told() -> bool:
        return "is dead-lettered" in lab.logs()

    await lab.until(told)

    async def both_live() -> bool:
        workers = await lab.stores["eu-west"].workers()
        return len([w for w in workers if w.age_ms < 2_000]) == 2

    await lab.until(both_live)
    assert parent.poll() is None
