"""`on_home_unreachable: accept`: what goes on while the region that keeps a key is away."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from tests.rpc import labour
from tests.rpc.ledgers import A_WHILE, GONE, LOST, identity_of
from tests.rpc.running import OWN_REGION, Running, answered, running
from tradewind.errors import HomeUnreachable, RegionsFull, StoreError, StoreFull
from tradewind.fleet import Dedup, Fleet, Health, QueuePolicy
from tradewind.v1 import router_pb2, task_pb2

HOME, STAND_IN = "us-east", "ap-south"
ACCEPT = QueuePolicy(dedup=Dedup(on_home_unreachable="accept"))


@pytest.fixture
def lenient(fleet: Fleet) -> Fleet:
    return replace(fleet, default_queue=ACCEPT, health=Health(interval_ms=100))


@pytest.fixture
async def accepting(lenient: Fleet) -> AsyncIterator[Running]:
    """A router whose queues accept without the home."""
    async with running(lenient) as router:
        yield router


@pytest.fixture
def fields(lenient: Fleet) -> dict[str, Any]:
    """A submit whose key has its home in us-east, then ap-south, and whose task goes to eu-west."""
    for number in range(200):
        key = f"key-{number}"
        identity = identity_of(lenient, idempotency_key=key)
        if (identity.home, *identity.stand_ins) == (HOME, STAND_IN, OWN_REGION):
            return {"idempotency_key": key, "pin_region": OWN_REGION}
    raise AssertionError


def lose(serving: Running, *regions: str, error: StoreError = GONE, late: bool = False) -> None:
    """Their ledgers do not answer."""
    for region in regions:
        serving.stores[region].fail("reserve", *[error] * A_WHILE, late=late)


def restore(serving: Running) -> None:
    for store in serving.stores.values():
        store.faults.clear()


def reserved_at(serving: Running, region: str) -> int:
    return [name for name, _ in serving.stores[region].calls].count("reserve")


async def test_a_queue_that_rejects_says_who_is_away_and_when_to_ask_again(
    serving: Running, fields: dict[str, Any]
) -> None:
    lose(serving, HOME)

    with pytest.raises(HomeUnreachable) as refused:
        await serving.submit(**fields)

    found: Any = refused.value
    retry = error_details_pb2.RetryInfo()
    assert (found.region, found.code) == (HOME, grpc.StatusCode.UNAVAILABLE)
    assert any(detail.Unpack(retry) for detail in found.status.details)
    assert retry.retry_delay.ToMilliseconds() > 0
    assert await serving.stored() == {}


async def test_a_queue_that_accepts_stores_the_task_and_says_that_it_may_be_a_duplicate(
    accepting: Running, fields: dict[str, Any]
) -> None:
    lose(accepting, HOME)

    receipt = await accepting.submit(**fields)

    assert receipt.possible_duplicate
    assert (receipt.region, receipt.duplicate) == (OWN_REGION, False)
    assert await accepting.stored() == {OWN_REGION: 1}


async def test_while_home_answers_nothing_is_a_possible_duplicate(
    accepting: Running, fields: dict[str, Any]
) -> None:
    first = await accepting.submit(**fields)
    again = await accepting.submit(**fields)

    assert (first.possible_duplicate, again.possible_duplicate) == (False, False)
    assert reserved_at(accepting, STAND_IN) == 0


async def test_identical_submits_find_each_other_at_the_stand_in_through_any_router(
    lenient: Fleet, fields: dict[str, Any]
) -> None:
    async with running(lenient, OWN_REGION) as here, running(lenient, STAND_IN) as there:
        lose(here, HOME)
        lose(there, HOME)

        first = await here.submit(**fields)
        again = await there.submit(**fields)
        fields["pin_region"] = STAND_IN
        other_region = await there.submit(**fields)

        for receipt in (again, other_region):
            assert (receipt.task_id, receipt.duplicate) == (first.task_id, True)
            assert receipt.possible_duplicate  # an earlier one may be known at home
        assert await here.stored() == {OWN_REGION: 1}


async def test_with_every_ledger_away_the_task_is_stored_without_an_entry(
    accepting: Running, fields: dict[str, Any]
) -> None:
    lose(accepting, *accepting.stores)

    receipt = await accepting.submit(**fields)

    assert receipt.possible_duplicate
    assert await accepting.stored() == {OWN_REGION: 1}


async def test_once_home_is_back_the_next_identical_submit_is_a_task_of_its_own(
    accepting: Running, fields: dict[str, Any]
) -> None:
    # This is what possible_duplicate warns of; from then on home answers again.
    lose(accepting, HOME)
    away = await accepting.submit(**fields)
    restore(accepting)

    back = await accepting.submit(**fields)
    again = await accepting.submit(**fields)

    assert back.task_id != away.task_id
    assert (again.task_id, again.duplicate) == (back.task_id, True)
    assert not again.possible_duplicate


async def test_a_home_that_took_the_entry_without_saying_so_leads_to_the_same_task(
    accepting: Running, fields: dict[str, Any], short_lease: None
) -> None:
    lose(accepting, HOME, error=LOST, late=True)
    first = await accepting.submit(timeout_s=1, **fields)
    restore(accepting)

    again = await accepting.insist(**fields)

    assert first.possible_duplicate
    assert again.task_id == first.task_id
    assert await accepting.stored() == {OWN_REGION: 1}


async def test_a_home_that_hangs_leaves_time_to_store_the_task(
    accepting: Running, fields: dict[str, Any]
) -> None:
    pause = accepting.stores[HOME].pause("reserve", before=True)

    receipt = await accepting.submit(timeout_s=1, **fields)
    pause.over.set()

    assert receipt.possible_duplicate
    assert receipt.region == OWN_REGION


async def test_a_full_home_is_there_so_the_submit_is_refused(
    accepting: Running, fields: dict[str, Any]
) -> None:
    lose(accepting, HOME, error=StoreFull(HOME))

    with pytest.raises(RegionsFull, match=HOME):
        await accepting.submit(**fields)

    assert await accepting.stored() == {}


async def test_nothing_stands_in_from_beyond_the_fence(accepting: Running) -> None:
    fenced: dict[str, Any] = {"residency": ["us", "eu"], "pin_region": OWN_REGION}
    key = await accepting.key_at(HOME, **fenced)
    lose(accepting, HOME)

    receipt = await accepting.submit(idempotency_key=key, **fenced)
    again = await accepting.submit(idempotency_key=key, **fenced)

    assert receipt.possible_duplicate
    assert again.task_id == receipt.task_id
    assert reserved_at(accepting, STAND_IN) == 0


async def test_a_region_that_refuses_meanwhile_is_left_with_the_entry_at_the_stand_in(
    accepting: Running, fields: dict[str, Any]
) -> None:
    del fields["pin_region"]
    lose(accepting, HOME)
    accepting.stores[HOME].fail("enqueue", *[GONE] * A_WHILE)
    accepting.stores[OWN_REGION].fail("enqueue", StoreFull(OWN_REGION))

    receipt = await accepting.submit(**fields)
    again = await accepting.submit(**fields)

    assert receipt.region != OWN_REGION
    assert (again.task_id, again.duplicate) == (receipt.task_id, True)
    assert await accepting.stored() == {receipt.region: 1}


async def test_a_key_is_free_once_its_task_is_cancelled_though_home_is_away_then_too(
    accepting: Running, fields: dict[str, Any]
) -> None:
    lose(accepting, HOME)
    accepting.stores[HOME].fail("forget", GONE)
    first = await accepting.submit(**fields)
    request = router_pb2.CancelTaskRequest(task_id=first.task_id)
    assert (await answered(accepting.router.CancelTask(request))).cancelled

    again = await accepting.submit(**fields)

    assert (again.task_id != first.task_id, again.duplicate) == (True, False)


@pytest.mark.parametrize("same", [True, False], ids=["same payload", "another"])
async def test_another_payload_is_run_though_the_key_was_done(
    accepting: Running, fields: dict[str, Any], same: bool
) -> None:
    # The home would have refused it; without the home it is accepted.
    store = accepting.stores[OWN_REGION]
    fields["affinity_key"] = "one partition"
    first = await accepting.submit(**fields, payload=b'{"n":1}')
    await labour.finish(store, await labour.claim(store, first.task_id), b"of 1")
    lose(accepting, HOME)

    second = await accepting.submit(**fields, payload=b'{"n":1}' if same else b'{"n":2}')

    assert (second.task_id != first.task_id, second.possible_duplicate) == (True, True)
    behind = await accepting.submit(affinity_key="one partition", pin_region=OWN_REGION)
    await labour.claim(store, behind.task_id)  # passes it: it ended, or was to be run
    found = await accepting.get(second.task_id)
    ended = (task_pb2.TASK_STATE_COMPLETED, b"of 1")
    assert (found.state, found.result) == (ended if same else (task_pb2.TASK_STATE_PENDING, b""))


@pytest.mark.parametrize("attempt", [None, 1, 2])
async def test_a_request_id_alone_is_never_accepted_without_a_home(
    accepting: Running, attempt: int | None
) -> None:
    fields: dict[str, Any] = {"origin_region": HOME, "pin_region": OWN_REGION}
    fields["request_id"] = next(
        name
        for name in map("r{}".format, range(100))
        if identity_of(accepting.fleet, request_id=name, origin_region=HOME).spare == STAND_IN
    )
    lose(accepting, *accepting.stores)

    with pytest.raises(HomeUnreachable):
        await accepting.submit(attempt=attempt, **fields)

    assert await accepting.stored() == {}
