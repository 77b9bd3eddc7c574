"""One channel to one router: calls with deadlines, and their errors as ours."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from tradewind.errors import NoAnswer, RouterUnreachable, TradewindError
from tradewind.limits import MAX_MESSAGE_BYTES
from tradewind.statuses import from_status

# A restarted router should be found within a second; grpc's own defaults wait 1 s to 2 min.
_CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_retries", 0),  # repeats are ours: they must carry their attempt
)

#: Codes after which the same submit is repeated.
REPEATABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,  # of one attempt, or of the router: outcome unknown
        grpc.StatusCode.CANCELLED,  # by a router that is going away
    },
)
_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})

# grpc.aio's words, with code INTERNAL, for a write to a connection that has just been lost.
_WRITE_FAILED = "Internal error from Core"

#: What a client says that is used after it was closed.
CLOSED = "this client is closed: make a new one"

_CODES = {code.value[0]: code for code in grpc.StatusCode}

Reply = TypeVar("Reply", bound=Message)


class Refusal(Exception):
    """An RPC, or one task of a batch, that was not answered with OK."""

    def __init__(
        self,
        code: grpc.StatusCode,
        error: TradewindError,
        retry_after_s: float = 0.0,
    ) -> None:
        """`error` is what the caller gets to see in the end."""
        self.code, self.error, self.retry_after_s = code, error, retry_after_s
        self.is_redrawn = False  # the next attempt, under another request_id, is to be made now
        super().__init__(str(error))

    @property
    def is_repeatable(self) -> bool:
        """Whether repeating the same submit may help, and is safe."""
        return self.code in REPEATABLE


def refusal_of(status: status_pb2.Status) -> Refusal:
    """Read a google.rpc.Status with its details."""
    retry_after_s = 0.0
    for detail in status.details:
        info = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            retry_after_s = info.retry_delay.ToTimedelta().total_seconds()
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return Refusal(code, from_status(status), retry_after_s)


class Router:
    """A channel, opened at first use on the running loop."""

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None,
    ) -> None:
        """Take the address, HOST:PORT or any name that grpc resolves."""
        self.target = target
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None
        self._is_closed = False

    @property
    def channel(self) -> grpc.aio.Channel:
        """The open channel. Raises RuntimeError after `close`."""
        if self._is_closed:
            raise RuntimeError(CLOSED)
        if self._channel is None:
            options = list(_CHANNEL_OPTIONS)
            self._channel = (
                grpc.aio.insecure_channel(self.target, options)
                if self._credentials is None
                else grpc.aio.secure_channel(self.target, self._credentials, options)
            )
        return self._channel

    async def close(self) -> None:
        """Close the channel for good; calls under way end as cancelled."""
        self._is_closed = True
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def reach(self, timeout_s: float) -> None:
        """Return once connected. Raises RouterUnreachable at the first refusal, not at the last."""
        try:
            async with asyncio.timeout(timeout_s):
                while (
                    state := self.channel.get_state(try_to_connect=True)
                ) is not grpc.ChannelConnectivity.READY:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        raise RouterUnreachable(self.target)
                    await self.channel.wait_for_state_change(state)
        except TimeoutError:
            raise RouterUnreachable(self.target, f"no connection in {timeout_s:g} s") from None

    async def unary(
        self,
        method: Callable[..., Awaitable[Reply]],
        request: Message,
        timeout_s: float,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> Reply:
        """Call a unary method. Raises Refusal."""
        try:
            return await method(request, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise self.refused(error, timeout_s) from None

    async def stream(
        self,
        method: Callable[..., AsyncIterable[Reply]],
        request: Message,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> AsyncGenerator[Reply, None]:
        """Call a method that answers with a stream. Raises Refusal."""
        call = method(request, metadata=metadata)
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as error:
            raise self.refused(error, 0.0) from None
        finally:
            cancel: Callable[[], bool] = getattr(call, "cancel")  # noqa: B009 - not in the protocol
            cancel()

    def refused(self, error: grpc.aio.AioRpcError, waited_s: float) -> Refusal:
        """Read a failed RPC: a router's refusal with details, or what became of the connection."""
        if (rich := _details(error)) is not None:
            return refusal_of(rich)
        code = error.code()
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Refusal(code, NoAnswer(self.target, waited_s))
        if code in _LOST or (error.details() or "").startswith(_WRITE_FAILED):
            cause = _short(error.details())
            return Refusal(grpc.StatusCode.UNAVAILABLE, RouterUnreachable(self.target, cause))
        number: int = code.value[0]
        return refusal_of(status_pb2.Status(code=number, message=error.details() or ""))


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    # The error has code(), details() and trailing_metadata() of a call: all that is read of one.
    from_call: Callable[[Any], status_pb2.Status | None] = cast("Any", rpc_status).from_call
    return from_call(error)


def _short(details: str | None) -> str:
    # grpc appends the addresses it tried and its C core's own words after the first clause.
    return (
        (details or "")
        .split("; last error:")[-1]
        .split("\n")[0]
        .strip()
        .removeprefix("UNKNOWN: ")[:200]
    )
