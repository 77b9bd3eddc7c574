"""The reconcile sweep: finds again what no index names, slowly enough to cost nearly nothing.

One worker does it for each node of the region: the one whose share holds the node's first
partition. It looks at all keys of the node once in RECONCILE_EVERY_MS, at most
RECONCILE_KEYS_PER_S; a node with too many keys for that takes longer. Two that disagree for a
moment look twice, which is harmless.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from tradewind import metrics
from tradewind.clock import Clock
from tradewind.errors import StoreError
from tradewind.limits import (
    MINUTE_MS,
    RECONCILE_BATCH,
    RECONCILE_EVERY_MS,
    RECONCILE_KEYS_PER_S,
    SECOND_MS,
)
from tradewind.ports import Repairs
from tradewind.task import Repair

_log = logging.getLogger(__name__)
_FIRST_WITHIN_S: Final = MINUTE_MS / SECOND_MS  # of a start: it may follow whatever did the damage
_AGAIN_S: Final = MINUTE_MS / SECOND_MS  # after an error, and to see whether the share has changed
_BETWEEN_S: Final = 10.0  # partitions of a node at the end of a pass: no burst in an idle region
_SHOWN: Final = 5  # ids in one line of the log


class Reconciler:
    """Compares tasks with what names them, one pass after another."""

    def __init__(
        self, store: Repairs, clock: Clock, *, share: Callable[[], Collection[int]]
    ) -> None:
        """`share()`: the partitions that this worker looks after."""
        self._store, self._clock, self._share = store, clock, share

    async def run(self) -> None:
        """Pass after pass, until cancelled."""
        await asyncio.sleep(random.uniform(0, _FIRST_WITHIN_S))
        due_ms: dict[int, float] = {}  # first partition of a node -> when its next pass begins
        while True:
            try:
                for node in await self._store.together():
                    now_ms = self._clock.monotonic_ms()
                    if node[0] in self._share() and due_ms.get(node[0], now_ms) <= now_ms:
                        await self.look_over(node)
                        due_ms[node[0]] = now_ms + RECONCILE_EVERY_MS
            except StoreError as error:
                _log.debug("a reconcile sweep was interrupted", extra={"reason": str(error)})
            await asyncio.sleep(_AGAIN_S)

    async def look_over(self, node: Sequence[int], *, hurry: bool = False) -> int:
        """One pass over a node, named by its partitions. Returns how much was put in order.

        `hurry`: as fast as the node answers. Raises StoreError.
        """
        first = node[0]
        waiting: dict[int, set[str]] = {}
        queues: dict[int, set[str]] = {}
        repaired, cursor = 0, ""
        while True:
            seen = await self._store.scan(first, cursor, limit=RECONCILE_KEYS_PER_S)
            for partition, task_ids in seen.task_ids.items():
                waiting.setdefault(partition, set()).update(task_ids)
            for partition in [p for p, ids in waiting.items() if len(ids) >= RECONCILE_BATCH]:
                repaired += await self._compare(partition, waiting.pop(partition), queues)
            cursor = seen.cursor
            if not cursor:
                break
            if not hurry:
                await asyncio.sleep(_pause_s(seen.keys))
            if not hurry and first not in self._share():
                return repaired  # another worker looks after this node now
        for partition in sorted({*node, *waiting}):
            repaired += await self._compare(partition, waiting.pop(partition, ()), queues)
            repaired += await self._finish(partition, queues, hurry=hurry)
            if not hurry:
                await asyncio.sleep(_BETWEEN_S)
        return repaired

    async def _finish(self, partition: int, queues: dict[int, set[str]], *, hurry: bool) -> int:
        """What the partition's indexes name though it is gone, and its counts."""
        repaired, cursor = 0, ""
        while True:
            seen = await self._store.indexed(partition, cursor)
            for task_ids in seen.task_ids.values():
                repaired += await self._compare(partition, task_ids, queues)
            cursor = seen.cursor
            if not hurry:
                named = sum(map(len, seen.task_ids.values()))
                await asyncio.sleep(named / RECONCILE_KEYS_PER_S)
            if not cursor:
                break
        repairs = await self._store.recount(partition, queues.get(partition, set()))
        return repaired + self._tell(partition, repairs or ())

    async def _compare(
        self, partition: int, task_ids: Iterable[str], queues: dict[int, set[str]]
    ) -> int:
        ids = sorted(task_ids)
        repaired = 0
        for start in range(0, len(ids), RECONCILE_BATCH):
            batch = ids[start : start + RECONCILE_BATCH]
            done = await self._store.reconcile(partition, batch)
            queues.setdefault(partition, set()).update(done.ready_queues)
            repaired += self._tell(partition, done.repairs)
            # Alone each has the whole of what one call reads.
            for task_id in done.unsearched if len(batch) > 1 else ():
                alone = await self._store.reconcile(partition, [task_id])
                repaired += self._tell(partition, alone.repairs)
        return repaired

    def _tell(self, partition: int, repairs: Collection[Repair]) -> int:
        by_kind: dict[str, list[str]] = {}
        for repair in repairs:
            by_kind.setdefault(repair.kind, []).append(repair.of)
        for kind, of in by_kind.items():
            metrics.RECONCILED.labels(self._store.region, kind).inc(len(of))
            extra = {"partition": partition, "kind": kind, "number": len(of), "of": of[:_SHOWN]}
            _log.warning("put in order what did not say what a task's record says", extra=extra)
        return len(repairs)


def _pause_s(keys: int) -> float:
    """After a look at RECONCILE_KEYS_PER_S of a node's `keys`: all of them in one interval."""
    looks = max(1, keys / RECONCILE_KEYS_PER_S)
    return max(1.0, RECONCILE_EVERY_MS / SECOND_MS / looks)
