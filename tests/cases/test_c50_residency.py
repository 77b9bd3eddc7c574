"""Case C50: residency holds where the region is lost, where work moves, and where it is misspelt.

Dead letters (b) and repeats at another gateway (d) are in test_moves.py.
"""

import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.cases.bare import Bare, bare, names_a_time
from tests.cases.conftest import APP
from tests.cases.pair import EU, US, cut_redis
from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard, yard
from tests.rpc.running import fields_of
from tradewind import TaskOptions
from tradewind.client.admin import DeadFilter
from tradewind.errors import HomeUnreachable, NoRegionReachable
from tradewind.state import State

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOWHERE = (HomeUnreachable, NoRegionReachable)
# What may be said of a submit that was under way as the Redis died.
IN_DOUBT = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


async def test_c50a_no_byte_of_a_fenced_task_leaves_a_region_that_is_lost(
    two_regions: Yard,
) -> None:
    world, mark = two_regions, f"mark-{uuid.uuid4().hex}"
    fenced: dict[str, Any] = {
        "name": "echo",
        "payload": f'{{"value": "{mark}"}}'.encode(),
        "tenant": mark,
        "affinity_key": mark,
    }
    by_wish: dict[str, Any] = {**fenced, "residency": ["eu"], "labels": {"note": mark}}
    by_rule: dict[str, Any] = {**fenced, "labels": {"data-class": "pii-eu", "note": mark}}
    errors: list[Any] = []
    async with AsyncExitStack() as stays:
        heard = await stays.enter_async_context(world.overheard(US))
        routers = [await stays.enter_async_context(bare(world, each)) for each in (EU, US)]
        client = await stays.enter_async_context(world.client(EU))
        before = await routers[0].submit(**by_wish)
        assert (await client.wait(before.task_id, timeout=30)).region == EU
        assert world.mentions(EU, mark)  # it can be found at all

        await cut_redis(world, EU)
        try:
            for router in routers:

                async def is_refused(router: Bare = router) -> bool:
                    """Submits go on, until the router knows that nowhere permitted is left."""
                    for number, task in enumerate((by_wish, by_rule)):
                        keys = {"idempotency_key": f"{mark}-{number}", "request_id": mark}
                        errors.append(await router.refusal(**task, **keys))
                        errors.append(await router.refusal(**task))
                    return all(isinstance(error, NOWHERE) for error in errors[-4:])

                await until(is_refused, "the router refuses what may only be in eu")
                # What may leave goes on.
                assert (await router.submit(name="echo", payload=b'{"value": 1}')).region == US
            assert {error.code for error in errors} <= IN_DOUBT
            for error in errors[-4:]:
                assert error.code is grpc.StatusCode.UNAVAILABLE
                assert names_a_time(error)
        finally:
            await world.supervisor.revive(f"redis-{EU}")

        for error in errors:
            assert mark not in str(error)
            assert mark.encode() not in error.status.SerializeToString()
        assert world.mentions(US, mark) == []
        assert heard
        for where, text in {
            "command": bytes(heard),
            "log": world.said(US),
            "disk": world.kept(US),
            "metric": await world.pages(US),
        }.items():
            assert mark.encode() not in text, where
        after = await client.submit("echo", {"value": mark}, residency=["eu"])
        task = await client.wait(after.task_id, timeout=30)
        assert (task.state, task.region) == (State.COMPLETED, EU)


def marked() -> dict[str, str]:
    """A text of its own for each part of a task that a caller fills."""
    parts = ("payload", "error", "label", "tenant", "affinity", "key", "request", "result")
    return {part: f"{part}-{uuid.uuid4().hex}" for part in parts}


def fenced_by(marks: dict[str, str], *groups: str) -> TaskOptions:
    """Options of a task that may be in these groups only, with a text in each part."""
    return {
        "labels": {"start": "eu", "note": marks["label"]},
        "tenant": marks["tenant"],
        "affinity_key": marks["affinity"],
        "origin_region": "eu-west",
        "residency": list(groups),
    }


