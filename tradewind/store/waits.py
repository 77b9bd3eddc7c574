"""Blocking on the hints that a region's partitions set for waiting workers.

A wait that somebody ends early is unblocked, not dropped: a hint that Redis had already handed to
it would be lost with its connection, and work would lie until the next sweep.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreError, StoreMoving, StoreUnavailable
from tradewind.store import refusals
from tradewind.store.causes import cause_of
from tradewind.store.keys import PartitionKeys
from tradewind.store.link import pack, read_reply
from tradewind.store.refusals import Elsewhere, Later
from tradewind.store.region_client import RegionClient
from tradewind.store.standing import Hint, Standing

_MARGIN_S = 3.0  # a blocking call is given up this long after Redis should have answered
_AGAIN_S = 0.05
_HINT_MS = 60_000  # as lib/wake.lua
_REFUSED_S = 0.25  # between tries within a wait while Redis refuses; a slot moves in milliseconds
# A connection that nobody has used for so long may be half-open, and a wait on it would be deaf.
_IDLE_S = 10.0


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
    partition: int  # one that its node served
    address: str  # of that node
    heard_s: float  # monotonic time of its last reply


class Waits:
    """All waits of one process on one region."""

    def __init__(self, client: RegionClient) -> None:
        """Nothing is connected yet."""
        self._client = client
        self._idle: dict[int, list[_Line]] = {}  # by first partition
        self._ending: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._standing = Standing(
            self._block, give_back=self._give_back, ask=self._ask, aside=self._aside
        )

    async def wait(
        self,
        wants: Wants,
        partitions: Sequence[int],
        *,
        timeout_s: float,
    ) -> int | None:
        """Block until a partition may have work; see ports.Upkeep. The first answer wins."""
        await self._client.nodes.known()
        groups = self._groups(partitions)
        if not groups or not (wants.ready or wants.suspects):
            await asyncio.sleep(timeout_s)
            return None
        if len(groups) == 1:
            hint = await self._block(groups[0], self._turned(groups[0], wants), timeout_s)
        else:
            markers = {place: wants.markers(self._client.keys, [place]) for (place,) in groups}
            hint = await self._standing.first(markers, timeout_s)
        return None if hint is None else hint.partition

    def _turned(self, partitions: list[int], wants: Wants) -> Mapping[str, int]:
        """Redis serves the first key that has something: rotate, or the last partition starves."""
        self._turn = (self._turn + 1) % len(partitions)
        turned = partitions[self._turn :] + partitions[: self._turn]
        return wants.markers(self._client.keys, turned)

    async def _ask(self, partitions: list[int]) -> None:
        """Raise StoreError if none of their nodes answers."""
        nodes = self._client.nodes
        links = {nodes.address(each): await nodes.owner(each) for each in partitions}
        asking = [link.call([["PING"]], timeout_s=_MARGIN_S) for link in links.values()]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        if len(failed) == len(answers):
            nodes.doubt()
            raise failed[0]

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        self._standing.leave()
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
        keys: Mapping[str, int],
        timeout_s: float,
    ) -> Hint | None:
        clock = asyncio.get_running_loop().time
        until_s = clock() + timeout_s
        while True:
            try:
                return await self._block_on(partitions, keys, until_s - clock())
            except (Elsewhere, Later, StoreMoving) as error:
                if clock() + _REFUSED_S >= until_s:
                    return None
                await self._client.heed(partitions[0], error)
                await asyncio.sleep(_REFUSED_S)

    async def _block_on(
        self, partitions: list[int], keys: Mapping[str, int], timeout_s: float
    ) -> Hint | None:
        """Once. Raises StoreError: Elsewhere, Later and StoreMoving while Redis refuses."""
        line: _Line | None = None
        try:
            async with asyncio.timeout(timeout_s + _MARGIN_S):
                line = await self._line(min(partitions))
                command = pack(["BLPOP", *keys, f"{max(timeout_s, 0.01):.3f}"])
                await line.connection.send_packed_command([command])
                reply = await read_reply(line.connection)
        except (OSError, TimeoutError, StoreError, redis_errors.RedisError) as error:
            if line is not None:
                await line.connection.disconnect(nowait=True)
            raise self._met(error, partitions[0]) from None
        except asyncio.CancelledError:
            if line is not None:
                self._aside(self._unblock(line, keys))
            raise
        self._spare(line)
        return _hint(reply, keys)

    def _met(self, error: Exception, partition: int) -> StoreError:
        """What a wait met, as one of ours."""
        if isinstance(error, redis_errors.ResponseError | redis_errors.BusyLoadingError):
            return refusals.error_of(self._client.name, partition, error)
        self._client.nodes.doubt()
        if isinstance(error, StoreError):
            return error
        return StoreUnavailable(self._client.name, cause_of(error), sent=True)

    async def _line(self, partition: int) -> _Line:
        """An idle connection to the partition's node, or a new one.

        Those to a node that it has left are closed.
        """
        await self._client.nodes.owner(partition)  # nothing is taken from a Redis that is not ours
        address = self._client.nodes.address(partition)
        idle, old_s = self._idle.get(partition, []), time.monotonic() - _IDLE_S
        while idle:
            line = idle.pop()
            if line.address == address and line.heard_s > old_s:
                return line
            await line.connection.disconnect(nowait=True)
        connection = self._client.nodes.connection(partition)
        try:
            await connection.connect()
            await connection.send_command("CLIENT", "ID")
            client_id = cast("int", await read_reply(connection))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return _Line(connection, client_id, partition, address, time.monotonic())

    def _spare(self, line: _Line) -> None:
        """Keep it for the next wait."""
        fresh = replace(line, heard_s=time.monotonic())
        self._idle.setdefault(line.partition, []).append(fresh)

    def _aside(self, work: Coroutine[None, None, None]) -> None:
        ending = asyncio.create_task(work)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _unblock(self, line: _Line, keys: Mapping[str, int]) -> None:
        """End a wait nobody waits for; a hint that it was given goes back."""
        unblock = ["CLIENT", "UNBLOCK", line.client_id]
        try:
            async with asyncio.timeout(_MARGIN_S):
                link = self._client.nodes.link_to(line.address)
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
        self._spare(line)
        if hint is not None:
            await self._give_back(hint)

    async def _give_back(self, hint: Hint) -> None:
        commands = [
            ["RPUSH", hint.marker, "1"],
            ["LTRIM", hint.marker, 0, 0],  # one is enough
            ["PEXPIRE", hint.marker, _HINT_MS],
        ]
        with contextlib.suppress(StoreError):  # then the next sweep sets it
            link = await self._client.nodes.owner(hint.partition)
            await link.call(commands, timeout_s=_MARGIN_S)


def _hint(reply: list[bytes] | None, keys: Mapping[str, int]) -> Hint | None:
    if reply is None:
        return None
    marker = reply[0].decode()
    return Hint(keys[marker], marker)
