"""Background work for each region of the file, as regions come and go."""

import asyncio

import pytest

from router.regional import Regional

A, B = "eu-west", "us-east"


class Works:
    """What has begun and ended, by region."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []

    async def run(self, region: str) -> None:
        self.log.append(("begun", region))
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(("ended", region))

    async def news(self) -> list[tuple[str, str]]:
        """What happened since this was asked last."""
        for _ in range(3):  # cancellation takes a turn of the loop, and so does a beginning
            await asyncio.sleep(0)
        log, self.log = self.log, []
        return log


async def test_work_begins_and_ends_with_its_region() -> None:
    works, store_a, store_b = Works(), object(), object()
    regional = Regional(works.run)
    regional.follow({A: store_a})
    running = asyncio.create_task(regional.run())
    assert await works.news() == [("begun", A)]

    regional.follow({A: store_a, B: store_b})
    assert await works.news() == [("begun", B)]

    regional.follow({B: store_b})
    assert await works.news() == [("ended", A)]

    regional.follow({B: object()})
    assert sorted(await works.news()) == [("begun", B), ("ended", B)]

    running.cancel()
    assert await works.news() == [("ended", B)]
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_it_lasts_without_any_region_and_may_run_again() -> None:
    works = Works()
    regional = Regional(works.run)
    for _ in range(2):
        regional.follow({})
        running = asyncio.create_task(regional.run())
        assert await works.news() == []
        assert not running.done()
        regional.follow({A: object()})
        assert await works.news() == [("begun", A)]
        running.cancel()
        assert await works.news() == [("ended", A)]


async def test_a_bug_in_one_ends_all_of_it() -> None:
    async def broken(region: str) -> None:
        raise RuntimeError(region)

    regional = Regional(broken)
    regional.follow({A: object()})
    with pytest.raises(ExceptionGroup):
        await regional.run()
