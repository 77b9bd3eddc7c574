"""What is lost when a primary dies: `python -m bench.loss`, the table of docs/durability.md.

A router takes submits in closed loops from 32 clients of one process; at a random moment its
redis-server is killed. It starts anew from its disk, or its replica takes over, and every task
whose submit had been answered by then is looked for. What is gone was lost, and how long before the
kill its answer came is the window.

kill -9 takes no page cache with it, and a machine that loses power does: there the server runs with
bench/synced.c preloaded, which notes the size of each file at each sync, and before the new start
every file is cut to what had been synced. With a busy disk each sync takes 1.5 s more. Between
primary and replica lies a proxy that takes 10 ms for a round trip; what is on its way there when
the primary dies is lost, as with a machine.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import redis

from bench import machine
from bench.drive import TEXT
from bench.figures import Figure
from bench.fleet import REGION
from router.gateway import Gateway
from router.server import Server
from tradewind import Client, ids
from tradewind.clock import SystemClock
from tradewind.errors import ConfigError, TradewindError
from tradewind.fleet import Durability, Fleet, QueuePolicy, RedisTarget, Region
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.redis_server import REPLICATED
from tradewind.local.scratch import RedisProcess, redis_process
from tradewind.local.wan import Link, WanProxy
from tradewind.store.keys import partition_keys
from tradewind.store.region_store import RegionStore

CLIENTS: Final = 32
RTT_MS: Final = 10.0  # between primary and replica
NOTHING: Final = ("--appendonly", "no", "--save", "")


@dataclass(frozen=True, slots=True)
class Case:
    """How a Redis is run, what the queue asks, and what dies."""

    name: str
    durability: Durability
    args: tuple[str, ...]
    power: bool = False  # the machine, not the process alone
    replica: bool = False  # it takes over
    seconds: float = 4.0  # of load at least
    sync_ms: int = 0  # that each sync takes longer

    @property
    def is_watched(self) -> bool:
        """Whether bench/synced.c is preloaded."""
        return self.power or self.sync_ms > 0


def _aof(when: str) -> tuple[str, ...]:
    return ("--appendonly", "yes", "--appendfsync", when)


CASES: Final = (
    Case("memory, AOF everysec: process", "memory", _aof("everysec")),
    Case("memory, AOF everysec: power", "memory", _aof("everysec"), power=True),
    Case("memory, AOF everysec, busy disk: process", "memory", _aof("everysec"), sync_ms=1_500),
    Case("fsync, AOF everysec: process", "fsync", _aof("everysec")),
    Case("fsync, AOF everysec: power", "fsync", _aof("everysec"), power=True),
    Case("memory, AOF always: power", "memory", _aof("always"), power=True),
    Case("fsync, AOF always: power", "fsync", _aof("always"), power=True),
    Case("memory, RDB every 5 s: process", "memory", ("--appendonly", "no", "--save", "5 1"),
         seconds=9.0),
    Case("memory, replica takes over", "memory", NOTHING, replica=True),
    Case("replica, replica takes over", "replica", NOTHING, replica=True),
)  # fmt: skip


@dataclass(slots=True)
class _Ledger:
    """What clients were told, and when."""

    answered: dict[str, tuple[float, bool]] = field(
        default_factory=dict[str, tuple[float, bool]]
    )  # task_id -> (monotonic time of the answer, confirmed)
    took_s: list[float] = field(default_factory=list[float])
    is_over: bool = False


def main(arguments: Sequence[str]) -> int:
    """Run the cases. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.loss",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="deaths a case (default: 5)")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    given = parser.parse_args(arguments)
    print(json.dumps(machine.describe()))
    with tempfile.TemporaryDirectory(prefix="tradewind-loss-") as folder:
        home = Path(folder)
        shim = compiled(home)
        for case in CASES:
            if given.only not in case.name:
                continue
            if case.is_watched and shim is None:
                print(f"| {case.name} | needs a C compiler |")
                continue
            rounds = [
                asyncio.run(die_once(case, home / f"{case.name}-{number}", shim))
                for number in range(given.rounds)
            ]
            print(_line(case, rounds), flush=True)
    return 0


def _line(case: Case, rounds: Sequence[Mapping[str, float]]) -> str:
    def all_of(name: str) -> Figure:
        return Figure.of([one[name] for one in rounds])

    columns = [
        case.name,
        all_of("answered"),
        all_of("lost"),
        f"{all_of('oldest_ms')} ms",
        all_of("unconfirmed"),
        all_of("unconfirmed_lost"),
        f"{all_of('p50_ms')} ms",
    ]
    return f"| {' | '.join(map(str, columns))} |"


