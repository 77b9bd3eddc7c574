"""Whether what was written outlives a crash of its node: on a replica, and on disk.

WAIT and WAITAOF count for what their own connection wrote last, and block whatever is sent behind
them. So a seal has a connection of its own to each node: it writes a mark, which stands behind all
that others have had answered by then, and waits for that. Callers that come meanwhile share the
next one, so many moves cost as much as one.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from tradewind.limits import SECOND_MS
from tradewind.store import replies, scripts
from tradewind.store.link import Command, Link, Reply
from tradewind.store.region_client import RegionClient
from tradewind.store.role import Role

_WAIT_MS: Final = 2_000  # appendfsync everysec: one second, and as much for a busy disk
_MARGIN_S: Final = 3.0  # of the answers, beyond that
_LOOK_S: Final = 30.0  # as the map of nodes: whether there are replicas changes seldom


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a node has to wait for."""

    replica: bool
    disk: bool

    def commands(self) -> list[Command]:
        """What asks for it."""
        wait = [["WAIT", 1, _WAIT_MS]] if self.replica else []
        return [*wait, *([["WAITAOF", 1, 0, _WAIT_MS]] if self.disk else [])]


class _Seal:
    """Of one node. Belongs to one event loop."""

    def __init__(self, client: RegionClient, link: Link) -> None:
        """`link` is its own."""
        self._client, self._link = client, link
        self._needs: _Needs | None = None
        self._looked_s = 0.0
        self._running: asyncio.Task[bool] | None = None
        self._next: asyncio.Task[bool] | None = None

    async def sealed(self, partition: int) -> bool:
        """Whether what the node has answered by now is safe. Raises StoreError."""
        if self._next is None:
            self._next = asyncio.create_task(self._round(self._running, partition))
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        await self._link.close()
        under_way = [task for task in (self._running, self._next) if task is not None]
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _round(self, before: "asyncio.Task[bool] | None", partition: int) -> bool:
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        # From here on who comes is too late for this one.
        self._running, self._next = self._next, None
        needs = await self._look(partition)
        if not needs.commands():
            return True
        script = scripts.load("seal")
        mark = script.parts({"mark": self._client.keys[partition].probe}, {})
        commands = [["EVAL", script.source, *mark], *needs.commands()]
        said = await self._ask(partition, commands)
        return all(_reached(answer) for answer in said[1:])

    async def _look(self, partition: int) -> _Needs:
        now_s = time.monotonic()
        if self._needs is None or now_s - self._looked_s > _LOOK_S:
            asked = [["INFO", part] for part in ("replication", "persistence", "server")]
            facts = _facts(await self._ask(partition, asked))
            syncs = await self._syncs() if facts.get("aof_enabled") == "1" else False
            version = tuple(map(int, facts.get("redis_version", "0").split(".")[:2]))
            self._needs = _Needs(
                replica=int(facts.get("connected_slaves", "0")) > 0,
                disk=syncs and version >= (7, 2),
            )
            self._looked_s = now_s
        return self._needs

    async def _syncs(self) -> bool:
        """Whether it ever writes its log to disk by itself; a login may not be allowed to ask."""
        asked: list[Command] = [["CONFIG", "GET", "appendfsync"]]
        (said,) = await self._link.call(asked, timeout_s=_MARGIN_S)
        return said != [b"appendfsync", b"no"]

    async def _ask(self, partition: int, commands: Sequence[Command]) -> list[Reply]:
        timeout_s = 2 * _WAIT_MS / SECOND_MS + _MARGIN_S
        said = await self._link.call(commands, timeout_s=timeout_s)
        for answer in said:
            if isinstance(answer, Exception):
                raise replies.error_of(self._client.name, partition, answer)
        return said


class SealRole(Role):
    """Part of ports.Outbox and ports.Inbox."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        super().__init__(client)
        self._seals: dict[str, _Seal] = {}

    async def seal(self, partition: int) -> bool:
        """What was written there is safe; see ports.Outbox."""
        nodes = self._client.nodes
        await nodes.owner(partition)
        address = nodes.address(partition)
        if address not in self._seals:
            self._seals[address] = _Seal(self._client, nodes.link_apart(address))
        return await self._seals[address].sealed(partition)

    async def close_seals(self) -> None:
        """Close their connections. Idempotent."""
        seals, self._seals = self._seals, {}
        await asyncio.gather(*(seal.close() for seal in seals.values()))


def _seen(task: "asyncio.Task[bool]") -> None:
    """Whoever waited for it may be gone."""
    if not task.cancelled():
        task.exception()


def _facts(infos: Sequence[Reply]) -> dict[str, str]:
    lines = [line for info in infos for line in cast("bytes", info).decode().splitlines()]
    return {name: value for line in lines for name, _, value in [line.partition(":")] if value}


def _reached(answer: Reply) -> bool:
    """Of WAIT a number, of WAITAOF two: this node's disk, and those of replicas."""
    count = cast("list[int]", answer)[0] if isinstance(answer, list) else cast("int", answer)
    return count >= 1
