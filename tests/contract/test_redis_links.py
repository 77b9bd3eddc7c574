"""The connection to a node itself: silence on it, too much on it, and trying again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio.connection import Connection

from tests.harness.links import Way, way_to
from tests.harness.patience import until
from tests.redis_keys import connected
from tradewind.errors import StoreUnavailable
from tradewind.local.freeports import free_ports
from tradewind.local.scratch import RedisProcess
from tradewind.store import link as link_module
from tradewind.store.link import Link, Reply

SOON_S = 20.0
PING = [["PING"]]


class Dialler:
    """Makes connections to a port, and counts them."""

    def __init__(self, port: int) -> None:
        self.port, self.made = port, 0

    def __call__(self) -> Connection:
        self.made += 1
        return Connection(port=self.port, socket_timeout=None, protocol=2)


@asynccontextmanager
async def linked(dial: Dialler) -> AsyncGenerator[Link]:
    link = Link("eu-west", dial)
    try:
        yield link
    finally:
        await link.close()


async def is_refused(link: Link, *, eager: bool = False) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        await link.call(PING, timeout_s=SOON_S, eager=eager)
    assert not caught.value.sent
    return caught.value.cause


async def test_a_link_that_nobody_uses_finds_out_that_it_is_half_open(
    own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PING_AFTER_S", "SILENCE_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(link_module, name, 0.1)
    lost = asyncio.Event()
    async with way_to(own_redis.port) as way, linked(Dialler(way.port)) as link:
        link.on_loss = lost.set
        assert await link.call(PING, timeout_s=SOON_S) == [b"PONG"]
        await way.become(reach="silent", forgets=True)
        async with asyncio.timeout(SOON_S):
            await lost.wait()
        assert not link.is_ready
        await way.become()
        await answers(link, way)


async def answers(link: Link, way: Way) -> None:
    async def is_well() -> bool:
        try:
            return await link.call(PING, timeout_s=1, eager=True) == [b"PONG"]
        except StoreUnavailable:
            return False

    await until(is_well, f"the link by way of {way.port} is made anew")


async def test_a_link_that_nobody_uses_stays_open(
    own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PING_AFTER_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(link_module, name, 0.01)
    dial = Dialler(own_redis.port)
    async with linked(dial) as link:
        await link.call(PING, timeout_s=SOON_S)
        raw = connected(own_redis.port)
        await until(lambda: pings(raw.info("commandstats")) >= 3, "it has asked for signs of life")
        assert await link.call(PING, timeout_s=SOON_S) == [b"PONG"]
    assert dial.made == 1


def pings(stats: dict[str, dict[str, int]]) -> int:
    return stats.get("cmdstat_ping", {"calls": 0})["calls"]


async def test_silence_is_borne_as_long_as_a_call_may_take(own_redis: RedisProcess) -> None:
    """BUSY is answered after 5 s: a script that runs as long must not cost the connection."""
    (busy_after_ms,) = connected(own_redis.port).config_get("busy-reply-threshold").values()
    assert int(busy_after_ms) / 1_000 < link_module.SILENCE_S


def test_a_dead_peer_is_found_within_ten_seconds() -> None:
    looks = 2 * link_module.LOOK_EVERY_S  # one that came too early, for each of the two
    assert link_module.PING_AFTER_S + link_module.SILENCE_S + looks <= 10


async def test_callers_wait_in_turn_while_too_much_is_unanswered(
    own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "UNANSWERED_BYTES", 5_000)
    raw, done = connected(own_redis.port), list[int]()
    async with linked(Dialler(own_redis.port)) as link:
        await link.call(PING, timeout_s=SOON_S)
        before = received(raw)
        raw.client_pause(60_000, all=False)
        calls = [asyncio.create_task(append(link, number, done)) for number in range(20)]
        await until(lambda: raw.info("clients")["blocked_clients"] > 0, "the first arrive")
        assert received(raw) - before < 5_000
        with pytest.raises(StoreUnavailable) as caught:
            await link.call([["SET", "late", "x"]], timeout_s=0.05)
        assert not caught.value.sent, "it has not had its turn"
        assert not any(call.done() for call in calls)
        raw.execute_command("CLIENT", "UNPAUSE")
        await asyncio.gather(*calls)
        assert done == sorted(done), "first come, first served"
        assert (raw.llen("list"), raw.exists("late")) == (20, 0)


async def append(link: Link, number: int, done: list[int]) -> list[Reply]:
    answer = await link.call([["RPUSH", "list", f"{number:01000}"]], timeout_s=SOON_S)
    done.append(number)
    return answer


def received(raw: Any) -> int:
    """Bytes that wait for execution at the server, of all its clients."""
    return sum(int(each["qbuf"]) + int(each["argv-mem"]) for each in raw.client_list())


async def test_a_call_larger_than_all_that_may_be_unanswered_goes_alone(
    own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "UNANSWERED_BYTES", 100)
    async with linked(Dialler(own_redis.port)) as link:
        large: list[list[str]] = [["SET", "large", "x" * 1_000]]
        both = (link.call(large, timeout_s=SOON_S), link.call(large, timeout_s=SOON_S))
        assert await asyncio.gather(*both) == [[b"OK"], [b"OK"]]


async def test_callers_who_wait_for_room_are_told_when_the_connection_is_lost(
    own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "UNANSWERED_BYTES", 1)
    raw = connected(own_redis.port)
    async with linked(Dialler(own_redis.port)) as link:
        await link.call(PING, timeout_s=SOON_S)
        raw.client_pause(60_000, all=False)
        put = [["SET", "key", "x"]]
        first, second = (asyncio.create_task(link.call(put, timeout_s=SOON_S)) for _ in "ab")
        await until(lambda: raw.info("clients")["blocked_clients"] > 0, "the first arrives")
        raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        answers = await asyncio.gather(first, second, return_exceptions=True)
        raw.execute_command("CLIENT", "UNPAUSE")
    assert [getattr(answer, "sent", None) for answer in answers] == [True, False]


async def test_a_node_that_refuses_is_not_tried_at_every_call_except_by_the_eager() -> None:
    dial = Dialler(free_ports(1)[0])
    async with linked(dial) as link:
        causes = {await is_refused(link) for _ in range(5)}
        assert (causes, dial.made) == ({"connection refused"}, 1)
        for tries in (2, 3):
            assert await is_refused(link, eager=True) == "connection refused"
            assert dial.made == tries


async def test_tries_go_on_for_ever_at_most_20_seconds_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(link_module, "time", SimpleNamespace(monotonic=lambda: now_s))
    dial, waits = Dialler(free_ports(1)[0]), list[float]()
    async with linked(dial) as link:
        for tries in range(1, 15):
            began_s = now_s
            while dial.made < tries:
                await is_refused(link)
                now_s += 0.05 if dial.made < tries else 0
            waits.append(now_s - began_s)
    assert waits[0] == 0
    for number, wait_s in enumerate(waits[1:]):
        longest_s = min(20.0, 0.1 * 2**number)
        assert longest_s / 2 - 0.05 <= wait_s <= longest_s + 0.1
    assert min(waits[-5:]) < 19.0, "less by chance"
