"""Reading tasks (port Reads)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from tradewind.errors import StoreError
from tradewind.store import replies
from tradewind.store.listening import listen
from tradewind.store.region_client import CALL_TIMEOUT_S
from tradewind.store.role import Role, partition_in
from tradewind.task import Pointer, Priority, QueueCounts, Record

_PAGE_OVERLAP = 64  # dead tasks of one millisecond that a page looks past at a time
OLDEST_LISTS = 256  # ready lists, and parked ones, that a partition looks at for the longest wait


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

    def changes(self) -> AsyncIterator[str]:
        """Ids of watched tasks that changed; see ports.Reads."""
        return listen(self._client, [keys.watch for keys in self._client.keys])

    async def oldest(self) -> Mapping[tuple[str, Priority], int]:
        """The longest wait of ready tasks, ms; see ports.Reads."""
        calls = [
            self._client.call(
                "oldest",
                partition,
                {"counts": keys.counts, "parked": keys.parked, **keys.due},
                {"prefix": keys.prefix, "limit": OLDEST_LISTS},
            )
            for partition, keys in enumerate(self._client.keys)
        ]
        ages_ms: dict[tuple[str, Priority], int] = {}
        for answer in await self._client.run_each(calls):
            if isinstance(answer, StoreError):
                raise answer
            for queue, priority, age_ms in cast("list[Any]", answer[1:]):
                place = (queue.decode(), Priority(int(priority)))
                ages_ms[place] = max(age_ms, ages_ms.get(place, 0))
        return ages_ms

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

    async def parked(self) -> Mapping[tuple[str, str], int]:
        """Ready tasks put aside, by queue and handler, summed over partitions; see ports.Reads."""
        answers = await asyncio.gather(
            *(
                self._client.plain(partition, [["HGETALL", keys.parked]])
                for partition, keys in enumerate(self._client.keys)
            )
        )
        sums: dict[tuple[str, str], int] = {}
        for answer in answers:
            for field, value in replies.fields(answer[0]).items():
                queue, _, name = field.partition(" ")
                if name:
                    sums[queue, name] = sums.get((queue, name), 0) + int(value)
        return sums


def _counts(kinds: Mapping[str, Any]) -> QueueCounts:
    return QueueCounts(
        pending=(kinds.get("p0", 0), kinds.get("p1", 0), kinds.get("p2", 0)),
        scheduled=kinds.get("s", 0),
        processing=kinds.get("r", 0),
        failed=kinds.get("f", 0),
        moving=kinds.get("m", 0),
        dead=kinds.get("d", 0),
    )
