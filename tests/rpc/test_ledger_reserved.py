from typing import Any

import grpc
import pytest

from tests.rpc.ledgers import GONE, LOST, elsewhere, names
from tests.rpc.running import Running, running
from tradewind.errors import (
    HomeUnreachable,
    RegionsFull,
    StoreFull,
)
from tradewind.fleet import Fleet


async def test_an_entry_elsewhere_is_reserved_then_confirmed(serving: Running) -> None:
    fields = await elsewhere(serving)

    first = await serving.submit(**fields)
    again = await serving.submit(**fields)

    assert first.region == "eu-west"
    assert (again.task_id, again.duplicate) == (first.task_id, True)
    assert names(serving, "us-east") == ["reserve", "confirm", "reserve"]
    assert await serving.stored() == {"eu-west": 1}


async def test_a_lost_answer_to_a_reservation_is_asked_for_again(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("reserve", LOST, late=True)

    receipt = await serving.submit(**fields)

    assert not receipt.duplicate
    assert await serving.stored() == {"eu-west": 1}


async def test_without_the_home_a_duplicate_cannot_be_excluded(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("reserve", GONE)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(**fields)

    assert refused.value.region == "us-east"
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert await serving.stored() == {}


async def test_a_full_home_says_so(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("reserve", StoreFull("us-east"))

    with pytest.raises(RegionsFull, match="us-east"):
        await serving.submit(**fields)


async def test_a_region_that_refuses_is_left_with_a_tombstone_and_the_entry_moves_on(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    serving.stores["eu-west"].fail("enqueue", StoreFull("eu-west"))

    receipt = await serving.submit(**fields)
    again = await serving.submit(**fields)

    assert receipt.region != "eu-west"
    assert names(serving, "eu-west") == ["refuse"]
    assert ("reserve", (receipt.task_id, receipt.region, 2)) in serving.stores["us-east"].calls
    assert (again.task_id, again.duplicate) == (receipt.task_id, True)
    assert (await serving.get(receipt.task_id)).region == receipt.region
    assert await serving.stored() == {receipt.region: 1}


async def test_a_region_that_cannot_even_refuse_is_left_with_a_new_id(serving: Running) -> None:
    fields = await elsewhere(serving)
    serving.stores["eu-west"].fail("enqueue", GONE)
    serving.stores["eu-west"].fail("refuse", GONE)

    receipt = await serving.submit(**fields)

    assert receipt.region != "eu-west"
    assert names(serving, "us-east").count("unreserve") == 1
    assert await serving.stored() == {receipt.region: 1}


async def test_a_submit_that_fails_everywhere_takes_its_reservation_back(
    serving: Running,
) -> None:
    key = await serving.key_at("us-east", residency=["eu", "us"])
    fields: dict[str, Any] = {"idempotency_key": key, "residency": ["eu", "us"]}
    serving.stores["eu-west"].fail("enqueue", StoreFull("eu-west"))

    with pytest.raises(RegionsFull):
        await serving.submit(**fields, pin_region="eu-west")
    receipt = await serving.submit(**fields, pin_region="us-east")

    assert not receipt.duplicate
    assert await serving.stored() == {"us-east": 1}


async def test_a_request_id_lives_in_the_callers_region_whichever_router_it_uses(
    fleet: Fleet,
) -> None:
    async with running(fleet, "eu-west") as here, running(fleet, "us-east") as there:
        fields: dict[str, Any] = {
            "request_id": "r",
            "origin_region": "ap-south",
            "pin_region": "us-east",
        }
        first = await here.submit(**fields)
        again = await there.submit(**fields)

        assert again.task_id == first.task_id
        assert names(here, "ap-south") == ["reserve", "confirm"]
