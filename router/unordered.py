"""Answering a stream of requests side by side, each as soon as it is done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

Request = TypeVar("Request")
Response = TypeVar("Response")


async def unordered(
    requests: AsyncIterator[Request],
    answer: Callable[[Request], Awaitable[Response]],
    limit: int,
    closing: asyncio.Event,
) -> AsyncIterator[Response]:
    """Yield answers as they come, with at most `limit` requests taken and not yet yielded.

    That bound is the back-pressure: at it, no more is read. The first error of an answer, or of
    the requests, ends the stream with that error; what else is under way is cancelled. Once
    `closing` is set no more is read, and the stream ends when all that was taken is answered.
    """
    room = asyncio.Semaphore(limit)
    done: asyncio.Queue[asyncio.Future[Response] | None] = asyncio.Queue()
    working: set[asyncio.Future[Response]] = set()

    async def read() -> None:
        async for request in requests:
            await room.acquire()
            task = asyncio.ensure_future(answer(request))
            working.add(task)
            task.add_done_callback(done.put_nowait)

    def end(_reader: asyncio.Task[None]) -> None:
        done.put_nowait(None)

    async def close() -> None:
        await closing.wait()
        reader.cancel()

    reader = asyncio.create_task(read())
    reader.add_done_callback(end)
    closer = asyncio.create_task(close())
    reading = True
    try:
        while reading or working:
            task = await done.get()
            if task is None:
                reading = False
                if not reader.cancelled():
                    reader.result()
                continue
            working.discard(task)
            yield task.result()
            room.release()
    finally:
        for left in (reader, closer, *working):
            left.cancel()
        await asyncio.gather(reader, closer, *working, return_exceptions=True)
