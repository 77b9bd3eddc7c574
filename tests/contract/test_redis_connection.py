"""What becomes of calls when connections, script caches, servers or identities go."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import hiredis
import pytest
from redis.asyncio.connection import Connection

from tests.conftest import fleet_at
from tests.harness.links import way_to
from tests.harness.patience import until
from tests.redis_keys import connected
from tests.scripts.world import (
    DAY_MS,
    a_task,
    claim_batch,
    claimed,
    client_of,
    keys_at,
    outcome,
    record_of,
    stored,
)
from tradewind.errors import (
    IdentityMismatch,
    StoreError,
    StoreUnavailable,
)
from tradewind.fleet import RedisTarget, Region
from tradewind.ids import mint
from tradewind.local.scratch import RedisProcess
from tradewind.state import State
from tradewind.store.link import Link
from tradewind.store.region_store import RegionStore
from tradewind.task import Finish, Stored

SOON_S = 20.0


@pytest.fixture
def store(redis_store: RegionStore) -> RegionStore:
    """On Redis only: no other store has connections and script caches."""
    return redis_store


@pytest.fixture
async def own(own_redis: RedisProcess) -> AsyncIterator[RegionStore]:
    """The store on a server of this test's own."""
    fleet = fleet_at("standalone", [own_redis.port])
    one = RegionStore(fleet.regions["eu-west"], fleet)
    await one.start()
    yield one
    await one.close()


async def back(store: RegionStore) -> None:
    """Returns once the region answers again."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                await store.probe()
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return


def kill_clients(raw: Any) -> None:
    raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def test_calls_under_way_on_a_killed_connection_fail_as_sent_and_the_next_succeed(
    own: RegionStore, own_redis: RedisProcess
) -> None:
    raw = connected(own_redis.port)
    raw.client_pause(60_000, all=False)
    tasks = [a_task() for _ in range(20)]
    calls = [asyncio.create_task(outcome(own, task)) for task in tasks]
    await until(lambda: raw.info("clients")["blocked_clients"] > 0, "the calls arrive")
    kill_clients(raw)
    answers = await asyncio.gather(*calls)
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    assert all(answer.sent for answer in answers if isinstance(answer, StoreUnavailable))
    raw.execute_command("CLIENT", "UNPAUSE")
    await back(own)
    for task in tasks:
        assert isinstance(await outcome(own, task), Stored)


async def test_traffic_through_killed_connections_stores_every_task_once(
    own: RegionStore, own_redis: RedisProcess
) -> None:
    raw = connected(own_redis.port)
    tasks = [a_task() for _ in range(200)]

    async def submit(task: Any) -> None:
        while isinstance(await outcome(own, task), StoreError):
            await back(own)

    async def saboteur() -> None:
        while True:
            kill_clients(raw)
            await asyncio.sleep(0.02)

    sabotage = asyncio.create_task(saboteur())
    try:
        for start in range(0, len(tasks), 20):
            async with asyncio.timeout(SOON_S):
                await asyncio.gather(*map(submit, tasks[start : start + 20]))
    finally:
        sabotage.cancel()
    await back(own)
    assert len((await claim_batch(own, limit=128)).claims) == 128
    assert len((await claim_batch(own, limit=128)).claims) == 72


async def test_a_caller_that_is_cancelled_costs_the_others_nothing(own: RegionStore) -> None:
    calls = [asyncio.create_task(outcome(own, a_task())) for _ in range(30)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, Stored) for answer in answers[1::2])
    assert isinstance(await outcome(own, a_task()), Stored)


async def test_a_killed_server_loses_nothing_that_was_accepted(
    own: RegionStore, own_redis: RedisProcess
) -> None:
    tasks = [await stored(own) for _ in range(5)]
    done, running, *waiting = (await claim_batch(own)).claims
    await own.finish([Finish(done, b"r", "", DAY_MS)])
    own_redis.kill()
    with pytest.raises(StoreUnavailable) as caught:
        await own.read(tasks[0].task_id)
    assert "127.0.0.1" not in str(caught.value)
    own_redis.start()
    await back(own)
    assert (await record_of(own, done.task_id)).result == b"r"
    (renewed,) = await own.renew([running], {"mail": 60_000})
    assert not isinstance(renewed, StoreError)
    assert not renewed.lost
    for claim in waiting:
        assert (await record_of(own, claim.task_id)).state is State.PROCESSING


async def test_a_refused_connection_is_a_definite_refusal(
    own: RegionStore, own_redis: RedisProcess
) -> None:
    own_redis.kill()
    answers = [await outcome(own, a_task()) for _ in range(3)]
    assert isinstance(answers[-1], StoreUnavailable)
    assert not answers[-1].sent


@pytest.mark.parametrize("what", ["enqueue", "probe", "read", "wait"])
async def test_whatever_finds_no_connection_has_the_map_asked_for_anew(
    own: RegionStore, own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Or a replica that has taken over would not be found before the map's own time comes."""
    task = await stored(own)
    nodes, doubts = client_of(own).nodes, list[str]()
    own_redis.kill()
    with pytest.raises(StoreUnavailable):
        await nodes.link_to(nodes.address(0)).call([["PING"]], timeout_s=SOON_S)
    monkeypatch.setattr(nodes, "doubt", lambda: doubts.append(what))
    match what:
        case "enqueue":
            assert isinstance(await outcome(own, a_task()), StoreUnavailable)
        case "read":
            with pytest.raises(StoreUnavailable):
                await own.read(task.task_id)
        case "wait":
            with pytest.raises(StoreUnavailable):
                await own.wait(["mail"], range(16), timeout_s=SOON_S)
        case _:
            with pytest.raises(StoreUnavailable):
                await own.probe()
    assert doubts


