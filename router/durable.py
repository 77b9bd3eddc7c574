"""Whether accepted tasks are as durable as their queue asks, before their submit is answered.

Redis answers before a replica has a write, and mostly before its disk has. Here the answer waits
until the task's region says that both task and ledger entry are where the queue wants them, for
CONFIRM_S at most: the task is stored and will run, so a count that falls short is no failure but a
word in the receipt. Tasks of `memory` queues pass by.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from router.job import Deadline, Job, Receipt
from tradewind.fleet import Durability, Fleet
from tradewind.metrics import TASKS_UNCONFIRMED, queue_label
from tradewind.ports import Durables

#: A region waits 2 s for its disk or a replica; what came too late for one wait is in the next.
CONFIRM_S: Final = 3.0


class Durable:
    """Confirms receipts. `asked` says of which queues."""

    def __init__(self, fleet: Fleet, stores: Mapping[str, Durables]) -> None:
        """`stores` by region name."""
        self._fleet, self._stores = fleet, stores
        #: Whether any queue asks for more than memory.
        self.is_wanted = bool(fleet.durable)

    def asked(self, job: Job) -> Durability:
        """Return what the job's queue asks."""
        return self._fleet.queue(job.draft.queue).durability

    async def confirmed(self, job: Job, receipt: Receipt) -> Receipt:
        """Return the receipt, or one that says what could not be confirmed."""
        durability = self.asked(job)
        if durability == "memory" or receipt.kept_at is None:
            return receipt
        task = self._tasks(receipt.region, durability, [receipt.task_id], job.deadline)
        entries = self._entries(job, receipt, receipt.kept_at, durability)
        safe, is_kept = await asyncio.gather(task, entries)
        return receipt if all(safe) and is_kept else self._unconfirmed(job, receipt)

    async def confirm_all(
        self,
        region: str,
        stored: Mapping[int, tuple[Job, Receipt]],
        answers: dict[int, Receipt | Exception],
    ) -> None:
        """Put right the answers of tasks of one message that went to one region, by their places.

        All ask for more than memory. Their entries, if they have any, were stored with them.
        """
        groups: dict[Durability, list[int]] = {}
        for place, (job, _) in stored.items():
            groups.setdefault(self.asked(job), []).append(place)

        async def confirm(durability: Durability, places: Sequence[int]) -> None:
            task_ids = [stored[place][1].task_id for place in places]
            deadline = stored[places[0]][0].deadline
            safe = await self._tasks(region, durability, task_ids, deadline)
            for place, is_safe in zip(places, safe, strict=True):
                if not is_safe:
                    answers[place] = self._unconfirmed(*stored[place])

        await asyncio.gather(*(confirm(*group) for group in groups.items()))

    async def _tasks(
        self, region: str, durability: Durability, task_ids: Sequence[str], deadline: Deadline
    ) -> Sequence[bool]:
        store = self._stores.get(region)
        if store is None:  # it has left the file
            return [False] * len(task_ids)
        timeout_s = min(CONFIRM_S, deadline.left_s())
        return await store.tasks_safe(durability, task_ids, timeout_s=timeout_s)

    async def _entries(
        self, job: Job, receipt: Receipt, homes: Sequence[str], durability: Durability
    ) -> bool:
        mark = job.identity.mark
        stores = [self._stores.get(home) for home in homes]
        timeout_s = min(CONFIRM_S, job.deadline.left_s())
        answers = await asyncio.gather(
            *(
                store.entry_safe(durability, mark, receipt.task_id, timeout_s=timeout_s)
                for store in stores
                if store is not None and mark is not None
            )
        )
        return len(answers) == len(stores) and all(answers)

    def _unconfirmed(self, job: Job, receipt: Receipt) -> Receipt:
        label = queue_label(self._fleet, job.draft.queue)
        TASKS_UNCONFIRMED.labels(receipt.region, label).inc()
        return receipt._replace(unconfirmed=True)
