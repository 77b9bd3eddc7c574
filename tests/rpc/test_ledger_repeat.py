"""A late repeat of a submit whose task was cancelled or purged: it is told so, and starts nothing.

Its caller lost the answer, an operator ended the task, and the SDK asks again.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.rpc import labour
from tests.rpc.ledgers import GONE
from tests.rpc.running import Running, answered, fields_of, running
from tradewind.errors import InvalidTask, StoreUnavailable, UnknownTask
from tradewind.fleet import Dedup, Fleet, QueuePolicy, Region
from tradewind.v1 import admin_pb2, router_pb2, task_pb2

State = task_pb2.TaskState


@pytest.fixture
async def by_payload(fleet: Fleet) -> AsyncIterator[Running]:
    """A router whose queues deduplicate by payload."""
    policy = QueuePolicy(dedup=Dedup(by="payload"))
    async with running(replace(fleet, default_queue=policy)) as router:
        yield router


async def fields_at(serving: Running, key: bool, home: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"request_id": "r", "origin_region": home, "pin_region": "eu-west"}
    if key:
        fields["idempotency_key"] = await serving.key_at(home, **fields)
    return fields


async def cancel(serving: Running, task_id: str) -> None:
    request = router_pb2.CancelTaskRequest(task_id=task_id)
    assert (await answered(serving.router.CancelTask(request))).cancelled


async def purge(serving: Running, receipt: Any) -> None:
    """It dies, and is purged."""
    await labour.bury(serving.stores[receipt.region], receipt.task_id)
    which = admin_pb2.DeadTaskFilter(task_ids=[receipt.task_id])
    request = admin_pb2.PurgeDeadTasksRequest(filter=which)
    assert (await answered(serving.admin.PurgeDeadTasks(request, timeout=20))).count == 1
    with pytest.raises(UnknownTask):
        await serving.get(receipt.task_id)


async def is_told(serving: Running, first: Any, state: int, **fields: Any) -> None:
    again = await serving.submit(**fields)
    assert (again.task_id, again.duplicate, again.state) == (first.task_id, False, state)
    assert await serving.stored() == {}


@pytest.mark.parametrize("home", ["eu-west", "us-east"], ids=["at home", "elsewhere"])
@pytest.mark.parametrize("silent", [False, True], ids=["freed", "not freed"])
@pytest.mark.parametrize("key", [False, True], ids=["request_id", "request_id and key"])
async def test_a_repeat_of_a_cancelled_submit_is_told_so_and_does_not_revive_it(
    serving: Running, key: bool, silent: bool, home: str
) -> None:
    fields = await fields_at(serving, key, home)
    first = await serving.submit(**fields)
    if silent:
        serving.stores[home].fail("forget", GONE)
    await cancel(serving, first.task_id)

    await is_told(serving, first, State.TASK_STATE_CANCELLED, **fields)


async def test_so_is_one_where_the_payload_is_the_key(by_payload: Running) -> None:
    fields: dict[str, Any] = {"request_id": "r", "origin_region": "eu-west", "payload": b'{"n":1}'}
    first = await by_payload.submit(**fields)
    await cancel(by_payload, first.task_id)

    await is_told(by_payload, first, State.TASK_STATE_CANCELLED, **fields)


@pytest.mark.parametrize("home", ["eu-west", "us-east"], ids=["at home", "elsewhere"])
@pytest.mark.parametrize("key", [False, True], ids=["request_id", "request_id and key"])
async def test_a_repeat_of_a_purged_submit_is_told_that_it_was_dead(
    serving: Running, key: bool, home: str
) -> None:
    fields = await fields_at(serving, key, home)
    first = await serving.submit(**fields)
    await purge(serving, first)

    await is_told(serving, first, State.TASK_STATE_DEAD_LETTER, **fields)


async def test_so_is_one_whose_purge_was_not_answered(serving: Running) -> None:
    fields = await fields_at(serving, False, "eu-west")
    first = await serving.submit(**fields)
    await labour.bury(serving.stores["eu-west"], first.task_id)
    lost = StoreUnavailable("eu-west", "the answer was lost", sent=True)
    serving.stores["eu-west"].fail("purge", lost, late=True)
    await answered(serving.admin.PurgeDeadTasks(admin_pb2.PurgeDeadTasksRequest(), timeout=20))

    await is_told(serving, first, State.TASK_STATE_DEAD_LETTER, **fields)


async def test_so_is_one_whose_entry_the_spare_home_keeps(serving: Running) -> None:
    fields: dict[str, Any] = {
        "request_id": "r",
        "origin_region": "us-east",
        "pin_region": "eu-west",
    }
    serving.stores["us-east"].fail("reserve", GONE)
    first = await serving.submit(**fields, attempt=1)
    await purge(serving, first)

    await is_told(serving, first, State.TASK_STATE_DEAD_LETTER, **fields, attempt=2)


async def test_the_key_is_free_all_the_same_for_every_other_submit(serving: Running) -> None:
    fields = await fields_at(serving, True, "us-east")
    first = await serving.submit(**fields)
    await cancel(serving, first.task_id)

    fields["payload"] = b'{"n":2}'
    fields["request_id"] = "s"
    second = await serving.submit(**fields)
    fields["request_id"] = "t"
    third = await serving.submit(**fields)

    assert (second.task_id != first.task_id, second.duplicate) == (True, False)
    assert (third.task_id, third.duplicate) == (second.task_id, True)


async def test_its_request_id_still_names_no_other_payload(serving: Running) -> None:
    fields = await fields_at(serving, True, "us-east")
    first = await serving.submit(**fields)
    await cancel(serving, first.task_id)

    with pytest.raises(InvalidTask, match=first.task_id) as refused:
        await serving.submit(**fields, payload=b'{"n":2}')

    assert fields_of(refused.value) == ["request_id"]


async def test_while_a_key_changes_its_home_either_one_tells_of_it(fleet: Fleet) -> None:
    regions: dict[str, Region] = {
        **fleet.regions,
        "us-east": replace(fleet.regions["us-east"], new=True),
    }
    async with running(replace(fleet, regions=regions)) as serving:
        fields = await fields_at(serving, True, "eu-west")
        first = await serving.submit(**fields)
        await cancel(serving, first.task_id)

        await is_told(serving, first, State.TASK_STATE_CANCELLED, **fields)
