"""What a queue's durability does to its submits: waited for, said so if in vain, and routed by."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router import fitness
from tests.conftest import fleet_on
from tests.redis_keys import connected
from tests.rpc.running import Running, answered, running, spec
from tradewind.errors import NoRegionReachable
from tradewind.fleet import Fleet, Health, QueuePolicy
from tradewind.limits import SECOND_MS
from tradewind.local.redis_server import find_server
from tradewind.local.scratch import RedisProcess, redis_process
from tradewind.metrics import REGION_DURABILITY, TASKS_UNCONFIRMED
from tradewind.store import seals
from tradewind.v1 import router_pb2

#: `waits` counts WAITAOF: without it the answer itself comes after the write to disk.
has_waitaof = pytest.mark.skipif(find_server().version < (7, 2), reason="WAITAOF came with 7.2")
SAFE: dict[str, Any] = {"queue": "safe"}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[RedisProcess]]:
    """One writes its log to disk before it answers, and one leaves that to the system."""
    with (
        redis_process(tmp_path / "a", ["--appendfsync", "always"]) as a,
        redis_process(tmp_path / "b", ["--appendfsync", "no"]) as b,
    ):
        yield [a, b]


@pytest.fixture
def fleet(servers: list[RedisProcess]) -> Fleet:
    queues = {"safe": QueuePolicy(durability="fsync"), "copied": QueuePolicy(durability="replica")}
    health = Health(interval_ms=100)
    return replace(fleet_on(servers), queues=queues, health=health)


@pytest.fixture
async def serving(fleet: Fleet) -> AsyncIterator[Running]:
    async with running(fleet) as router:
        yield router


def waits(server: RedisProcess) -> int:
    stats: Any = connected(server.port).info("commandstats")
    return stats.get("cmdstat_waitaof", {}).get("calls", 0)


def shown(metric: Any) -> float:
    return metric._value.get()


def unconfirmed(region: str, queue: str) -> float:
    return shown(TASKS_UNCONFIRMED.labels(region, queue))


@has_waitaof
async def test_a_submit_is_answered_once_the_disk_has_it_and_others_do_not_wait(
    serving: Running, servers: list[RedisProcess]
) -> None:
    await serving.submit()
    assert waits(servers[0]) == 0, "memory pays nothing"
    receipt = await serving.submit(**SAFE)
    assert (receipt.region, receipt.replication_unconfirmed) == ("eu-west", False)
    assert waits(servers[0]) == 1


@has_waitaof
async def test_a_batch_shares_one_wait(serving: Running, servers: list[RedisProcess]) -> None:
    specs = [spec(**(SAFE if number % 2 else {})) for number in range(100)]
    answer = await answered(serving.router.SubmitTasks(router_pb2.SubmitTasksRequest(specs=specs)))
    accepted = [result.accepted for result in answer.results]
    assert len({each.task_id for each in accepted}) == 100
    assert not any(each.replication_unconfirmed for each in accepted)
    assert waits(servers[0]) == 1


@has_waitaof
async def test_a_stream_waits_too(serving: Running, servers: list[RedisProcess]) -> None:
    async def messages() -> AsyncIterator[router_pb2.SubmitTaskStreamRequest]:
        for number in range(2):
            yield router_pb2.SubmitTaskStreamRequest(sequence=number, specs=[spec(**SAFE)])

    answers = [one async for one in serving.router.SubmitTaskStream(messages())]
    accepted = [result.accepted for one in answers for result in one.results]
    assert [each.replication_unconfirmed for each in accepted] == [False, False]
    assert waits(servers[0]) in {1, 2}


async def test_an_entry_in_a_region_that_cannot_keep_it_so_is_told_of(serving: Running) -> None:
    """The task is safe, and its key may be forgotten: a repeat could make a second one."""
    here, there = [await serving.key_at(home, **SAFE) for home in ("eu-west", "us-east")]
    kept = await serving.submit(idempotency_key=here, **SAFE)
    before = unconfirmed("eu-west", "safe")
    apart = await serving.submit(idempotency_key=there, **SAFE)
    again = await serving.submit(idempotency_key=here, **SAFE)
    assert {kept.region, apart.region, again.region} == {"eu-west"}
    assert [one.replication_unconfirmed for one in (kept, apart, again)] == [False, True, False]
    assert (again.task_id, again.duplicate) == (kept.task_id, True)
    assert unconfirmed("eu-west", "safe") == before + 1


@has_waitaof
async def test_a_count_that_falls_short_is_no_failure(
    serving: Running, servers: list[RedisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "_WAIT_MS", 200)
    await serving.submit(**SAFE)
    connected(servers[0].port).config_set("appendfsync", "no")  # after it was looked at
    receipt = await serving.submit(**SAFE)
    assert receipt.replication_unconfirmed
    assert (await serving.get(receipt.task_id)).region == receipt.region
    batch = router_pb2.SubmitTasksRequest(specs=[spec(**SAFE), spec()])
    answer = await answered(serving.router.SubmitTasks(batch))
    assert [one.accepted.replication_unconfirmed for one in answer.results] == [True, False]


@has_waitaof
async def test_a_caller_in_a_hurry_is_told_in_time(
    serving: Running, servers: list[RedisProcess]
) -> None:
    await serving.submit(**SAFE)
    connected(servers[0].port).config_set("appendfsync", "no")
    receipt = await serving.submit(timeout_s=1.0, **SAFE)
    assert receipt.replication_unconfirmed


async def test_a_region_that_cannot_is_out_for_that_queue_alone(
    fleet: Fleet, servers: list[RedisProcess], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "router.fitness")
    async with running(fleet) as serving:
        reasons = {c.region: c.excluded_by for c in (await serving.explain(**SAFE)).candidates}
        assert reasons == {"eu-west": "", "us-east": "durability"}
        assert all(c.eligible for c in (await serving.explain()).candidates)
        with pytest.raises(NoRegionReachable, match="us-east: durability"):
            await serving.submit(queue="copied")
        with pytest.raises(NoRegionReachable):
            await serving.submit(pin_region="us-east", **SAFE)
        told = {(r.of, r.durability, r.cause) for r in caplog.records}  # type: ignore[attr-defined]
        assert told == {
            ("eu-west", "replica", "no replica is connected"),
            ("us-east", "replica", "no replica is connected"),
            ("us-east", "fsync", "it leaves its log to the operating system (appendfsync no)"),
        }
        assert [shown(REGION_DURABILITY.labels(r, "fsync")) for r in fleet.regions] == [1, 0]


@has_waitaof
async def test_a_region_that_is_run_in_another_way_comes_back(
    fleet: Fleet, servers: list[RedisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitness, "LOOK_S", 0.02)
    async with running(fleet) as serving, asyncio.timeout(10):
        connected(servers[1].port).config_set("appendfsync", "everysec")
        while any(c.excluded_by for c in (await serving.explain(**SAFE)).candidates):  # noqa: ASYNC110 - the router polls, too
            await asyncio.sleep(0.02)


async def test_a_fleet_that_starts_to_ask_is_looked_at_at_once(
    fleet: Fleet, servers: list[RedisProcess]
) -> None:
    plain, safe = replace(fleet, queues={}), {"safe": fleet.queues["safe"]}
    fleet = replace(fleet, queues=safe)
    async with running(plain) as serving, asyncio.timeout(10):
        assert all(c.eligible for c in (await serving.explain(**SAFE)).candidates)
        serving.gateway.follow(fleet)
        await serving.gateway.first_look(5)
        reasons = {c.region: c.excluded_by for c in (await serving.explain(**SAFE)).candidates}
        assert reasons == {"eu-west": "", "us-east": "durability"}
        more = {**fleet.queues, "next": QueuePolicy(durability="replica")}
        serving.gateway.follow(replace(fleet, queues=more))
        await serving.gateway.first_look(5)
        reasons = {
            c.region: c.excluded_by for c in (await serving.explain(queue="next")).candidates
        }
        assert reasons == {"eu-west": "durability", "us-east": "durability"}


def test_a_caller_waits_longer_than_a_wait_takes() -> None:
    from router.durable import CONFIRM_S

    waiting: Any = seals
    assert waiting._WAIT_MS / SECOND_MS + 2 * waiting._APART_S <= CONFIRM_S
