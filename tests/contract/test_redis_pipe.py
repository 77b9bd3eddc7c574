"""The connection under a Link, against servers that say what a Redis might."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest
from redis import exceptions as redis_errors
from redis.asyncio.connection import Connection

from tradewind.store.link import pack
from tradewind.store.pipe import Pipe, Solo

PING = pack(("PING",))


class Ends:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard = asyncio.Queue[Any]()
        self.error: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def replied(self, reply: Any) -> None:
        self.heard.put_nowait(reply)

    def lost(self, error: BaseException) -> None:
        self.error.set_result(error)


class Server:
    """Greets as redis-py expects; after that the test speaks."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end = asyncio.Event()
        self.writer: asyncio.StreamWriter | None = None
        self.may_read = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        greeting = hiredis.Reader()
        for _ in range(2):  # CLIENT SETINFO, of its name and of its version
            while not greeting.gets():
                greeting.feed(await reader.read(1_024))
            writer.write(b"+OK\r\n")
        await self.may_read.wait()
        while data := await reader.read(65_536):
            self.data += data
            if data.endswith(b"end"):
                self.end.set()

    def say(self, data: bytes) -> None:
        assert self.writer is not None
        self.writer.write(data)


@asynccontextmanager
async def opened() -> AsyncGenerator[tuple[Server, Connection]]:
    served = Server()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    connection = Connection(host="127.0.0.1", port=server.sockets[0].getsockname()[1], protocol=2)
    async with server:
        await connection.connect()
        try:
            yield served, connection
        finally:
            await connection.disconnect(nowait=True)
            served.may_read.set()
            if served.writer is not None:
                served.writer.close()


async def test_replies_come_one_by_one_however_their_bytes_come() -> None:
    async with opened() as (server, connection):
        ends = Ends()
        _ = Pipe(connection, ends)

        server.say(b"+one\r\n:2\r\n*2\r\n$5\r\nth")
        assert [await ends.heard.get(), await ends.heard.get()] == [b"one", 2]
        server.say(b"ree\r\n$-1\r\n")

        assert await ends.heard.get() == [b"three", None]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"-NOSCRIPT no\r\n", redis_errors.NoScriptError),
        (b"-MOVED 7 127.0.0.1:1\r\n", redis_errors.MovedError),
        (b"-LOADING soon\r\n", redis_errors.BusyLoadingError),
        (b"-ERR what\r\n", redis_errors.ResponseError),
    ],
)
async def test_an_error_is_a_reply(text: bytes, kind: type[Exception]) -> None:
    async with opened() as (server, connection):
        ends = Ends()
        _ = Pipe(connection, ends)

        server.say(text + b"+next\r\n")

        assert isinstance(await ends.heard.get(), kind)
        assert await ends.heard.get() == b"next"


@pytest.mark.parametrize("text", [b"-ERR max number of clients reached\r\n", b"?\r\n"])
async def test_what_means_that_no_reply_will_come_is_a_loss(text: bytes) -> None:
    async with opened() as (server, connection):
        ends = Ends()
        _ = Pipe(connection, ends)

        server.say(text)

        assert isinstance(await ends.error, redis_errors.RedisError)
        assert ends.heard.empty()


async def test_a_server_that_goes_is_a_loss_and_is_told_to_nobody_who_has_left() -> None:
    async with opened() as (server, connection):
        ends = Ends()
        pipe = Pipe(connection, ends)
        assert server.writer is not None
        server.writer.close()
        assert isinstance(await ends.error, OSError)

    async with opened() as (server, connection):
        ends = Ends()
        pipe = Pipe(connection, ends)
        pipe.leave()
        server.say(b"+late\r\n")
        assert server.writer is not None
        server.writer.close()
        await server.writer.wait_closed()
        await asyncio.sleep(0)
        assert ends.heard.empty()
        assert not ends.error.done()


async def test_what_a_slow_server_does_not_take_yet_is_kept_and_comes_in_order() -> None:
    async with opened() as (server, connection):
        ends = Ends()
        pipe = Pipe(connection, ends)
        whole = [bytes([byte]) * 1_000_000 for byte in range(16)]

        for part in whole:
            pipe.write([part])
        server.may_read.set()
        pipe.write([b"end"])

        await server.end.wait()

        assert server.data == b"".join([*whole, b"end"])


async def test_whoever_stops_waiting_for_a_reply_leaves_it_to_the_next() -> None:
    async with opened() as (server, connection):
        solo = Solo(connection)
        solo.ask(PING)
        waiting = asyncio.create_task(solo.reply())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        server.say(b"+PONG\r\n+and more\r\n")

        assert [await solo.reply(), await solo.reply()] == [b"PONG", b"and more"]