async def test_c50_what_moves_inside_its_fence_is_never_seen_outside(world: Yard) -> None:
    """Failover, redrive and purge of tasks that may be in two regions, ordered in the third."""
    outside, marks = "ap-south", marked()
    said = {"said": marks["error"] + marks["payload"]}
    options = fenced_by(marks, "eu", "us")
    keyed: TaskOptions = {**options, "idempotency_key": marks["key"]}
    named: TaskOptions = {**options, "request_id": marks["request"]}
    async with world.unseen(outside, marks), world.client(outside) as client:
        moved = await client.submit("fail.in", {"regions": ["eu-west"], **said}, **keyed)
        hopeless = await client.submit(
            "fail.in", {"regions": ["eu-west", "us-east"], **said}, **named
        )
        done = await client.submit("echo", {"value": marks["result"]}, **options)
        assert (await client.wait(done.task_id, timeout=30)).result == marks["result"]
        assert (await client.wait(moved.task_id, timeout=30)).result == "us-east"
        by_error = DeadFilter(error_contains=marks["error"])
        task = await world.settled(client, hopeless.task_id)
        assert marks["error"] in str(task.error)
        assert (await client.admin.redrive(by_error))[0] == 1
        task = await world.settled(client, hopeless.task_id)
        assert task.state is State.DEAD_LETTER
        assert {stay.region for stay in task.hops} == {"eu-west", "us-east"}
        page = await client.admin.dead_tasks(by_error)
        assert [each.task_id for each in page.tasks] == [hopeless.task_id]
        for part in ("payload", "error", "label", "tenant", "affinity", "key", "result"):
            assert any(world.mentions(each, marks[part]) for each in ("eu-west", "us-east")), part
        assert (await client.admin.purge(DeadFilter(task_ids=[hopeless.task_id])))[0] == 1
    for receipt in (moved, hopeless, done):
        assert set(world.ledger.regions(receipt.task_id)) <= {"eu-west", "us-east"}


@pytest.mark.long  # an order, what leaves by it, and its end take 10 s
async def test_c50_an_evacuation_takes_nothing_of_a_task_outside_its_fence(world: Yard) -> None:
    """What waits and what is dead, fenced in or not, is ordered out by way of a router outside."""
    here, there, outside = "eu-west", "us-east", "ap-south"
    wide, narrow = marked(), marked()
    free: TaskOptions = {"labels": {"start": "eu"}, "delay": 3600}
    keys: tuple[TaskOptions, TaskOptions] = (
        {"idempotency_key": wide["key"]},
        {"request_id": narrow["request"]},
    )
    fences = (fenced_by(wide, "eu", "us"), fenced_by(narrow, "eu"))
    async with AsyncExitStack() as stays:
        # Of those that may be in one region only the second sees nothing either.
        await stays.enter_async_context(world.unseen(outside, wide))
        await stays.enter_async_context(world.unseen(outside, narrow))
        await stays.enter_async_context(world.unseen(there, narrow))
        client = await stays.enter_async_context(world.client(outside))
        dead: list[str] = []
        waiting: list[str] = []
        for marks, options, key in zip((wide, narrow), fences, keys, strict=True):
            once: TaskOptions = {**options, **key}
            lies = await client.submit("echo", {"unheard.of": marks["result"]}, **once)
            dead.append(lies.task_id)
            later: TaskOptions = {**options, "delay": 3600}
            waits = await client.submit("echo", {"value": marks["payload"]}, **later)
            waiting.append(waits.task_id)
        waiting.append((await client.submit("echo", {"value": 1}, **free)).task_id)
        for task_id in dead:
            task = await world.settled(client, task_id)
            assert (task.state, task.region) == (State.DEAD_LETTER, here)
        for marks in (wide, narrow):
            for part in ("payload", "label", "tenant", "affinity", "result"):
                assert world.mentions(here, marks[part]), part

        await client.admin.set_region_state(here, "DRAINING", force=True)
        try:
            last = [status async for status in client.admin.evacuate(here)][-1]
            assert last.done
            assert last.kept["no other permitted region"] == 2
            places = [(await client.get(task_id)).region for task_id in (*dead, *waiting)]
            assert places[:4] == [there, here, there, here]
            assert places[4] != here
            by_id = DeadFilter(task_ids=dead)
            page = await client.admin.dead_tasks(by_id)
            assert {task.task_id: task.region for task in page.tasks} == {
                dead[0]: there,
                dead[1]: here,
            }
            for part in ("payload", "label", "tenant", "affinity", "result"):
                assert world.mentions(there, wide[part]), part
            assert (await client.admin.purge(by_id))[0] == 2
            for task_id in waiting:
                assert (await client.cancel(task_id)).cancelled
        finally:
            await client.admin.set_region_state(here, "ACTIVE")


