"""ListMoves and RetargetMove: what is on its way, and how an operator ends a move."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.rpc.running import Running, answered
from tests.scripts.world import a_task, an_id
from tradewind.errors import InvalidTask, RegionSilent, StoreUnavailable, UnknownTask
from tradewind.task import Exported, Record
from tradewind.v1 import admin_pb2, router_pb2, task_pb2

EU, US = "eu-west", "us-east"
GONE = StoreUnavailable(US, "gone", sent=False)


async def moving(serving: Running, target: str = US, **spec: Any) -> Exported:
    receipt = await serving.submit(pin_region=EU, **spec)
    source = serving.stores[EU].real
    record = await source.read(receipt.task_id)
    assert isinstance(record, Record)
    task = await source.begin_export(record, target, groups=["eu"], reason="unserved")
    assert task is not None
    return task


async def listed(serving: Running, region: str = "") -> admin_pb2.ListMovesResponse:
    return await answered(serving.admin.ListMoves(admin_pb2.ListMovesRequest(region=region)))


async def retarget(
    serving: Running, task_id: str, *, force: bool = False
) -> admin_pb2.RetargetMoveResponse:
    request = admin_pb2.RetargetMoveRequest(task_id=task_id, force=force)
    return await answered(serving.admin.RetargetMove(request, timeout=20))


async def test_moves_are_listed_oldest_first(serving: Running) -> None:
    first = await moving(serving)
    second = await moving(serving, "ap-south")
    answer = await listed(serving)
    assert [move.task_id for move in answer.moves] == [
        first.record.task_id,
        second.record.task_id,
    ]
    move = answer.moves[0]
    assert (move.source, move.target, move.epoch, move.reason) == (EU, US, 2, "unserved")
    assert move.state == task_pb2.TASK_STATE_PENDING
    assert move.began_at.ToMilliseconds() == first.begun_ms
    assert (await listed(serving, US)).moves == []
    for _ in range(serving.stores[EU].real.partitions):
        serving.stores[EU].fail("moving", StoreUnavailable(EU, "gone", sent=False))
    answer = await listed(serving)
    assert (list(answer.moves), list(answer.silent_regions)) == ([], [EU])
    with pytest.raises(InvalidTask):
        await listed(serving, "mars")


async def test_a_move_whose_target_answers_is_ended_for_certain(serving: Running) -> None:
    task = await moving(serving)
    answer = await retarget(serving, task.record.task_id)
    assert (answer.ended, answer.may_run_twice) == (True, False)
    assert (answer.task.state, answer.task.region) == (task_pb2.TASK_STATE_PENDING, EU)
    late = await serving.stores[US].real.import_task(task, hops=b"", timeout_s=5)
    assert late == "refused"
    again = await retarget(serving, task.record.task_id)
    assert not again.ended


@pytest.mark.parametrize("target", [US, "region-that-left"])
async def test_only_force_ends_a_move_whose_target_is_silent(
    serving: Running, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = await moving(serving, target)
    task_id = task.record.task_id
    for force in (False, True):
        for method in ("read", "refuse_import"):
            serving.stores[US].fail(method, GONE)
        if not force:
            with pytest.raises(RegionSilent, match=target):
                await retarget(serving, task_id)
            serving.stores[US].faults.clear()
    answer = await retarget(serving, task_id, force=True)
    assert (answer.ended, answer.may_run_twice) == (True, True)
    assert (answer.task.state, answer.task.region) == (task_pb2.TASK_STATE_PENDING, EU)
    assert answer.task.failover == "an operator ended the move"
    said = [r for r in caplog.records if "the task may run twice" in r.getMessage()]
    assert [getattr(record, "task_id", "") for record in said] == [task_id]


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "just now"])
async def test_what_has_arrived_stays_where_it_is(serving: Running, *, seen: bool) -> None:
    task = await moving(serving)
    assert await serving.stores[US].real.import_task(task, hops=b"", timeout_s=5) == "imported"
    if not seen:  # when the task was looked for
        serving.stores[US].fail("read", GONE)
    answer = await retarget(serving, task.record.task_id, force=True)
    assert (answer.ended, answer.task.region) == (False, US)
    source = await serving.stores[EU].real.read(task.record.task_id)
    assert isinstance(source, Record)
    assert source.target == US
    assert await serving.stores[EU].real.ack_export(task.record.task_id, 2, US, keep_ms=60_000)
    assert await serving.stores[US].real.settle_import(task.record.task_id, 2)


async def test_of_a_task_that_is_on_no_move_nothing_is_ended(serving: Running) -> None:
    receipt = await serving.submit()
    answer = await retarget(serving, receipt.task_id, force=True)
    assert (answer.ended, answer.task.state) == (False, task_pb2.TASK_STATE_PENDING)
    with pytest.raises(UnknownTask):
        await retarget(serving, a_task(an_id()).task_id)
    with pytest.raises(InvalidTask):
        await retarget(serving, "no id")


@pytest.mark.parametrize("spec", [{}, {"delay": Duration(seconds=3_600)}], ids=["ready", "delayed"])
async def test_what_waits_and_is_on_its_way_is_cancelled_where_it_was(
    serving: Running, spec: dict[str, Any]
) -> None:
    task = await moving(serving, **spec)
    task_id = task.record.task_id
    answer = await answered(
        serving.router.CancelTask(router_pb2.CancelTaskRequest(task_id=task_id), timeout=10)
    )
    assert answer.cancelled
    assert (answer.task.state, answer.task.region) == (task_pb2.TASK_STATE_CANCELLED, EU)
    late = await serving.stores[US].real.import_task(task, hops=b"", timeout_s=5)
    assert late == "refused"
    assert (await listed(serving)).moves == []


async def test_what_waits_and_has_arrived_is_cancelled_there(serving: Running) -> None:
    task = await moving(serving)
    assert await serving.stores[US].real.import_task(task, hops=b"", timeout_s=5) == "imported"
    request = router_pb2.CancelTaskRequest(task_id=task.record.task_id)
    answer = await answered(serving.router.CancelTask(request, timeout=10))
    assert (answer.cancelled, answer.task.region) == (True, US)