async def test_an_emptied_script_cache_goes_unnoticed(store: RegionStore, raw: Any) -> None:
    task = await stored(store)
    raw.script_flush()
    claim = await claimed(store, task)
    raw.script_flush()
    assert await store.finish([Finish(claim, b"", "", DAY_MS)])
    assert (await record_of(store, task.task_id)).state is State.COMPLETED


async def test_tasks_of_several_partitions_are_all_stored_with_an_emptied_script_cache(
    store: RegionStore, raw: Any
) -> None:
    tasks = [a_task(mint(1, 1, place, place)) for place in range(store.partitions)]
    raw.script_flush()

    outcomes, depths = await store.enqueue(tasks, timeout_s=SOON_S)

    assert outcomes == [Stored(task.task_id, State.PENDING, created=True) for task in tasks]
    assert depths.keys() == set(range(store.partitions))


async def test_tasks_of_several_partitions_leave_in_one_write_to_each_node(
    store: RegionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = range(store.partitions)
    await store.enqueue([a_task(mint(1, 1, n, n)) for n in places], timeout_s=SOON_S)
    writes = Counter[Link]()
    call = Link.call

    async def counted(link: Link, commands: Any, *, timeout_s: float) -> Any:
        writes[link] += 1
        return await call(link, commands, timeout_s=timeout_s)

    monkeypatch.setattr(Link, "call", counted)
    await store.enqueue([a_task(mint(2, 1, n, n)) for n in places], timeout_s=SOON_S)

    assert set(writes.values()) == {1}


async def test_a_dead_connection_is_noticed_though_no_caller_waits_for_an_answer(
    own_redis: RedisProcess,
) -> None:
    """As where a firewall has forgotten it: reads and probes give up before a call is over."""
    async with way_to(own_redis.port) as way:
        link = Link("eu-west", lambda: Connection(port=way.port, socket_timeout=None))

        async def answers() -> bool:
            try:
                async with asyncio.timeout(0.05):
                    return await link.call([["PING"]], timeout_s=0.3) == [b"PONG"]
            except (TimeoutError, StoreUnavailable):
                return False

        await until(answers, "the link is connected")
        await way.become(reach="silent", forgets=True)
        await way.become()
        assert not await answers()
        await until(answers, "another connection has been made", patience_s=SOON_S)
        await link.close()


async def test_what_was_answered_before_a_connection_was_lost_counts() -> None:
    async def answer_until_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands = hiredis.Reader()
        while data := await reader.read(4096):
            commands.feed(data)
            while command := commands.gets():
                if command[0] == b"ECHO":
                    writer.close()
                    return
                writer.write(b"+OK\r\n")

    async with await asyncio.start_server(answer_until_echo, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        link = Link("eu", lambda: Connection(host="127.0.0.1", port=port, protocol=2))
        ok, lost = await link.call([["PING"], ["ECHO", "x"]], timeout_s=SOON_S)
        await link.close()

    assert ok == b"OK"
    assert isinstance(lost, StoreUnavailable)
    assert lost.sent


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"deployment": "another"}, "deployment"),
        ({"partitions": 64}, "partitions"),
    ],
)
async def test_a_redis_of_another_fleet_is_refused(
    own_redis: RedisProcess, own: RegionStore, change: dict[str, Any], field: str
) -> None:
    fleet = replace(fleet_at("standalone", [own_redis.port]), **change)
    other = RegionStore(fleet.regions["eu-west"], fleet)
    with pytest.raises(IdentityMismatch) as caught:
        await other.start()
    assert caught.value.field == field
    answer = await outcome(other, a_task())
    assert isinstance(answer, IdentityMismatch)
    await other.close()


