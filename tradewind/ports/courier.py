"""What a courier needs of the two regions of a move."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from tradewind.state import State
from tradewind.task import (
    Evacuated,
    Exported,
    Lane,
    LanePart,
    MoveReason,
    Record,
)


class Evacuations(Protocol):
    """How far the evacuation of a region has come (router)."""

    async def evacuated(self, order_ms: int) -> Evacuated:
        """Of the evacuation that was ordered then, by the clock of whoever did."""
        ...


class Outbox(Protocol):
    """The source's side of a move (courier). Answers "stale" as None: somebody else was faster.

    `groups` are those of the caller's region: what is listed to another region's courier are tasks
    whose fence holds it. None: the caller is of this very region.
    """

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def outbox(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Record]:
        """Dead tasks that may move now, longest waiting first: of `limit` entries from `offset`."""
        ...

    async def lanes(self, partition: int) -> list[Lane]:
        """Where tasks wait, ready, parked or until they are due."""
        ...

    async def stranded(
        self,
        partition: int,
        lane: Lane,
        *,
        offset: int,
        limit: int,
        older_than_ms: int | None = None,
        groups: Sequence[str] | None = None,
        pools: Sequence[str] = (),
    ) -> LanePart:
        """What waits among `limit` entries of a lane from `offset` on, or fewer if they are big.

        Only what could have started `older_than_ms` ago; whenever that is if None. `pools`: groups
        of all regions whose workers live. What none of these may see is counted and not told.
        """
        ...

    async def keep(self, record: Record, *, reason: str, retry_after_ms: int | None) -> bool:
        """It stays for now, or for good (None: settled), and says why in `failover`.

        One that waits says so until it is claimed, and is never settled.
        """
        ...

    async def moving(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Exported]:
        """Moves that have begun and not ended, oldest first: of `limit` entries from `offset`."""
        ...

    async def begin_export(
        self,
        record: Record,
        target: str,
        *,
        groups: Sequence[str],
        reason: MoveReason | None = None,
    ) -> Exported | None:
        """State MOVING: epoch + 1 and `target` written down. `groups`: the caller's own.

        None, too, if the task is in another state than `record`, for which the target was chosen.
        `reason`: why a task moves that waits, or a dead letter that is settled and stays one. None:
        a dead one moves for the kind of its death, to run again. One of whose death on_dead is to
        hear, and has not been told in vain, has to wait up to TELL_FIRST_MS for that.
        """
        ...

    async def seal(self, partition: int) -> bool:
        """Wait until what was written there outlives a crash of its node.

        That is on a replica, where there are any, and on disk, where the node keeps its writes
        there and can say so. False: not within two seconds.

        A node that has lost something meanwhile, and is back, may say so too: what is to last has
        to be looked at afterwards.
        """
        ...

    async def is_moving(self, task_id: str, epoch: int, target: str) -> bool:
        """Whether this move has begun and not ended."""
        ...

    async def ack_export(
        self, task_id: str, epoch: int, target: str, *, keep_ms: int, order_ms: int = 0
    ) -> bool:
        """The target has it: what is left here is a pointer, kept for `keep_ms`.

        `order_ms`: which evacuation it counts for, if it left for one; 0: for none.
        """
        ...

    async def passed(self, partition: int, order_ms: int, kept: Mapping[str, int]) -> None:
        """A courier of the evacuation has looked at all that waits: by reason, what stays."""
        ...

    async def abort_export(
        self, task_id: str, epoch: int, target: str, *, reason: str, retry_after_ms: int | None
    ) -> State | None:
        """The target fenced it: back to the state before, with the reason.

        A dead one is not looked at by couriers for `retry_after_ms`; None settles it. One that was
        settled is again, for its own reason.
        """
        ...


ImportAnswer = Literal["imported", "known", "refused", "late"]


class Inbox(Protocol):
    """The target's side of a move (courier)."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def import_task(
        self,
        task: Exported,
        *,
        hops: bytes,
        timeout_s: float,
        delay_ms: int = 0,
        is_fresh: Callable[[], bool] = lambda: True,
    ) -> ImportAnswer:
        """Store a moved task; idempotent by id and epoch. `hops` includes the stay it leaves.

        Attempts start afresh, and after a death moves are one more and crashes none. It is due in
        `delay_ms`. A dead letter that left as one is one here, with all that it says of its death.

        Nothing is stored after timeout_s from now by the store's clock. `is_fresh` is asked once
        that time is fixed, so that a pause before it or after it is noticed; False: "late".
        """
        ...

    async def seal(self, partition: int) -> bool:
        """See Outbox.seal."""
        ...

    async def remembered(self, task_id: str) -> tuple[int, int]:
        """Epochs of the last import that came, and of the last one that was refused; -1: none.

        What is here now has come, whether that is remembered or not.
        """
        ...

    async def settle_import(self, task_id: str, epoch: int) -> bool:
        """The source has let go: the memory of this import may now expire."""
        ...

    async def refuse_import(self, task_id: str, epoch: int) -> Literal["imported", "fenced"]:
        """Make sure that this import can no longer happen, or learn that it has."""
        ...

    async def unsettled(self, partition: int, *, older_than_ms: int) -> list[tuple[str, int]]:
        """Imports (id, epoch) that no courier has settled yet."""
        ...
