"""A submit that has only a request_id, and the two homes that its ledger entry may live in."""

import asyncio
import json
from typing import Any

import grpc
import pytest

from router.service import ATTEMPT_METADATA
from tests.rpc.ledgers import spared
from tests.rpc.running import Running, answered, running, spec
from tradewind import Client
from tradewind.errors import (
    HomeUnreachable,
    OutcomeUnknown,
    RegionsFull,
    StoreContractBroken,
    StoreError,
    StoreFull,
    StoreUnavailable,
    SubmitInFlight,
)
from tradewind.fleet import Fleet
from tradewind.v1 import router_pb2, router_pb2_grpc

HOME, SPARE, THIRD = "us-east", "ap-south", "eu-west"
GONE = StoreUnavailable(HOME, "connection refused", sent=False)
LOST = StoreUnavailable(HOME, "connection lost", sent=True)
FULL = StoreFull(HOME)
BROKEN = StoreContractBroken("foreign data")
FAILED = StoreUnavailable(HOME, "foreign data", sent=True, failed=True)
A_WHILE = 99  # faults in a row: for as long as a test wants them


@pytest.fixture
def fields(fleet: Fleet) -> dict[str, Any]:
    """A submit with its entry in us-east, else in ap-south, and its task in eu-west."""
    return spared(fleet, HOME, SPARE) | {"pin_region": THIRD}


def lose(serving: Running, *regions: str, error: StoreError = GONE) -> None:
    """Their ledgers do not answer."""
    for region in regions:
        serving.stores[region].fail("reserve", *[error] * A_WHILE)


def restore(serving: Running) -> None:
    for store in serving.stores.values():
        store.faults.clear()


def asked(serving: Running, region: str) -> list[str]:
    return [name for name, _ in serving.stores[region].calls if name != "enqueue"]


async def test_a_first_attempt_does_not_ask_the_spare_home(
    serving: Running, fields: dict[str, Any]
) -> None:
    await serving.submit(attempt=1, **fields)

    assert asked(serving, HOME) == ["reserve", "confirm"]
    assert asked(serving, SPARE) == []


@pytest.mark.parametrize("error", [GONE, FULL], ids=["unreachable", "full"])
async def test_a_first_attempt_goes_on_with_its_entry_at_the_spare_home(
    serving: Running, fields: dict[str, Any], error: StoreError
) -> None:
    lose(serving, HOME, error=error)

    first = await serving.submit(attempt=1, **fields)
    meanwhile = await serving.submit(attempt=2, **fields)
    restore(serving)
    afterwards = await serving.submit(attempt=3, **fields)
    unstated = await serving.submit(**fields)

    assert meanwhile.task_id == afterwards.task_id == unstated.task_id == first.task_id
    assert asked(serving, SPARE)[:2] == ["reserve", "confirm"]
    assert await serving.stored() == {THIRD: 1}


async def test_a_repeat_through_another_router_finds_the_entry_at_the_spare_home(
    fleet: Fleet, fields: dict[str, Any]
) -> None:
    async with running(fleet, THIRD) as here, running(fleet, HOME) as there:
        lose(here, HOME)

        first = await here.submit(attempt=1, **fields)
        again = await there.submit(attempt=2, **fields)

        assert again.task_id == first.task_id
        assert await here.stored() == {THIRD: 1}


@pytest.mark.parametrize("error", [GONE, FULL, BROKEN], ids=["unreachable", "full", "broken"])
async def test_a_home_that_would_take_the_task_with_its_entry_is_left_for_another_region(
    serving: Running, fields: dict[str, Any], error: StoreError
) -> None:
    del fields["pin_region"]
    serving.stores[HOME].fail("enqueue", error)

    first = await serving.submit(attempt=1, **fields)
    again = await serving.submit(attempt=2, **fields)

    assert first.region != HOME
    assert again.task_id == first.task_id
    assert "reserve" not in asked(serving, HOME)
    assert await serving.stored() == {first.region: 1}


async def test_a_first_attempt_that_may_have_reached_home_does_not_go_elsewhere(
    serving: Running, fields: dict[str, Any], short_lease: None
) -> None:
    serving.stores[HOME].fail("reserve", LOST, GONE, late=True)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(attempt=1, **fields)
    lose(serving, HOME)
    with pytest.raises(HomeUnreachable) as again:
        await serving.submit(attempt=2, **fields)
    restore(serving)
    receipt = await serving.insist(attempt=3, **fields)

    assert refused.value.region == again.value.region == HOME
    assert receipt.region == THIRD
    assert await serving.stored() == {THIRD: 1}


