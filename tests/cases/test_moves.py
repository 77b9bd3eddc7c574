"""Cases C25 and C50: what cannot be finished ends once, and what is fenced ends in its fence."""

import uuid
from contextlib import AsyncExitStack

import pytest

from tests.harness.patience import until
from tests.harness.yard import Yard
from tradewind import Client, TaskOptions
from tradewind.client.admin import DeadFilter
from tradewind.client.views import TaskView
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

ATTEMPTS = 2  # the world's queues.default


async def dead_in(client: Client, task_id: str) -> dict[str, int]:
    """In how many dead-letter entries of each region the task is."""
    found: dict[str, int] = {}
    token = ""
    while True:
        page = await client.admin.dead_tasks(DeadFilter(), page_size=500, page_token=token)
        assert page.silent_regions == ()
        for task in page.tasks:
            if task.task_id == task_id:
                found[task.region] = found.get(task.region, 0) + 1
        token = page.next_page_token
        if not token:
            return found


def kinds(world: Yard, region: str, task_id: str) -> set[str]:
    """What kinds of key of a region know the task."""
    return {key.partition("}:")[2].partition(":")[0] for key in world.mentions(region, task_id)}


async def test_c25_a_hopeless_task_ends_as_one_dead_letter_with_its_route(world: Yard) -> None:
    everywhere = {"regions": list(world.regions)}
    async with world.client("eu-west") as client:
        receipts = [
            await client.submit("fail.in", everywhere, origin_region=region)
            for region in (*world.regions, "eu-west")
        ]
        for receipt in receipts:
            task = await world.settled(client, receipt.task_id)
            route = [stay.region for stay in task.hops]

            assert task.state is State.DEAD_LETTER
            assert task.error is not None
            assert task.error.kind == "exhausted"
            assert task.failover == "every permitted region was tried"
            # Each region was host once, the last one still is, and nothing of it is forgotten.
            assert route[0] == receipt.region
            assert sorted(route) == sorted(world.regions)
            assert route[-1] == task.region
            assert [stay.attempts for stay in task.hops] == [ATTEMPTS] * 3
            assert [stay.reason for stay in task.hops] == ["exhausted", "exhausted", ""]
            hosts = [region for region in route for _ in range(ATTEMPTS)]
            assert world.ledger.regions(task.task_id) == hosts
            assert await dead_in(client, task.task_id) == {task.region: 1}
            await nothing_left_to_do(world, task)


async def nothing_left_to_do(world: Yard, task: TaskView) -> None:
    """No index of any region names the task but the dead letters of its last one."""
    for region in world.regions:
        # Couriers let go of it, here and where it went, just after the task can be seen there.
        await until(
            lambda region=region: kinds(world, region, task.task_id).isdisjoint(
                {"imports", "moving"}
            ),
            f"{region} has ended its moves of {task.task_id}",
        )
        known = kinds(world, region, task.task_id) - {"imp", "led"}  # memories, with TTLs
        dead = {"dead", "dead_until"} if region == task.region else set[str]()
        assert known == {"t", *dead}, region


async def test_c25_a_region_that_can_ends_the_journey(world: Yard) -> None:
    async with world.client("eu-west") as client:
        receipt = await client.submit(
            "fail.in", {"regions": ["eu-west"]}, labels={"start": "eu"}, residency=["eu", "us"]
        )
        task = await client.wait(receipt.task_id, timeout=30)
        assert [stay.region for stay in task.hops] == ["eu-west", "us-east"]
        assert task.result == "us-east"
        assert world.ledger.regions(task.task_id) == ["eu-west", "eu-west", "us-east"]
        assert await dead_in(client, task.task_id) == {}


async def test_c50b_nothing_of_a_fenced_task_is_seen_outside_its_fence(world: Yard) -> None:
    outside = [region for region in world.regions if region != "eu-west"]
    marks = {
        field: f"{field}-{uuid.uuid4().hex}"
        for field in ("payload", "error", "label", "tenant", "affinity", "key", "request", "done")
    }
    spec: TaskOptions = {
        "labels": {"data-class": "pii-eu", "note": marks["label"]},
        "tenant": marks["tenant"],
        "affinity_key": marks["affinity"],
        "origin_region": "eu-west",
    }
    requested: TaskOptions = {**spec, "request_id": marks["request"]}
    keyed: TaskOptions = {**spec, "idempotency_key": marks["key"]}
    failing = {"regions": list(world.regions), "said": marks["error"] + marks["payload"]}
    async with AsyncExitStack() as stays:
        heard = {
            region: await stays.enter_async_context(world.overheard(region)) for region in outside
        }
        eu = await stays.enter_async_context(world.client("eu-west"))
        by_rule = await eu.submit("fail.in", failing, **requested)
        by_key = await eu.submit("fail.in", failing, **keyed)
        by_wish = await eu.submit("fail.in", failing, residency=["eu"])
        done = await eu.submit("echo", {"value": marks["done"]}, residency=["eu"])
        tasks = [await world.settled(eu, task.task_id) for task in (by_rule, by_key, by_wish, done)]
        for task in tasks[:3]:
            assert (task.state, task.region) == (State.DEAD_LETTER, "eu-west")
            assert task.error is not None
            assert marks["payload"] in task.error.message
            assert task.failover == "no other permitted region"
            assert await dead_in(eu, task.task_id) == {"eu-west": 1}
        assert {task.fence for task in tasks} == {("eu",)}
        assert tasks[3].result == marks["done"]

        # The marks can be found at all, where they may be.
        for field in ("payload", "error", "label", "tenant", "affinity", "key", "done"):
            assert world.mentions("eu-west", marks[field]), field
        for region in outside:
            assert heard[region], region
            said, kept, pages = world.said(region), world.kept(region), await world.pages(region)
            for field, mark in marks.items():
                assert world.mentions(region, mark) == [], (region, field)
                for where, text in {
                    "command": bytes(heard[region]),
                    "log": said,
                    "disk": kept,
                    "metric": pages,
                }.items():
                    assert mark.encode() not in text, (region, field, where)
    for task in tasks:
        assert set(world.ledger.regions(task.task_id)) == {"eu-west"}


async def test_c50d_repeats_at_another_gateway_leave_nothing_there(world: Yard) -> None:
    """What passes through a router that the caller chose is not stored, logged or measured."""
    mark = uuid.uuid4().hex
    async with world.client("us-east") as us, world.overheard("us-east") as heard:
        first = await us.submit("echo", {"value": mark}, residency=["eu"], idempotency_key=mark)
        again = await us.submit("echo", {"value": mark}, residency=["eu"], idempotency_key=mark)
        assert (first.region, again.task_id, again.duplicate) == ("eu-west", first.task_id, True)
        assert (await us.wait(first.task_id, timeout=30)).result == mark
        assert world.mentions("us-east", mark) == []
        for text in (bytes(heard), world.said("us-east"), await world.pages("us-east")):
            assert mark.encode() not in text
