import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from router.unordered import unordered


async def numbers(count: int, taken: list[int] | None = None) -> AsyncIterator[int]:
    for number in range(count):
        if taken is not None:
            taken.append(number)
        yield number


async def collect(answers: AsyncIterator[int], got: list[int]) -> None:
    async for number in answers:
        got.append(number)  # noqa: PERF401 - an error must leave what came before it


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


async def test_an_error_ends_the_stream_once_what_is_under_way_is_answered() -> None:
    failed = asyncio.Event()
    got: list[int] = []
    taken: list[int] = []

    async def answer(number: int) -> int:
        if number == 1:
            failed.set()
            raise ZeroDivisionError
        await failed.wait()
        return number

    async def endless() -> AsyncIterator[int]:
        async for number in numbers(3, taken):
            yield number
        await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        await collect(unordered(endless(), answer, 8, asyncio.Event()), got)

    assert sorted(got) == [0, 2]
    assert taken == [0, 1, 2]


async def test_an_error_of_the_requests_ends_the_stream_once_all_before_are_answered() -> None:
    gate = asyncio.Event()
    got: list[int] = []

    async def broken() -> AsyncIterator[int]:
        yield 0
        gate.set()
        raise ConnectionResetError

    async def answer(number: int) -> int:
        await gate.wait()
        return number

    with pytest.raises(ConnectionResetError):
        await collect(unordered(broken(), answer, 8, asyncio.Event()), got)

    assert got == [0]


async def test_a_consumer_that_leaves_cancels_what_is_under_way() -> None:
    cancelled: list[int] = []

    async def answer(number: int) -> int:
        if number == 0:
            return number
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    answers: Any = unordered(numbers(3), answer, 8, asyncio.Event())
    async with aclosing(answers):
        assert await anext(answers) == 0
        await asyncio.sleep(0)

    assert sorted(cancelled) == [1, 2]


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
