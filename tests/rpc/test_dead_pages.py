"""ListDeadTasks: one order over all regions and partitions, page by page."""

import base64
import random
from collections.abc import Iterable
from typing import Any

import pytest

from router.dead import DeadTasks, Filter
from tests.rpc import labour
from tests.rpc.flaky import FlakyStore
from tests.rpc.running import Running, answered
from tradewind.errors import InvalidTask
from tradewind.task import Record
from tradewind.v1 import admin_pb2, task_pb2

REGIONS = ("eu-west", "us-east", "ap-south")


async def page_of(serving: Running, size: int, token: str = "", **fields: Any) -> Any:
    request = admin_pb2.ListDeadTasksRequest(
        filter=admin_pb2.DeadTaskFilter(**fields), page_size=size, page_token=token
    )
    return await answered(serving.admin.ListDeadTasks(request))


async def pages_of(serving: Running, size: int, **fields: Any) -> list[task_pb2.Task]:
    found: list[task_pb2.Task] = []
    token = ""
    while True:
        page = await page_of(serving, size, token, **fields)
        assert len(page.tasks) <= size
        found += page.tasks
        token = page.next_page_token
        if not token:
            return found


async def bury(serving: Running, *, message: str = "boom", **fields: Any) -> str:
    receipt = await serving.submit(**fields)
    await labour.bury(serving.stores[receipt.region], receipt.task_id, message=message)
    return receipt.task_id


def ids(tasks: Iterable[task_pb2.Task]) -> list[str]:
    return [task.task_id for task in tasks]


def by_death(tasks: Iterable[task_pb2.Task]) -> list[str]:
    return ids(sorted(tasks, key=lambda each: (each.finished_at.ToMilliseconds(), each.task_id)))


@pytest.mark.parametrize("size", [1, 4, 100])
async def test_the_oldest_death_is_first_whatever_region_and_partition(
    serving: Running, size: int
) -> None:
    chance = random.Random(7)
    buried = [await bury(serving, pin_region=chance.choice(REGIONS)) for _ in range(20)]

    listed = await pages_of(serving, size)

    assert sorted(ids(listed)) == sorted(buried)
    assert ids(listed) == by_death(listed)
    places = [(task.region, task.partition) for task in listed]
    assert places != sorted(places)  # as the old order, by place, would have them


async def test_pages_hold_each_task_once_while_others_come_and_go(serving: Running) -> None:
    stay = [await bury(serving, pin_region=REGIONS[number % 3]) for number in range(12)]
    listed = ids(await pages_of(serving, 100))
    gone = {listed[1], listed[10]}  # one that page 1 has shown, and one of a later page

    page = await page_of(serving, 4)
    found = ids(page.tasks)
    for task_id in gone:
        redrive = admin_pb2.RedriveDeadTasksRequest(
            filter=admin_pb2.DeadTaskFilter(task_ids=[task_id])
        )
        assert (await answered(serving.admin.RedriveDeadTasks(redrive))).count == 1
    new = await bury(serving, pin_region="ap-south")
    while page.next_page_token:
        page = await page_of(serving, 4, page.next_page_token)
        found += ids(page.tasks)

    assert found == [each for each in listed if each != listed[10]] + [new]
    assert set(stay) == {*found, *gone} - {new}


class Counting:
    """A region whose pages of dead tasks are counted."""

    def __init__(self, store: FlakyStore) -> None:
        self._store = store
        self.calls = self.records = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def dead_page(
        self, partition: int, *, after: str, limit: int
    ) -> tuple[list[Record], str]:
        found, cursor = await self._store.dead_page(partition, after=after, limit=limit)
        self.calls += 1
        self.records += len(found)
        return found, cursor


@pytest.mark.parametrize("affinity", ["user-1", ""], ids=["in one partition", "spread"])
async def test_a_page_reads_in_proportion_to_its_size(serving: Running, affinity: str) -> None:
    for _ in range(20 if affinity else 120):
        await bury(serving, pin_region="eu-west", affinity_key=affinity)
    counting: Any = Counting(serving.stores["eu-west"])
    partitions = serving.fleet.partitions
    dead = DeadTasks({"eu-west": counting}, partitions)

    page = await dead.page(Filter(("eu-west",)), 10, "")

    assert len(page.records) == 10
    # As DeadTasks._page promises, wherever the ids fell; 120 would be all.
    assert counting.records <= 4 * 10 + max(2 * partitions, 2 * 10)
    assert counting.calls <= 2 * partitions + 5


async def test_a_page_of_a_rare_match_ends_where_it_has_looked_enough(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.dead._MAX_READ", 5)
    rare = [
        await bury(serving, pin_region=REGIONS[n % 3], message="rare" if n % 9 == 8 else "boom")
        for n in range(18)
    ][8::9]

    first = await page_of(serving, 100, error_contains="rare")
    assert ids(first.tasks) == []
    assert first.next_page_token
    assert ids(await pages_of(serving, 100, error_contains="rare")) == rare


BAD_TOKENS = {
    "no id": "1\nx\n1",
    "a moment before all": "-1\n06fk3vw2r8b1q0c4n7s9d5m2ea\n1",
    "a moment after all": "9007199254740993\n06fk3vw2r8b1q0c4n7s9d5m2ea\n1",
    "a total below nothing": "1\n06fk3vw2r8b1q0c4n7s9d5m2ea\n-1",
    "a total that no answer holds": f"1\n06fk3vw2r8b1q0c4n7s9d5m2ea\n{2**64}",
    "too little": "1\n06fk3vw2r8b1q0c4n7s9d5m2ea",
}


@pytest.mark.parametrize("text", BAD_TOKENS.values(), ids=BAD_TOKENS)
async def test_a_token_that_no_page_gave_is_refused(serving: Running, text: str) -> None:
    with pytest.raises(InvalidTask, match="page_token"):
        await page_of(serving, 1, base64.urlsafe_b64encode(text.encode()).decode())
