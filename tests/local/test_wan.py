import asyncio
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.patience import until
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.wan import QUEUE_LIMIT_BYTES, Link, WanProxy, dump, parse

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

BIG_BYTES = 5 * 1024 * 1024


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def linked(handler: Handler = echo, delay_ms: float = 20) -> AsyncGenerator[int, None]:
    target = await asyncio.start_server(handler, LOOPBACK, 0)
    target_port = target.sockets[0].getsockname()[1]
    port = free_ports(1)[0]
    proxy = WanProxy([Link(port, LOOPBACK, target_port, delay_ms)])
    await proxy.start()
    try:
        yield port
    finally:
        await proxy.stop()
        target.close()


async def cut_off(reader: asyncio.StreamReader) -> None:
    # Reset or closed: either way no connection is left hanging.
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read(1) == b""


async def test_a_round_trip_takes_at_least_both_ways() -> None:
    loop = asyncio.get_running_loop()
    async with linked(delay_ms=20) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        for _ in range(3):
            asked_at = loop.time()
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            assert loop.time() - asked_at >= 0.040
        writer.close()


async def test_many_bytes_arrive_whole_and_in_order_and_the_end_is_passed_on() -> None:
    sent = random.Random(7).randbytes(BIG_BYTES)
    async with linked(delay_ms=5) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)

        async def send() -> None:
            writer.write(sent)
            await writer.drain()
            # A half close: the echo must still come back.
            writer.write_eof()

        _, received = await asyncio.gather(send(), reader.read(-1))
        writer.close()
    assert hashlib.sha256(received).digest() == hashlib.sha256(sent).digest()


async def test_chunks_wait_side_by_side() -> None:
    # About 1 s; one after the other it would be 40 s. Fewer chunks on a slow machine only help.
    chunks, delay_ms = 200, 200
    loop = asyncio.get_running_loop()
    async with linked(delay_ms=delay_ms) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        began_at = loop.time()
        for _ in range(chunks):
            writer.write(b"x" * 100)
            await writer.drain()
            await asyncio.sleep(0.001)
        await reader.readexactly(100 * chunks)
        assert loop.time() - began_at < chunks * delay_ms / 1000 / 2
        writer.close()


async def test_a_target_that_does_not_read_holds_the_sender_back() -> None:
    release = asyncio.Event()
    counted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def lazy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        counted.set_result(len(await reader.read(-1)))
        writer.close()

    # More than the proxy and the socket buffers of both hops (at most 6 MB each way) hold.
    total = QUEUE_LIMIT_BYTES + 40 * 1024 * 1024
    async with linked(lazy, delay_ms=1) as port:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(bytes(total))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.5)
        release.set()
        await writer.drain()
        writer.write_eof()
        assert await counted == total
        writer.close()


async def test_a_target_that_refuses_cuts_the_connection() -> None:
    port, nobody = free_ports(2)
    proxy = WanProxy([Link(port, LOOPBACK, nobody, 1)])
    await proxy.start()
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    await cut_off(reader)
    writer.close()
    await proxy.stop()


async def test_a_target_that_breaks_off_cuts_the_connection() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with linked(rude, delay_ms=1) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"x")
        await cut_off(reader)
        writer.close()


@contextlib.asynccontextmanager
async def changeable() -> AsyncGenerator[tuple[WanProxy, Link]]:
    target = await asyncio.start_server(echo, LOOPBACK, 0)
    link = Link(free_ports(1)[0], LOOPBACK, target.sockets[0].getsockname()[1], 0)
    proxy = WanProxy([link])
    await proxy.start()
    try:
        yield proxy, link
    finally:
        await proxy.stop()
        target.close()


async def echoes(link: Link) -> bytes:
    """What comes back through a connection of its own; nothing if it breaks."""
    reader, writer = await asyncio.open_connection(LOOPBACK, link.listen_port)
    try:
        writer.write(b"ping")
        return await reader.read(4)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


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