@pytest.mark.parametrize("error", [BROKEN, FAILED])
async def test_a_home_whose_script_may_have_run_half_way_is_not_left(
    serving: Running, fields: dict[str, Any], error: StoreError
) -> None:
    serving.stores[HOME].fail("reserve", error)

    with pytest.raises(HomeUnreachable):
        await serving.submit(attempt=1, **fields)

    assert asked(serving, HOME) == ["reserve"]
    assert asked(serving, SPARE) == []


async def test_an_entry_stored_with_its_task_but_not_answered_is_not_made_elsewhere(
    serving: Running, fields: dict[str, Any]
) -> None:
    fields["pin_region"] = HOME
    serving.stores[HOME].fail("enqueue", *[LOST] * A_WHILE, late=True)

    with pytest.raises(OutcomeUnknown) as unknown:
        await serving.submit(attempt=1, timeout_s=0.3, **fields)
    restore(serving)
    lose(serving, HOME)
    fields["pin_region"] = THIRD
    with pytest.raises(HomeUnreachable):
        await serving.submit(attempt=2, **fields)
    restore(serving)
    receipt = await serving.insist(attempt=3, **fields)

    assert receipt.task_id == unknown.value.task_id
    assert await serving.stored() == {HOME: 1}


async def test_a_late_first_attempt_that_cannot_reach_home_finds_that_its_repeat_did(
    fleet: Fleet, fields: dict[str, Any]
) -> None:
    async with running(fleet, THIRD) as here, running(fleet, HOME) as there:
        lose(here, HOME)

        repeat = await there.submit(attempt=2, **fields)
        with pytest.raises(HomeUnreachable) as refused:
            await here.submit(attempt=1, **fields)
        restore(here)
        late = await here.submit(attempt=1, **fields)

        assert refused.value.region == HOME
        assert late.task_id == repeat.task_id
        assert await here.stored() == {THIRD: 1}


async def test_a_repeat_waits_for_a_first_attempt_that_is_at_the_spare_home(
    fleet: Fleet, fields: dict[str, Any]
) -> None:
    async with running(fleet, THIRD) as here, running(fleet, HOME) as there:
        lose(here, HOME)
        pause = here.stores[SPARE].pause("reserve")
        first = asyncio.ensure_future(here.submit(attempt=1, **fields))
        await pause.reached.wait()

        with pytest.raises(SubmitInFlight):
            await there.submit(attempt=2, **fields)
        pause.over.set()
        receipt = await first

        assert (await there.submit(attempt=3, **fields)).task_id == receipt.task_id
        assert await here.stored() == {THIRD: 1}


async def test_a_first_attempt_that_vanished_at_the_spare_home_is_carried_through_there(
    serving: Running, fields: dict[str, Any], short_lease: None
) -> None:
    lose(serving, HOME)
    serving.stores[SPARE].fail("reserve", LOST, GONE, late=True)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(attempt=1, **fields)
    receipt = await serving.insist(attempt=2, **fields)

    assert refused.value.region == SPARE
    assert receipt.region == THIRD
    assert await serving.stored() == {THIRD: 1}


async def test_a_repeat_is_refused_while_home_is_silent_and_the_spare_home_has_no_entry(
    serving: Running, fields: dict[str, Any]
) -> None:
    lose(serving, HOME)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(attempt=2, **fields)

    assert refused.value.region == HOME
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert await serving.stored() == {}


async def test_a_repeat_uses_what_home_has_while_the_spare_home_is_silent(
    serving: Running, fields: dict[str, Any]
) -> None:
    first = await serving.submit(attempt=1, **fields)
    lose(serving, SPARE)

    again = await serving.submit(attempt=2, **fields)

    assert again.task_id == first.task_id


@pytest.mark.parametrize("attempt", [2, None, 0])
async def test_what_may_be_a_repeat_makes_no_entry_while_the_spare_home_is_silent(
    serving: Running, fields: dict[str, Any], attempt: int | None
) -> None:
    lose(serving, SPARE)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(attempt=attempt, **fields)

    assert refused.value.region == SPARE
    assert asked(serving, HOME) == ["reserve", "unreserve"]
    assert (await serving.submit(attempt=1, **fields)).region == THIRD


