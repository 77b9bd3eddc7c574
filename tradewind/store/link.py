"""One connection to one Redis node, shared by everybody: calls are pipelined, replies matched.

Concurrent callers cost one write: what is asked within one turn of the event loop leaves
together. redis-py connects, authenticates and speaks TLS; its pools and cluster client stay out,
since they resend commands and wait for pool slots in ways that a queue cannot afford.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import hiredis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreUnavailable
from tradewind.store.causes import cause_of
from tradewind.store.scripts import Arg

Reply = object
Command = Sequence[Arg]
Exchange = Callable[[Sequence[Command]], Awaitable[list[Reply]]]
CONNECT_TIMEOUT_S = 3.0
# Connecting is tried when somebody calls, for ever, and after a failure not before this has passed:
# doubled each time, less up to half by chance, so that processes do not come back as one. Whoever
# is `eager` does not wait: a region's probe, which comes every 5 s.
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 20.0
# What has been sent and not been answered; beyond it callers wait within their time. It bounds
# what a silent node costs in memory: as much as two gRPC messages, and 16 of the largest tasks.
UNANSWERED_BYTES = 16 * 1024 * 1024
# A connection that nobody uses is asked for a sign of life, and one that owes an answer for long is
# given up: together within 10 s. Redis itself is silent while a script runs (5 s until BUSY).
PING_AFTER_S, SILENCE_S, LOOK_EVERY_S = 2.5, 5.5, 1.0


@dataclass(slots=True, eq=False)
class _Asked:
    """Commands that were sent together, and what has been answered so far."""

    count: int
    size: int  # bytes
    sent_s: float  # monotonic time
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
        self.on_loss: Callable[[], None] | None = None  # called when an open connection is lost
        self._make, self._greet = connect, greet
        self._connection: AbstractConnection | None = None
        self._greeted = False
        self._outgoing: list[bytes] = []
        self._waiting: deque[_Asked] = deque()
        self._unanswered = 0  # bytes of those
        self._queue: deque[tuple[int, asyncio.Future[None]]] = (
            deque()
        )  # of whom there is no room for
        self._admitted = 0  # bytes of those who have left the queue and not sent yet
        self._tasks: list[asyncio.Task[None]] = []
        self._farewells: set[asyncio.Task[None]] = set()
        self._flush = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._retry_at_s = 0.0
        self._retry_s = RETRY_FIRST_S
        self._last_error: Exception | None = None
        self._heard_s = 0.0  # monotonic time of the last reply
        self._look: asyncio.TimerHandle | None = None
        self._closed = False

    async def call(
        self, commands: Sequence[Command], *, timeout_s: float, eager: bool = False
    ) -> list[Reply]:
        """Send commands together; replies in order, error replies as exceptions in the list.

        Raises StoreUnavailable, with `sent` False only if no byte can have left. If some have been
        answered, it stands in the list for each of the others. `eager`: connect now, however often
        that has failed of late.
        """
        loop = asyncio.get_running_loop()
        over_s = loop.time() + timeout_s
        packed = [pack(command) for command in commands]
        size = sum(map(len, packed))
        if not self._greeted or self._queue or not self._has_room(size):
            try:
                async with asyncio.timeout(timeout_s):
                    await self._open_once(eager=eager)
                    await self._room(size)
            except TimeoutError:
                raise StoreUnavailable(self.region, "no answer in time", sent=False) from None
        asked = self._send(packed, size)
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

    async def ready(self, *, eager: bool = False) -> None:
        """Connect and greet unless that has been done. Raises StoreError."""
        await self._open_once(eager=eager)

    async def close(self) -> None:
        """Drop the connection for good. Idempotent."""
        self._closed = True
        if self._opening is not None:  # it parts from what it has by itself
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._connection is not None:
            self._lose(self._connection, "closed")
        await asyncio.gather(*self._farewells, return_exceptions=True)

    def _send(self, packed: list[bytes], size: int) -> "_Asked":
        answer: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
        asked = _Asked(len(packed), size, time.monotonic(), answer)
        if not packed:
            asked.answer.set_result([])
            return asked
        self._outgoing += packed
        self._waiting.append(asked)
        self._unanswered += size
        self._flush.set()
        return asked

    def _has_room(self, size: int) -> bool:
        taken = self._unanswered + self._admitted
        return not taken or taken + size <= UNANSWERED_BYTES

    async def _room(self, size: int) -> None:
        """Return in one's turn, once there is room. Raises StoreUnavailable if the link is lost."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        self._admit()
        try:
            await turn
        finally:
            if not turn.cancelled() and turn.exception() is None:
                self._admitted -= size

    def _admit(self) -> None:
        """Let those in for whom there is room, first come, first served."""
        while self._queue:
            size, turn = self._queue[0]
            if not turn.done():
                if not self._has_room(size):
                    return
                self._admitted += size
                turn.set_result(None)
            self._queue.popleft()

    async def _exchange(self, commands: Sequence[Command]) -> list[Reply]:
        packed = [pack(command) for command in commands]
        answers = await self._send(packed, sum(map(len, packed))).answer
        for answer in answers:
            if isinstance(answer, StoreUnavailable):
                raise answer
        return answers

    async def _open_once(self, *, eager: bool) -> None:
        """Connect unless connected; concurrent callers share one attempt."""
        if self._greeted:
            return
        if self._closed:
            raise StoreUnavailable(self.region, "closed", sent=False)
        if self._opening is None:
            too_soon = time.monotonic() < self._retry_at_s and not eager
            if too_soon and self._last_error is not None:
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
            self._retry_at_s = time.monotonic() + self._retry_s * random.uniform(0.5, 1)
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
        except TimeoutError:
            self._lose(connection, "no answer in time")
            raise StoreUnavailable(self.region, "no answer in time", sent=False) from None
        except StoreUnavailable as error:
            self._lose(connection, error.cause)
            raise StoreUnavailable(
                self.region, error.cause, sent=False, failed=error.failed
            ) from None
        except BaseException:
            self._lose(connection, "greeting refused")
            raise
        if self._connection is not connection:  # lost between its last reply and this line
            raise StoreUnavailable(self.region, "connection lost", sent=False)
        self._greeted = True
        self._heard_s = time.monotonic()
        self._look = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look_after)

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
                    self._unanswered -= asked.size
                    if self._queue:
                        self._admit()
                    if not asked.answer.done():
                        asked.answer.set_result(asked.replies)
        except (OSError, redis_errors.RedisError) as error:
            self._lose(connection, cause_of(error))

    def _lose(self, connection: AbstractConnection, cause: str) -> None:
        """Forget the connection and fail whoever waits on it."""
        if self._connection is not connection:
            return
        self._connection, self._greeted = None, False
        self._outgoing, self._unanswered = [], 0
        if self._look is not None:
            self._look.cancel()
        waiting, self._waiting = self._waiting, deque()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._tasks = []
        self._part(connection)
        for asked in waiting:
            asked.fail(StoreUnavailable(self.region, cause, sent=True))
        queue, self._queue = self._queue, deque()
        for _, turn in queue:
            if not turn.done():
                turn.set_exception(StoreUnavailable(self.region, cause, sent=False))
        if self.on_loss is not None and not self._closed:
            self.on_loss()

    def _look_after(self) -> None:
        """Ask an idle connection for a sign of life; give one up that owes an answer for long."""
        now_s = time.monotonic()
        if self._waiting:
            owing_s = now_s - max(self._waiting[0].sent_s, self._heard_s)
            if owing_s > SILENCE_S and self._connection is not None:
                self._lose(self._connection, "no answer in time")  # it may be half-open
                return
        elif now_s - self._heard_s > PING_AFTER_S:
            self._send([_PING], len(_PING))
        self._look = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look_after)

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


_PING = pack(["PING"])
