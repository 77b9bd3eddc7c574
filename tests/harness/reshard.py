"""Moves slots between the primaries of a Cluster as slowly as a test likes, without redis-cli.

Each slot goes as the Cluster specification has it: the target imports, the source migrates, keys go
in batches, and then every primary is told of the new owner, the target first.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import redis.asyncio

from tests.harness.patience import until
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.redis_server import ask
from tradewind.local.scratch import SLOTS, RedisProcess

_MIGRATE_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How slowly slots move. Without pauses one of some hundred keys takes milliseconds."""

    keys: int = 10  # in one MIGRATE
    keys_s: float = 0.0  # pause after each of those
    slots: int = 1  # on their way at the same time
    slot_s: float = 0.0  # pause after so many


@dataclass(frozen=True, slots=True)
class Moved:
    """A slot that has another owner now. Times are the machine's monotonic clock, seconds."""

    slot: int
    keys: int
    began_at: float
    ended_at: float


class Resharder:
    """Moves slots from one primary to another; `nodes` are the ports of all of them."""

    def __init__(self, nodes: Sequence[int], source: int, target: int) -> None:
        """`source` and `target` are ports among `nodes`."""
        self._clients = {port: _client(port) for port in nodes}
        self._target_port = target
        self._source, self._target = self._clients[source], self._clients[target]
        self.moved: list[Moved] = []

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()

    async def owned(self) -> list[int]:
        """The slots of the source, in order."""
        name = await self._name(self._source)
        ranges = await self._source.execute_command("CLUSTER SLOTS")
        return [
            slot
            for low, high, owner, *_ in cast("list[Any]", ranges)
            if owner[2] == name
            for slot in range(low, high + 1)
        ]

    async def move(self, slots: Iterable[int], pace: Pace) -> list[Moved]:
        """Move them in their order; they are in `moved` as well, as soon as each has gone."""
        source, target = await self._name(self._source), await self._name(self._target)
        begin, todo = len(self.moved), list(slots)
        for start in range(0, len(todo), pace.slots):
            some = todo[start : start + pace.slots]
            began_at = time.monotonic()
            await self._set(self._target, some, b"IMPORTING", source)
            await self._set(self._source, some, b"MIGRATING", target)
            keys = [await self._empty(slot, pace) for slot in some]
            for client in dict.fromkeys((self._target, self._source, *self._clients.values())):
                await self._set(client, some, b"NODE", target)
            now = time.monotonic()
            self.moved += [Moved(s, n, began_at, now) for s, n in zip(some, keys, strict=True)]
            await asyncio.sleep(pace.slot_s)
        return self.moved[begin:]

    async def _empty(self, slot: int, pace: Pace) -> int:
        sent = 0
        while keys := await self._source.execute_command("CLUSTER GETKEYSINSLOT", slot, pace.keys):
            await self._source.execute_command(
                "MIGRATE", LOOPBACK, self._target_port, "", 0, _MIGRATE_TIMEOUT_MS, "KEYS", *keys
            )
            sent += len(keys)
            await asyncio.sleep(pace.keys_s)
        return sent

    async def _set(self, client: Any, slots: Sequence[int], state: bytes, node: bytes) -> None:
        async with client.pipeline(transaction=False) as pipe:
            for slot in slots:
                pipe.execute_command("CLUSTER SETSLOT", slot, state, node)
            await pipe.execute()

    async def _name(self, client: Any) -> bytes:
        return await client.execute_command("CLUSTER MYID")


@contextlib.asynccontextmanager
async def resharder(
    nodes: Sequence[RedisProcess], source: RedisProcess, target: RedisProcess
) -> AsyncGenerator[Resharder]:
    """A Resharder for the length of a block."""
    one = Resharder([node.port for node in nodes], source.port, target.port)
    try:
        yield one
    finally:
        await one.close()


@contextlib.contextmanager
def one_more_primary(
    data_dir: Path, nodes: Sequence[RedisProcess], extra_args: Sequence[str] = ()
) -> Generator[RedisProcess]:
    """An empty primary that is a member of the Cluster, for the length of a block.

    Call `is_known` before slots are moved to it.
    """
    port, bus_port = free_ports(2)
    args = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", *extra_args)
    node = RedisProcess(port, data_dir, args, bus_port)
    node.start()
    try:
        ask(nodes[0].port, f"CLUSTER MEET {LOOPBACK} {port} {bus_port}")
        yield node
    finally:
        node.stop()


async def is_known(nodes: Sequence[RedisProcess]) -> None:
    """Wait until all of them know one another, and serve."""
    wanted = {"cluster_state:ok", f"cluster_slots_ok:{SLOTS}", f"cluster_known_nodes:{len(nodes)}"}

    def all_agree() -> bool:
        return all(wanted <= {*ask(each.port, "CLUSTER INFO").splitlines()} for each in nodes)

    await until(all_agree, f"{len(nodes)} nodes know one another")


def _client(port: int) -> Any:
    return cast("Any", redis.asyncio.Redis(host=LOOPBACK, port=port, single_connection_client=True))
