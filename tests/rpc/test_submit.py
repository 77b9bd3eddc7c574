import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import grpc
import pytest

from tests.rpc.running import Running, answered, fields_of, running, spec
from tradewind import codec, ids
from tradewind.errors import (
    BatchTooLarge,
    InvalidTask,
    NoRegionPermitted,
    PayloadTooLarge,
)
from tradewind.fleet import Fleet
from tradewind.task import Record
from tradewind.v1 import router_pb2, task_pb2


async def test_a_submitted_task_can_be_read(serving: Running) -> None:
    receipt = await serving.submit(payload=b'{"to": "a"}', labels={"a": "b"})
    task = await serving.get(receipt.task_id)

    assert receipt.region == "eu-west"
    assert receipt.rule == "home"
    assert receipt.state == task_pb2.TASK_STATE_PENDING
    assert receipt.partition == ids.parse(receipt.task_id).partition
    assert not receipt.duplicate
    assert task.spec.payload == b'{"to": "a"}'
    assert task.spec.queue == "default"
    assert task.region == "eu-west"
    assert [hop.region for hop in task.hops] == ["eu-west"]
    assert len(task.fingerprint) == 64


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-0AF7-b7ad6b7169203331-01", False),
        ("user@example.org", False),
    ],
)
async def test_a_trace_context_is_kept_in_the_task(serving: Running, sent: str, kept: bool) -> None:
    request = router_pb2.SubmitTaskRequest(spec=spec())
    receipt = await serving.router.SubmitTask(request, metadata=(("traceparent", sent),))

    record = await serving.stores[receipt.region].read(receipt.task_id)

    assert isinstance(record, Record)
    assert codec.unpack(record.packed).traceparent == (sent if kept else "")


async def test_a_delayed_task_is_scheduled(serving: Running) -> None:
    receipt = await serving.submit(delay=timedelta(hours=1))
    task = await serving.get(receipt.task_id)

    assert receipt.state == task_pb2.TASK_STATE_SCHEDULED
    waits_s = task.next_attempt_at.seconds - task.created_at.seconds
    assert 3_599 <= waits_s <= 3_601


async def test_equal_affinity_keys_share_region_and_partition(serving: Running) -> None:
    await serving.staff()

    receipts = [await serving.submit(affinity_key="user-42") for _ in range(4)]

    assert len({(receipt.region, receipt.partition) for receipt in receipts}) == 1


async def test_a_fenced_task_stays_in_its_group(serving: Running) -> None:
    receipt = await serving.submit(residency=["apac"])

    assert receipt.region == "ap-south"
    assert list((await serving.get(receipt.task_id)).fence) == ["apac"]


async def test_a_pinned_task_goes_where_it_is_pinned(serving: Running) -> None:
    receipt = await serving.submit(pin_region="us-east")

    assert (receipt.region, receipt.rule) == ("us-east", "pin")


async def test_the_origin_decides_what_is_near(serving: Running) -> None:
    receipt = await serving.submit(origin_region="ap-south")

    assert receipt.region == "ap-south"


async def test_a_pin_outside_the_fence_leaves_no_region(serving: Running) -> None:
    with pytest.raises(NoRegionPermitted) as refused:
        await serving.submit(residency=["eu"], pin_region="us-east")

    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[attr-defined]


async def test_every_violation_is_named(serving: Running) -> None:
    with pytest.raises(InvalidTask) as refused:
        await serving.submit(name="a b", residency=["EU"], payload=b"[")

    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert set(fields_of(refused.value)) == {"name", "residency", "payload"}
    assert await serving.stored() == {}


async def test_a_request_without_a_spec_is_refused(serving: Running) -> None:
    with pytest.raises(InvalidTask):
        await answered(serving.router.SubmitTask(router_pb2.SubmitTaskRequest()))


async def test_a_string_that_is_not_utf8_is_the_callers_fault(serving: Running) -> None:
    channel: Any = serving.channel
    raw = channel.unary_unary("/tradewind.v1.RouterService/SubmitTask")

    with pytest.raises(InvalidTask) as refused:
        await answered(raw(b"\x0a\x04\x12\x02\xff\xfe"))

    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]


async def test_a_payload_over_the_limit_is_exhausted_without_retry(serving: Running) -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        await serving.submit(payload=b"x" * 3_000_000, content_type="a/b")

    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
    assert refused.value.size_bytes == 3_000_000
    assert await serving.stored() == {}


async def test_a_batch_answers_each_task_in_order(serving: Running) -> None:
    specs = [spec(), spec(name=""), spec(residency=["us"])]

    answer = await serving.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=specs))

    first, second, third = answer.results
    assert first.accepted.region == "eu-west"
    assert second.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert third.accepted.region == "us-east"


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_of_a_wrong_size_is_refused(serving: Running, count: int) -> None:
    request = router_pb2.SubmitTasksRequest(specs=[spec()] * count)

    with pytest.raises(InvalidTask):
        await answered(serving.router.SubmitTasks(request))


async def test_a_batch_over_4_mib_is_refused(serving: Running) -> None:
    large = spec(payload=b"x" * 1_000_000, content_type="a/b")

    with pytest.raises(BatchTooLarge):
        await answered(serving.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=[large] * 5)))


async def test_a_thousand_tasks_in_one_batch_are_stored(serving: Running) -> None:
    request = router_pb2.SubmitTasksRequest(specs=[spec(pin_region="eu-west")] * 1_000)

    answer = await serving.router.SubmitTasks(request)

    assert len({result.accepted.task_id for result in answer.results}) == 1_000
    assert await serving.stored() == {"eu-west": 1_000}


async def test_other_regions_being_down_does_not_stop_a_router(fleet: Fleet) -> None:
    regions = dict(fleet.regions)
    nobody = replace(regions["us-east"].redis, nodes=("127.0.0.1:1",))
    regions["us-east"] = replace(regions["us-east"], redis=nobody)

    async with running(replace(fleet, regions=regions)) as serving:
        assert (await serving.submit()).region == "eu-west"
        assert serving.gateway.ready() == (True, "ready; silent regions: us-east")


async def test_submits_that_come_together_share_calls(serving: Running) -> None:
    await asyncio.gather(*(serving.submit(pin_region="eu-west") for _ in range(50)))

    calls = [call for call in serving.stores["eu-west"].calls if call[0] == "enqueue"]
    assert len(calls) < 50
    assert await serving.stored() == {"eu-west": 50}
