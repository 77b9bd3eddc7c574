"""One connection to one Redis node, shared by everybody: calls are pipelined, replies matched.

Concurrent callers cost one write: what is asked within one turn of the event loop leaves
together. redis-py connects, authenticates and speaks TLS; its pools and cluster client stay out,
since they resend commands and wait for pool slots in ways that a queue cannot afford.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import hiredis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreUnavailable
from tradewind.store.scripts import Arg

Reply = object
Command = Sequence[Arg]
Exchange = Callable[[Sequence[Command]], Awaitable[list[Reply]]]
CONNECT_TIMEOUT_S = 3.0
# Reconnecting is tried when somebody calls, at most this often; a region's probe comes every 5 s.
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 2.0


@dataclass(slots=True, eq=False)
class _Asked:
    """Commands that were sent together, and what has been answered so far."""

    count: int
    answer: "asyncio.Future[list[Reply]]"
    replies: list[Reply] = field(default_factory=list[Reply])

    def fail(self, error: StoreUnavailable) -> None:
        """What has been answered counts; what has not ends with `error`."""
        if self.answer.done():
            return
        if self.replies:
            self.answer.set_result([*self.replies, *[error] * (self.count - len(self.replies))])
        else:
            self.answer.set_exception(error)
            self.answer.exception()  # seen: a caller that was cancelled does not come for it


class Link:
    """A pipelined connection. Lost, it is made anew by the next call; calls under way fail."""

    def __init__(
        self,
        region: str,
        connect: Callable[[], AbstractConnection],
        greet: Callable[[Exchange], Awaitable[None]] | None = None,
    ) -> None:
        """`connect` makes an unconnected connection; `greet` runs first on each new one."""
        self.region = region
        self._make, self._greet = connect, greet
        self._connection: AbstractConnection | None = None
        self._greeted = False
        self._outgoing: list[bytes] = []
        self._waiting: deque[_Asked] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._farewells: set[asyncio.Task[None]] = set()
        self._flush = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._retry_at_s = 0.0
        self._retry_s = RETRY_FIRST_S
        self._last_error: Exception | None = None
        self._heard_s = 0.0  # monotonic time of the last reply
        self._closed = False

    async def call(self, commands: Sequence[Command], *, timeout_s: float) -> list[Reply]:
        """Send commands together; replies in order, error replies as exceptions in the list.

        Raises StoreUnavailable, with `sent` False only if no byte can have left. If some have been
        answered, it stands in the list for each of the others.
        """
        loop = asyncio.get_running_loop()
        over_s = loop.time() + timeout_s
        if not self._greeted:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._open_once()
            except TimeoutError:
                raise StoreUnavailable(self.region, "no answer in time", sent=False) from None
        asked = self._send(commands)
        # A timer of our own: asyncio.timeout would cost as much as the rest of this call.
        timer = loop.call_at(over_s, self._give_up, asked, self._connection, time.monotonic())
        try:
            return await asked.answer
        finally:
            # Of a caller that was cancelled it goes on: if all are less patient than a call may
            # last, nobody else finds out that the connection is half-open.
            if not asked.answer.cancelled():
                timer.cancel()

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and greeted."""
        return self._greeted

    async def ready(self) -> None:
        """Connect and greet unless that has been done. Raises StoreError."""
        await self._open_once()

    async def close(self) -> None:
        """Drop the connection for good. Idempotent."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._lose(self._connection, "closed")
        await asyncio.gather(*self._farewells, return_exceptions=True)

    def _send(self, commands: Sequence[Command]) -> "_Asked":
        asked = _Asked(len(commands), asyncio.get_running_loop().create_future())
        if not commands:
            asked.answer.set_result([])
            return asked
        self._outgoing += [pack(command) for command in commands]
        self._waiting.append(asked)
        self._flush.set()
        return asked

    async def _exchange(self, commands: Sequence[Command]) -> list[Reply]:
        answers = await self._send(commands).answer
        for answer in answers:
            if isinstance(answer, StoreUnavailable):
                raise answer
        return answers

    async def _open_once(self) -> None:
        """Connect unless connected; concurrent callers share one attempt."""
        if self._greeted:
            return
        if self._closed:
            raise StoreUnavailable(self.region, "closed", sent=False)
        if self._opening is None:
            if time.monotonic() < self._retry_at_s and self._last_error is not None:
                raise self._last_error.with_traceback(None)  # else it grows with every raise
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        await asyncio.shield(self._opening)
        if not self._greeted:  # lost again before this caller had its turn
            raise StoreUnavailable(self.region, "connection lost", sent=False)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._last_error = error
            self._retry_at_s = time.monotonic() + self._retry_s
            self._retry_s = min(RETRY_MAX_S, self._retry_s * 2)
        else:
            self._last_error, self._retry_s = None, RETRY_FIRST_S

    async def _open(self) -> None:
        connection = self._make()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connection.connect()
        except (OSError, TimeoutError, redis_errors.RedisError) as error:
            self._part(connection)
            raise StoreUnavailable(self.region, cause_of(error), sent=False) from None
        except BaseException:
            self._part(connection)
            raise
        self._connection = connection
        self._flush = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._read(connection)),
            asyncio.create_task(self._write(connection)),
        ]
        try:
            if self._greet is not None:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self._greet(self._exchange)
        except (TimeoutError, StoreUnavailable):
            self._lose(connection, "no answer in time")
            raise StoreUnavailable(self.region, "no answer in time", sent=False) from None
        except BaseException:
            self._lose(connection, "greeting refused")
            raise
        if self._connection is not connection:  # lost between its last reply and this line
            raise StoreUnavailable(self.region, "connection lost", sent=False)
        self._greeted = True

    async def _write(self, connection: AbstractConnection) -> None:
        try:
            while True:
                await self._flush.wait()
                self._flush.clear()
                chunks, self._outgoing = self._outgoing, []
                await connection.send_packed_command(chunks, check_health=False)
        except (OSError, redis_errors.RedisError) as error:
            self._lose(connection, cause_of(error))

    async def _read(self, connection: AbstractConnection) -> None:
        try:
            while True:
                try:
                    reply = await read_reply(connection)
                except (redis_errors.BusyLoadingError, redis_errors.ResponseError) as error:
                    reply = error  # LOADING is a reply, though redis-py files it under loss
                self._heard_s = time.monotonic()
                asked = self._waiting[0]
                asked.replies.append(reply)
                if len(asked.replies) == asked.count:
                    self._waiting.popleft()
                    if not asked.answer.done():
                        asked.answer.set_result(asked.replies)
        except (OSError, redis_errors.RedisError) as error:
            self._lose(connection, cause_of(error))

    def _lose(self, connection: AbstractConnection, cause: str) -> None:
        """Forget the connection and fail whoever waits on it."""
        if self._connection is not connection:
            return
        self._connection, self._greeted = None, False
        self._outgoing = []
        waiting, self._waiting = self._waiting, deque()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._tasks = []
        self._part(connection)
        for asked in waiting:
            asked.fail(StoreUnavailable(self.region, cause, sent=True))

    def _part(self, connection: AbstractConnection) -> None:
        farewell = asyncio.create_task(connection.disconnect(nowait=True))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    def _give_up(self, asked: _Asked, connection: AbstractConnection | None, sent_s: float) -> None:
        """Its time is over. Replies that come yet are still counted."""
        asked.fail(StoreUnavailable(self.region, "no answer in time", sent=True))
        if connection is not None and self._heard_s < sent_s:
            self._lose(connection, "no answer in time")  # it may be half-open


async def read_reply(connection: AbstractConnection) -> Any:
    """The next reply of a connection, undecoded. Raises redis-py's errors."""
    return cast(
        "Any", await connection.read_response(disable_decoding=True, disconnect_on_error=False)
    )


def pack(command: Command) -> bytes:
    """A command as it goes over the wire. In C: redis-py's own takes 1.3 ms for 192 keys."""
    return cast("bytes", hiredis.pack_command(tuple(command)))  # pyright: ignore[reportArgumentType, reportUnknownMemberType]  # its stub knows tuples of one


_CAUSES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((redis_errors.AuthenticationError, redis_errors.NoPermissionError), "login refused"),
    ((redis_errors.BusyLoadingError,), "still loading its data"),
    ((TimeoutError, redis_errors.TimeoutError), "no answer in time"),
    ((ConnectionRefusedError,), "connection refused"),
    ((redis_errors.ConnectionError, OSError), "connection lost"),
)


def cause_of(error: BaseException) -> str:
    """A cause in our words: raw text from Redis or the socket may hold addresses and secrets."""
    causes = (cause for kinds, cause in _CAUSES if isinstance(error, kinds))
    return next(causes, type(error).__name__)
