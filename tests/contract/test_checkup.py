"""What doctor gathers where nodes are slow, or silent in the middle of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import hiredis
import pytest

from tests.conftest import Kind, fleet_at
from tradewind.clock import SystemClock
from tradewind.doctor import RegionFacts
from tradewind.local.freeports import free_ports
from tradewind.local.scratch import RedisProcess, cluster_nodes
from tradewind.store import checkup

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def looked(kind: Kind, *ports: int) -> RegionFacts:
    fleet = fleet_at(kind, ports)
    return await checkup.check_up(fleet.regions["eu-west"], fleet, SystemClock())


@asynccontextmanager
async def served(handler: Handler) -> AsyncGenerator[int]:
    async with await asyncio.start_server(handler, "127.0.0.1") as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_node_that_falls_silent_in_the_middle_does_not_answer(
    redis_server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "ASK_TIMEOUT_S", 0.5)

    async def until_its_tasks_are_asked_for(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answers, asks = await asyncio.open_connection("127.0.0.1", redis_server.port)

        async def back() -> None:
            while said := await answers.read(65_536):
                writer.write(said)

        task = asyncio.create_task(back())
        while asked := await reader.read(65_536):
            if b"HGETALL" not in asked:
                asks.write(asked)
        task.cancel()
        asks.close()
        writer.close()

    async with served(until_its_tasks_are_asked_for) as port:
        facts = await looked("standalone", port)
    assert not facts.is_reachable
    assert [node.cause for node in facts.silent] == ["no answer in time"]


async def test_what_is_no_redis_is_told_so() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with served(web) as port:
        facts = await looked("standalone", port)
    assert [node.cause for node in facts.silent] == ["what answers there is no Redis"]


async def test_the_nodes_of_a_cluster_are_asked_for_its_map_side_by_side() -> None:
    """So that many that are silent take no longer than one: here the first waits for the second."""
    other_is_asked = asyncio.Event()

    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await other_is_asked.wait()
        commands = hiredis.Reader()
        while said := await reader.read(65_536):
            commands.feed(said)
            while command := commands.gets():
                writer.write(b"*0\r\n" if command[0] == b"CLUSTER" else b"+OK\r\n")
        writer.close()

    async def second(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_is_asked.set()
        writer.close()

    async with served(first) as one, served(second) as other:
        facts = await looked("cluster", one, other)
    assert facts.silent == (), "the first has answered, with an empty map"


async def test_a_seed_of_another_cluster_is_told_apart_though_the_first_one_is_silent(
    tmp_path: Path,
) -> None:
    with cluster_nodes(tmp_path / "a", 1) as (ours,), cluster_nodes(tmp_path / "b", 1) as (other,):
        facts = await looked("cluster", *free_ports(1), ours.port, other.port)
    assert facts.strangers == (f"127.0.0.1:{other.port}",)
    assert [node.address for node in facts.nodes] == [f"127.0.0.1:{ours.port}"]


async def test_a_slow_node_is_pinged_less_often(
    redis_server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "PINGS_S", 0.0)
    (node,) = (await looked("standalone", redis_server.port)).nodes
    assert len(node.pings_ms) == 1
