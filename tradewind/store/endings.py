"""Ending tasks from outside, and reviving them (ports Cancels and DeadLetters)."""

from collections.abc import Mapping
from typing import Any

from tradewind.limits import TOMBSTONE_MS
from tradewind.store import replies
from tradewind.store.role import Role, partition_in
from tradewind.store.scripts import Arg
from tradewind.task import CancelOutcome


class EndingsRole(Role):
    """See ports.Cancels and ports.DeadLetters."""

    async def cancel(self, task_id: str, *, retention_ms: int) -> CancelOutcome | None:
        """End the task, or ask its holder to; see ports.Cancels."""
        reply = await self._end("cancel", task_id, {"retention_ms": retention_ms})
        return replies.cancelled(task_id, reply)

    async def redrive(self, task_id: str, epoch: int) -> bool:
        """State PENDING again; see ports.DeadLetters."""
        return (await self._end("redrive", task_id, {"epoch": epoch}))[0] == "ok"

    async def purge(self, task_id: str, epoch: int) -> bool:
        """The dead task goes; see ports.DeadLetters."""
        args: dict[str, Arg] = {"epoch": epoch, "ttl_ms": TOMBSTONE_MS}
        return (await self._end("purge", task_id, args))[0] == "ok"

    async def _end(self, script: str, task_id: str, args: Mapping[str, Arg]) -> list[Any]:
        partition = partition_in(task_id)
        keys = self._client.keys[partition]
        places = {
            "record": keys.task(task_id),
            "counts": keys.counts,
            **keys.due,
            "expiry": keys.expiry,
            "dead": keys.dead,
            "dead_until": keys.dead_until,
            "outbox": keys.outbox,
            "hooks": keys.hooks,
        }
        args = {"prefix": keys.prefix, "task_id": task_id, **args}
        return await self._client.run(self._client.call(script, partition, places, args))
