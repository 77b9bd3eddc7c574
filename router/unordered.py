"""Answering a stream of requests side by side, each as soon as it is done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

Request = TypeVar("Request")
Response = TypeVar("Response")


async def unordered(
    requests: AsyncIterator[Request],
    answer: Callable[[Request], Awaitable[Response]],
    limit: int,
    closing: asyncio.Event,
) -> AsyncIterator[Response]:
    """Yield answers as they come, with at most `limit` requests taken and not yet yielded.

    That bound is the back-pressure: at it, no more is read. After the first error of an answer, or
    of the requests, or once `closing` is set, no more is read; when all that was taken has been
    answered the stream ends, with that error if there was one.
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
    failure: BaseException | None = None
    try:
        while reading or working:
            task = await done.get()
            if task is None:
                reading = False
                failure = failure or _failure(reader)
                continue
            working.discard(task)
            if error := _failure(task):
                failure = failure or error
                reader.cancel()
                continue
            yield task.result()
            room.release()
        if failure is not None:
            raise failure
    finally:
        for left in (reader, closer, *working):
            left.cancel()
        await asyncio.gather(reader, closer, *working, return_exceptions=True)


def _failure(ended: asyncio.Future[Any]) -> BaseException | None:
    return None if ended.cancelled() else ended.exception()
