import asyncio
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from router.gauges import Gauges
from tests.redis_keys import connected
from tests.rpc import labour
from tests.rpc.running import Running, answered, running
from tradewind import ids, metrics
from tradewind.errors import InvalidTask, StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.store.keys import partition_keys
from tradewind.v1 import admin_pb2, task_pb2

GONE = StoreUnavailable("x", "connection refused", sent=False)


async def dead(serving: Running, **fields: Any) -> Any:
    size, token = fields.pop("page_size", 0), fields.pop("page_token", "")
    request = admin_pb2.ListDeadTasksRequest(
        filter=admin_pb2.DeadTaskFilter(**fields), page_size=size, page_token=token
    )
    return await answered(serving.admin.ListDeadTasks(request))


async def bury(serving: Running, *, message: str = "boom", **fields: Any) -> str:
    receipt = await serving.submit(**fields)
    queue = fields.get("queue", "default")
    store = serving.stores[receipt.region]
    await labour.bury(store, receipt.task_id, queue=queue, message=message)
    return receipt.task_id


async def test_regions_are_listed_with_what_the_router_sees(serving: Running) -> None:
    await serving.staff(slots=7)
    await asyncio.gather(*(serving.submit(pin_region="us-east") for _ in range(50)))

    answer = await serving.admin.ListRegions(admin_pb2.ListRegionsRequest())

    by_name = {region.name: region for region in answer.regions}
    assert list(by_name) == ["eu-west", "us-east", "ap-south"]
    assert by_name["us-east"].pending > 0  # more than its slots can take
    assert by_name["ap-south"].pending == 0
    assert by_name["us-east"].state == task_pb2.REGION_STATE_ACTIVE
    assert by_name["us-east"].health == task_pb2.HEALTH_HEALTHY
    assert (by_name["us-east"].live_slots, by_name["us-east"].workers) == (7, 1)
    assert list(answer.silent_regions) == []


async def test_a_region_that_is_down_is_listed_as_silent(fleet: Fleet) -> None:
    regions = dict(fleet.regions)
    nobody = replace(regions["us-east"].redis, nodes=("127.0.0.1:1",))
    regions["us-east"] = replace(regions["us-east"], redis=nobody)

    async with running(replace(fleet, regions=regions)) as serving:
        answer = await serving.admin.ListRegions(admin_pb2.ListRegionsRequest())
        workers = await serving.admin.ListWorkers(admin_pb2.ListWorkersRequest())
        queues = await serving.admin.ListQueues(admin_pb2.ListQueuesRequest())
        page = await dead(serving)

    assert list(answer.silent_regions) == ["us-east"]
    assert len(answer.regions) == 3
    assert list(workers.silent_regions) == ["us-east"]
    assert list(queues.silent_regions) == ["us-east"]
    assert list(page.silent_regions) == ["us-east"]


async def test_workers_are_listed_by_region(serving: Running) -> None:
    await serving.staff(handlers=("email.send",))

    everywhere = await serving.admin.ListWorkers(admin_pb2.ListWorkersRequest())
    here = await serving.admin.ListWorkers(admin_pb2.ListWorkersRequest(region="eu-west"))

    assert [one.worker_id for one in everywhere.workers] == ["w-eu-west", "w-us-east", "w-ap-south"]
    assert [one.worker_id for one in here.workers] == ["w-eu-west"]
    assert list(here.workers[0].handlers) == ["email.send"]


async def test_queues_are_counted_by_state(serving: Running) -> None:
    for priority in (task_pb2.PRIORITY_HIGH, task_pb2.PRIORITY_LOW, task_pb2.PRIORITY_LOW):
        await serving.submit(queue="mail", priority=priority, pin_region="eu-west")
    await serving.submit(pin_region="us-east")
    await bury(serving, pin_region="us-east")

    answer = await serving.admin.ListQueues(admin_pb2.ListQueuesRequest())
    mail = await serving.admin.ListQueues(admin_pb2.ListQueuesRequest(queue="mail"))

    found = {(one.region, one.queue): one for one in answer.queues}
    assert found["eu-west", "mail"].pending_high == 1
    assert found["eu-west", "mail"].pending_low == 2
    assert found["eu-west", "mail"].pending == 3
    assert found["us-east", "default"].dead == 1
    assert [one.queue for one in mail.queues] == ["mail"]


