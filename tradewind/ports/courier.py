"""What a courier needs of the two regions of a move."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from tradewind.state import State
from tradewind.task import (
    Exported,
    Record,
)


class Outbox(Protocol):
    """The source's side of a move (courier). Answers "stale" as None: somebody else was faster."""

    @property
    def region(self) -> str:
        """Name of the region."""
        ...

    async def outbox(self, partition: int, *, limit: int) -> list[Record]:
        """Dead tasks that may move now, longest waiting first."""
        ...

    async def keep(self, record: Record, *, reason: str, retry_after_ms: int | None) -> bool:
        """It stays for now, or for good (None: settled), and says why in `failover`."""
        ...

    async def moving(self, partition: int, *, limit: int) -> list[Exported]:
        """Moves that have begun and not ended, oldest first."""
        ...

    async def begin_export(
        self, record: Record, target: str, *, groups: Sequence[str]
    ) -> Exported | None:
        """State MOVING: epoch + 1 and `target` written down. `groups`: the caller's own."""
        ...

    async def ack_export(self, task_id: str, epoch: int, target: str, *, keep_ms: int) -> bool:
        """The target has it: what is left here is a pointer, kept for `keep_ms`."""
        ...

    async def abort_export(
        self, task_id: str, epoch: int, target: str, *, reason: str, retry_after_ms: int | None
    ) -> State | None:
        """The target fenced it: back to the state before, with the reason."""
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
        is_fresh: Callable[[], bool] = lambda: True,
    ) -> ImportAnswer:
        """Store a moved task; idempotent by id and epoch. `hops` includes the stay it leaves.

        Nothing is stored after timeout_s from now by the store's clock. `is_fresh` is asked once
        that time is fixed, so that a pause before it or after it is noticed; False: "late".
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
