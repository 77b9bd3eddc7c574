"""Case C15: a full Redis refuses new work whole, goes on with what it has, and takes work again.

On one server, and on a Cluster of which one primary is full: there only what must lie on that one
is refused. Handlers' own ledger judges what ran; nobody helps.
"""

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from google.rpc import error_details_pb2

from tests.conftest import fleet_on
from tests.flow.lab import Lab
from tests.harness.patience import until
from tests.redis_keys import connected, leaked_keys, wrong_counts
from tests.rpc.running import Running, running
from tradewind import metrics
from tradewind.errors import NoRegionReachable, RegionsFull, StoreFull, TradewindError
from tradewind.fleet import Health
from tradewind.limits import KIB, SECOND_MS
from tradewind.local.scratch import RedisProcess
from tradewind.state import State


@dataclass(frozen=True, slots=True)
class Size:
    """How many tasks wait, and for how many more there is room."""

    backlog: int
    room: int
    lease_s: int
    patience_s: float


SIZES = [
    pytest.param(Size(100, 60, 2, 20.0), id="short"),
    pytest.param(
        Size(6_000, 2_000, 10, 300.0),
        id="full",
        marks=[pytest.mark.long, pytest.mark.timeout(900)],
    ),
]
PADDING = 4 * KIB
LONG = 4  # tasks that run all the while, one in each slot


@dataclass(frozen=True, slots=True)
class Place:
    """A region's Redis: where it is in YAML, and the port of the node to fill."""

    url: str
    port: int
    ports: tuple[int, ...]

    @property
    def is_partial(self) -> bool:
        """Whether others have room."""
        return len(self.ports) > 1


@pytest.fixture(params=["standalone", "cluster"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "cluster":
        ports: list[int] = request.getfixturevalue("cluster_ports")
        nodes = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        return Place(f"{{cluster: [{nodes}]}}", ports[1], tuple(ports))
    servers: list[RedisProcess] = request.getfixturevalue("redis_servers")
    return Place(servers[0].url, servers[0].port, (servers[0].port,))


@asynccontextmanager
async def region(home: Path, place: Place, size: Size) -> AsyncGenerator[tuple[Lab, Running]]:
    """One region, its router in this process. The Redis has no limit afterwards."""
    queue = f"{{lease: {size.lease_s}s, attempts: 2, timeout: 10m}}"
    lab = Lab(home, [cast("Any", place)], queue)
    lab.patience_s = size.patience_s
    try:
        async with running(replace(lab.fleet, health=Health(interval_ms=200))) as router:
            yield lab, router
    finally:
        connected(place.port).config_set("maxmemory", "0")
        await lab.close()


class Submits:
    """Tasks of 4 KiB, each with a key of its own, and what became of each."""

    def __init__(self, router: Running) -> None:
        self._router, self._numbers = router, itertools.count()
        self.accepted: list[str] = []
        self.refused: list[dict[str, Any]] = []

    async def one(self, name: str = "sleep", **fields: Any) -> None:
        number = next(self._numbers)
        body = f'{{"seconds": 0{" " * PADDING}}}'
        await self._send({"name": name, "payload": body.encode(), **fields, "tenant": f"{number}"})

    async def taken_again(self) -> bool:
        """What was refused, once more: none of it has left anything that would make it a repeat."""
        refused, self.refused = self.refused, []
        for fields in refused:
            await self._send(fields)
        return not self.refused

    async def _send(self, fields: dict[str, Any]) -> None:
        try:
            receipt = await self._router.submit(**fields)
        except TradewindError as error:
            assert_refused_well(error)
            self.refused.append(fields)
        else:
            assert not receipt.duplicate
            self.accepted.append(receipt.task_id)


def assert_refused_well(error: Any) -> None:
    """As one that may be repeated, and says when."""
    assert type(error) in {RegionsFull, StoreFull}, error
    assert error.code.name == "RESOURCE_EXHAUSTED"
    wait = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(wait) for detail in error.status.details)
    assert wait.retry_delay.seconds > 0


def fill(raw: Any) -> None:
    """Not the least room is left, whatever buffers come and go."""
    raw.config_set("maxmemory", int(raw.info("memory")["used_memory"] * 0.98))


def is_full(place: Place) -> bool:
    found = connected(place.port).info("memory")
    return found["used_memory"] - found["mem_not_counted_for_evict"] > found["maxmemory"]


def lease_ends(place: Place) -> list[float]:
    """Of all tasks that run, ms."""
    ends: list[float] = []
    for port in place.ports:
        raw = connected(port)
        for key in raw.scan_iter(match="tw:{*}:leases"):
            ends += [score for _, score in raw.zrange(key, 0, -1, withscores=True)]
    return sorted(ends)


def shown(name: str) -> float:
    labels = {"region": "eu-west"}
    return metrics.REGISTRY.get_sample_value(f"tradewind_region_{name}", labels) or 0.0


@pytest.mark.parametrize("size", SIZES)
async def test_it_refuses_cleanly_goes_on_and_takes_work_again(
    tmp_path: Path, place: Place, size: Size
) -> None:
    async with region(tmp_path, place, size) as (lab, router):
        submits = Submits(router)
        await lab.worker("eu-west", "--concurrency", f"{LONG}")
        for _ in range(LONG):
            await submits.one("until.told")
        for task_id in submits.accepted:
            await lab.begun(task_id)
        for _ in range(size.backlog):
            await submits.one()
        raw = connected(place.port)
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] + size.room * PADDING)

        keyed = {"key": 0}
        while len(submits.refused) < 5:
            keyed["key"] += 1
            await submits.one(idempotency_key=f"order-{keyed['key']}")
            if place.is_partial and is_full(place):
                before = len(submits.refused)
                await submits.one()  # without a key it lies where there is room
                assert len(submits.refused) == before
        fill(raw)
        await until(lambda: shown("memory_ratio") >= 1, "a metric says that a primary is full")
        assert shown("full") == (not place.is_partial)

        now = lease_ends(place)
        assert len(now) == LONG
        await until(
            lambda: lease_ends(place)[0] > now[-1] + size.lease_s * SECOND_MS,
            "all that runs has renewed its lease for as long again",
        )
        lab.tell()
        for task_id in submits.accepted:
            assert (await lab.ended(task_id)).state is State.COMPLETED
        await until(lambda: shown("memory_ratio") < 1, "there is room again")
        await until(submits.taken_again, "what was refused is taken")
        for task_id in submits.accepted:
            assert (await lab.ended(task_id)).state is State.COMPLETED
        ran = [line.task_id for line in lab.lines(event="start")]
        assert sorted(ran) == sorted(submits.accepted), "each once, and nothing else"
        assert wrong_counts(*place.ports) == {}
        assert [key for port in place.ports for key in leaked_keys(port)] == []


async def test_a_region_that_would_delete_tasks_is_left_out_and_says_so(
    redis_servers: list[RedisProcess],
) -> None:
    raw = connected(redis_servers[0].port)
    raw.config_set("maxmemory-policy", "volatile-lru")
    try:
        async with running(fleet_on(redis_servers)) as router:
            await router.staff()
            told = {each.region: each.excluded_by for each in (await router.explain()).candidates}
            assert told == {"eu-west": "evicts keys", "us-east": "", "ap-south": ""}
            assert (await router.submit()).region != "eu-west"
            with pytest.raises(NoRegionReachable, match="eu-west: evicts keys"):
                await router.submit(pin_region="eu-west")
    finally:
        raw.config_set("maxmemory-policy", "noeviction")