async def test_queues_tell_how_long_their_oldest_ready_task_has_waited(serving: Running) -> None:
    await serving.submit(queue="mail", pin_region="eu-west")
    await serving.submit(queue="later", delay=Duration(seconds=60), pin_region="eu-west")
    await asyncio.sleep(0.05)
    await serving.submit(queue="mail", pin_region="eu-west", priority=task_pb2.PRIORITY_HIGH)

    answer = await serving.admin.ListQueues(admin_pb2.ListQueuesRequest())

    found = {one.queue: one for one in answer.queues}
    assert 50 <= found["mail"].oldest_age.ToMilliseconds() < 60_000
    assert not found["later"].HasField("oldest_age")


async def test_dead_tasks_are_listed_without_payloads(serving: Running) -> None:
    task_id = await bury(serving, payload=b'{"secret":1}')

    page = await dead(serving)

    assert [task.task_id for task in page.tasks] == [task_id]
    assert page.tasks[0].spec.name == "email.send"
    assert page.tasks[0].spec.payload == b""
    assert page.tasks[0].error.message == "boom"
    assert (page.total, page.next_page_token) == (1, "")


async def test_dead_tasks_are_read_page_by_page_each_once(serving: Running) -> None:
    buried = [
        await bury(serving, pin_region=region)
        for region in ("eu-west", "us-east", "ap-south")
        for _ in range(7)
    ]

    found: list[str] = []
    token, pages = "", 0
    while token or not pages:
        page = await dead(serving, page_size=4, page_token=token)
        assert len(page.tasks) <= 4
        assert page.total == 21
        found += [task.task_id for task in page.tasks]
        token, pages = page.next_page_token, pages + 1

    assert sorted(found) == sorted(buried)


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "all": ({}, {"a", "b", "c"}),
    "by region": ({"region": "us-east"}, {"b"}),
    "by name": ({"name": "image.resize"}, {"c"}),
    "by queue": ({"queue": "default"}, {"a", "b", "c"}),
    "by another queue": ({"queue": "mail"}, set()),
    "by kind": ({"error_kind": "exhausted"}, {"a", "b", "c"}),
    "by another kind": ({"error_kind": "timeout"}, set()),
    "by text": ({"error_contains": "disk"}, {"b"}),
    "by age": ({"older_than": Duration(seconds=3_600)}, set()),
}


@pytest.mark.parametrize(("fields", "expected"), FILTERS.values(), ids=FILTERS)
async def test_dead_tasks_are_filtered(
    serving: Running, fields: dict[str, Any], expected: set[str]
) -> None:
    ids = {
        await bury(serving, pin_region="eu-west"): "a",
        await bury(serving, pin_region="us-east", message="disk full"): "b",
        await bury(serving, pin_region="eu-west", name="image.resize"): "c",
    }

    page = await dead(serving, **fields)

    assert {ids[task.task_id] for task in page.tasks} == expected
    assert page.total == len(expected)


async def test_the_total_is_that_of_all_pages_whatever_the_filter(serving: Running) -> None:
    for number in range(12):
        region = ("eu-west", "us-east", "ap-south")[number % 3]
        queue = ("mail", "images")[number % 2]
        await bury(serving, pin_region=region, queue=queue, message=f"disk {number % 4}")

    filters: dict[str, tuple[dict[str, Any], int]] = {
        "queue": ({"queue": "mail"}, 6),
        "region and queue": ({"queue": "mail", "region": "us-east"}, 2),
        "text": ({"error_contains": "disk 1"}, 3),
        "kind": ({"error_kind": "exhausted"}, 12),
    }
    for fields, expected in filters.values():
        token, found = "", 0
        while True:
            page = await dead(serving, page_size=1, page_token=token, **fields)
            assert page.total == expected, fields
            found, token = found + len(page.tasks), page.next_page_token
            if not token:
                break
        assert found == expected, fields


