"""Two regions 150 ms apart whose ways can be broken: eu-west with 2 slots, us-east with 50."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.harness.ledger import Ledger
from tests.harness.patience import until
from tests.harness.yard import Yard, yard
from tradewind.local.wan import Reach

APP = Path(__file__).with_name("ledger_app.py")
EU, US = "eu-west", "us-east"
SLOTS = {EU: 2, US: 50}

_TEXT = """\
version: 1
partitions: 16
regions:
  eu-west: {{redis: "redis://127.0.0.1:6401", residency: [eu]}}
  us-east: {{redis: "redis://127.0.0.1:6402", residency: [us]}}
rtt:
  eu-west: {{us-east: 150ms}}
rules:
  - {{name: eu-personal-data, match: {{labels: {{data-class: pii-eu}}}}, residency: [eu]}}
health: {{interval: {interval}}}
queues:
  default: {{lease: 2s, attempts: 2, backoff: {{initial: 20ms, factor: 2, max: 100ms}}}}
"""


@asynccontextmanager
async def pair(home: Path, ledger: Ledger, interval: str) -> AsyncGenerator[Yard]:
    """Run them for the length of a block; `interval` is health.interval, the pace of verdicts."""
    slots = {region: ("--concurrency", f"{count}") for region, count in SLOTS.items()}
    async with yard(
        home,
        _TEXT.format(interval=interval),
        APP,
        ledger,
        wan=True,
        wan_home=True,
        region_options=slots,
    ) as world:
        yield world


def reach(world: Yard, regions: Iterable[str], how: Reach) -> None:
    """Let the Redis of these regions be so for everybody, their own processes included."""
    named = set(regions)
    world.fleet.set_links(
        {
            (viewer, region): replace(link, reach=how)
            for (viewer, region), link in world.fleet.links.items()
            if region in named
        }
    )


async def cut_redis(world: Yard, region: str) -> None:
    """kill -9 of a region's Redis; it stays down until it is revived."""
    world.supervisor.disable_restart(f"redis-{region}")
    world.supervisor.kill(f"redis-{region}")
    await until(lambda: world.supervisor.pid_of(f"redis-{region}") is None, f"{region} is down")


async def begin_anew(world: Yard) -> None:
    """Have both routers forget what they saw: a region that was lost in another test, above all."""
    names = [f"router-{region}" for region in SLOTS]
    before = {name: world.supervisor.pid_of(name) for name in names}
    for name in names:
        world.supervisor.kill(name)
    pid_of = world.supervisor.pid_of
    await until(lambda: all(pid_of(n) not in (None, before[n]) for n in names), "both run again")
    await world.fleet.until_served()