async def die_once(case: Case, home: Path, shim: Path | None) -> Mapping[str, float]:
    """Measure one death. `shim`: what `compiled` made, for cases that are watched."""
    synced = home / "synced"
    ledger = _Ledger()
    with ExitStack() as stack:
        primary = stack.enter_context(redis_process(home / "primary", (*case.args, *REPLICATED)))
        if case.is_watched:
            primary.stop()
            primary.env = {"LD_PRELOAD": str(shim), "SYNCED": str(synced)}
            if case.sync_ms:
                primary.env |= {"SYNC_MS": str(case.sync_ms)}
            primary.start()
        way = WanProxy([Link(port := free_ports(1)[0], LOOPBACK, primary.port, RTT_MS / 2)])
        await way.start()
        replica: RedisProcess | None = None
        if case.replica:
            of = ("--replicaof", LOOPBACK, str(port))
            replica = stack.enter_context(
                redis_process(home / "replica", (*case.args, *REPLICATED, *of))
            )
            await _follows(replica)
        async with _serving(case, primary) as address, Client(address) as client:
            loops = [asyncio.create_task(_submit(client, ledger)) for _ in range(CLIENTS)]
            await asyncio.sleep(case.seconds + random.uniform(0, 1))
            await way.stop()
            # What has been answered by now has been: this loop is the clients' own.
            died_s, ledger.is_over = time.monotonic(), True
            primary.kill()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
        if replica is not None:
            _ask(replica.port).replicaof("NO", "ONE")
            left = replica
        else:
            if case.power:
                _cut(primary.data_dir, synced)
            primary.start()
            left = primary
        return _judge(ledger, left.port, died_s)


async def _submit(client: Client, ledger: _Ledger) -> None:
    while not ledger.is_over:
        began_s = time.monotonic()
        try:
            receipt = await client.submit("bench.loss", {"text": TEXT}, deadline=30.0)
        except TradewindError:
            continue
        if not ledger.is_over:
            now_s = time.monotonic()
            ledger.answered[receipt.task_id] = (now_s, not receipt.replication_unconfirmed)
            ledger.took_s.append(now_s - began_s)


def _judge(ledger: _Ledger, port: int, died_s: float) -> Mapping[str, float]:
    keys, raw = partition_keys(16), _ask(port)
    with raw.pipeline(transaction=False) as pipe:
        for task_id in ledger.answered:
            pipe.exists(keys[ids.parse(task_id).partition].task(task_id))
        there = pipe.execute()
    gone = [
        told for told, is_there in zip(ledger.answered.values(), there, strict=True) if not is_there
    ]
    lost_ms = [(died_s - at_s) * 1000 for at_s, confirmed in gone if confirmed]
    unconfirmed = sum(not confirmed for _, confirmed in ledger.answered.values())
    return {
        "answered": len(there),
        "lost": len(lost_ms),
        "oldest_ms": round(max(lost_ms, default=0.0)),
        "unconfirmed": unconfirmed,
        "unconfirmed_lost": len(gone) - len(lost_ms),
        "p50_ms": round(statistics.median(ledger.took_s) * 1000, 1),
    }


@asynccontextmanager
async def _serving(case: Case, primary: RedisProcess) -> AsyncGenerator[str]:
    target = RedisTarget("standalone", (f"{LOOPBACK}:{primary.port}",))
    queue = QueuePolicy(durability=case.durability)
    fleet = Fleet(regions={REGION: Region(REGION, target)}, partitions=16, default_queue=queue)

    async def reload() -> Fleet:
        raise ConfigError("no file", "this measurement has none")

    gateway = Gateway(fleet, REGION, RegionStore, SystemClock(), reload=reload)
    server = Server(gateway, f"{LOOPBACK}:0")
    looking = asyncio.create_task(gateway.run())
    await gateway.first_look(5)
    await server.start()
    try:
        yield server.address
    finally:
        hurry = asyncio.Event()
        hurry.set()
        await server.stop(hurry)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await gateway.disconnect()


async def _follows(replica: RedisProcess) -> None:
    while _ask(replica.port).info("replication")["master_link_status"] != "up":  # noqa: ASYNC110 - Redis alone can tell
        await asyncio.sleep(0.02)


def compiled(home: Path) -> Path | None:
    """Compile what notes syncs; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    built = home / "synced.so"
    source = Path(__file__).with_name("synced.c")
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(built), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return built


def _cut(data_dir: Path, synced: Path) -> None:
    """Leave of each file of the log what had been synced."""
    sizes: dict[int, int] = {}
    for line in synced.read_text().splitlines():
        inode, size = map(int, line.split())
        sizes[inode] = max(size, sizes.get(inode, 0))
    for path in (data_dir / "appendonlydir").iterdir():
        if path.suffix == ".aof":
            os.truncate(path, min(path.stat().st_size, sizes.get(path.stat().st_ino, 0)))


def _ask(port: int) -> Any:
    return redis.Redis(host=LOOPBACK, port=port, decode_responses=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
