"""Redis replies as they come: a connection that redis-py has opened, without the streams on top.

Between a socket that is readable and whoever waits for the reply redis-py and asyncio's streams put
a task and a dozen calls for each reply. That is most of what a client at rest takes to notice it,
and a good part of what one flat out spends.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import hiredis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, DefaultParser

_MISSING: Final = object()  # what the reader gives until a reply is complete


class Ends(Protocol):
    """Whoever a pipe is for."""

    def replied(self, reply: Any) -> None:
        """The next reply: undecoded; an error reply as an exception."""
        ...

    def lost(self, error: BaseException) -> None:
        """Nothing comes any more."""
        ...


class Pipe(asyncio.Protocol):
    """Takes over a connection that is open and on which nothing is under way."""

    def __init__(self, connection: AbstractConnection, ends: Ends) -> None:
        """From now on `ends` hears what comes; `connection` is only good for being closed."""
        self.heard_s = 0.0  # when something came last, by the loop's clock
        self._ends: Ends | None = ends
        self._clock = asyncio.get_running_loop().time
        self._reader: Any = hiredis.Reader(
            protocolError=redis_errors.InvalidResponse,
            replyError=DefaultParser.parse_error,  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            notEnoughData=_MISSING,
        )
        self._outgoing: list[bytes] = []
        self._is_full = False
        # What redis-py calls private: there is no other way to a connection of its making.
        writer = cast("asyncio.StreamWriter", connection._writer)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        self._transport: asyncio.WriteTransport = writer.transport
        self._transport.set_protocol(self)

    def write(self, chunks: Sequence[bytes]) -> None:
        """Send, in order. Of a connection that is being lost `lost` tells."""
        if self._is_full:
            self._outgoing += chunks
        elif not self._transport.is_closing():
            self._transport.writelines(chunks)

    def leave(self) -> None:
        """Hear no more."""
        self._ends = None

    # --- asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self.heard_s = self._clock()
        reader = self._reader
        reader.feed(data)
        try:
            while (reply := reader.gets(False)) is not _MISSING:  # noqa: FBT003 - not decoded
                if self._ends is None:
                    return
                # LOADING is a reply, though redis-py files it under loss.
                if isinstance(reply, redis_errors.ConnectionError) and not isinstance(
                    reply, redis_errors.BusyLoadingError
                ):
                    self._ends.lost(reply)
                    return
                self._ends.replied(reply)
        except redis_errors.InvalidResponse as error:
            if self._ends is not None:
                self._ends.lost(error)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._is_full = True

    def resume_writing(self) -> None:
        """See asyncio."""
        self._is_full = False
        chunks, self._outgoing = self._outgoing, []
        if chunks:
            self.write(chunks)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._ends is not None:
            self._ends.lost(exc or ConnectionResetError())


class Solo:
    """A connection with one question at a time."""

    def __init__(self, connection: AbstractConnection) -> None:
        """`connection` is open."""
        self._replies: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._pipe = Pipe(connection, self)

    def ask(self, command: bytes) -> None:
        """Send a packed command."""
        self._pipe.write((command,))

    async def reply(self) -> Any:
        """The next reply. Raises it if it is an error, and what the connection was lost by.

        Whoever is cancelled leaves it to the next one to ask.
        """
        while not self._replies:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        reply = self._replies.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def replied(self, reply: Any) -> None:
        """See Ends."""
        self._replies.append(reply)
        self._wake()

    def lost(self, error: BaseException) -> None:
        """See Ends."""
        self._error = error
        self._pipe.leave()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
