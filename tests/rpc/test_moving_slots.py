"""Submits to a partition whose slot is on its way to another node, or whose primary is gone."""

from typing import Any

import grpc
import pytest

from tests.rpc.running import Running
from tradewind import Client
from tradewind.errors import StoreMoving, StoreUnavailable, TradewindError
from tradewind.ids import birth_partition

HERE = "eu-west"


def moving(times: int = 1) -> list[StoreMoving]:
    return [StoreMoving(HERE, 0)] * times


def tried(serving: Running) -> list[str]:
    """Ids under which a task was to be stored, in order."""
    return [ids[0] for name, ids in serving.stores[HERE].calls if name == "enqueue"]


async def test_a_submit_without_a_key_takes_another_partition_at_once(serving: Running) -> None:
    serving.stores[HERE].fail("enqueue", *moving(5))
    receipt = await serving.submit()
    ids = tried(serving)
    assert (len(ids), len(set(ids)), ids[-1]) == (6, 6, receipt.task_id)
    assert len({birth_partition(id_) for id_ in ids}) > 1


@pytest.mark.parametrize(
    "fields",
    [
        {"idempotency_key": "order-1", "residency": ["eu"]},
        {"affinity_key": "user-1", "residency": ["eu"]},
        {"request_id": "once", "residency": ["eu"]},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_submit_with_a_key_waits_for_its_partition(
    serving: Running, fields: dict[str, Any]
) -> None:
    serving.stores[HERE].fail("enqueue", *moving(3))
    receipt = await serving.submit(**fields)
    assert tried(serving) == [receipt.task_id] * 4


async def test_one_whose_partition_moves_until_its_deadline_may_be_repeated(
    serving: Running,
) -> None:
    serving.stores[HERE].fail("enqueue", *moving(100))
    with pytest.raises(TradewindError) as refused:
        await serving.submit(idempotency_key="order-1", residency=["eu"], timeout_s=0.5)
    code: Any = refused.value
    assert code.code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
    assert await serving.stored() == {}


async def test_a_first_attempt_is_told_that_another_request_id_will_do(serving: Running) -> None:
    serving.stores[HERE].fail("enqueue", *moving())
    with pytest.raises(StoreMoving) as refused:
        await serving.submit(request_id="once", origin_region=HERE, attempt=1)
    assert (refused.value.nothing_kept, refused.value.elsewhere) == (True, True)
    assert (await serving.submit(request_id="once", origin_region=HERE, attempt=2)).task_id


async def test_the_sdk_tries_another_request_id_and_so_another_partition(
    serving: Running,
) -> None:
    serving.stores[HERE].fail("enqueue", *moving(4))
    async with Client(serving.server.address, origin_region=HERE) as client:
        receipt = await client.submit("email.send")
    ids = tried(serving)
    assert (len(ids), len(set(ids)), ids[-1]) == (5, 5, receipt.task_id)
    assert len({birth_partition(id_) for id_ in ids}) > 1


@pytest.mark.parametrize("by_sdk", [False, True], ids=["alone", "by the SDK"])
async def test_a_primary_that_is_gone_is_no_lost_region(serving: Running, *, by_sdk: bool) -> None:
    gone = StoreUnavailable(HERE, "connection refused", sent=False, partly=True)
    for _ in range(3):  # 12 bad calls: five in a row of a region would take it out
        serving.stores[HERE].fail("enqueue", *[gone] * 4)
        if by_sdk:
            async with Client(serving.server.address, origin_region=HERE) as client:
                region = (await client.submit("email.send", residency=["eu"])).region
        else:
            region = (await serving.submit(residency=["eu"])).region
        assert region == HERE
    assert serving.gateway.census.view(HERE).health in {"HEALTHY", "DEGRADED"}
    assert len({birth_partition(id_) for id_ in tried(serving)}) > 1
