"""Finding again what no index names (port Repairs)."""

import json
from collections.abc import Collection, Sequence
from typing import Any, cast

from tradewind.ids import MalformedTaskId
from tradewind.limits import RECONCILE_LOOK, RECOUNT_MOST
from tradewind.store.role import Role, partition_in
from tradewind.task import Reconciled, Repair, Sighting

_TASK, _MEMORY = b"t", b"imp"  # kinds of key that end with a task id
_UNSEARCHED = "unsearched"  # no repair: see reconcile.lua
_INDEX_PAGE = 200


class RepairsRole(Role):
    """See ports.Repairs."""

    async def together(self) -> list[list[int]]:
        """Partitions by node; see ports.Repairs."""
        await self._client.nodes.known()
        return list(self._client.nodes.owned_together().values())

    async def scan(self, partition: int, cursor: str, *, limit: int) -> Sighting:
        """A part of a node's keys; see ports.Repairs."""
        command = ["SCAN", cursor or "0", "MATCH", "tw:{*", "COUNT", limit]
        (page,), (size,) = (
            await self._client.plain(partition, [command]),
            await self._client.plain(partition, [["DBSIZE"]]),
        )
        following, keys = cast("tuple[bytes, list[bytes]]", page)
        found: dict[int, set[str]] = {}
        for key in keys:
            kind, _, task_id = key.partition(b"}:")[2].partition(b":")
            if kind in {_TASK, _MEMORY}:
                self._sort_in(found, task_id)
        more = following.decode()
        return Sighting(found, "" if more == "0" else more, cast("int", size))

    async def indexed(self, partition: int, cursor: str) -> Sighting:
        """A part of what a partition's indexes name; see ports.Repairs."""
        keys = self._client.keys[partition]
        indexes = [
            *(keys.leases, *keys.due.values(), keys.expiry, keys.dead, keys.dead_until),
            *(keys.outbox, keys.hooks, keys.moving, keys.imports),
        ]
        if not cursor:
            (some,) = await self._client.plain(partition, [["EXISTS", *indexes]])
            if not some:  # as always where nothing waits: one command instead of eleven
                return Sighting({}, "", 0)
            cursor = " ".join(f"{index}=0" for index in range(len(indexes)))
        at = dict(pair.split("=") for pair in cursor.split())
        commands = [
            ["ZSCAN", indexes[int(i)], where, "COUNT", _INDEX_PAGE] for i, where in at.items()
        ]
        pages = cast("list[Any]", await self._client.plain(partition, commands))
        found: dict[int, set[str]] = {}
        following: list[str] = []
        for index, (more, members) in zip(at, pages, strict=True):
            for task_id in members[::2]:
                found.setdefault(partition, set()).add(task_id.decode())
            if more != b"0":
                following.append(f"{index}={more.decode()}")
        return Sighting(found, " ".join(following), 0)

    async def reconcile(self, partition: int, task_ids: Sequence[str]) -> Reconciled:
        """Make the indexes say what the records say; see ports.Repairs."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "reconcile",
            partition,
            {
                "counts": keys.counts,
                "leases": keys.leases,
                **keys.due,
                "expiry": keys.expiry,
                "dead": keys.dead,
                "dead_until": keys.dead_until,
                "outbox": keys.outbox,
                "hooks": keys.hooks,
                "moving": keys.moving,
                "imports": keys.imports,
            },
            {
                "prefix": keys.prefix,
                "kept": self._kept_dead(),
                "look": RECONCILE_LOOK,
                "hooked": self._hooked(),
            },
            [((keys.task(task_id), keys.memory(task_id)), (task_id,)) for task_id in task_ids],
        )
        _, queues, *items = cast("list[Any]", await self._client.run(call))
        done = [Repair(kind.decode(), task_id.decode()) for task_id, kind in items]
        return Reconciled(
            tuple(one for one in done if one.kind != _UNSEARCHED),
            tuple(one.of for one in done if one.kind == _UNSEARCHED),
            frozenset(queue.decode() for queue in queues),
        )

    async def recount(self, partition: int, queues: Collection[str]) -> list[Repair] | None:
        """Correct the counts of a small partition; see ports.Repairs."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "recount",
            partition,
            {
                "counts": keys.counts,
                "leases": keys.leases,
                **keys.due,
                "dead": keys.dead,
                "moving": keys.moving,
                "parked": keys.parked,
            },
            {"prefix": keys.prefix, "most": RECOUNT_MOST, "queues": json.dumps(sorted(queues))},
        )
        tag, *fields = cast("list[Any]", await self._client.run(call))
        return None if tag == "many" else [Repair("count", field.decode()) for field in fields]

    def _kept_dead(self) -> str:
        fleet = self._client.fleet
        policies = {"": fleet.default_queue, **fleet.queues}
        return json.dumps({name: policy.retention.dead_ms for name, policy in policies.items()})

    def _sort_in(self, found: dict[int, set[str]], task_id: bytes) -> None:
        try:
            name = task_id.decode()
            partition = partition_in(name)
        except (MalformedTaskId, UnicodeDecodeError):
            return  # somebody else's key
        if partition < self.partitions:
            found.setdefault(partition, set()).add(name)