async def test_dead_tasks_are_found_by_id(serving: Running) -> None:
    wanted, _ = await bury(serving), await bury(serving)

    assert [task.task_id for task in (await dead(serving, task_ids=[wanted])).tasks] == [wanted]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown region": ({"region": "mars"}, "filter.region"),
    "an unknown kind": ({"error_kind": "angry"}, "filter.error_kind"),
    "an id that is none": ({"task_ids": ["x"]}, "filter.task_ids"),
    "too many ids": ({"task_ids": ["x"] * 1_001}, "filter.task_ids"),
    "a negative age": ({"older_than": Duration(seconds=-1)}, "filter.older_than"),
    "a page that is too large": ({"page_size": 1_001}, "page_size"),
    "a token that is none": ({"page_token": "?"}, "page_token"),
    "a token of another place": ({"page_token": "bWFycwowCgow"}, "page_token"),
    "a token without its total": ({"page_token": "ZXUtd2VzdAowCg=="}, "page_token"),
}


@pytest.mark.parametrize(("fields", "field"), BAD.values(), ids=BAD)
async def test_a_bad_question_is_refused_by_its_field(
    serving: Running, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await dead(serving, **fields)

    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize("method", ["ListWorkers", "ListQueues"])
async def test_an_unknown_region_is_refused(serving: Running, method: str) -> None:
    request = getattr(admin_pb2, f"{method}Request")(region="mars")

    with pytest.raises(InvalidTask, match="region: 'mars' is not a region"):
        await answered(getattr(serving.admin, method)(request))


async def test_a_region_that_does_not_answer_a_list_is_named(serving: Running) -> None:
    task_id = await bury(serving, pin_region="us-east")
    for _ in range(serving.stores["eu-west"].real.partitions):
        serving.stores["eu-west"].fail("dead_page", GONE)

    page = await dead(serving)

    assert [task.task_id for task in page.tasks] == [task_id]
    assert list(page.silent_regions) == ["eu-west"]


async def test_the_metrics_show_what_the_own_region_holds(serving: Running) -> None:
    await serving.submit(queue="a-name-that-a-caller-made-up", pin_region="eu-west")
    await asyncio.sleep(0.05)
    await serving.submit(priority=task_pb2.PRIORITY_HIGH, pin_region="eu-west")
    await bury(serving, pin_region="eu-west")

    await Gauges(serving.fleet, serving.stores["eu-west"].real, serving.gateway.census).look()

    def value(metric: str, **labels: str) -> float | None:
        return metrics.REGISTRY.get_sample_value(metric, {"region": "eu-west"} | labels)

    oldest = "tradewind_oldest_task_age_seconds"
    assert 0 <= (value(oldest, queue="default", priority="high") or 0) < 60
    assert (value(oldest, queue="other", priority="normal") or 0) >= 0.05
    assert value(oldest, queue="default", priority="low") == 0
    length, dead_tasks = "tradewind_task_queue_length", "tradewind_dead_tasks"
    assert value(length, queue="default", priority="high") == 1
    assert value(length, queue="default", priority="low") == 0
    assert value(length, queue="other", priority="normal") == 1
    assert value(length, queue="a-name-that-a-caller-made-up", priority="normal") is None
    assert value(dead_tasks, queue="default") == 1
    assert value("tradewind_expected_wait_seconds", queue="default") is not None


async def test_the_oldest_age_shows_what_is_overdue_while_no_worker_lives(serving: Running) -> None:
    later = Duration(seconds=3_600)
    sent: dict[str, Any] = {
        "priority": task_pb2.PRIORITY_LOW,
        "pin_region": "eu-west",
        "delay": later,
    }
    task_id = (await serving.submit(**sent)).task_id
    store = serving.stores["eu-west"].real
    keys = partition_keys(serving.fleet.partitions)[ids.parse(task_id).partition]
    port = int(serving.fleet.regions["eu-west"].redis.nodes[0].rpartition(":")[2])
    now_ms = store.now_ms()
    assert now_ms is not None
    connected(port).zadd(keys.due_low, {task_id: now_ms - 60_000})

    await Gauges(serving.fleet, store, serving.gateway.census).look()

    labels = {"region": "eu-west", "queue": "default", "priority": "low"}
    age_s = metrics.REGISTRY.get_sample_value("tradewind_oldest_task_age_seconds", labels)
    assert 59 < (age_s or 0) < 3_600
