"""Looking into every region past the product, once all is well and nothing is left to do."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import redis

from tests.chaos.place import OUTSIDE, REGIONS, Place
from tests.harness.yard import parts_of
from tests.redis_keys import connected, leaked_keys, wrong_counts
from tradewind.local.scratch import RedisProcess
from tradewind.state import Mark
from tradewind.store.letters import word

_PATIENCE_S: Final = 20.0  # of what is removed by sweeps and TTLs
_LOOK_S: Final = 1.0


async def owners(place: Place) -> Mapping[str, Sequence[str]]:
    """Regions that hold a record of each task, forward pointers and tombstones apart."""
    found: dict[str, list[str]] = {}
    for region in REGIONS:
        for server in await place.primaries(region):
            for task_id in await asyncio.to_thread(_records, server):
                found.setdefault(task_id, []).append(region)
    return found


async def untidy(place: Place) -> Mapping[str, Sequence[str]]:
    """Keys that nobody will remove and counts that are wrong, where they stay so for a while."""
    return {region: await _untidy(await place.primaries(region)) for region in REGIONS}


async def marked(place: Place, home: Path, marks: Mapping[int, str]) -> Mapping[int, Sequence[str]]:
    """Where outside its fence something of a fenced task stands: marks by operation."""
    (server,) = await place.primaries(OUTSIDE)
    texts = await asyncio.to_thread(lambda: dict(_texts(server, home, place.logs)))
    return {
        number: [where for where, text in texts.items() if mark.encode() in text]
        for number, mark in marks.items()
    }


async def _untidy(servers: Sequence[RedisProcess]) -> list[str]:
    ports = [server.port for server in servers]
    found: list[str] = []
    for _ in range(int(_PATIENCE_S / _LOOK_S)):
        leaked = await asyncio.gather(*(asyncio.to_thread(leaked_keys, port) for port in ports))
        wrong = await asyncio.to_thread(wrong_counts, *ports)
        found = [f"{key} has no owner" for keys in leaked for key in keys]
        found += [f"{what} counts {was}, is {is_}" for what, (was, is_) in wrong.items()]
        if not found:
            break
        await asyncio.sleep(_LOOK_S)
    return found


def _records(server: RedisProcess) -> list[str]:
    client: Any = connected(server.port)
    keys = [key for key in client.scan_iter(count=1000) if key.partition("}:")[2].startswith("t:")]
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.hget(key, "s")
        letters = pipe.execute()
    pairs = zip(keys, letters, strict=True)
    return [
        key.rpartition(":")[2]
        for key, letter in pairs
        if letter and word(letter.encode()) not in set(Mark)
    ]


def _texts(server: RedisProcess, home: Path, logs: Path) -> Iterator[tuple[str, bytes]]:
    client = cast("Any", redis.Redis(port=server.port))
    keys: list[bytes] = list(client.scan_iter(count=1000))
    yield "a key", b"\n".join(text for key in keys for text in parts_of(client, key))
    files = [file for file in sorted((home / "standalone").rglob("*")) if file.is_file()]
    yield "its Redis's disk", b"\n".join(file.read_bytes() for file in files)
    # Not its router's: what clients bring there themselves has not left.
    workers = sorted(logs.glob(f"worker-{OUTSIDE}-*.log"))
    yield "a log", b"\n".join(file.read_bytes() for file in workers)