# Two regions with a group, one without, and work that waits where nobody serves it moves soon.
RESCUED = """\
version: 1
partitions: 16
regions:
  eu-west: {redis: "redis://127.0.0.1:6401", residency: [eu]}
  eu-north: {redis: "redis://127.0.0.1:6402", residency: [eu]}
  us-east: {redis: "redis://127.0.0.1:6403", residency: [us]}
rules:
  - {name: starts-in-eu, match: {labels: {start: eu}}, prefer: [eu-west]}
health: {interval: 250ms, timeout: 1s}
queues:
  default: {lease: 1s, attempts: 1, failover: {on: [exhausted], max_hops: 2}}
failover: {unserved_after: 1s, rescue_after: 3s}
"""
EU_PAIR = ("eu-west", "eu-north")


@pytest.mark.long  # workers count as gone after 10 s, and first one region's are, then another's
@pytest.mark.timeout(240)
async def test_c50_the_fence_holds_while_its_own_workers_are_gone(
    tmp_path: Path, ledger: Ledger
) -> None:
    marks = marked()
    options = fenced_by(marks, "eu")
    one_slot = ("--concurrency", "1")
    async with (
        yard(tmp_path, RESCUED, APP, ledger.from_here(), *one_slot) as world,
        world.unseen("us-east", marks),
        world.client("eu-west") as client,
        world.client("us-east") as outside,
    ):
        said = {"said": marks["error"]}
        held = await client.submit("sleep", {"seconds": 3600}, pin_region="eu-west")
        await until(lambda: world.ledger.count("start")[held.task_id] == 1, "eu-west is busy")
        waiting = [
            *[await client.submit("echo", {"value": marks["result"]}, **options) for _ in range(5)],
            await client.submit("fail.in", {"regions": ["eu-north"], **said}, **options),
            await outside.submit("echo", {"value": marks["payload"]}, **options),
        ]
        assert {receipt.region for receipt in waiting} == {"eu-west"}

        for region in EU_PAIR:
            world.supervisor.disable_restart(f"worker-{region}")
        world.supervisor.kill("worker-eu-west")
        for receipt in waiting:
            task = await world.settled(outside, receipt.task_id)
            assert [stay.region for stay in task.hops] == ["eu-west", "eu-north"]
            assert task.state in {State.COMPLETED, State.DEAD_LETTER}

        world.supervisor.kill("worker-eu-north")
        keyed: TaskOptions = {**options, "idempotency_key": marks["key"]}
        stuck = [
            await client.submit("echo", {"value": marks["payload"]}, **keyed),
            await outside.submit("echo", {"value": marks["payload"]}, **options),
        ]
        free = await client.submit("sleep", labels={"start": "eu"})
        assert (await client.wait(free.task_id, timeout=90)).region == "us-east"
        for receipt in stuck:
            assert (await outside.get(receipt.task_id)).state is State.PENDING
        assert (await outside.admin.redrive(DeadFilter(error_contains=marks["error"])))[0] == 1

        for region in EU_PAIR:
            await cut_redis(world, region)
        with pytest.raises(NOWHERE):
            await outside.submit("echo", {"value": marks["payload"]}, deadline=5, **options)
        for region in EU_PAIR:
            await world.supervisor.revive(f"redis-{region}")
            await world.supervisor.revive(f"worker-{region}")
        for receipt in stuck:
            assert (await world.settled(outside, receipt.task_id)).region in EU_PAIR
        await client.cancel(held.task_id)
    ran = {line.region for each in (*waiting, *stuck) for line in world.ledger.lines(each.task_id)}
    assert ran <= set(EU_PAIR)


@pytest.mark.parametrize("group", ["EU", "eu ", " eu", "", "mars", "eu,us", "*"])
async def test_c50e_a_residency_that_there_is_not_is_never_no_restriction(
    world: Yard, group: str
) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    for region in world.regions:
        async with bare(world, region) as router:
            for wish in ([group], ["eu", group], [group, "eu"]):
                error = await router.refusal(residency=wish, affinity_key=mark)
                assert error.code is grpc.StatusCode.INVALID_ARGUMENT
                assert fields_of(error) == ["residency"]
                assert "known: apac, eu, us" in str(error)
    for region in world.regions:
        assert world.mentions(region, mark) == []
