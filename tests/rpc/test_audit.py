"""ListAudit: who did what, when and why."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
import pytest

from tests.rpc.running import Running, answered
from tests.rpc.test_control import cut_off, pause, resume, set_state, until
from tests.rpc.test_dead_work import bury, purge, redrive
from tradewind import wire
from tradewind.control import Control
from tradewind.errors import ControlUnavailable, InvalidTask, StoreUnavailable, TradewindError
from tradewind.v1 import admin_pb2, task_pb2

ANN = ((wire.OPERATOR_METADATA, "ann@desk"),)


async def listed(serving: Running, **fields: Any) -> list[admin_pb2.AuditRecord]:
    answer = await answered(serving.admin.ListAudit(admin_pb2.ListAuditRequest(**fields)))
    return list(answer.records)


async def test_a_change_of_a_region_says_who_when_and_why(serving: Running) -> None:
    request = admin_pb2.SetRegionStateRequest(
        region="us-east", state=task_pb2.REGION_STATE_CORDONED, reason="new switch"
    )
    await answered(serving.admin.SetRegionState(request, metadata=ANN))

    (record,) = await listed(serving)

    assert (record.deed, record.on, record.why) == ("state", "us-east", "new switch")
    assert dict(record.details) == {"state": "CORDONED"}
    assert record.who.startswith("ann@desk (")
    assert record.at.seconds > 1_700_000_000


async def test_a_pause_and_its_end_are_two_records_latest_first(serving: Running) -> None:
    await answered(serving.admin.PauseQueue(admin_pb2.PauseQueueRequest(queue="mail")))
    await answered(serving.admin.ResumeQueue(admin_pb2.ResumeQueueRequest(queue="mail")))
    deeds = [(record.deed, record.on) for record in await listed(serving)]
    assert deeds == [("resume", "mail"), ("pause", "mail")]


async def test_an_order_that_stood_already_is_written_down_as_such(serving: Running) -> None:
    for _ in range(2):
        await answered(serving.admin.PauseQueue(admin_pb2.PauseQueueRequest(queue="mail")))
    again, first = await listed(serving)
    assert dict(again.details) == {"outcome": "stood already"}
    assert not first.details


@pytest.mark.parametrize(("deed", "work"), [("redrive", redrive), ("purge", purge)])
async def test_each_region_keeps_what_was_done_to_its_dead_tasks(
    serving: Running, deed: str, work: Any
) -> None:
    for region in ("eu-west", "us-east", "us-east"):
        await bury(serving, message="secret", pin_region=region)

    await work(serving, error_contains="secret")

    records = await listed(serving)
    found = {
        record.region: (record.deed, record.on, sum(record.counts.values())) for record in records
    }
    assert found == {"eu-west": (deed, "eu-west", 1), "us-east": (deed, "us-east", 2)}
    assert not any("secret" in str(record) for record in records), "an error may be fenced"
    assert len(await listed(serving, region="us-east")) == 1


@pytest.mark.parametrize("work", [redrive, purge])
async def test_a_dry_run_and_a_run_for_nothing_leave_no_record(serving: Running, work: Any) -> None:
    await bury(serving)
    await work(serving, dry_run=True)
    await work(serving, queue="nothing-of-it")
    assert await listed(serving) == []


async def test_a_refused_change_leaves_no_record(serving: Running) -> None:
    with pytest.raises(InvalidTask):
        await answered(serving.admin.PauseQueue(admin_pb2.PauseQueueRequest(queue="")))
    assert await listed(serving) == []


async def test_a_change_whose_caller_leaves_while_it_settles_is_written_down(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.control.SETTLE_MS", 500)
    await serving.staff()  # nobody of whom obeys
    for change in (
        lambda: set_state(serving, "us-east", "DRAINING"),
        lambda: pause(serving, "mail"),
    ):
        before = serving.gateway.orders.control
        call = asyncio.create_task(change())

        async def is_in_force(before: Control = before) -> bool:
            return serving.gateway.orders.control != before

        await until(is_in_force)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await call

    await serving.gateway.drain()  # as a router does that stops
    assert [record.deed for record in await listed(serving)] == ["pause", "state"]


async def evacuate(serving: Running) -> None:
    request = admin_pb2.EvacuateRegionRequest(region="us-east")
    async for _ in serving.admin.EvacuateRegion(request, timeout=20):
        pass


CHANGES: dict[str, Callable[[Running], Awaitable[object]]] = {
    "state": lambda serving: set_state(serving, "us-east", "ACTIVE"),
    "pause": lambda serving: pause(serving, "mail"),
    "resume": lambda serving: resume(serving, "reports"),
    "evacuate": evacuate,
}


@pytest.mark.parametrize(("deed", "change"), CHANGES.items(), ids=CHANGES)
async def test_a_change_that_may_hold_although_it_failed_is_written_down(
    serving: Running, deed: str, change: Any
) -> None:
    await set_state(serving, "us-east", "CORDONED")
    await pause(serving, "reports")
    for name, store in serving.stores.items():
        store.fail("control_accept", StoreUnavailable(name, "lost", sent=True), late=True)
    with pytest.raises((TradewindError, grpc.aio.AioRpcError)):
        await change(serving)
    record, *_ = await listed(serving)
    assert (record.deed, dict(record.details)["outcome"]) == (deed, "unknown")


async def test_a_change_that_no_region_was_asked_to_take_leaves_no_record(
    serving: Running,
) -> None:
    cut_off(serving, "us-east", "ap-south")
    with pytest.raises(ControlUnavailable):
        await pause(serving, "mail")
    assert await listed(serving) == []


@pytest.mark.parametrize(("deed", "work"), [("redrive", redrive), ("purge", purge)])
async def test_a_task_of_which_the_answer_was_lost_is_counted_as_unknown(
    serving: Running, deed: str, work: Any
) -> None:
    await bury(serving, pin_region="us-east")
    lost = StoreUnavailable("us-east", "lost", sent=True)
    serving.stores["us-east"].fail(deed, lost, late=True)
    done = await work(serving)
    assert (done.count, list(done.silent_regions)) == (0, ["us-east"])
    (record,) = await listed(serving)
    assert (record.deed, dict(record.details)) == (deed, {"outcome_unknown": "1"})
