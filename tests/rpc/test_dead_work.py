"""RedriveDeadTasks and PurgeDeadTasks."""

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.rpc import labour
from tests.rpc.running import Running, answered, running
from tradewind.errors import InvalidTask, StoreFull, StoreUnavailable, UnknownTask
from tradewind.fleet import Fleet, Match, Rule
from tradewind.v1 import admin_pb2, task_pb2

State = task_pb2.TaskState
GONE = StoreUnavailable("x", "connection refused", sent=False)


async def redrive(serving: Running, *, dry_run: bool = False, **fields: Any) -> Any:
    which = admin_pb2.DeadTaskFilter(**fields)
    request = admin_pb2.RedriveDeadTasksRequest(filter=which, dry_run=dry_run)
    return await answered(serving.admin.RedriveDeadTasks(request, timeout=20))


async def purge(serving: Running, *, dry_run: bool = False, **fields: Any) -> Any:
    which = admin_pb2.DeadTaskFilter(**fields)
    request = admin_pb2.PurgeDeadTasksRequest(filter=which, dry_run=dry_run)
    return await answered(serving.admin.PurgeDeadTasks(request, timeout=20))


async def bury(serving: Running, *, message: str = "boom", **fields: Any) -> str:
    receipt = await serving.submit(**fields)
    store, queue = serving.stores[receipt.region], fields.get("queue", "default")
    await labour.bury(store, receipt.task_id, queue=queue, message=message)
    return receipt.task_id


async def state(serving: Running, task_id: str) -> str:
    try:
        return State.Name((await serving.get(task_id)).state).removeprefix("TASK_STATE_")
    except UnknownTask:
        return "GONE"


WORK: dict[str, tuple[Any, str]] = {"redriven": (redrive, "PENDING"), "purged": (purge, "GONE")}


@pytest.mark.parametrize(("work", "after"), WORK.values(), ids=WORK)
async def test_all_dead_tasks_of_all_regions_are(serving: Running, work: Any, after: str) -> None:
    buried = [
        await bury(serving, pin_region=region)
        for region in ("eu-west", "us-east", "ap-south")
        for _ in range(7)
    ]
    waiting = (await serving.submit()).task_id

    dry = await work(serving, dry_run=True)
    assert (dry.count, {await state(serving, one) for one in buried}) == (21, {"DEAD_LETTER"})
    done = await work(serving)
    again = await work(serving)

    assert (done.count, again.count, list(done.silent_regions)) == (21, 0, [])
    assert {await state(serving, one) for one in buried} == {after}
    assert await state(serving, waiting) == "PENDING"


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "region": ({"region": "us-east"}, {"b"}),
    "queue": ({"queue": "mail"}, {"d"}),
    "name": ({"name": "image.resize"}, {"c"}),
    "kind": ({"error_kind": "timeout"}, set()),
    "text": ({"error_contains": "disk"}, {"b"}),
    "age": ({"older_than": Duration(seconds=3_600)}, set()),
}


@pytest.mark.parametrize(("work", "after"), WORK.values(), ids=WORK)
@pytest.mark.parametrize(("fields", "expected"), FILTERS.values(), ids=FILTERS)
async def test_only_what_the_filter_names_is_touched_by(
    serving: Running, work: Any, after: str, fields: dict[str, Any], expected: set[str]
) -> None:
    ids = {
        await bury(serving, pin_region="eu-west"): "a",
        await bury(serving, pin_region="us-east", message="disk full"): "b",
        await bury(serving, pin_region="eu-west", name="image.resize"): "c",
        await bury(serving, pin_region="eu-west", queue="mail"): "d",
    }

    assert (await work(serving, **fields)).count == len(expected)

    assert {ids[one] for one in ids if await state(serving, one) == after} == expected


async def test_tasks_are_redriven_by_id_with_fresh_attempts(serving: Running) -> None:
    wanted, other = await bury(serving), await bury(serving)

    assert (await redrive(serving, task_ids=[wanted])).count == 1

    task = await serving.get(wanted)
    assert (task.state, task.attempts, task.settled) == (State.TASK_STATE_PENDING, 0, False)
    assert await state(serving, other) == "DEAD_LETTER"
    await labour.finish(
        serving.stores[task.region], await labour.claim(serving.stores[task.region], wanted)
    )
    assert await state(serving, wanted) == "COMPLETED"