async def test_a_redis_of_another_region_is_refused(
    own_redis: RedisProcess, own: RegionStore
) -> None:
    fleet = fleet_at("standalone", [own_redis.port])
    region = replace(fleet.regions["eu-west"], name="us-east")
    other = RegionStore(region, replace(fleet, regions={"us-east": region}))
    with pytest.raises(IdentityMismatch) as caught:
        await other.start()
    assert (caught.value.field, caught.value.found) == ("region", "eu-west")
    await other.close()


@pytest.mark.parametrize("number", [1, 99])
async def test_records_of_a_format_that_this_version_does_not_read_are_refused(
    own_redis: RedisProcess, own: RegionStore, number: int
) -> None:
    connected(own_redis.port).hset(keys_at(9).identity, "format", number)
    fleet = fleet_at("standalone", [own_redis.port])
    other = RegionStore(fleet.regions["eu-west"], fleet)
    with pytest.raises(IdentityMismatch) as caught:
        await other.start()
    assert caught.value.field == "format"
    assert "with the version that stored them" in str(caught.value)
    await other.close()


async def test_a_refused_redis_is_left_as_it_was(own_redis: RedisProcess, own: RegionStore) -> None:
    raw = connected(own_redis.port)
    before = {key: raw.hgetall(key) for key in raw.keys("*:identity")}
    fleet = replace(fleet_at("standalone", [own_redis.port]), deployment="another")
    other = RegionStore(fleet.regions["eu-west"], fleet)
    with pytest.raises(IdentityMismatch):
        await other.start()
    await other.close()
    assert {key: raw.hgetall(key) for key in raw.keys("*")} == before


async def test_a_closed_store_says_so(own: RegionStore) -> None:
    await own.close()
    with pytest.raises(StoreUnavailable) as caught:
        await own.probe()
    assert (caught.value.cause, caught.value.sent) == ("closed", False)
    await own.close()


async def test_a_call_that_gets_no_answer_in_time_fails_as_sent(
    own: RegionStore, own_redis: RedisProcess
) -> None:
    raw = connected(own_redis.port)
    raw.client_pause(60_000, all=False)
    ((answer,), _) = await own.enqueue([a_task()], timeout_s=0.05)
    assert isinstance(answer, StoreUnavailable)
    assert answer.sent
    raw.execute_command("CLIENT", "UNPAUSE")
    await back(own)


async def test_a_login_that_is_refused_is_said_without_its_secret(
    own_redis: RedisProcess,
) -> None:
    target = RedisTarget(
        "standalone", (f"127.0.0.1:{own_redis.port}",), username="tradewind", password="hush"
    )
    fleet = fleet_at("standalone", [own_redis.port])
    one = RegionStore(Region("eu-west", target), fleet)
    with pytest.raises(StoreUnavailable) as caught:
        await one.start()
    assert (caught.value.cause, caught.value.sent) == ("login refused", False)
    assert "hush" not in str(caught.value)
    await one.close()
