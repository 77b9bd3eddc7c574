"""EvacuateRegion orders, and watches what couriers do; they may be watched no more."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.rpc.running import Running, answered
from tests.scripts.world import a_bury, claim_batch
from tradewind import ids
from tradewind.errors import InvalidTask, RegionSilent, RegionTakesWork, StoreUnavailable
from tradewind.task import Exported, Record
from tradewind.v1 import admin_pb2

EU, US = "eu-west", "us-east"


async def set_state(serving: Running, state: str) -> None:
    request = admin_pb2.SetRegionStateRequest(region=EU, state=f"REGION_STATE_{state}")
    await answered(serving.admin.SetRegionState(request, timeout=20))


def call(serving: Running, region: str = EU, **more: Any) -> Any:
    return serving.admin.EvacuateRegion(admin_pb2.EvacuateRegionRequest(region=region, **more))


async def first(call: Any) -> admin_pb2.EvacuateRegionResponse:
    async def read() -> admin_pb2.EvacuateRegionResponse:
        async for answer in call:
            return answer
        raise AssertionError

    return await answered(read())


async def until(stream: AsyncIterator[Any], **wanted: Any) -> admin_pb2.EvacuateRegionResponse:
    async for answer in stream:
        if all(getattr(answer, name) == value for name, value in wanted.items()):
            return answer
    raise AssertionError(wanted)


async def leave(serving: Running, task_id: str) -> None:
    """As a courier does it."""
    source, target = serving.stores[EU].real, serving.stores[US].real
    record = await source.read(task_id)
    assert isinstance(record, Record)
    task = await source.begin_export(record, US, groups=["eu"], reason="evacuation")
    assert isinstance(task, Exported)
    assert await target.import_task(task, hops=b"", timeout_s=5) == "imported"
    order = serving.gateway.orders.control.evacuations[EU]
    assert await source.ack_export(task_id, 2, US, keep_ms=60_000, order_ms=order.at_ms)
    assert await target.settle_import(task_id, 2)


async def test_what_leaves_is_counted_until_nothing_is_left(serving: Running) -> None:
    tasks = [(await serving.submit(pin_region=EU)).task_id for _ in range(3)]
    ended = await serving.submit(pin_region=EU)
    await set_state(serving, "DRAINING")
    stream = call(serving, rate_per_second=50)
    begun = await first(stream)
    assert (begun.moved, begun.remaining, begun.done) == (0, 4, False)
    order = serving.gateway.orders.control.evacuations[EU]
    assert (order.rate_per_s, order.by[:5]) == (50, "ipv4:")
    for task_id in tasks[:2]:
        await leave(serving, task_id)
    store = serving.stores[EU].real
    await store.cancel(ended.task_id, retention_ms=60_000)
    await until(stream, moved=2, remaining=1)
    place = ids.parse(tasks[2]).partition
    await store.passed(place, order.at_ms, {"pinned": 1})
    last = await until(stream, done=True)
    assert (last.moved, last.remaining) == (2, 0)
    assert [(each.reason, each.count) for each in last.kept] == [("pinned", 1)]
    assert [answer async for answer in stream] == []


async def test_a_second_run_is_a_no_op_and_stopping_it_ends_nothing(serving: Running) -> None:
    await serving.submit(pin_region=EU)
    await set_state(serving, "CORDONED")
    stream = call(serving)
    await first(stream)
    stream.cancel()
    epoch = serving.gateway.orders.control.stamp.epoch
    again = call(serving)
    assert (await first(again)).remaining == 1
    assert serving.gateway.orders.control.stamp.epoch == epoch
    faster = call(serving, rate_per_second=9)
    await first(faster)
    assert serving.gateway.orders.control.evacuations[EU].rate_per_s == 9
    await set_state(serving, "ACTIVE")
    for stream in (again, faster):
        answers = [answer async for answer in stream]
        assert not any(answer.done for answer in answers), "taken back, and so it ends"


async def test_a_dry_run_says_what_would_stay_and_orders_nothing(serving: Running) -> None:
    await serving.staff()
    for _ in range(2):
        await serving.submit(affinity_key=await serving.affinity_to(EU))
    await serving.submit(pin_region=EU)
    await serving.submit(residency=["eu"], delay=Duration(seconds=60))
    epoch = serving.gateway.orders.control.stamp.epoch
    (answer,) = [answer async for answer in call(serving, dry_run=True)]
    assert (answer.moved, answer.remaining, answer.done) == (2, 0, True)
    assert {each.reason: each.count for each in answer.kept} == {
        "pinned": 1,
        "no other permitted region": 1,
    }
    assert serving.gateway.orders.control.stamp.epoch == epoch


async def test_of_what_a_dry_run_did_not_look_at_it_says_nothing(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.evacuate._LOOK_AT", 1)
    await serving.staff()
    for number in range(4):
        await serving.submit(pin_region=EU, request_id=f"r{number}")
    (answer,) = [answer async for answer in call(serving, dry_run=True)]
    (kept,) = answer.kept
    assert (answer.moved, kept.reason, answer.done) == (0, "pinned", True)
    assert answer.remaining == 4 - kept.count > 0


async def dead(serving: Running, *, may_move: bool, **fields: Any) -> None:
    task_id = (await serving.submit(**fields)).task_id
    batch = await claim_batch(
        serving.stores[EU].real,
        place=ids.parse(task_id).partition,
        queues=["default"],
        handlers=["email.send"],
    )
    (claim,) = batch.claims
    await serving.stores[EU].real.bury([a_bury(claim, may_move=may_move)])


async def test_a_dry_run_counts_dead_letters_that_would_leave_to_run_or_as_they_are(
    serving: Running,
) -> None:
    await serving.staff()
    for may_move in (True, False):
        await dead(serving, may_move=may_move, affinity_key=await serving.affinity_to(EU))
    await dead(serving, may_move=True, pin_region=EU)
    await dead(serving, may_move=False, residency=["eu"])
    (answer,) = [answer async for answer in call(serving, dry_run=True)]
    assert answer.moved == 2
    assert {each.reason: each.count for each in answer.kept} == {
        "pinned": 1,
        "no other permitted region": 1,
    }


@pytest.mark.parametrize(
    ("region", "rate", "error"),
    [
        ("mars", 0.0, InvalidTask),
        ("", 0.0, InvalidTask),
        (EU, -1.0, InvalidTask),
        (EU, float("nan"), InvalidTask),
        (EU, 0.0, RegionTakesWork),
    ],
)
async def test_what_cannot_be_ordered_is_refused(
    serving: Running, region: str, rate: float, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await first(call(serving, region, rate_per_second=rate))
    assert serving.gateway.orders.control.evacuations == {}


async def test_a_region_that_does_not_answer_is_named(serving: Running) -> None:
    await set_state(serving, "DRAINING")
    serving.stores[EU].fail("evacuated", StoreUnavailable(EU, "gone", sent=False))
    with pytest.raises(RegionSilent, match="no answer from region eu-west"):
        await first(call(serving))