async def test_more_than_a_page_of_one_partition_is_redriven(serving: Running) -> None:
    buried = [await bury(serving, affinity_key="one", pin_region="eu-west") for _ in range(103)]

    assert (await redrive(serving)).count == len(buried)
    assert (await serving.stored())["eu-west"] == len(buried)


@pytest.mark.parametrize("work", [redrive, purge])
async def test_a_task_on_its_way_is_left_alone(serving: Running, work: Any) -> None:
    task_id = (await serving.submit()).task_id
    await labour.bury(serving.stores["eu-west"], task_id, may_move=True)
    await labour.begin_export(serving.stores["eu-west"], task_id, "us-east")

    assert (await work(serving)).count == 0
    assert await state(serving, task_id) == "MOVING"


async def test_a_task_whose_region_the_rules_no_longer_permit_stays_dead(fleet: Fleet) -> None:
    async with running(fleet) as before:
        fenced = await bury(before, pin_region="us-east", labels={"data-class": "pii-eu"})
        free = await bury(before, pin_region="us-east")
    rule = Rule("eu-personal-data", Match(labels={"data-class": "pii-eu"}), residency=("eu",))

    async with running(replace(fleet, rules=(rule,))) as serving:
        assert (await redrive(serving, dry_run=True)).count == 1
        assert (await redrive(serving)).count == 1
        assert await state(serving, fenced) == "DEAD_LETTER"
        assert await state(serving, free) == "PENDING"
        assert (await purge(serving)).count == 1  # what may not run may still go


@pytest.mark.parametrize("work", [redrive, purge])
async def test_a_region_that_does_not_answer_is_named(serving: Running, work: Any) -> None:
    here, there = (
        await bury(serving, pin_region="us-east"),
        await bury(serving, pin_region="eu-west"),
    )
    for _ in range(serving.stores["eu-west"].real.partitions):
        serving.stores["eu-west"].fail("dead_page", GONE)

    done = await work(serving)

    assert (done.count, list(done.silent_regions)) == (1, ["eu-west"])
    assert await state(serving, here) != "DEAD_LETTER"
    assert await state(serving, there) == "DEAD_LETTER"


async def test_a_region_without_room_says_so(serving: Running) -> None:
    task_id = await bury(serving, pin_region="eu-west")
    serving.stores["eu-west"].fail("redrive", StoreFull("eu-west"))

    with pytest.raises(StoreFull):
        await redrive(serving)

    assert await state(serving, task_id) == "DEAD_LETTER"


@pytest.mark.parametrize("work", [redrive, purge])
async def test_a_bad_filter_changes_nothing(serving: Running, work: Any) -> None:
    task_id = await bury(serving)
    for fields in ({"region": "mars"}, {"error_kind": "angry"}, {"task_ids": ["x"]}):
        with pytest.raises(InvalidTask, match="filter"):
            await work(serving, **fields)
    assert await state(serving, task_id) == "DEAD_LETTER"


@pytest.mark.parametrize("home", ["eu-west", "us-east"])
async def test_the_key_of_a_purged_task_is_free_again(serving: Running, home: str) -> None:
    await serving.staff()
    key = await serving.key_at(home, pin_region="eu-west")
    fields: dict[str, Any] = {"idempotency_key": key, "pin_region": "eu-west"}
    first = await serving.insist(**fields)
    await labour.bury(serving.stores["eu-west"], first.task_id)

    assert (await purge(serving)).count == 1

    again = await serving.insist(**fields)
    assert (again.task_id != first.task_id, again.duplicate) == (True, False)


async def test_the_home_of_a_purged_tasks_key_is_named_if_it_is_silent(serving: Running) -> None:
    await serving.staff()
    key = await serving.key_at("us-east", pin_region="eu-west")
    first = await serving.insist(idempotency_key=key, pin_region="eu-west")
    await labour.bury(serving.stores["eu-west"], first.task_id)
    serving.stores["us-east"].fail("forget", GONE)

    done = await purge(serving)

    assert (done.count, list(done.silent_regions)) == (1, ["us-east"])


async def test_a_redriven_task_keeps_its_key(serving: Running) -> None:
    first = await serving.insist(idempotency_key="k", pin_region="eu-west")
    await labour.bury(serving.stores["eu-west"], first.task_id)

    assert (await redrive(serving)).count == 1

    again = await serving.insist(idempotency_key="k", pin_region="eu-west")
    assert (again.task_id, again.duplicate) == (first.task_id, True)
