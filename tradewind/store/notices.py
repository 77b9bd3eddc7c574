"""Word of tasks that are dead for good, until it has been passed on (port Notices)."""

from typing import Any, cast

from tradewind.store import replies
from tradewind.store.role import Role, partition_in
from tradewind.task import Notice


class NoticesRole(Role):
    """See ports.Notices."""

    async def notices(self, partition: int, *, limit: int, hold_ms: int) -> list[Notice]:
        """What is due, held for `hold_ms`; see ports.Notices."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "notices",
            partition,
            {"hooks": keys.hooks},
            {"prefix": keys.prefix, "limit": limit, "hold_ms": hold_ms},
        )
        _, now_ms, *items = cast("list[Any]", await self._client.run(call))
        found = [
            replies.notice(self.region, task_id.decode(), flat, int(now_ms))
            for task_id, flat in items
        ]
        return [notice for notice in found if notice is not None]

    async def noticed(self, notice: Notice, *, retry_after_ms: int | None) -> bool:
        """It is over, or to be tried again; see ports.Notices."""
        record = notice.record
        partition = partition_in(record.task_id)
        keys = self._client.keys[partition]
        call = self._client.call(
            "noticed",
            partition,
            {"record": keys.task(record.task_id), "hooks": keys.hooks},
            {
                "task_id": record.task_id,
                "token": record.token,
                "retry_after_ms": "" if retry_after_ms is None else retry_after_ms,
            },
        )
        return (await self._client.run(call))[0] == "ok"
