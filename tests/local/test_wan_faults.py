"""Links that are jittery, silent, cut off, or lose what passes."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tests.local.echoing import changeable, cut_off, echoes
from tradewind.local.freeports import LOOPBACK
from tradewind.local.wan import LOST_FOR_S, Link, Reach, WanProxy


async def test_a_link_gets_farther_for_those_who_are_connected_too() -> None:
    loop = asyncio.get_running_loop()
    async with changeable() as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        await proxy.change([replace(link, delay_ms=50)])
        asked_at = loop.time()
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        assert loop.time() - asked_at >= 0.1
        writer.close()


async def test_of_a_silent_link_all_arrives_late_and_in_order() -> None:
    async with changeable() as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        await proxy.change([replace(link, reach="silent")])
        writer.write(b"mean")
        newcomer = asyncio.create_task(echoes(link))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        writer.write(b"while")
        assert not newcomer.done()
        await proxy.change([link])
        assert await reader.readexactly(9) == b"meanwhile"
        assert await newcomer == b"ping"
        writer.close()


async def test_a_link_that_refuses_cuts_off_and_takes_nobody_until_it_is_well() -> None:
    async with changeable() as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        await proxy.change([replace(link, reach="refuses")])
        await cut_off(reader)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await echoes(link)
        await proxy.change([link])
        assert await echoes(link) == b"ping"


async def test_whoever_connects_as_a_link_is_cut_off_is_not_left_waiting() -> None:
    async with changeable() as (proxy, link):

        async def ask() -> bytes:
            try:
                return await echoes(link)
            except OSError:
                return b""

        for turns in range(6):  # as it connects, is accepted, is served, ...
            asking = [asyncio.create_task(ask()) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            await proxy.change([replace(link, reach="refuses")])
            answers = await asyncio.wait_for(asyncio.gather(*asking), 10)
            assert set(answers) == {b""}
            await proxy.change([link])


async def test_a_link_breaks_as_often_as_it_says() -> None:
    async with changeable() as (proxy, link):
        # It may break as it is made, with the request and with the answer.
        await proxy.change([replace(link, breaks=1.0)])
        assert await echoes(link) == b""
        await proxy.change([replace(link, breaks=0.2)])
        answers = [await echoes(link) for _ in range(300)]
        # Half of 300 on average; by chance alone one run in 10**6 is so far off.
        assert 105 < answers.count(b"ping") < 205


async def test_chunks_that_take_more_or_less_time_never_overtake_one_another() -> None:
    sent = b"".join(number.to_bytes(2) for number in range(500))
    async with changeable() as (proxy, link):
        await proxy.change([replace(link, jitter_ms=20)])
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        for begin in range(0, len(sent), 2):
            writer.write(sent[begin : begin + 2])
            await asyncio.sleep(0)  # one chunk each
        assert await reader.readexactly(len(sent)) == sent
        writer.close()


@contextlib.asynccontextmanager
async def listened_to(
    heard: "asyncio.Queue[bytes]",
) -> AsyncGenerator[tuple[WanProxy, Link]]:
    """As `changeable`, and what arrives there is told."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionResetError):
            while chunk := await reader.read(65_536):
                heard.put_nowait(chunk)
                writer.write(chunk)
        writer.close()

    async with changeable(listen) as (proxy, link):
        yield proxy, link


async def nothing_comes(reader: asyncio.StreamReader) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.1)


@pytest.mark.parametrize("reach", ["silent", "silent-there"])
async def test_what_was_sent_into_a_silence_arrives_though_its_sender_gave_up(reach: Reach) -> None:
    heard = asyncio.Queue[bytes]()
    async with listened_to(heard) as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == await heard.get() == b"ping"
        await proxy.change([replace(link, reach=reach)])
        writer.write(b"late")
        await nothing_comes(reader)
        writer.close()
        assert heard.empty()
        await proxy.change([link])
        assert await heard.get() == b"late"


async def test_where_only_the_way_back_is_silent_requests_are_carried_out() -> None:
    heard = asyncio.Queue[bytes]()
    async with listened_to(heard) as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == await heard.get() == b"ping"
        await proxy.change([replace(link, reach="silent-back")])
        newcomer = asyncio.create_task(echoes(link))
        writer.write(b"done")
        assert await heard.get() == b"done"
        await nothing_comes(reader)
        assert heard.empty(), "a connection is made by both ways"
        await proxy.change([link])
        assert await reader.readexactly(4) == b"done"
        assert await newcomer == b"ping"
        writer.close()


async def test_where_only_the_way_there_is_silent_answers_come() -> None:
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        await asked.wait()
        writer.write(b"pong")
        await reader.read(-1)
        writer.close()

    async with changeable(answer) as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        await nothing_comes(reader)
        await proxy.change([replace(link, reach="silent-there")])
        asked.set()
        assert await reader.readexactly(4) == b"pong"
        writer.close()
        await proxy.change([link])


async def test_connections_of_a_forgotten_time_stay_silent_and_new_ones_do_not() -> None:
    async with changeable() as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        await proxy.change([replace(link, reach="silent", forgets=True)])
        writer.write(b"lost")
        meanwhile = asyncio.create_task(echoes(link))
        await nothing_comes(reader)
        await proxy.change([link])
        assert await echoes(link) == b"ping"
        writer.write(b"more")
        await nothing_comes(reader)
        assert not meanwhile.done()
        writer.close()
        await proxy.stop()
        assert await meanwhile == b""


async def test_a_link_that_resets_tells_everybody_at_once_and_takes_nobody() -> None:
    async with changeable() as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        await proxy.change([replace(link, reach="resets")])
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        for _ in range(3):
            assert await echoes(link) == b""
        await proxy.change([link])
        assert await echoes(link) == b"ping"


async def test_behind_a_lost_answer_requests_are_carried_out_until_the_connection_breaks() -> None:
    heard = asyncio.Queue[bytes]()
    loop = asyncio.get_running_loop()
    async with listened_to(heard) as (proxy, link):
        reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
        writer.write(b"ping")
        assert await reader.readexactly(4) == await heard.get() == b"ping"
        await proxy.change([replace(link, loses=1.0)])
        asked_at = loop.time()
        writer.write(b"one.")
        assert await heard.get() == b"one."
        writer.write(b"two.")
        assert await heard.get() == b"two."
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        assert loop.time() - asked_at >= LOST_FOR_S
        writer.close()
        await proxy.change([link])
        assert await echoes(link) == b"ping"


async def test_a_link_leads_where_it_led_before() -> None:
    async with changeable() as (proxy, link):
        for other in (replace(link, target_port=1), replace(link, listen_port=1)):
            with pytest.raises(ValueError, match="start anew"):
                await proxy.change([other])
        assert await echoes(link) == b"ping"
