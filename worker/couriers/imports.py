"""What a region remembers of imports, once the source has let go: see ports.Inbox.unsettled.

The courier that brought a task settles its import. If it died just before, or the source lost what
it had written down, the target would remember for ever; so after an hour it asks the source itself.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tradewind import codec, ids
from tradewind.errors import StoreError
from tradewind.fleet import Fleet
from tradewind.limits import REQUEST_ID_WINDOW_MS, UNSETTLED_IMPORT_MS
from tradewind.ports import Inbox
from tradewind.state import State
from tradewind.task import Pointer, Record

_log = logging.getLogger(__name__)
_KEPT_MS: Final = REQUEST_ID_WINDOW_MS  # of a pointer, where the queue's own time is not known


class Memories(Inbox, Protocol):
    """The region that remembers."""

    async def read(self, task_id: str) -> Record | Pointer | None:
        """The task as this region has it."""
        ...


class Origin(Protocol):
    """A region that a task may have come from."""

    async def read(self, task_id: str) -> Record | Pointer | None:
        """The task as that region has it."""
        ...

    async def ack_export(
        self, task_id: str, epoch: int, target: str, *, keep_ms: int, order_ms: int = 0
    ) -> bool:
        """See ports.Outbox."""
        ...

    async def seal(self, partition: int) -> bool:
        """See ports.Outbox."""
        ...

    async def is_moving(self, task_id: str, epoch: int, target: str) -> bool:
        """See ports.Outbox."""
        ...


class Imports:
    """Settles old imports of one region."""

    def __init__(self, home: Memories, fleet: Fleet, others: Mapping[str, Origin]) -> None:
        """`others`: every other region by name."""
        self._home, self._fleet, self._others = home, fleet, others

    def follow(self, fleet: Fleet, others: Mapping[str, Origin]) -> None:
        """Go on with another fleet."""
        self._fleet, self._others = fleet, others

    async def settle(self, partition: int) -> None:
        """Ask for all that is old. Raises StoreError if the region itself does not answer."""
        silent: set[str] = set()  # each is waited for once
        for task_id, epoch in await self._home.unsettled(
            partition, older_than_ms=UNSETTLED_IMPORT_MS
        ):
            origins = self._from(await self._home.read(task_id))
            for name in origins:
                if name not in silent and not await self._heard(name, task_id, epoch):
                    silent.add(name)
            if silent.isdisjoint(origins):  # else it stays remembered, and is asked for again
                await self._home.settle_import(task_id, epoch)

    def _from(self, found: Record | Pointer | None) -> Sequence[str]:
        """Where it came from; of what has ended long ago nobody knows, so all are asked."""
        if isinstance(found, Record):
            try:
                stays = codec.hops(found.hops)
            except codec.DamagedRecord:
                stays = []
            if stays and stays[-1].region in self._others:
                return [stays[-1].region]
        return list(self._others)

    async def _heard(self, name: str, task_id: str, epoch: int) -> bool:
        """A region that still holds the move lets go of it. False: perhaps it has not."""
        try:
            return await self._ask(name, task_id, epoch)
        except StoreError as error:
            extra = {"of": name, "task_id": task_id, "reason": str(error)}
            _log.info("an import is not settled yet", extra=extra)
            return False

    async def _ask(self, name: str, task_id: str, epoch: int) -> bool:
        there = await self._others[name].read(task_id)
        here = self._home.region
        if (
            isinstance(there, Record)
            and there.state is State.MOVING
            and (there.epoch, there.target) == (epoch, here)
        ):
            queue = self._fleet.queue(_queue(there))
            keep_ms = max(queue.dedup.window_ms, queue.retention.completed_ms, _KEPT_MS)
            await self._others[name].ack_export(task_id, epoch, here, keep_ms=keep_ms)
        # What it has let go of has to last there, as for a courier.
        return await self._others[name].seal(ids.parse(task_id).partition) and (
            not await self._others[name].is_moving(task_id, epoch, here)
        )


def _queue(record: Record) -> str:
    try:
        return codec.unpack(record.packed).spec.queue
    except codec.DamagedRecord:
        return ""
