"""Blocking on the hints that a region's partitions set for waiting workers.

A wait that somebody ends early is unblocked, not dropped: a hint that Redis had already handed to
it would be lost with its connection, and work would lie until the next sweep.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreError, StoreUnavailable
from tradewind.store.keys import PartitionKeys
from tradewind.store.link import cause_of, pack, read_reply
from tradewind.store.region_client import RegionClient

_MARGIN_S = 3.0  # a blocking call is given up this long after Redis should have answered
_AGAIN_S = 0.05
_HINT_MS = 60_000  # as lib/wake.lua
_MOVING = (redis_errors.AskError, redis_errors.TryAgainError, redis_errors.ClusterDownError)


@dataclass(frozen=True, slots=True, eq=False)
class _Hint:
    """A partition may have work; the marker that said so."""

    partition: int
    marker: str


@dataclass(frozen=True, slots=True)
class Wants:
    """What a wait is for; see ports.Upkeep."""

    queues: tuple[str, ...]
    ready: bool
    suspects: bool
    cold: frozenset[int]

    def markers(self, keys: Sequence[PartitionKeys], partitions: Sequence[int]) -> dict[str, int]:
        """The hints to block on, with their partitions. Redis serves the first that is set.

        What this worker can surely run goes first, what may be for workers with other handlers
        last.
        """
        found: dict[str, int] = {}
        if self.ready:
            found |= {keys[p].wake(q): p for p in partitions for q in self.queues}
        if self.suspects:
            found |= {keys[p].suspects(q): p for p in partitions for q in self.queues}
        warm = [p for p in partitions if p not in self.cold]
        return found | {keys[p].others(q): p for p in warm for q in self.queues}


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection that blocks; its name in Redis lets others unblock it."""

    connection: AbstractConnection
    client_id: int
    partition: int  # one that its node serves


