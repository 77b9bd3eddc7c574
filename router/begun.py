"""Submits on their way to a region: one by itself, and those of a message that go together."""

from dataclasses import dataclass, field

from router.job import Job, Receipt
from tradewind.errors import StoreError
from tradewind.task import EnqueueOutcome, NewTask, Stored


@dataclass(slots=True)
class Begun:
    """A job on its way to a region. No `task`: its entry is to be reserved elsewhere first."""

    job: Job
    region: str
    task_id: str
    task: NewTask | None
    closes: bool = False  # the next decision is to see all so far where they went
    first: EnqueueOutcome | StoreError | None = None  # what came of it, if it was sent

    def receipt(self, stored: Stored) -> Receipt:
        """Return the answer to a submit whose task is stored where it was sent."""
        job = self.job
        return Receipt(
            self.task_id,
            self.region,
            stored.state,
            duplicate=False,
            rule=job.rule,
            possible_duplicate=job.home_was_silent,
        )


@dataclass(slots=True)
class Group:
    """Tasks of one message that are sent to one region together."""

    region: str
    places: list[int] = field(default_factory=list[int])  # in the message
    begun: list[Begun] = field(default_factory=list[Begun])
    tasks: list[NewTask] = field(default_factory=list[NewTask])
    size: int = 0  # bytes
