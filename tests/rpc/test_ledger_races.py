"""Two that carry one submit through, and the calls of a slow one that come too late.

In each test a router is held at one call, as a long pause of its process or of the network would;
another one goes on meanwhile. The list of rules is in docs/invariants.md.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.rpc.ledgers import A_WHILE, GONE, elsewhere, identity_of
from tests.rpc.running import Running, answered, running
from tradewind.errors import StoreFull, SubmitInFlight
from tradewind.fleet import Fleet
from tradewind.v1 import router_pb2

HOME, FIRST = "us-east", "eu-west"
FULL = StoreFull(FIRST)

pytestmark = pytest.mark.usefixtures("short_lease")


@pytest.fixture
async def slow(fleet: Fleet) -> AsyncIterator[Running]:
    """The router that is held."""
    async with running(fleet, FIRST) as router:
        yield router


@pytest.fixture
async def quick(fleet: Fleet, slow: Running) -> AsyncIterator[Running]:
    """The one that goes on."""
    async with running(fleet, "ap-south") as router:
        yield router


@pytest.fixture
async def fields(slow: Running) -> dict[str, Any]:
    """A submit that goes to eu-west while its entry is in us-east."""
    return await elsewhere(slow)


def full(*routers: Running) -> None:
    """For submits of these routers there is no memory left in eu-west."""
    for router in routers:
        router.stores[FIRST].fail("enqueue", *[FULL] * A_WHILE)


async def pending(router: Running) -> int:
    return sum((await router.stored()).values())


async def test_adopt__a_submitter_that_was_only_slow_stores_no_second_task(
    slow: Running, quick: Running, fields: dict[str, Any]
) -> None:
    hold = slow.stores[FIRST].pause("enqueue", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()

    adopted = await quick.insist(**fields)
    hold.over.set()

    assert (await first).task_id == adopted.task_id
    assert await slow.stored() == {FIRST: 1}


async def test_adopt__the_adopter_has_a_lease_of_its_own(
    slow: Running, quick: Running, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of two that meet an abandoned entry, the second must not be the third writer.
    hold = slow.stores[FIRST].pause("enqueue", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 10_000)
    adopting = quick.stores[FIRST].pause("enqueue", before=True)
    second = asyncio.ensure_future(quick.insist(**fields))  # adopts once the first lease is over
    await adopting.reached.wait()

    with pytest.raises(SubmitInFlight):
        await quick.submit(**fields)
    adopting.over.set()
    hold.over.set()

    assert (await first).task_id == (await second).task_id
    assert await slow.stored() == {FIRST: 1}


async def test_refuse_before_leaving__a_late_writer_finds_the_tombstone(
    slow: Running, quick: Running, fields: dict[str, Any]
) -> None:
    hold = slow.stores[FIRST].pause("enqueue", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()

    full(quick)
    moved = await quick.insist(**fields)
    hold.over.set()
    late = await first

    assert moved.region != FIRST
    assert (late.task_id, late.region) == (moved.task_id, moved.region)
    assert await slow.stored() == {moved.region: 1}


async def test_refuse_before_leaving__a_task_that_is_there_keeps_its_region(
    slow: Running, quick: Running, fields: dict[str, Any]
) -> None:
    # The slow one's task is stored while the quick one is about to leave.
    hold = slow.stores[FIRST].pause("enqueue", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()
    full(quick)
    leaving = quick.stores[FIRST].pause("refuse", before=True)
    second = asyncio.ensure_future(quick.insist(**fields))
    await leaving.reached.wait()
    hold.over.set()
    stored = await first
    leaving.over.set()

    assert (await second).region == stored.region == FIRST
    assert (await second).task_id == stored.task_id
    assert await slow.stored() == {FIRST: 1}


@pytest.mark.parametrize("its_own", [True, False], ids=["to the same region", "to another region"])
async def test_compare_and_set__of_two_that_move_on_from_one_epoch_one_chooses_the_region(
    slow: Running, quick: Running, fields: dict[str, Any], its_own: bool
) -> None:
    full(slow, quick)
    if not its_own:  # the third region is what is left for the slow one
        slow.stores["us-east"].fail("enqueue", *[StoreFull("us-east")] * A_WHILE)
        quick.stores["ap-south"].fail("enqueue", *[StoreFull("ap-south")] * A_WHILE)
    leaving = slow.stores[FIRST].pause("refuse")
    first = asyncio.ensure_future(slow.submit(**fields))
    await leaving.reached.wait()

    moved = await quick.insist(**fields)
    leaving.over.set()
    late = await first

    assert (late.task_id, late.region) == (moved.task_id, moved.region)
    assert await slow.stored() == {moved.region: 1}


async def test_confirm_compares__a_late_confirmation_says_nothing_of_the_keys_next_task(
    slow: Running, quick: Running, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = slow.stores[HOME].pause("confirm", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()
    cancelled = (await quick.insist(**fields)).task_id
    request = router_pb2.CancelTaskRequest(task_id=cancelled)
    assert (await answered(quick.router.CancelTask(request))).cancelled
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 10_000)
    storing = quick.stores[HOME].pause("reserve")
    second = asyncio.ensure_future(quick.submit(**fields))
    await storing.reached.wait()

    hold.over.set()
    assert (await first).task_id == cancelled
    with pytest.raises(SubmitInFlight) as refused:  # the next task is not stored yet
        await slow.submit(**fields)
    storing.over.set()

    assert refused.value.first_id == (await second).task_id != cancelled
    assert await pending(slow) == 1


async def test_unreserve_compares__what_is_taken_back_late_is_not_what_stands_there_now(
    slow: Running, quick: Running, fields: dict[str, Any]
) -> None:
    # The slow one finds every region full and takes its reservation back, too late: the quick one
    # has adopted it and moved it on.
    full(slow, quick)
    for region in ("us-east", "ap-south"):
        slow.stores[region].fail("enqueue", *[StoreFull(region)] * A_WHILE)
    taking_back = slow.stores[HOME].pause("unreserve", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await taking_back.reached.wait()

    moved = await quick.insist(**fields)
    taking_back.over.set()
    with pytest.raises(Exception, match=r"full|memory"):
        await first
    again = await quick.submit(**fields)

    assert (again.task_id, again.duplicate) == (moved.task_id, True)
    assert await quick.stored() == {moved.region: 1}


async def test_give_back__a_submitter_past_its_own_time_takes_nothing_back(
    slow: Running, quick: Running, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # It cannot know any more that nobody has adopted its reservation at the same epoch.
    monkeypatch.setattr("router.reserve.HELD_S", 0.0)
    slow.stores[FIRST].fail("enqueue", GONE)
    slow.stores[FIRST].fail("refuse", GONE)

    with pytest.raises(Exception, match=FIRST):
        await slow.submit(**fields)
    receipt = await quick.insist(**fields)

    assert [name for name, _ in slow.stores[HOME].calls if name == "unreserve"] == []
    assert (receipt.region, await quick.stored()) == (FIRST, {FIRST: 1})


async def test_confirmed_last__until_the_task_is_stored_nobody_is_told_of_it(
    slow: Running, quick: Running, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tradewind.store.intake.RESERVATION_LEASE_MS", 10_000)
    hold = slow.stores[FIRST].pause("enqueue", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()

    with pytest.raises(SubmitInFlight):
        await quick.submit(**fields)
    hold.over.set()
    receipt = await first

    assert (await quick.submit(**fields)).task_id == receipt.task_id


async def test_another_payload__is_not_stored_under_the_id_of_an_abandoned_one(
    slow: Running, quick: Running, fields: dict[str, Any]
) -> None:
    # The slow one is held before its task is stored; the quick one gives that task up first.
    hold = slow.stores[FIRST].pause("enqueue", before=True)
    first = asyncio.ensure_future(slow.submit(**fields))
    await hold.reached.wait()

    other = await quick.insist(**fields, payload=b'{"other": 1}')
    hold.over.set()
    with pytest.raises(Exception, match=other.task_id):  # the key is the other payload's by now
        await first

    assert await slow.stored() == {other.region: 1}
    assert identity_of(slow.fleet, **fields).home == HOME
