"""Concurrent submits of one client, coalesced into messages of one stream.

A message costs the router as much as a hundred small tasks in it, so submits that meet share one.
A lone submit waits for nothing: it is written at the next turn of the loop.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
import grpc.aio

from tradewind.limits import FLUSH_WAIT_MS, MAX_FLUSH, MAX_PAYLOAD_BYTES
from tradewind.v1 import router_pb2, task_pb2

# With fewer messages than this unanswered, a submit goes at once; beyond, it waits FLUSH_WAIT_MS
# for company. Two keep the pipe full while one is being answered.
_FREE_MESSAGES = 2

# What has gathered is spread over the messages that may go at once, since a router and its client
# take turns if all of it is in one: but none gets less than this, below which it costs more than it
# gains.
_WORTH_A_MESSAGE = 32

# An idle stream is closed: one that stays open would hold up a router's orderly shutdown.
_IDLE_S = 1.0

# What a router gets to end a stream that is closed in order. A cancelled one leaves events behind,
# about which grpc.aio complains on stderr if their event loop is closed and another one runs.
_LEAVE_S = 0.5


@dataclass(slots=True, eq=False)
class _Waiting:
    spec: task_pb2.TaskSpec
    size: int
    answer: "asyncio.Future[router_pb2.SubmitTasksResult]"


@dataclass(slots=True)
class _Stream:
    """One open stream and what is unanswered on it."""

    call: Any  # grpc.aio.StreamStreamCall: generic only in its stubs
    unanswered: dict[int, list[_Waiting]] = field(default_factory=dict[int, list[_Waiting]])


class Coalescer:
    """Sends specs over one stream at a time, opened when needed and closed when idle."""

    def __init__(self, open_call: Callable[[], Any]) -> None:
        """`open_call` starts a SubmitTaskStream, in the loop that runs now."""
        self._open_call = open_call
        self._loop = asyncio.get_running_loop()  # asking for it is a system call
        self._queue: deque[_Waiting] = deque()
        self._changed = asyncio.Event()
        self._sequence = count(1)
        self._runner: asyncio.Task[None] | None = None
        self._stream: _Stream | None = None
        self._closing = False

    async def send(
        self, spec: task_pb2.TaskSpec, *, timeout_s: float
    ) -> router_pb2.SubmitTasksResult:
        """Give the router's outcome for one spec.

        Raises grpc.aio.AioRpcError if the stream broke, TimeoutError if there was no answer in
        time: then the task may have been stored. A caller that is cancelled before its spec was
        written leaves nothing behind.
        """
        answer: asyncio.Future[router_pb2.SubmitTasksResult] = self._loop.create_future()
        self._queue.append(_Waiting(spec, spec.ByteSize(), answer))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        self._changed.set()
        # A timer of our own: asyncio.timeout would be a sixth of a submit's cost.
        timer = self._loop.call_later(timeout_s, _give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    async def close(self) -> None:
        """End the stream. Submits without an answer end as cancelled."""
        if self._runner is not None:
            self._closing = True
            if not self._queue and self._stream and not self._stream.unanswered:
                self._changed.set()
                await asyncio.wait({self._runner}, timeout=_LEAVE_S)
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        _cancel(self._queue)
        self._queue.clear()

    async def _run(self) -> None:
        while self._queue:
            stream = self._stream = _Stream(self._open_call())
            reader = asyncio.create_task(self._read(stream))
            reader.add_done_callback(lambda _: self._changed.set())
            try:
                await self._write(stream, reader)
                await stream.call.done_writing()
                await reader
            except grpc.aio.AioRpcError as error:
                self._fail(stream, error)
            except (asyncio.InvalidStateError, grpc.aio.UsageError):
                # The call ended between a look at it and a write; the reader knows why.
                self._fail(stream, await _ending(stream.call))
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                for batch in stream.unanswered.values():
                    _cancel(batch)
                stream.call.cancel()

    async def _write(self, stream: _Stream, reader: "asyncio.Task[None]") -> None:
        """Write what comes until nothing has come for a while, or the stream has ended."""
        while not reader.done():
            self._changed.clear()
            if not self._queue:
                if self._closing and not stream.unanswered:
                    return
                if not await self._wait(_IDLE_S) and not stream.unanswered:
                    return
                continue
            await self._company(stream, reader)
            if batch := self._take(_FREE_MESSAGES - len(stream.unanswered)):
                sequence = next(self._sequence)
                stream.unanswered[sequence] = batch
                specs = [waiting.spec for waiting in batch]
                request = router_pb2.SubmitTaskStreamRequest(sequence=sequence, specs=specs)
                await stream.call.write(request)

    async def _read(self, stream: _Stream) -> None:
        while (reply := await stream.call.read()) is not grpc.aio.EOF:
            batch = stream.unanswered.pop(reply.sequence, [])
            for waiting, result in zip(batch, reply.results, strict=False):
                if not waiting.answer.done():
                    waiting.answer.set_result(result)
            self._changed.set()
        if stream.unanswered or await stream.call.code() is not grpc.StatusCode.OK:
            raise await _ending(stream.call)

    async def _company(self, stream: _Stream, reader: "asyncio.Task[None]") -> None:
        """While enough is under way, let a message fill up: for a moment only."""
        clock = asyncio.get_running_loop().time
        until = clock() + FLUSH_WAIT_MS / 1_000
        while (
            len(stream.unanswered) >= _FREE_MESSAGES
            and len(self._queue) < MAX_FLUSH
            and not reader.done()
            and (left_s := until - clock()) > 0
        ):
            await self._wait(left_s)
            self._changed.clear()

    async def _wait(self, timeout_s: float) -> bool:
        """Wait for a change; False if there was none in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _take(self, free: int) -> list[_Waiting]:
        """Take the specs of the next message, of `free` that may go at once."""
        batch: list[_Waiting] = []
        size = 0
        messages = max(1, min(free, len(self._queue) // _WORTH_A_MESSAGE))
        most = min(MAX_FLUSH, math.ceil(len(self._queue) / messages))
        while self._queue and len(batch) < most:
            waiting = self._queue[0]
            if batch and size + waiting.size > MAX_PAYLOAD_BYTES:
                break
            self._queue.popleft()
            if not waiting.answer.done():  # its caller was cancelled
                batch.append(waiting)
                size += waiting.size
        return batch

    def _fail(self, stream: _Stream, error: grpc.aio.AioRpcError) -> None:
        # What was not written yet fails too: its repeat waits its turn instead of spinning here.
        everyone = [*self._queue, *(each for batch in stream.unanswered.values() for each in batch)]
        self._queue.clear()
        stream.unanswered.clear()
        for waiting in everyone:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)


def _give_up(answer: "asyncio.Future[router_pb2.SubmitTasksResult]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _cancel(batch: "list[_Waiting] | deque[_Waiting]") -> None:
    for waiting in batch:
        waiting.answer.cancel()


async def _ending(call: Any) -> grpc.aio.AioRpcError:
    """Give the error that ended a call; a stream ended with OK too early counts as lost."""
    code: grpc.StatusCode = await call.code()
    if code is grpc.StatusCode.OK:
        code = grpc.StatusCode.UNAVAILABLE
    return grpc.aio.AioRpcError(
        code,
        await call.initial_metadata() or grpc.aio.Metadata(),
        await call.trailing_metadata() or grpc.aio.Metadata(),
        details=await call.details() or "the router ended the stream",
    )
