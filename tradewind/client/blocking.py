"""The client for code without an event loop: the same calls, each until it is answered."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from tradewind.client.calls import CLOSED
from tradewind.client.core import Client
from tradewind.client.views import TaskView

P = ParamSpec("P")
R = TypeVar("R")

Method = Callable[Concatenate[Client, P], Coroutine[Any, Any, R]]


def _blocking(method: "Method[P, R]") -> "Callable[Concatenate[SyncClient, P], R]":
    @wraps(method)
    def call(self: "SyncClient", *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(method(self.client, *args, **kwargs))

    return call


class SyncClient:
    """`Client` for threads: safe to share, its calls coalesce across threads.

    Each method takes and raises what the method of `Client` with its name does. It runs on an
    event loop in a daemon thread of its own; close it, or use it as a context manager.
    """

    def __init__(
        self,
        target: str = "localhost:7070",
        *,
        origin_region: str = "",
        tenant: str = "",
        deadline: float = 30.0,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """As `Client`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="tradewind-client", daemon=True
        )
        self._thread.start()
        self.client = Client(
            target,
            origin_region=origin_region,
            tenant=tenant,
            deadline=deadline,
            credentials=credentials,
        )

    submit = _blocking(Client.submit)
    submit_many = _blocking(Client.submit_many)
    get = _blocking(Client.get)
    wait = _blocking(Client.wait)
    explain = _blocking(Client.explain)
    cancel = _blocking(Client.cancel)
    connect = _blocking(Client.connect)

    def watch(self, task_id: str) -> Iterator[TaskView]:
        """As `Client.watch`."""
        views = self.client.watch(task_id)

        async def following() -> TaskView | None:
            return await anext(views, None)

        try:
            while (view := self.run(following())) is not None:
                yield view
        finally:
            self.run(views.aclose())

    def run(self, call: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the client's loop and give its result.

        Raises RuntimeError after `close`.
        """
        if not self._thread.is_alive():
            call.close()
            raise RuntimeError(CLOSED)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C in the caller's thread must not leave the call running
            raise

    def close(self) -> None:
        """Close the connection and end the thread. Closing twice is no error."""
        if self._loop.is_closed():
            return
        self.run(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
