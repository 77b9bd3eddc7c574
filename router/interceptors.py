"""Around every RPC: exceptions become statuses in time; health says where the router stands."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from router.failures import report
from router.server_clock import ServerClock
from tradewind import statuses, wire
from tradewind.errors import InvalidTask

_OURS: Final = "/tradewind.v1."
_HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
_DETAILS_KEY: Final = "grpc-status-details-bin"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_UNREADABLE: Final = (
    "is not a message of tradewind.v1: check the client's proto files, and that strings are UTF-8"
)

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only


class Unreadable:
    """Stands for a request that could not be parsed, so that the answer can say so."""


class Answering:
    """Takes services for a server: methods of ours answer with google.rpc statuses.

    A health Check tells region and time. Methods are wrapped as they are added, since an
    interceptor would be paid for by every call; and given to gRPC as generic ones: for each method
    that is registered by name its server loop waits anew at every call, of whichever method.
    """

    def __init__(self, server: grpc.aio.Server, region: str, clock: ServerClock) -> None:
        """`region` is the router's own."""
        self._server = server
        self._region, self._clock = region, clock

    def add_generic_rpc_handlers(self, _handlers: Iterable[Any]) -> None:
        """Take none: generated code adds all of a service's methods by name, too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Serve the methods of a service, by their names."""
        wrapped = {name: self._wrapped(service, name, each) for name, each in handlers.items()}
        handler = grpc.method_handlers_generic_handler(service, wrapped)
        self._server.add_generic_rpc_handlers((handler,))

    def _wrapped(self, service: str, name: str, handler: Any) -> "Handler":
        method = f"/{service}/{name}"
        if method.startswith(_OURS):
            return _with_statuses(handler, method)
        return self._with_place_and_time(handler) if method == _HEALTH_CHECK else handler

    def _with_place_and_time(self, handler: Any) -> "Handler":
        """So a client that was told no region of its own learns the one nearest to it.

        And it counts spans from a time that is the regions', not its host's.
        """

        async def check(request: Any, context: Context) -> Any:
            await context.send_initial_metadata(self._place_and_time())
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            check, handler.request_deserializer, handler.response_serializer
        )

    def _place_and_time(self) -> tuple[tuple[str, str], ...]:
        place, now_ms = (wire.REGION_METADATA, self._region), self._clock.told_ms()
        return (place,) if now_ms is None else (place, (wire.NOW_METADATA, str(now_ms)))


def _with_statuses(handler: Any, name: str) -> "Handler":
    parse = _tolerant(handler.request_deserializer)
    to_bytes = handler.response_serializer
    if handler.request_streaming:
        behaviour = _many(handler.stream_stream, name)
        return grpc.stream_stream_rpc_method_handler(behaviour, parse, to_bytes)
    if handler.response_streaming:
        behaviour = _many(handler.unary_stream, name)
        return grpc.unary_stream_rpc_method_handler(behaviour, parse, to_bytes)
    return grpc.unary_unary_rpc_method_handler(_one(handler.unary_unary, name), parse, to_bytes)


def _tolerant(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """gRPC itself would answer INTERNAL for a request that does not parse."""  # noqa: D403

    def tolerant(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return Unreadable()

    return tolerant


def _one(method: Callable[..., Awaitable[Any]], name: str) -> Any:
    async def one(request: Any, context: Context) -> Any:
        try:
            _refuse_unreadable(request)
            return await method(request, context)
        except Exception as error:  # noqa: BLE001 - every error is answered here
            failed = error
        # Not while it is handled: what then is raised would carry its text, which may quote the
        # task, to whoever records exceptions, as tracing does.
        return await _abort(context, name, failed)

    return one


def _many(method: Callable[..., AsyncIterator[Any]], name: str) -> Any:
    async def many(request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            _refuse_unreadable(request)
            request = _readable(request) if hasattr(request, "__aiter__") else request
            async for response in method(request, context):
                yield response
        except Exception as error:  # noqa: BLE001 - every error is answered here
            failed = error
        else:
            return
        await _abort(context, name, failed)

    return many


async def _readable(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        _refuse_unreadable(request)
        yield request


def _refuse_unreadable(request: Any) -> None:
    if isinstance(request, Unreadable):
        raise InvalidTask.field("request", _UNREADABLE)


async def _abort(context: Context, name: str, error: Exception) -> None:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    status = statuses.to_status(error)
    if statuses.is_for_the_log(error):
        report(name, error)
    await context.abort(
        _CODES[status.code],
        status.message,
        ((_DETAILS_KEY, status.SerializeToString()),),
    )
