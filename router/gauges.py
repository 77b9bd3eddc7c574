"""What the router's own region holds, as gauges. Other regions have routers of their own."""

import asyncio
from collections import Counter
from typing import Final

from router.census import Census
from router.failures import report
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.metrics import (
    DEAD_TASKS,
    EXPECTED_WAIT_SECONDS,
    PRIORITIES,
    TASK_QUEUE_LENGTH,
    queue_label,
)
from tradewind.policy.scores import wait_s
from tradewind.ports import Reads

# As often as Prometheus scrapes by default; 64 partitions are then 4 commands a second, of the 15
# that an idle region may cost (design section 3).
EVERY_S: Final = 15.0


class Gauges:
    """Queue lengths, dead tasks and expected wait of one region."""

    def __init__(self, fleet: Fleet, reads: Reads, census: Census) -> None:
        """`reads` of the router's own region."""
        self._fleet, self._reads, self._census = fleet, reads, census

    async def run(self) -> None:
        """Look every EVERY_S until cancelled; a region that is silent keeps its last numbers."""
        while True:
            try:
                await self.look()
            except StoreError:
                pass
            except Exception as error:  # noqa: BLE001 - numbers must not end a router
                report("gauges", error)
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Read the counts once. Raises StoreError."""
        region = self._reads.region
        pending: Counter[tuple[str, str]] = Counter()
        dead: Counter[str] = Counter()
        for queue in ("default", *self._fleet.queues):  # an empty queue is 0, not absent
            pending.update({(queue, priority): 0 for priority in PRIORITIES})
            dead.update({queue: 0})
        for queue, counts in (await self._reads.counts()).items():
            label = queue_label(self._fleet, queue)
            for priority, ready in zip(PRIORITIES, counts.pending, strict=True):
                pending[label, priority] += ready
            dead[label] += counts.dead
        for (queue, priority), ready in pending.items():
            TASK_QUEUE_LENGTH.labels(region, queue, priority).set(ready)
        wait = wait_s(self._census.view(region))
        for queue, count in dead.items():
            DEAD_TASKS.labels(region, queue).set(count)
            # Workers take from all their queues in turn, so in this release one wait is all's.
            EXPECTED_WAIT_SECONDS.labels(region, queue).set(wait)
