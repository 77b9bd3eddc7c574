"""An entry whose task is cancelled or gone stands for nothing: invariant 5."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.redis_keys import flush
from tests.rpc.ledgers import GONE, elsewhere
from tests.rpc.running import Running, answered, running
from tradewind.errors import HomeUnreachable, IdempotencyKeyReused, RegionSilent
from tradewind.fleet import Fleet
from tradewind.v1 import router_pb2, task_pb2


async def cancel(serving: Running, task_id: str) -> Any:
    return await answered(serving.router.CancelTask(router_pb2.CancelTaskRequest(task_id=task_id)))


def lose(serving: Running, region: str) -> None:
    """What a Redis does that comes back without its data."""
    node, *_ = serving.fleet.regions[region].redis.nodes
    flush(int(node.rpartition(":")[2]))


async def cancelled_but_not_freed(serving: Running, home: str, task_id: str) -> None:
    """The region that keeps the key did not answer when the task was cancelled."""
    serving.stores[home].fail("forget", GONE)
    assert (await cancel(serving, task_id)).cancelled


async def test_the_key_of_a_cancelled_submit_is_free_though_nobody_could_free_it(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    first = await serving.submit(**fields)
    await cancelled_but_not_freed(serving, "us-east", first.task_id)

    second = await serving.submit(**fields)
    third = await serving.submit(**fields)

    assert second.task_id != first.task_id
    assert (second.duplicate, second.state) == (False, task_pb2.TASK_STATE_PENDING)
    assert (third.task_id, third.duplicate) == (second.task_id, True)


async def test_the_same_holds_where_entry_and_task_lie_together(serving: Running) -> None:
    key = await serving.key_at("eu-west", pin_region="eu-west")
    fields: dict[str, Any] = {"idempotency_key": key, "pin_region": "eu-west"}
    first = await serving.submit(**fields)
    await cancelled_but_not_freed(serving, "eu-west", first.task_id)

    second = await serving.submit(**fields)

    assert (second.duplicate, second.task_id != first.task_id) == (False, True)
    assert await serving.stored() == {"eu-west": 1}


@pytest.mark.parametrize("lost", [False, True], ids=["cancelled", "lost"])
async def test_what_stands_for_nothing_does_not_keep_the_key_from_another_payload_either(
    serving: Running, lost: bool
) -> None:
    fields = await elsewhere(serving)
    first = await serving.submit(**fields)
    if lost:
        lose(serving, "eu-west")
    else:
        await cancelled_but_not_freed(serving, "us-east", first.task_id)

    second = await serving.submit(**fields, payload=b'{"other":1}')

    assert (second.task_id != first.task_id, second.duplicate) == (True, False)
    assert sum((await serving.stored()).values()) == 1
    with pytest.raises(IdempotencyKeyReused, match=second.task_id):
        await serving.submit(**fields)


@pytest.mark.parametrize("business", [True, False], ids=["idempotency_key", "request_id"])
async def test_a_task_that_its_region_lost_is_submitted_anew(
    serving: Running, business: bool
) -> None:
    fields: dict[str, Any] = await elsewhere(serving)
    if not business:
        fields.clear()
        fields |= {"request_id": "r", "origin_region": "us-east", "pin_region": "eu-west"}
    first = await serving.submit(**fields)
    lose(serving, "eu-west")

    second = await serving.submit(**fields)

    assert (second.task_id != first.task_id, second.duplicate) == (True, False)
    assert (await serving.get(second.task_id)).state == task_pb2.TASK_STATE_PENDING
    assert (await serving.submit(**fields)).task_id == second.task_id


async def test_a_silent_region_may_have_the_task_so_the_entry_stays(serving: Running) -> None:
    fields = await elsewhere(serving)
    first = await serving.submit(**fields)
    serving.stores["eu-west"].fail("read", GONE)

    with pytest.raises(RegionSilent, match="eu-west"):
        await serving.submit(**fields)

    assert (await serving.submit(**fields)).task_id == first.task_id


async def test_whether_another_payload_may_have_the_key_is_not_guessed(serving: Running) -> None:
    fields = await elsewhere(serving)
    first = await serving.submit(**fields)
    serving.stores["eu-west"].fail("read", GONE)

    with pytest.raises(RegionSilent, match="eu-west"):
        await serving.submit(**fields, payload=b'{"other":1}')

    with pytest.raises(IdempotencyKeyReused, match=first.task_id):
        await serving.submit(**fields, payload=b'{"other":1}')


async def test_a_region_that_this_routers_file_does_not_have_may_have_the_task(
    fleet: Fleet,
) -> None:
    regions = {name: one for name, one in fleet.regions.items() if name != "eu-west"}
    async with running(fleet) as here, running(replace(fleet, regions=regions), "us-east") as there:
        key = await here.key_at("us-east", pin_region="eu-west")
        first = await here.submit(idempotency_key=key, pin_region="eu-west")

        with pytest.raises(RegionSilent, match="eu-west"):
            await there.submit(idempotency_key=key)

        assert (await here.submit(idempotency_key=key)).task_id == first.task_id


async def test_whoever_forgets_an_entry_leaves_the_one_that_has_taken_its_place(
    fleet: Fleet,
) -> None:
    # Both find the cancelled task; one is paused before it removes the entry, the other is not.
    async with running(fleet, "eu-west") as slow, running(fleet, "ap-south") as quick:
        fields = await elsewhere(slow)
        first = await slow.submit(**fields)
        await cancelled_but_not_freed(slow, "us-east", first.task_id)
        pause = slow.stores["us-east"].pause("forget", before=True)
        late = asyncio.ensure_future(slow.submit(**fields))
        await pause.reached.wait()

        second = await quick.submit(**fields)
        pause.over.set()
        receipt = await late

        assert second.task_id != first.task_id
        assert (receipt.task_id, receipt.duplicate) == (second.task_id, True)
        assert await slow.stored() == {"eu-west": 1}


async def test_an_entry_that_cannot_be_removed_is_not_answered_for_ever_with_a_dead_id(
    serving: Running,
) -> None:
    fields = await elsewhere(serving)
    first = await serving.submit(**fields)
    await cancelled_but_not_freed(serving, "us-east", first.task_id)
    serving.stores["us-east"].fail("forget", GONE)

    with pytest.raises(HomeUnreachable, match="us-east"):
        await serving.submit(**fields)

    assert not (await serving.submit(**fields)).duplicate
