"""When a region counts as one that cannot keep tasks as durably as queues ask."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from router.fitness import Fitness
from tradewind.errors import StoreUnavailable
from tradewind.fleet import Durability, Fleet, QueuePolicy, RedisTarget, Region
from tradewind.task import LedgerMark

HERE = Region("eu", RedisTarget("standalone", ("127.0.0.1:1",)))
FLEET = Fleet(
    regions={"eu": HERE},
    partitions=16,
    queues={"mail": QueuePolicy(durability="fsync"), "pay": QueuePolicy(durability="replica")},
)
NO_LOG: Mapping[Durability, str] = {"fsync": "no log"}
NO_COPY: Mapping[Durability, str] = {"replica": "no replica"}
WELL: Mapping[Durability, str] = {}


class Server:
    """A region that says of itself what a test dictates; None: nothing."""

    region = "eu"
    said: Mapping[Durability, str] | None = WELL

    async def lacks(self) -> Mapping[Durability, str]:
        if self.said is None:
            raise StoreUnavailable("eu", "connection refused", sent=False)
        return self.said

    async def tasks_safe(
        self, durability: Durability, task_ids: Sequence[str], *, timeout_s: float
    ) -> Sequence[bool]:
        raise NotImplementedError

    async def entry_safe(
        self, durability: Durability, mark: LedgerMark, task_id: str, *, timeout_s: float
    ) -> bool:
        raise NotImplementedError


class Census:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lacks: Mapping[str, str] = {}

    def lack(self, region: str, durabilities: Mapping[str, str]) -> None:
        assert region == "eu"
        self.lacks = durabilities


SERIES: dict[str, tuple[list[Mapping[Durability, str] | None], set[str]]] = {
    "all is well": ([WELL], set()),
    "it could not at the first look": ([NO_LOG], {"fsync"}),
    "it could, and once it could not": ([WELL, NO_COPY], set()),
    "it could, and twice it could not": ([WELL, NO_COPY, NO_COPY], {"replica"}),
    "it could not now and then": ([WELL, NO_COPY, WELL, NO_COPY], set()),
    "first one, then the other": ([WELL, NO_COPY, NO_LOG], set()),
    "it can again, at once": ([NO_LOG, WELL], set()),
    "it did not answer": ([NO_LOG, None], {"fsync"}),
    "it answers late": ([None, NO_LOG], {"fsync"}),
}


@pytest.mark.parametrize(("said", "out"), SERIES.values(), ids=SERIES)
async def test_a_region_is_out_for_what_it_lacks_if(
    said: list[Mapping[Durability, str] | None], out: set[str]
) -> None:
    server, census = Server(), Census()
    fitness = Fitness(FLEET, {"eu": server}, census)
    for server.said in said:
        assert await fitness.look("eu") is (server.said is not None)
    assert set(census.lacks) == out


async def test_what_no_queue_asks_is_of_no_interest() -> None:
    server, census = Server(), Census()
    server.said = {**NO_LOG, **NO_COPY}
    fitness = Fitness(replace(FLEET, queues={"pay": FLEET.queues["pay"]}), {"eu": server}, census)
    await fitness.look("eu")
    assert set(census.lacks) == {"replica"}


async def test_a_region_at_another_address_is_another() -> None:
    server, census = Server(), Census()
    server.said = NO_LOG
    fitness = Fitness(FLEET, {"eu": server}, census)
    await fitness.look("eu")
    census.lacks = {}  # it has begun anew, too
    fitness.follow(FLEET, {"eu": Server()})
    assert census.lacks == {}
    fitness.follow(FLEET, {"eu": server})
    server.said = NO_LOG
    await fitness.look("eu")
    assert set(census.lacks) == {"fsync"}


async def test_a_reload_changes_nothing_that_is_known() -> None:
    server, census = Server(), Census()
    server.said = NO_LOG
    fitness = Fitness(FLEET, {"eu": server}, census)
    await fitness.look("eu")
    fitness.follow(FLEET, {"eu": server})
    assert set(census.lacks) == {"fsync"}