@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_question_that_was_not_taken_back_is_in_nobodys_way(
    serving: Running, fields: dict[str, Any], attempt: int
) -> None:
    lose(serving, SPARE)
    serving.stores[HOME].fail("unreserve", LOST)

    for _ in range(2):  # the second finds the question of the first
        with pytest.raises(HomeUnreachable):
            await serving.submit(attempt=2, **fields)
        serving.stores[HOME].fail("unreserve", LOST)
    serving.stores[HOME].faults.clear()
    serving.stores[SPARE].faults.clear()
    receipt = await serving.insist(attempt=attempt, **fields)

    assert (await serving.submit(attempt=4, **fields)).task_id == receipt.task_id
    assert await serving.stored() == {THIRD: 1}


async def test_a_full_home_cannot_tell_a_repeat_whether_it_has_its_entry(
    serving: Running, fields: dict[str, Any]
) -> None:
    first = await serving.submit(attempt=1, **fields)
    serving.stores[HOME].fail("reserve", FULL)

    with pytest.raises(HomeUnreachable):
        await serving.submit(attempt=2, **fields)

    assert (await serving.submit(attempt=3, **fields)).task_id == first.task_id


async def test_two_full_homes_are_named(serving: Running, fields: dict[str, Any]) -> None:
    serving.stores[HOME].fail("reserve", FULL)
    serving.stores[SPARE].fail("reserve", StoreFull(SPARE))

    with pytest.raises(RegionsFull, match=f"{SPARE}, which keeps the record of this submit, is"):
        await serving.submit(attempt=1, **fields)

    assert await serving.stored() == {}


async def test_a_call_that_grpc_sent_again_is_a_repeat_whatever_it_states(
    serving: Running, fields: dict[str, Any]
) -> None:
    # The first call may have reached home; the second certainly does not.
    serving.stores[HOME].fail("reserve", LOST, *[GONE] * A_WHILE)
    policy: dict[str, Any] = {
        "name": [{}],
        "retryPolicy": {
            "maxAttempts": 3,
            "initialBackoff": "0.01s",
            "maxBackoff": "0.01s",
            "backoffMultiplier": 1,
            "retryableStatusCodes": ["UNAVAILABLE"],
        },
    }
    options = [("grpc.service_config", json.dumps({"methodConfig": [policy]}))]
    request = router_pb2.SubmitTaskRequest(spec=spec(**fields))
    async with grpc.aio.insecure_channel(serving.server.address, options) as channel:
        router: Any = router_pb2_grpc.RouterServiceStub(channel)
        with pytest.raises(HomeUnreachable):
            await answered(router.SubmitTask(request, metadata=((ATTEMPT_METADATA, "1"),)))

    assert asked(serving, SPARE) == ["reserve"] * 2
    assert await serving.stored() == {}


async def test_the_sdk_states_a_first_attempt_only_for_a_request_id_of_its_own_making(
    serving: Running, fields: dict[str, Any]
) -> None:
    lose(serving, SPARE)
    own = fields["request_id"]

    async with Client(serving.server.address, origin_region=HOME) as client:
        receipt = await client.submit("email.send", pin_region=THIRD)
        with pytest.raises(HomeUnreachable):
            await client.submit("email.send", pin_region=THIRD, request_id=own, deadline=0.5)

    assert receipt.region == THIRD
    assert await serving.stored() == {THIRD: 1}


async def test_a_fence_with_one_region_has_no_spare_home(
    serving: Running, fields: dict[str, Any]
) -> None:
    fields |= {"residency": ["us"], "pin_region": ""}
    serving.stores[HOME].fail("enqueue", GONE)

    with pytest.raises(Exception, match=HOME):
        await serving.submit(attempt=1, **fields)

    assert asked(serving, SPARE) == asked(serving, THIRD) == []


async def test_a_business_key_is_never_kept_at_another_home(serving: Running) -> None:
    key = await serving.key_at(HOME, pin_region=THIRD)
    fields: dict[str, Any] = {"idempotency_key": key, "request_id": "r", "pin_region": THIRD}
    serving.stores[HOME].fail("reserve", GONE, FULL)

    with pytest.raises(HomeUnreachable):
        await serving.submit(attempt=1, **fields)
    with pytest.raises(RegionsFull, match=f"region {HOME}, which keeps this key, is full") as full:
        await serving.submit(attempt=1, **fields)

    assert full.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
    assert await serving.stored() == {}
