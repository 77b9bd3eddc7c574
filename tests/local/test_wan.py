import asyncio
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.patience import until
from tests.local.echoing import Handler, cut_off, echo, echoes
from tradewind.local import wan
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.wan import (
    QUEUE_LIMIT_BYTES,
    Link,
    WanProxy,
    dump,
    parse,
    stop_listening,
)

# As embedded fleets start it: it needs nothing of ours but its file.
BY_PATH = (sys.executable, "-I", "-S", wan.__file__)
BIG_BYTES = 5 * 1024 * 1024


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
        await stop_listening(target)


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


async def test_the_process_reads_its_file_again_when_told(tmp_path: Path) -> None:
    target = await asyncio.start_server(echo, LOOPBACK, 0)
    link = Link(free_ports(1)[0], LOOPBACK, target.sockets[0].getsockname()[1], 0)
    spec, log = tmp_path / "wan.json", tmp_path / "log"
    spec.write_text(dump([link]))
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(*BY_PATH, str(spec)),
            stderr=file,
        )

    async def answers() -> bool:
        assert process.returncode is None
        try:
            return await echoes(link) == b"ping"
        except OSError:  # refused, or reset as the port is closed
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
    await stop_listening(target)


async def test_the_process_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    target = await asyncio.start_server(echo, LOOPBACK, 0)
    port = free_ports(1)[0]
    spec = tmp_path / "wan.json"
    spec.write_text(dump([Link(port, LOOPBACK, target.sockets[0].getsockname()[1], 10)]))
    process = await asyncio.create_subprocess_exec(
        *(*BY_PATH, str(spec)),
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
    await cut_off(reader)
    writer.close()
    await stop_listening(target)


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
    "fewer than no answers": f'{{"links": [{{{LINK}, "loses": -0.1}}]}}',
    "a time before now": f'{{"links": [{{{LINK}, "jitter_ms": -1}}]}}',
}


@pytest.mark.parametrize("text", BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_bad_spec_is_wrong_usage(text: str, tmp_path: Path) -> None:
    spec = tmp_path / "wan.json"
    spec.write_text(text)
    ended = run(str(spec))
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_links_read_back_as_written() -> None:
    links = [
        Link(1, LOOPBACK, 2, 44.5),
        Link(3, LOOPBACK, 4, 0, "silent-back", breaks=0.3, jitter_ms=2, loses=0.1, forgets=True),
    ]
    assert parse(dump(links)) == links
