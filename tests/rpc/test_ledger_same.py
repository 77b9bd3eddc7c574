import asyncio
import json
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.rpc import labour
from tests.rpc.running import Running, fields_of, running
from tradewind.errors import (
    IdempotencyKeyReused,
    InvalidTask,
)
from tradewind.fleet import Dedup, Fleet, QueuePolicy
from tradewind.v1 import router_pb2, task_pb2


async def test_a_repeat_by_request_id_is_the_same_submit_and_no_duplicate(
    serving: Running,
) -> None:
    first = await serving.submit(request_id="r", origin_region="eu-west")
    again = await serving.submit(request_id="r", origin_region="eu-west")

    assert again == replace_rule(first, again.rule)
    assert not again.duplicate
    assert await serving.stored() == {"eu-west": 1}


def replace_rule(
    receipt: router_pb2.SubmitTaskResponse, rule: str
) -> router_pb2.SubmitTaskResponse:
    copy = router_pb2.SubmitTaskResponse()
    copy.CopyFrom(receipt)
    copy.rule = rule
    return copy


async def test_an_idempotency_key_answers_with_the_first_task(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", payload=b'{"a":1,"b":2}')
    again = await serving.submit(idempotency_key="k", payload=b'{"b":2, "a":1}')

    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.task_id == first.task_id
    assert again.region == first.region
    assert again.state == task_pb2.TASK_STATE_PENDING
    assert sum((await serving.stored()).values()) == 1


async def test_a_duplicate_of_a_finished_task_is_told_its_end(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k")
    store = serving.stores[first.region]
    await labour.finish(store, await labour.claim(store, first.task_id))

    again = await serving.submit(idempotency_key="k")

    assert (again.task_id, again.duplicate) == (first.task_id, True)
    assert again.state == task_pb2.TASK_STATE_COMPLETED


async def test_a_duplicate_of_a_task_that_moved_is_told_where_it_is(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", pin_region="eu-west")
    await labour.move(dict(serving.stores), first.task_id, "eu-west", "us-east")

    again = await serving.submit(idempotency_key="k", pin_region="eu-west")

    assert (again.task_id, again.region, again.duplicate) == (first.task_id, "us-east", True)


async def test_another_router_in_another_region_gives_the_same_answer(fleet: Fleet) -> None:
    async with running(fleet, "eu-west") as here, running(fleet, "ap-south") as there:
        for number in range(10):
            first = await here.submit(idempotency_key=f"k{number}")
            again = await there.submit(idempotency_key=f"k{number}")
            assert again.task_id == first.task_id


@pytest.mark.parametrize("change", [{"tenant": "t"}, {"queue": "q"}, {"name": "n"}])
async def test_a_key_is_scoped_by_tenant_queue_and_name(
    serving: Running, change: dict[str, Any]
) -> None:
    first = await serving.submit(idempotency_key="k")
    other = await serving.submit(idempotency_key="k", **change)

    assert other.task_id != first.task_id
    assert not other.duplicate


async def test_a_key_under_another_fence_is_another_task(serving: Running) -> None:
    free = await serving.submit(idempotency_key="k")
    fenced = await serving.submit(idempotency_key="k", residency=["eu"])

    assert fenced.task_id != free.task_id
    assert fenced.region == "eu-west"


async def test_a_key_with_another_payload_is_refused_with_the_first_id(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", payload=b'{"a": 1}')

    with pytest.raises(IdempotencyKeyReused) as refused:
        await serving.submit(idempotency_key="k", payload=b'{"a": 2}')

    assert refused.value.first_id == first.task_id
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert fields_of(refused.value) == ["idempotency_key"]


async def test_a_request_id_with_another_payload_is_refused(serving: Running) -> None:
    await serving.submit(request_id="r", payload=b'{"a": 1}', origin_region="eu-west")

    with pytest.raises(InvalidTask, match="request_id"):
        await serving.submit(request_id="r", payload=b'{"a": 2}', origin_region="eu-west")


async def test_a_repeat_of_a_keyed_submit_by_request_id_is_no_duplicate(serving: Running) -> None:
    first = await serving.submit(idempotency_key="k", request_id="r")
    repeat = await serving.submit(idempotency_key="k", request_id="r")
    another = await serving.submit(idempotency_key="k", request_id="s")

    assert (repeat.task_id, repeat.duplicate) == (first.task_id, False)
    assert (another.task_id, another.duplicate) == (first.task_id, True)


async def test_a_queue_that_dedups_by_payload_takes_twenty_spellings_once(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(by="payload"))
    body = {"b": {"y": [1, 2], "x": "é/"}, "a": 1.0}
    spellings = {
        json.dumps(order, indent=indent, ensure_ascii=escaped, separators=separators).encode()
        for order in (body, dict(reversed(body.items())))
        for indent in (None, 1, 4)
        for escaped in (True, False)
        for separators in ((",", ":"), (" , ", " : "))
    }
    async with running(replace(fleet, default_queue=policy)) as serving:
        receipts = [await serving.submit(payload=payload) for payload in sorted(spellings)]
        reordered = await serving.submit(payload=b'{"b":{"y":[2,1],"x":"\xc3\xa9/"},"a":1}')

        assert len(spellings) >= 20
        assert len({receipt.task_id for receipt in receipts}) == 1
        assert [receipt.duplicate for receipt in receipts].count(False) == 1
        assert reordered.task_id != receipts[0].task_id


async def test_a_queue_without_dedup_takes_a_key_for_nothing(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(by="none"))
    async with running(replace(fleet, default_queue=policy)) as serving:
        first = await serving.submit(idempotency_key="k")
        second = await serving.submit(idempotency_key="k")

        assert first.task_id != second.task_id


async def test_dedup_within_a_region_only(fleet: Fleet) -> None:
    policy = QueuePolicy(dedup=Dedup(scope="region"))
    async with running(replace(fleet, default_queue=policy)) as serving:
        here = await serving.submit(idempotency_key="k", pin_region="eu-west")
        there = await serving.submit(idempotency_key="k", pin_region="us-east")
        again = await serving.submit(idempotency_key="k", pin_region="us-east")
        away = await serving.submit(
            idempotency_key="k2", pin_region="us-east", affinity_key="far from the key's partition"
        )
        back = await serving.submit(
            idempotency_key="k2", pin_region="us-east", affinity_key="far from the key's partition"
        )

        assert here.task_id != there.task_id
        assert (again.task_id, again.duplicate) == (there.task_id, True)
        assert (back.task_id, back.duplicate) == (away.task_id, True)


async def test_a_crowd_of_identical_submits_gets_one_id(fleet: Fleet) -> None:
    async with running(fleet, "eu-west") as here, running(fleet, "us-east") as there:
        for number in range(4):
            fields: dict[str, Any] = {
                "idempotency_key": f"k{number}",
                "pin_region": "ap-south",
            }
            receipts = await asyncio.gather(
                *(router.insist(**fields) for router in (here, there) * 16)
            )
            assert len({receipt.task_id for receipt in receipts}) == 1
            assert [receipt.duplicate for receipt in receipts].count(False) == 1
        assert await here.stored() == {"ap-south": 4}
