import asyncio
from dataclasses import replace

import grpc
import pytest

from tests.rpc import labour
from tests.rpc.running import Running, running
from tradewind import ids
from tradewind.errors import InvalidTask, RegionSilent, StoreUnavailable, UnknownTask
from tradewind.fleet import Fleet
from tradewind.v1 import task_pb2

GONE = StoreUnavailable("x", "connection refused", sent=False)
STRANGER = ids.mint(1_767_225_600_000, ids.region_code("eu-west"), 3, 4711)


@pytest.mark.parametrize("text", ["", "x", "0" * 27, STRANGER.upper(), "\N{ROCKET}"])
async def test_a_malformed_id_is_the_callers_fault(serving: Running, text: str) -> None:
    with pytest.raises(InvalidTask, match="task_id") as refused:
        await serving.get(text)

    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]


async def test_not_found_needs_a_no_from_every_region(serving: Running) -> None:
    with pytest.raises(UnknownTask) as refused:
        await serving.get(STRANGER)
    assert refused.value.code is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]

    serving.stores["ap-south"].fail("read", GONE)
    with pytest.raises(RegionSilent) as silent:
        await serving.get(STRANGER)
    assert silent.value.regions == ("ap-south",)
    assert silent.value.code is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]


async def test_an_id_with_a_partition_that_is_not_there_is_unknown(serving: Running) -> None:
    with pytest.raises(UnknownTask):
        await serving.get(ids.mint(1, ids.region_code("eu-west"), 4_000, 1))


async def test_an_id_of_a_region_that_left_the_file_is_asked_for_everywhere(
    serving: Running,
) -> None:
    with pytest.raises(UnknownTask):
        await serving.get(ids.mint(1, ids.region_code("atlantis"), 1, 1))


async def test_a_task_that_moved_is_found_by_its_pointer(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    await labour.move(dict(serving.stores), task_id, "eu-west", "us-east")

    task = await serving.get(task_id)

    assert task.region == "us-east"
    assert task.state == task_pb2.TASK_STATE_PENDING
    assert [(hop.region, hop.attempts) for hop in task.hops] == [("eu-west", 1), ("us-east", 0)]


async def test_a_task_that_moved_is_found_though_its_birth_region_is_silent(
    serving: Running,
) -> None:
    task_id = (await serving.submit()).task_id
    await labour.move(dict(serving.stores), task_id, "eu-west", "us-east")
    serving.stores["eu-west"].fail("read", GONE)

    assert (await serving.get(task_id)).region == "us-east"


async def test_a_pointer_to_a_silent_region_is_unavailable(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    await labour.move(dict(serving.stores), task_id, "eu-west", "us-east")
    serving.stores["us-east"].fail("read", GONE)

    with pytest.raises(RegionSilent) as silent:
        await serving.get(task_id)

    assert silent.value.regions == ("us-east",)


async def test_while_moving_the_source_answers_until_the_target_has_it(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    source, target = serving.stores["eu-west"], serving.stores["us-east"]
    await labour.bury(source, task_id, may_move=True)
    exported = await labour.begin_export(source, task_id, "us-east")

    under_way = await serving.get(task_id)
    assert (under_way.state, under_way.region) == (task_pb2.TASK_STATE_MOVING, "eu-west")

    await labour.import_task(target, exported)
    arrived = await serving.get(task_id)
    assert (arrived.state, arrived.region) == (task_pb2.TASK_STATE_PENDING, "us-east")

    target.fail("read", GONE)
    assert (await serving.get(task_id)).state == task_pb2.TASK_STATE_MOVING


async def test_a_dead_task_shows_its_error(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    await labour.bury(serving.stores["eu-west"], task_id)

    task = await serving.get(task_id)

    assert task.state == task_pb2.TASK_STATE_DEAD_LETTER
    assert (task.error.kind, task.error.message) == ("exhausted", "boom")
    assert task.error.traceback == "line 1"
    assert task.attempts == 1


async def test_a_finished_task_shows_its_result(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    await labour.finish(store, await labour.claim(store, task_id), b'{"ok":1}')

    task = await serving.get(task_id)

    assert task.settled
    assert (task.result, task.result_content_type) == (b'{"ok":1}', "application/json")


async def test_a_failed_attempt_shows_when_the_next_one_is_due(serving: Running) -> None:
    task_id = (await serving.submit()).task_id
    store = serving.stores["eu-west"]
    await labour.retry(store, await labour.claim(store, task_id))

    task = await serving.get(task_id)

    assert task.state == task_pb2.TASK_STATE_FAILED
    assert task.HasField("next_attempt_at")
    assert (task.error.kind, task.error.message) == ("", "boom")  # it has not died


async def test_a_task_that_comes_back_to_a_region_that_was_asked_before_is_found(
    serving: Running,
) -> None:
    # eu-west has said that it is in us-east; before us-east is asked, it goes back.
    task_id = (await serving.submit()).task_id
    stores = dict(serving.stores)
    await labour.move(stores, task_id, "eu-west", "us-east")
    pause = stores["eu-west"].pause("read")
    reading = asyncio.ensure_future(serving.get(task_id))
    await pause.reached.wait()
    await labour.move(stores, task_id, "us-east", "eu-west")
    pause.over.set()

    assert (await reading).region == "eu-west"


async def test_a_pointer_to_a_region_that_is_not_in_this_routers_file_is_no_no(
    fleet: Fleet,
) -> None:
    regions = {name: one for name, one in fleet.regions.items() if name != "us-east"}
    async with running(fleet) as here, running(replace(fleet, regions=regions)) as there:
        task_id = (await here.submit()).task_id
        await labour.move(dict(here.stores), task_id, "eu-west", "us-east")

        with pytest.raises(RegionSilent, match="us-east"):
            await there.get(task_id)
