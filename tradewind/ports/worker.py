"""What a worker needs of its region: running tasks, and keeping the region in order."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

from tradewind.errors import StoreError
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    ClaimBatch,
    Crash,
    Finish,
    Heartbeat,
    Notice,
    Progress,
    Reaped,
    Reconciled,
    Release,
    Renewed,
    Repair,
    RetryAt,
    Settled,
    Sighting,
    Swept,
)


class Claims(Protocol):
    """Taking and settling work of one region (worker). All by token: see Settled, Renewed."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def claim(
        self,
        partition: int,
        *,
        worker_id: str,
        lease_ms: Mapping[str, int],
        handlers: Sequence[str],
        limit: int,
        suspects: int = 0,
        starvation_ms: Mapping[str, int] | None = None,
    ) -> ClaimBatch:
        """Claim up to `limit` tasks of the queues in `lease_ms`, high before normal before low.

        What has been ready for longer than its queue's `starvation_ms` goes before all else, oldest
        head first: so a lower priority waits about that long behind higher ones, then in line with
        whatever else has waited that long. Without it the order is strict. A ticket whose handler
        is not in `handlers` is parked for a worker that has it; a task past its expiry ends.

        Besides, up to `suspects` tasks that crashed before, in the same order among themselves:
        they take no place in `limit` and stand in nobody's way. Such a claim counts as a crash
        until a report of its holder takes that back, so a death that takes the holder counts.
        """
        ...

    async def renew(
        self, claims: Sequence[Claim], lease_ms: Mapping[str, int]
    ) -> list[Renewed | StoreError]:
        """Extend leases, by queue, counted from the store's now; learn of requested cancels."""
        ...

    async def finish(self, items: Sequence[Finish]) -> list[Settled | StoreError]:
        """Record success. Saying it twice is harmless."""
        ...

    async def retry(self, items: Sequence[RetryAt]) -> list[Settled | StoreError]:
        """State FAILED until due; EXPIRED if it may not start any more.

        This, `bury`, `release` and a reaped lease end a task CANCELLED whose cancel was asked for;
        the answer's `state` says so.
        """
        ...

    async def bury(self, items: Sequence[Bury]) -> list[Settled | StoreError]:
        """State DEAD_LETTER."""
        ...

    async def release(self, items: Sequence[Release]) -> list[Settled | StoreError]:
        """State PENDING again, at the head of its list."""
        ...

    async def confirm_cancel(self, items: Sequence[Cancel]) -> list[Settled | StoreError]:
        """State CANCELLED: the attempt has stopped. Saying it twice is harmless."""
        ...

    async def crashed(self, items: Sequence[Crash]) -> list[Settled | StoreError]:
        """The attempts' processes died: a crash is counted for each, and no attempt.

        State PENDING at the head, as a suspect; DEAD_LETTER, kind `crashed`, at its max_crashes;
        CANCELLED if asked for. The answer's `state` tells of the last two.
        """
        ...

    def cancels(self) -> AsyncIterator[str]:
        """Ids of running tasks whose cancel was asked for; "": some may have been missed.

        `renew` tells of those as well.
        """
        ...

    async def progress(self, items: Sequence[Progress]) -> list[Settled | StoreError]:
        """How far attempts have come, for whoever watches. Gone with the next attempt.

        Costs a write each: at most a few a second for a task. A full store refuses it.
        """
        ...


class Upkeep(Protocol):
    """Keeping one region's partitions in order (worker)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions the region has."""
        ...

    async def wait(
        self,
        queues: Sequence[str],
        partitions: Sequence[int],
        *,
        ready: bool = True,
        suspects: bool = False,
        cold: Collection[int] = (),
        timeout_s: float,
    ) -> int | None:
        """Block until one of `partitions` has work for `queues`; None after `timeout_s`.

        The answer is a hint: whoever takes it claims, and claim passes the hint on. There is one
        for what `claim` counts against `limit` and one for suspects: a caller waits for what it has
        room for, `ready` or `suspects` or both, and is not woken for the other. Parked work has
        a hint of its own, for workers with other handlers: a caller whose claim said `parked` and
        brought nothing names that partition in `cold` for a second or more, and hears of its ready
        work only.
        """
        ...

    async def sweep(
        self, partition: int, *, worker_id: str, queues: Sequence[str], courier: bool
    ) -> Swept:
        """Promote what is due, end what expired, set hints anew, purge what is past retention.

        Takes or extends the courier lease if `courier`.
        """
        ...

    async def reap(self, partition: int, *, limit: int) -> list[Reaped]:
        """Take back expired leases, oldest first."""
        ...

    async def heartbeat(self, beat: Heartbeat) -> None:
        """Say that this worker lives."""
        ...

    async def farewell(self, worker_id: str) -> None:
        """Say that this worker is gone."""
        ...


class Notices(Protocol):
    """Who has to hear of dead tasks of one region (herald): see fleet.OnDead."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def notices(self, partition: int, *, limit: int, hold_ms: int) -> list[Notice]:
        """What is due, longest waiting first. It is due again in `hold_ms`: so nothing is lost."""
        ...

    async def noticed(self, notice: Notice, *, retry_after_ms: int | None) -> bool:
        """It is over (None), or to be tried again. False: redriven, cancelled or purged since."""
        ...


class Repairs(Protocol):
    """Finding again what no index names (reconcile sweep of a worker)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def together(self) -> list[list[int]]:
        """The partitions, by the node that serves them."""
        ...

    async def scan(self, partition: int, cursor: str, *, limit: int) -> Sighting:
        """Look at about `limit` keys of the node that serves `partition`; "" begins.

        Tasks that are there from the first call to the last are seen; others may be.
        """
        ...

    async def indexed(self, partition: int, cursor: str) -> Sighting:
        """The same for tasks that indexes of one partition name; a few hundred a call."""
        ...

    async def reconcile(self, partition: int, task_ids: Sequence[str]) -> Reconciled:
        """Make every index say what the records of these tasks say; the ids of gone ones leave."""
        ...

    async def recount(self, partition: int, queues: Collection[str]) -> list[Repair] | None:
        """Correct the counts of a partition. None if it holds more than RECOUNT_MOST entries.

        `queues`: with ready tasks, as far as known from records. Right only where the indexes are.
        """
        ...
