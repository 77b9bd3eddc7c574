import asyncio
import json
import os
import signal
from collections.abc import Callable

from google.protobuf.duration_pb2 import Duration

from tests.flow.lab import Lab, cut_connections, ended_with, free_address
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.task import Priority


async def test_a_task_runs_once_and_keeps_its_result(lab: Lab) -> None:
    worker = await lab.worker()
    task_id = await lab.submit("sleep", {"seconds": 0})
    record = await lab.ended(task_id)
    assert (record.state, json.loads(record.result)) == (State.COMPLETED, worker.pid)
    assert [line.event for line in lab.lines(task_id)] == ["start", "done"]


async def test_a_failing_task_uses_its_attempts_and_dies_with_its_cause(lab: Lab) -> None:
    await lab.worker()
    task_id = await lab.submit("sleep.then.fail", {"seconds": 0})
    record = await lab.ended(task_id)
    assert record.failure is not None
    assert (record.state, record.death, record.attempts, record.settled) == (
        State.DEAD_LETTER,
        "exhausted",
        3,
        True,
    )
    assert record.failure.message == "RuntimeError: as asked"
    assert record.failover == "no other permitted region"
    assert [line.attempt for line in lab.lines(task_id, "start")] == [1, 2, 3]
    # The log tells which error and where, but not its text, which may quote a payload.
    assert "RuntimeError" in lab.logs()
    assert "ledger_app.py:" in lab.logs()
    assert "as asked" not in lab.logs()


async def test_attempts_that_run_too_long_die_of_time(lab: Lab) -> None:
    await lab.worker()
    limit = Duration(nanos=200_000_000)
    ids = [
        await lab.submit(name, {"seconds": 1.0}, timeout=limit, max_attempts=2)
        for name in ("sleep", "thread.looks")
    ]
    records = [await lab.ended(task_id) for task_id in ids]
    assert [record.death for record in records] == ["timeout", "timeout"]
    assert [len(lab.lines(task_id, "start")) for task_id in ids] == [2, 2]


async def test_a_thread_that_returns_after_its_limit_is_not_started_again(lab: Lab) -> None:
    """It has had its effect: a second attempt would repeat it, one beside it even at once."""
    worker = await lab.worker()
    task_id = await lab.submit("thread", {"seconds": 1.0}, timeout=Duration(nanos=200_000_000))
    record = await lab.ended(task_id)
    assert (record.state, json.loads(record.result)) == (State.COMPLETED, worker.pid)
    assert [line.event for line in lab.lines(task_id)] == ["start", "done"]
    assert "returned after its time limit" in lab.logs()


async def test_a_result_that_cannot_be_kept_is_not_tried_for_again_anywhere(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("{failover: {on: [exhausted, rejected]}}", regions=2)
    await lab.worker()
    await lab.worker("us-east")
    record = await lab.ended(await lab.submit("return.too.much", {}))
    assert record.failure is not None
    assert (record.death, record.region, record.settled) == ("rejected", "eu-west", True)
    assert record.failure.message.startswith("the handler has run and is not run again: the result")
    assert record.failover == "its handler has run, only the result could not be kept"
    assert len(lab.lines()) == 1


async def test_arguments_that_do_not_fit_are_rejected_at_once(lab: Lab) -> None:
    await lab.worker()
    record = await lab.ended(await lab.submit("sleep", {"minutes": 1}))
    assert record.failure is not None
    assert (record.death, record.failure.message) == ("rejected", "argument seconds is missing")


async def test_a_worker_runs_no_more_than_it_has_slots(lab: Lab) -> None:
    ids = [await lab.submit("sleep", {"seconds": 0.1}) for _ in range(12)]
    await lab.worker("eu-west", "--concurrency", "3")
    for task_id in ids:
        await lab.ended(task_id)
    running = peak = 0
    for line in lab.lines():
        running += 1 if line.event == "start" else -1
        peak = max(peak, running)
    assert peak == 3


async def test_a_low_priority_waits_only_so_long_behind_higher_ones(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab("{starvation_after: 1s}")
    low = await lab.submit("sleep", {"seconds": 0}, partition=1, priority=Priority.LOW)
    high = [
        await lab.submit("sleep", {"seconds": 0.1}, partition=1, priority=Priority.HIGH)
        for _ in range(40)
    ]
    await lab.worker("eu-west", "--concurrency", "1")
    await lab.settled(low)
    assert lab.lines(high[-1]) == [], "4 s of work of a higher priority, and it waited for less"


async def test_a_worker_outlives_its_redis(
    make_lab: Callable[..., Lab], redis_servers: list[RedisProcess]
) -> None:
    lab = make_lab()
    worker = await lab.worker()
    redis_servers[0].stop()
    redis_servers[0].start()
    task_id = await lab.submit("sleep", {"seconds": 0})
    assert (await lab.ended(task_id)).state is State.COMPLETED
    assert worker.poll() is None


async def test_an_idle_worker_notices_that_its_connections_were_cut(
    lab: Lab, redis_servers: list[RedisProcess]
) -> None:
    await lab.worker()
    for _ in range(3):
        cut_connections(redis_servers[0])
    submitted = [await lab.submit("sleep", {"seconds": 0}) for _ in range(20)]
    for task_id in submitted:
        assert (await lab.ended(task_id)).state is State.COMPLETED
    assert [len(lab.lines(task_id)) for task_id in submitted] == [2] * 20


async def test_two_processes_share_one_face(lab: Lab) -> None:
    address = free_address()
    parent = lab.start("eu-west", "--processes", "2", "--http", address)

    async def both_live() -> bool:
        return len(await lab.stores["eu-west"].workers()) == 2

    await lab.until(both_live)
    ids = [await lab.submit("sleep", {"seconds": 0}) for _ in range(5)]
    for task_id in ids:
        await lab.ended(task_id)

    async def is_ready() -> bool:
        return await lab.page(address, "/readyz") == "ready\n"

    await lab.until(is_ready)
    text = await lab.page(address, "/metrics")
    sums = [line for line in text.splitlines() if 'outcome="completed"' in line]
    assert sums == [
        'tradewind_tasks_processed_total{outcome="completed",queue="default",region="eu-west"} 5.0'
    ]
    os.kill(parent.pid, signal.SIGTERM)
    assert await ended_with(parent) == 0
    assert await lab.stores["eu-west"].workers() == []


async def test_an_idle_worker_stops_at_once(lab: Lab) -> None:
    worker = await lab.worker()
    worker.terminate()
    assert await asyncio.wait_for(ended_with(worker), 10) == 0
    assert await lab.stores["eu-west"].workers() == []