class Waits:
    """All waits of one process on one region."""

    def __init__(self, client: RegionClient) -> None:
        """Nothing is connected yet."""
        self._client = client
        self._idle: dict[int, list[_Line]] = {}  # by first partition
        self._ending: set[asyncio.Task[None]] = set()
        self._turn = 0

    async def wait(
        self,
        wants: Wants,
        partitions: Sequence[int],
        *,
        timeout_s: float,
    ) -> int | None:
        """Block until a partition may have work; see ports.Upkeep. The first answer wins."""
        await self._client.nodes.owner(0)
        groups = self._groups(partitions)
        if not groups or not (wants.ready or wants.suspects):
            await asyncio.sleep(timeout_s)
            return None
        if len(groups) == 1:
            hint = await self._block(groups[0], wants, timeout_s)
        else:
            hint = await self._first(groups, wants, timeout_s)
        return None if hint is None else hint.partition

    async def _first(
        self,
        groups: list[list[int]],
        wants: Wants,
        timeout_s: float,
    ) -> _Hint | None:
        self._turn = (self._turn + 1) % len(groups)
        groups = groups[self._turn :] + groups[: self._turn]
        waits = [asyncio.create_task(self._block(group, wants, timeout_s)) for group in groups]
        taken: _Hint | None = None
        try:
            for done in asyncio.as_completed(waits):
                taken = await done
                if taken is not None:
                    break
        finally:
            # Aside, with no further await: whoever is cancelled here would lose what was taken.
            self._aside(self._dismiss(waits, taken))
        return taken

    async def _dismiss(
        self, waits: Sequence["asyncio.Task[_Hint | None]"], taken: _Hint | None
    ) -> None:
        for wait in waits:
            wait.cancel()
        for other in await asyncio.gather(*waits, return_exceptions=True):
            if isinstance(other, _Hint) and other is not taken:
                await self._give_back(other)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        while self._ending:  # dismissed waits unblock in their turn
            await asyncio.gather(*self._ending, return_exceptions=True)
        idle, self._idle = self._idle, {}
        for lines in idle.values():
            for line in lines:
                await line.connection.disconnect(nowait=True)

    def _groups(self, partitions: Sequence[int]) -> list[list[int]]:
        """What one blocking call may name: in a Cluster, the keys of one slot."""
        if self._client.nodes.is_cluster:
            return [[partition] for partition in partitions]
        return [list(partitions)] if partitions else []

    async def _block(
        self,
        partitions: list[int],
        wants: Wants,
        timeout_s: float,
    ) -> _Hint | None:
        # Redis serves the first key that has something: rotate, or the last partition starves.
        self._turn = (self._turn + 1) % len(partitions)
        turned = partitions[self._turn :] + partitions[: self._turn]
        keys = wants.markers(self._client.keys, turned)
        line: _Line | None = None
        try:
            async with asyncio.timeout(timeout_s + _MARGIN_S):
                line = await self._line(min(partitions))
                command = pack(["BLPOP", *keys, f"{max(timeout_s, 0.01):.3f}"])
                await line.connection.send_packed_command([command])
                reply = await read_reply(line.connection)
        except (OSError, TimeoutError, redis_errors.RedisError) as error:
            if line is not None:
                await line.connection.disconnect(nowait=True)
            await self._failed(error, timeout_s)
            return None
        except asyncio.CancelledError:
            if line is not None:
                self._aside(self._unblock(line, keys))
            raise
        self._idle.setdefault(line.partition, []).append(line)
        return _hint(reply, keys)

    async def _failed(self, error: Exception, timeout_s: float) -> None:
        """Raise StoreUnavailable, unless the partition only moves: then there is no hint."""
        if isinstance(error, redis_errors.MovedError):
            await self._client.nodes.learn()
        elif isinstance(error, _MOVING):
            await asyncio.sleep(timeout_s)
        else:
            self._client.nodes.doubt()
            raise StoreUnavailable(self._client.name, cause_of(error), sent=True) from None

    async def _line(self, partition: int) -> _Line:
        """An idle connection to the partition's node, or a new one."""
        idle = self._idle.get(partition)
        if idle:
            return idle.pop()
        connection = self._client.nodes.connection(partition)
        try:
            await connection.connect()
            await connection.send_command("CLIENT", "ID")
            return _Line(connection, cast("int", await read_reply(connection)), partition)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise

    def _aside(self, work: Coroutine[None, None, None]) -> None:
        ending = asyncio.create_task(work)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _unblock(self, line: _Line, keys: Mapping[str, int]) -> None:
        """End a wait nobody waits for; a hint that it was given goes back."""
        unblock = ["CLIENT", "UNBLOCK", line.client_id]
        try:
            async with asyncio.timeout(_MARGIN_S):
                link = await self._client.nodes.owner(line.partition)
                reading = asyncio.ensure_future(read_reply(line.connection))
                try:
                    while not reading.done():  # it may not have begun to block yet
                        await link.call([unblock], timeout_s=_MARGIN_S)
                        await asyncio.wait([reading], timeout=_AGAIN_S)
                finally:
                    reading.cancel()
                hint = _hint(reading.result(), keys)
        except (OSError, TimeoutError, StoreError, redis_errors.RedisError):
            await line.connection.disconnect(nowait=True)
            return
        self._idle.setdefault(line.partition, []).append(line)
        if hint is not None:
            await self._give_back(hint)

    async def _give_back(self, hint: _Hint) -> None:
        link = await self._client.nodes.owner(hint.partition)
        commands = [
            ["RPUSH", hint.marker, "1"],
            ["LTRIM", hint.marker, 0, 0],  # one is enough
            ["PEXPIRE", hint.marker, _HINT_MS],
        ]
        with contextlib.suppress(StoreError):  # then the next sweep sets it
            await link.call(commands, timeout_s=_MARGIN_S)


def _hint(reply: list[bytes] | None, keys: Mapping[str, int]) -> _Hint | None:
    if reply is None:
        return None
    marker = reply[0].decode()
    return _Hint(keys[marker], marker)