async def test_a_link_breaks_as_often_as_it_says() -> None:
    async with changeable() as (proxy, link):
        # It may break as it is made, with the request and with the answer.
        await proxy.change([replace(link, breaks=1.0)])
        assert await echoes(link) == b""
        await proxy.change([replace(link, breaks=0.2)])
        answers = [await echoes(link) for _ in range(300)]
        # Half of 300 on average; by chance alone one run in 10**6 is so far off.
        assert 105 < answers.count(b"ping") < 205


async def test_a_link_leads_where_it_led_before() -> None:
    async with changeable() as (proxy, link):
        for other in (replace(link, target_port=1), replace(link, listen_port=1)):
            with pytest.raises(ValueError, match="start anew"):
                await proxy.change([other])
        assert await echoes(link) == b"ping"


async def test_the_process_reads_its_file_again_when_told(tmp_path: Path) -> None:
    target = await asyncio.start_server(echo, LOOPBACK, 0)
    link = Link(free_ports(1)[0], LOOPBACK, target.sockets[0].getsockname()[1], 0)
    spec, log = tmp_path / "wan.json", tmp_path / "log"
    spec.write_text(dump([link]))
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tradewind.local.wan", str(spec)),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=file,
        )

    async def answers() -> bool:
        assert process.returncode is None
        try:
            return await echoes(link) == b"ping"
        except ConnectionRefusedError:
            return False

    async def refuses() -> bool:
        return not await answers()

    await until(answers, "the proxy listens")
    spec.write_text(dump([replace(link, reach="refuses")]))
    process.send_signal(signal.SIGHUP)
    await until(refuses, "the link refuses")
    spec.write_text("links")
    process.send_signal(signal.SIGHUP)
    await until(lambda: "the links stay as they are" in log.read_text(), "the file is refused")
    spec.write_text(dump([link]))
    process.send_signal(signal.SIGHUP)
    await until(answers, "the link is well again")
    process.terminate()
    assert await process.wait() == 0
    target.close()


async def test_the_process_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    target = await asyncio.start_server(echo, LOOPBACK, 0)
    port = free_ports(1)[0]
    spec = tmp_path / "wan.json"
    spec.write_text(dump([Link(port, LOOPBACK, target.sockets[0].getsockname()[1], 10)]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tradewind.local.wan", str(spec)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=asyncio.subprocess.PIPE,
    )
    while True:
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            break
        except ConnectionRefusedError:
            assert process.returncode is None
            await asyncio.sleep(0.02)
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    process.terminate()
    _, complaints = await process.communicate()
    assert (process.returncode, complaints) == (0, b"")
    assert await reader.read(1) == b""
    writer.close()
    target.close()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tradewind.local.wan", *args]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(argv, check=False, capture_output=True, text=True, env=env, timeout=15)


async def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    async with linked() as port:
        spec = tmp_path / "wan.json"
        spec.write_text(dump([Link(port, LOOPBACK, 1, 0)]))
        ended = await asyncio.to_thread(run, str(spec))
    assert ended.returncode == 1
    assert ended.stderr.startswith("cannot listen: ")
    assert str(port) in ended.stderr
    assert "Traceback" not in ended.stderr


LINK = '"listen_port": 1, "target_host": "h", "target_port": 1, "delay_ms": 0'
BAD_SPECS = {
    "no JSON": "links",
    "no links": "{}",
    "an unknown field": '{"links": [{"x": 1}]}',
    "a reach that there is not": f'{{"links": [{{{LINK}, "reach": "far"}}]}}',
    "more than all chunks": f'{{"links": [{{{LINK}, "breaks": 1.5}}]}}',
}


@pytest.mark.parametrize("text", BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_bad_spec_is_wrong_usage(text: str, tmp_path: Path) -> None:
    spec = tmp_path / "wan.json"
    spec.write_text(text)
    ended = run(str(spec))
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_links_read_back_as_written() -> None:
    links = [Link(1, LOOPBACK, 2, 44.5), Link(3, LOOPBACK, 4, 0, "silent", 0.3)]
    assert parse(dump(links)) == links
