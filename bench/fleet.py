"""One region with a router and a worker pool, real processes, for a measurement."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from bench.marks import LEDGER_ENV
from tradewind.fleet import Fleet
from tradewind.local.embedded import EmbeddedFleet
from tradewind.local.plan import EmbeddedOptions
from tradewind.regions import load

REGION = "here"
REGIONS = f"""\
version: 1
regions:
  {REGION}: {{redis: "redis://127.0.0.1:6401", residency: [one]}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A running region. The ledger is what bench.marks writes."""

    router: str
    raw: Any  # its Redis
    ledger: Path
    fleet: Fleet


@asynccontextmanager
async def one_region(home: Path, *worker_options: str) -> AsyncGenerator[Place]:
    """Run it in `home`; everything has ended afterwards."""
    config, ledger = home / "regions.yaml", home / "ledger"
    config.write_text(REGIONS)
    ledger.touch()
    os.environ[LEDGER_ENV] = str(ledger)
    options = EmbeddedOptions(
        config=config,
        app=f"{Path(__file__).parent / 'marks.py'}:app",
        data_dir=home / "data",
        ephemeral_ports=True,
        worker_options=worker_options,
    )
    fleet = EmbeddedFleet(load(config), options)
    await fleet.start()
    try:
        end = fleet.endpoints[REGION]
        raw: Any = redis.Redis.from_url(end.redis_url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
        seen = load(home / "data" / f"regions.{REGION}.yaml")  # with the ports that were chosen
        yield Place(end.grpc, raw, ledger, seen)
    finally:
        await fleet.stop()
