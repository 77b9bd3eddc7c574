"""Threads for plain handlers.

Not concurrent.futures: its threads are joined when the interpreter ends, so that one stuck handler
would keep the process from exiting after its grace. These are daemons.
"""

import asyncio
import contextlib
import contextvars
import queue
import threading
import time
from collections.abc import Callable
from typing import Any


class Threads:
    """As many threads as calls run at the same time; an idle one is used again."""

    def __init__(self) -> None:
        """No thread yet."""
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._all: list[threading.Thread] = []

    def run(self, function: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Call `function` in a thread, with the caller's context variables.

        The future gives its result or exception. Cancelling it does not stop the thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def call() -> None:
            result, error = None, None
            try:
                result = context.run(function)
            except BaseException as raised:  # noqa: BLE001 - travels to the event loop
                error = _deliverable(raised)
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
                loop.call_soon_threadsafe(deliver, result, error)

        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                name = f"handler-{len(self._all) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._all.append(thread)
                thread.start()
        self._calls.put(call)
        return future

    def close(self, timeout_s: float) -> int:
        """End every thread, for good. How many go on after `timeout_s`, which nothing can stop."""
        for _ in self._all:
            self._calls.put(None)
        until_s = time.monotonic() + timeout_s
        for thread in self._all:
            thread.join(max(until_s - time.monotonic(), 0))
        return sum(thread.is_alive() for thread in self._all)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            with self._lock:
                self._idle += 1


def _deliverable(raised: BaseException) -> BaseException:
    # A future refuses StopIteration; SystemExit and its kind would end the event loop.
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    wrapped = RuntimeError(f"the handler raised {type(raised).__name__}")
    wrapped.__cause__ = raised
    return wrapped
