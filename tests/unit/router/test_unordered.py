import asyncio
from collections.abc import AsyncIterator

import pytest

from router.unordered import unordered


async def numbers(count: int, taken: list[int] | None = None) -> AsyncIterator[int]:
    for number in range(count):
        if taken is not None:
            taken.append(number)
        yield number


async def test_answers_come_as_they_are_done() -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def answer(number: int) -> int:
        await gates[number].wait()
        return number

    answers = unordered(numbers(3), answer, 8, asyncio.Event())
    got: list[int] = []
    for number in (2, 0, 1):
        gates[number].set()
        got.append(await anext(answers))

    assert got == [2, 0, 1]
    assert [rest async for rest in answers] == []


async def test_no_more_is_taken_than_the_limit() -> None:
    taken: list[int] = []
    gate = asyncio.Event()

    async def answer(number: int) -> int:
        await gate.wait()
        return number

    answers = unordered(numbers(100, taken), answer, 4, asyncio.Event())
    first = asyncio.ensure_future(anext(answers))
    for _ in range(50):
        await asyncio.sleep(0)

    assert len(taken) == 5  # the fifth waits for room
    gate.set()
    await first
    assert len([rest async for rest in answers]) == 99


async def test_an_error_ends_the_stream_and_what_is_under_way() -> None:
    cancelled: list[int] = []

    async def answer(number: int) -> int:
        if number == 1:
            raise ZeroDivisionError
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    with pytest.raises(ZeroDivisionError):
        async for _ in unordered(numbers(2), answer, 8, asyncio.Event()):
            pass

    assert cancelled == [0]


async def test_an_error_of_the_requests_ends_the_stream() -> None:
    async def broken() -> AsyncIterator[int]:
        raise ConnectionResetError
        yield 0

    async def answer(number: int) -> int:
        return number

    with pytest.raises(ConnectionResetError):
        async for _ in unordered(broken(), answer, 8, asyncio.Event()):
            pass


async def test_closing_ends_an_open_stream_after_what_was_taken_is_answered() -> None:
    closing, gate = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def answer(number: int) -> int:
        closing.set()
        await gate.wait()
        return number

    answers = unordered(endless(), answer, 8, closing)
    first = asyncio.ensure_future(anext(answers))
    await closing.wait()
    gate.set()

    assert await first == 1
    assert [rest async for rest in answers] == []
