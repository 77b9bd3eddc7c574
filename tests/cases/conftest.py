import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cases.pair import pair
from tests.cases.scale import Scale
from tests.flow.lab import Lab
from tests.harness.ledger import VARIABLE, Ledger
from tests.harness.yard import Yard, yard
from tradewind.local.scratch import RedisProcess

APP = Path(__file__).with_name("ledger_app.py")

# Queues with every sign that a name may hold; a worker serves those that the file names.
WORLD = """\
version: 1
partitions: 16
regions:
  eu-west: {redis: "redis://127.0.0.1:6401", residency: [eu]}
  us-east: {redis: "redis://127.0.0.1:6402", residency: [us]}
  ap-south: {redis: "redis://127.0.0.1:6403", residency: [apac]}
rtt:
  eu-west: {us-east: 80ms, ap-south: 130ms}
  us-east: {ap-south: 200ms}
rules:
  - {name: eu-personal-data, match: {labels: {data-class: pii-eu}}, residency: [eu]}
  - {name: starts-in-eu, match: {labels: {start: eu}}, prefer: [eu-west]}
queues:
  default:
    lease: 1s
    attempts: 2
    backoff: {initial: 20ms, factor: 2, max: 100ms}
    timeout: 30s
    failover: {on: [exhausted, timeout], max_hops: 9}
  once: {dedup: {by: payload}}
  "a:b": {}
  "a:b:0": {}
  "a/b": {}
  "..": {}
failover: {unserved_after: 1s}
"""


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """One file for all fleets of the session: a process that is restarted finds it again."""
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    path.touch()
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(path)
    yield Ledger(path)
    if before is None:
        del os.environ[VARIABLE]
    else:
        os.environ[VARIABLE] = before


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_world(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger
) -> AsyncIterator[Yard]:
    """Three regions that the tests of this folder share."""
    async with yard(
        tmp_path_factory.mktemp("world"), WORLD, APP, ledger, "--concurrency", "4"
    ) as world:
        yield world
        await world.is_in_order()


@pytest.fixture
def world(running_world: Yard, ledger: Ledger) -> Yard:
    """The same, with a ledger that starts empty."""
    running_world.ledger = ledger.from_here()
    return running_world


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_pair(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger
) -> AsyncIterator[Yard]:
    """Two uneven regions, far apart."""
    async with pair(tmp_path_factory.mktemp("pair"), ledger, "500ms") as world:
        yield world
        await world.is_in_order()


@pytest.fixture
def two_regions(running_pair: Yard, ledger: Ledger) -> Yard:
    """The same, with a ledger that starts empty."""
    running_pair.ledger = ledger.from_here()
    return running_pair


@pytest_asyncio.fixture
async def make_lab(
    tmp_path: Path, redis_servers: list[RedisProcess]
) -> AsyncIterator[Callable[..., Lab]]:
    """Builds a lab on the session's servers, emptied: workers alone, without routers."""
    labs: list[Lab] = []

    def make(queue: str, regions: int = 1) -> Lab:
        labs.append(Lab(tmp_path, redis_servers[:regions], queue))
        return labs[-1]

    yield make
    for lab in labs:
        await lab.close()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """One region, lease 1 s."""
    return make_lab(Scale(1.0, full=False).queue)
