"""What the router's own region holds, as gauges. Other regions have routers of their own."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from router.census import Census
from router.failures import report
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.metrics import (
    DEAD_TASKS,
    EXPECTED_WAIT_SECONDS,
    OLDEST_TASK_AGE_SECONDS,
    PRIORITIES,
    TASK_QUEUE_LENGTH,
    forget,
    queue_label,
)
from tradewind.policy.scores import wait_s
from tradewind.ports import Reads
from tradewind.task import Priority
from tradewind.ticks import tick

# As often as Prometheus scrapes by default; 64 partitions are then 4 commands a second, of the 15
# that an idle region may cost. Ages are asked for where something waits only.
EVERY_S: Final = 15.0


class Gauges:
    """Queue lengths, oldest ages, dead tasks and expected wait of one region."""

    def __init__(self, fleet: Fleet, reads: Reads, census: Census) -> None:
        """`reads` of the router's own region."""
        self._fleet, self._reads, self._census = fleet, reads, census

    def follow(self, fleet: Fleet, reads: Reads) -> None:
        """Go on with another fleet. Queues that it does not name are shown no more."""
        for queue in self._fleet.queues.keys() - fleet.queues.keys() - {"default"}:
            for gauge in (TASK_QUEUE_LENGTH, OLDEST_TASK_AGE_SECONDS):
                for priority in PRIORITIES:
                    forget(gauge, reads.region, queue, priority)
            for gauge in (DEAD_TASKS, EXPECTED_WAIT_SECONDS):
                forget(gauge, reads.region, queue)
        self._fleet, self._reads = fleet, reads

    async def run(self) -> None:
        """Look every EVERY_S until cancelled; a region that is silent keeps its last numbers."""
        while True:
            try:
                await self.look()
            except StoreError:
                pass
            except Exception as error:  # noqa: BLE001 - numbers must not end a router
                report("gauges", error)
            await tick(EVERY_S)

    async def look(self) -> None:
        """Read counts and ages once. Raises StoreError."""
        fleet, region = self._fleet, self._reads.region
        pending: Counter[tuple[str, str]] = Counter()
        dead: Counter[str] = Counter()
        for queue in ("default", *fleet.queues):  # an empty queue is 0, not absent
            pending.update({(queue, priority): 0 for priority in PRIORITIES})
            dead.update({queue: 0})
        waits = False
        for queue, counts in (await self._reads.counts()).items():
            label = queue_label(fleet, queue)
            for priority, ready in zip(PRIORITIES, counts.pending, strict=True):
                pending[label, priority] += ready
            waits = waits or counts.scheduled + counts.failed > 0
            dead[label] += counts.dead
        oldest_ms = dict.fromkeys(pending, 0)
        ages_ms: Mapping[tuple[str, Priority], int] = {}
        if any(pending.values()) or waits:  # what waits may be overdue
            ages_ms = await self._reads.oldest()
        if fleet is not self._fleet:
            return  # the next look tells, by the names of today
        for (queue, priority), ready in pending.items():
            TASK_QUEUE_LENGTH.labels(region, queue, priority).set(ready)
        for (queue, priority), age_ms in ages_ms.items():
            place = (queue_label(fleet, queue), PRIORITIES[priority])
            oldest_ms[place] = max(age_ms, oldest_ms.get(place, 0))
        for (queue, priority), age_ms in oldest_ms.items():
            OLDEST_TASK_AGE_SECONDS.labels(region, queue, priority).set(age_ms / SECOND_MS)
        wait = wait_s(self._census.view(region))
        for queue, count in dead.items():
            DEAD_TASKS.labels(region, queue).set(count)
            # Workers take from all their queues in turn, so in this release one wait is all's.
            EXPECTED_WAIT_SECONDS.labels(region, queue).set(wait)
