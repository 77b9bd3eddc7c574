"""Reading tasks (port Reads)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreError, StoreMoving, StoreUnavailable
from tradewind.store import replies
from tradewind.store.link import read_reply
from tradewind.store.region_client import CALL_TIMEOUT_S
from tradewind.store.role import Role, partition_in
from tradewind.task import Pointer, QueueCounts, Record

_RECONNECT_S = 1.0
_SILENCE_S = 10.0  # then a subscription is asked for a sign of life
_PAGE_OVERLAP = 64  # dead tasks of one millisecond that a page looks past at a time


class ReadsRole(Role):
    """See ports.Reads."""

    async def read(self, task_id: str) -> Record | Pointer | None:
        """The task, what is left of it, or None; see ports.Reads."""
        partition = partition_in(task_id)
        key = self._client.keys[partition].task(task_id)
        (flat,) = await self._client.plain(partition, [["HGETALL", key]])
        return replies.record(self.region, task_id, flat)

    async def watch(self, task_id: str) -> Record | Pointer | None:
        """As `read`, and `changes` tells of it from now on; see ports.Reads."""
        partition = partition_in(task_id)
        keys = {"record": self._client.keys[partition].task(task_id)}
        reply = await self._client.run(self._client.call("watch", partition, keys, {}))
        if reply[0] == "missing":
            return None
        return replies.record(self.region, task_id, reply[1])

    async def changes(self) -> AsyncIterator[str]:
        """Ids of watched tasks that changed; see ports.Reads.

        Subscribes to every partition's channel, one connection per node, again after a loss.
        """
        news: asyncio.Queue[str] = asyncio.Queue()
        listening = asyncio.create_task(self._listen_always(news))
        try:
            while True:
                yield await news.get()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen_always(self, news: "asyncio.Queue[str]") -> None:
        while True:
            try:
                await self._client.nodes.owner(0)
                async with asyncio.TaskGroup() as group:
                    for partitions in self._client.nodes.owned_together().values():
                        group.create_task(self._listen(partitions, news))
            except* (OSError, StoreError, redis_errors.RedisError):
                news.put_nowait("")
            await asyncio.sleep(_RECONNECT_S)
            # Perhaps a slot has moved; without an answer the old map is as good as any.
            with contextlib.suppress(StoreError):
                await self._client.nodes.learn()

    async def _listen(self, partitions: list[int], news: "asyncio.Queue[str]") -> None:
        """Listen on one node until the connection is lost or a channel has moved: then raise."""
        connection = self._client.nodes.connection(partitions[0])
        try:
            await connection.connect()
            for partition in partitions:  # a Cluster takes channels of one slot at a time
                await connection.send_command("SSUBSCRIBE", self._client.keys[partition].watch)
            subscribed = 0
            while True:
                heard = await self._hear(connection)
                if heard[0] == b"smessage":
                    news.put_nowait(heard[2].decode())
                elif heard[0] == b"ssubscribe":
                    subscribed += 1
                    if subscribed == len(partitions):
                        news.put_nowait("")  # what changed before this moment was not heard
                elif heard[0] == b"sunsubscribe":
                    raise StoreMoving(self.region, partitions[0])
        finally:
            await connection.disconnect(nowait=True)

    async def _hear(self, connection: AbstractConnection) -> list[bytes]:
        """The next message; asks after a silent connection whether it still lives."""
        hearing = asyncio.ensure_future(read_reply(connection))
        try:
            done, _ = await asyncio.wait([hearing], timeout=_SILENCE_S)
            if not done:
                await connection.send_command("PING")
                done, _ = await asyncio.wait([hearing], timeout=_SILENCE_S)
            if not done:
                raise StoreUnavailable(self.region, "no answer in time", sent=True)
            return hearing.result()
        finally:
            hearing.cancel()

    async def dead_page(
        self, partition: int, *, after: str, limit: int
    ) -> tuple[list[Record], str]:
        """Dead tasks of a partition, oldest first; see ports.Reads. A cursor is died_ms:task_id."""
        keys = self._client.keys[partition]
        died_ms, _, last_id = after.partition(":")
        found: list[tuple[str, str]] = []
        offset = 0
        while len(found) <= limit:  # one more than wanted: is there a next page?
            want = limit + _PAGE_OVERLAP
            page = ["ZRANGEBYSCORE", keys.dead, died_ms or "-inf", "+inf", "WITHSCORES"]
            (flat,) = await self._client.plain(
                partition, [[*page, "LIMIT", offset, want]], timeout_s=CALL_TIMEOUT_S
            )
            parts = [part.decode() for part in cast("list[bytes]", flat)]
            pairs = list(zip(parts[::2], parts[1::2], strict=True))
            # Members of one score come in lexical order, so a cursor is a place between two.
            found += [p for p in pairs if not (p[1] == died_ms and p[0] <= last_id)]
            offset += want
            if len(pairs) < want:
                break
        more, found = len(found) > limit, found[:limit]
        if not found:
            return [], ""
        flats = await self._client.plain(
            partition, [["HGETALL", keys.task(task_id)] for task_id, _ in found]
        )
        records = [
            record
            for (task_id, _), flat in zip(found, flats, strict=True)
            if isinstance(record := replies.record(self.region, task_id, flat), Record)
        ]
        return records, f"{found[-1][1]}:{found[-1][0]}" if more else ""

    async def dead_total(self) -> int:
        """How many dead tasks the region holds; see ports.Reads."""
        answers = await asyncio.gather(
            *(
                self._client.plain(partition, [["ZCARD", keys.dead]])
                for partition, keys in enumerate(self._client.keys)
            )
        )
        return sum(cast("int", answer[0]) for answer in answers)

    async def counts(self) -> Mapping[str, QueueCounts]:
        """Tasks by queue, summed over partitions; see ports.Reads."""
        answers = await asyncio.gather(
            *(
                self._client.plain(partition, [["HGETALL", keys.counts]])
                for partition, keys in enumerate(self._client.keys)
            )
        )
        sums: dict[str, dict[str, int]] = {}
        for answer in answers:
            for field, value in replies.fields(answer[0]).items():
                kind, _, queue = field.partition(":")
                if queue:
                    kinds = sums.setdefault(queue, {})
                    kinds[kind] = kinds.get(kind, 0) + int(value)
        return {queue: _counts(kinds) for queue, kinds in sums.items()}


def _counts(kinds: Mapping[str, Any]) -> QueueCounts:
    return QueueCounts(
        pending=(kinds.get("p0", 0), kinds.get("p1", 0), kinds.get("p2", 0)),
        scheduled=kinds.get("s", 0),
        processing=kinds.get("r", 0),
        failed=kinds.get("f", 0),
        moving=kinds.get("m", 0),
        dead=kinds.get("d", 0),
    )
