import grpc
import pytest

from tests.rpc.ledgers import GONE, LOST, elsewhere, reserve_and_vanish
from tests.rpc.running import Running
from tradewind.errors import (
    OutcomeUnknown,
    RegionSilent,
    SubmitInFlight,
)
from tradewind.fleet import Fleet
from tradewind.v1 import task_pb2


async def test_a_stored_task_whose_confirmation_was_lost_is_found_by_its_repeat(
    serving: Running, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("confirm", LOST)

    first = await serving.submit(**fields)
    again = await serving.insist(**fields)
    third = await serving.submit(**fields)

    assert (again.task_id, again.duplicate) == (first.task_id, True)
    assert third.task_id == first.task_id
    assert await serving.stored() == {"eu-west": 1}


async def test_until_the_lease_of_another_ends_an_identical_submit_is_in_flight(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    serving.stores["us-east"].fail("confirm", LOST)
    first = await serving.submit(**fields)

    with pytest.raises(SubmitInFlight) as refused:
        await serving.submit(**fields)

    assert refused.value.first_id == first.task_id
    assert refused.value.code is grpc.StatusCode.ABORTED  # type: ignore[attr-defined]
    assert 0 < refused.value.retry_after_ms <= 10_000


async def test_a_reservation_without_a_task_is_completed_by_the_next_submit(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)

    receipt = await serving.insist(**fields)

    assert (receipt.task_id, receipt.region) == (task_id, "eu-west")
    assert (await serving.get(task_id)).state == task_pb2.TASK_STATE_PENDING
    assert await serving.stored() == {"eu-west": 1}


async def test_a_submitter_that_vanished_between_leaving_and_moving_on_is_succeeded(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)
    assert await serving.stores["eu-west"].real.refuse(task_id, 1) is None

    receipt = await serving.insist(**fields)
    again = await serving.submit(**fields)

    assert receipt.task_id == again.task_id == task_id
    assert again.region == receipt.region
    assert await serving.stored() == {receipt.region: 1}


async def test_adopting_does_not_take_a_task_out_of_its_pin(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)

    receipt = await serving.insist(**fields, pin_region="ap-south")

    assert (receipt.task_id, receipt.region) == (task_id, "ap-south")
    assert await serving.stored() == {"ap-south": 1}


async def test_a_reservation_without_a_task_does_not_block_another_payload(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)

    receipt = await serving.insist(**fields, payload=b'{"other": 1}')

    assert receipt.task_id != task_id
    assert not receipt.duplicate
    assert await serving.stored() == {"eu-west": 1}


async def test_a_reservation_at_a_silent_region_is_not_given_up(
    serving: Running, fleet: Fleet, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    task_id = await reserve_and_vanish(serving, fleet, fields)
    serving.stores["eu-west"].fail("enqueue", GONE)
    serving.stores["eu-west"].fail("refuse", GONE)

    with pytest.raises(RegionSilent) as refused:
        await serving.insist(but=RegionSilent, **fields)
    receipt = await serving.insist(**fields)

    assert refused.value.regions == ("eu-west",)
    assert receipt.task_id == task_id


async def test_an_unknown_outcome_keeps_its_reservation(
    serving: Running, short_lease: None
) -> None:
    fields = await elsewhere(serving)
    serving.stores["eu-west"].fail("enqueue", *[LOST] * 99, late=True)

    with pytest.raises(OutcomeUnknown) as unknown:
        await serving.submit(timeout_s=0.3, **fields)
    serving.stores["eu-west"].faults.clear()
    receipt = await serving.insist(**fields)

    assert receipt.task_id == unknown.value.task_id
    assert await serving.stored() == {"eu-west": 1}
