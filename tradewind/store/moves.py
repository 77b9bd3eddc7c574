"""Moving tasks between regions (ports Outbox and Inbox)."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from tradewind.errors import IdentityMismatch
from tradewind.ids import birth_ms
from tradewind.limits import (
    EVACUATED_MS,
    IMPORT_MEMORY_MS,
    MIB,
    NOT_AFTER_MS,
    SECOND_MS,
    TELL_FIRST_MS,
)
from tradewind.ports import ImportAnswer
from tradewind.state import Mark, State
from tradewind.store import layout, replies, resting, tallies
from tradewind.store.keys import PartitionKeys
from tradewind.store.letters import LETTERS, word
from tradewind.store.role import partition_in, unless_default
from tradewind.store.scripts import Arg
from tradewind.store.seals import SealRole
from tradewind.task import Evacuated, Exported, Lane, LanePart, MoveReason, Record

_REFUSAL_MS: Final = IMPORT_MEMORY_MS  # far above NOT_AFTER_MS, which ends every late import
_PART_BYTES: Final = MIB  # of specs, and one more: a reply that holds up nobody for long
_ANY: Final = "*"  # of groups: the caller is of the region that it asks


class MoveRole(SealRole):
    """Both sides of a move: scripts on one task, keys by name."""

    async def _move(self, script: str, task_id: str, args: Mapping[str, Arg]) -> list[Any]:
        partition = partition_in(task_id)
        keys = self._client.keys[partition]
        call = self._client.call(
            script,
            partition,
            _move_keys(keys, task_id),
            {"prefix": keys.prefix, "hooked": self._hooked(), **args},
        )
        return cast("list[Any]", await self._client.run(call))


class OutboxRole(MoveRole):
    """See ports.Outbox."""

    async def outbox(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Record]:
        """Dead tasks that may move now; see ports.Outbox."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "outbox",
            partition,
            {"outbox": keys.outbox},
            {"prefix": keys.prefix, "offset": offset, "limit": limit, "groups": _groups(groups)},
        )
        _, *items = cast("list[Any]", await self._client.run(call))
        return self._records(items)

    def _records(self, items: Sequence[Any]) -> list[Record]:
        return [
            record
            for task_id, flat in items
            if isinstance(record := replies.record(self.region, task_id.decode(), flat), Record)
        ]

    async def lanes(self, partition: int) -> list[Lane]:
        """Where tasks wait; see ports.Outbox."""
        keys = self._client.keys[partition]
        commands = [["HKEYS", keys.counts], ["HKEYS", keys.parked]]
        counts, parked = cast("list[list[bytes]]", await self._client.plain(partition, commands))
        return replies.lanes(counts, parked)

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
        """What waits in a part of a lane; see ports.Outbox."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "stranded",
            partition,
            {"lane": keys.lane(lane)},
            {
                "prefix": keys.prefix,
                "set": lane.kind if lane.kind in {"due", "dead"} else "",
                "offset": offset,
                "limit": limit,
                "groups": _groups(groups),
                "older_ms": _or_never(older_than_ms),
                "bytes": _PART_BYTES,
                "pools": ",".join(pools),
            },
        )
        _, now_ms, seen, more, unseen, *items = cast("list[Any]", await self._client.run(call))
        return LanePart(tuple(self._records(items)), seen, more == 1, int(now_ms), unseen)

    async def keep(self, record: Record, *, reason: str, retry_after_ms: int | None) -> bool:
        """It stays, and says why; see ports.Outbox."""
        return await self._said_ok(
            "keep",
            record.task_id,
            {
                "task_id": record.task_id,
                "epoch": record.epoch,
                "reason": reason,
                "retry_after_ms": _or_never(retry_after_ms),
                "state": LETTERS[record.state],
            },
        )

    async def moving(
        self,
        partition: int,
        *,
        limit: int,
        offset: int = 0,
        groups: Sequence[str] | None = None,
    ) -> list[Exported]:
        """Moves that have begun and not ended; see ports.Outbox."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "moving",
            partition,
            {"moving": keys.moving},
            {"prefix": keys.prefix, "offset": offset, "limit": limit, "groups": _groups(groups)},
        )
        _, now_ms, *items = cast("list[Any]", await self._client.run(call))
        return [
            replies.exported(self.region, task_id.decode(), flat, int(now_ms))
            for task_id, flat in items
        ]

    async def begin_export(
        self,
        record: Record,
        target: str,
        *,
        groups: Sequence[str],
        reason: MoveReason | None = None,
    ) -> Exported | None:
        """State MOVING, epoch + 1, target written down; see ports.Outbox."""
        reply = await self._move(
            "begin_export",
            record.task_id,
            {
                "task_id": record.task_id,
                "epoch": record.epoch,
                "target": target,
                "groups": ",".join(groups),
                "reason": reason or "",
                "state": LETTERS[record.state],
                "tell_ms": TELL_FIRST_MS,
            },
        )
        if reply[0] != "ok":
            return None
        return replies.exported(self.region, record.task_id, reply[2], int(reply[1]))

    async def is_moving(self, task_id: str, epoch: int, target: str) -> bool:
        """Whether this move has begun and not ended; see ports.Outbox."""
        partition = partition_in(task_id)
        command = ["HMGET", self._client.keys[partition].task(task_id), "s", "ep", "mt"]
        (found,) = cast("list[Any]", await self._client.plain(partition, [command]))
        move = [LETTERS[State.MOVING], str(epoch), target]
        return found == [part.encode() for part in move]

    async def ack_export(
        self, task_id: str, epoch: int, target: str, *, keep_ms: int, order_ms: int = 0
    ) -> bool:
        """What is left here is a pointer; see ports.Outbox."""
        return await self._said_ok(
            "ack_export",
            task_id,
            {
                "task_id": task_id,
                "epoch": epoch,
                "target": target,
                "keep_ms": keep_ms,
                "order_ms": order_ms,
                "count_ttl_ms": EVACUATED_MS,
            },
        )

    async def passed(self, partition: int, order_ms: int, kept: Mapping[str, int]) -> None:
        """What stays, by reason; see ports.Outbox."""
        keys = self._client.keys[partition]
        flat = [part for reason, number in kept.items() for part in (reason, number)]
        args = {"order_ms": order_ms, "ttl_ms": EVACUATED_MS, "kept": json.dumps(flat)}
        call = self._client.call("passed", partition, {"evacuated": keys.evacuated}, args)
        await self._client.run(call)

    async def evacuated(self, order_ms: int) -> Evacuated:
        """How far an evacuation has come; see ports.Evacuations."""
        parts = await asyncio.gather(*map(self._evacuated, range(self.partitions)))
        moved, remaining, kept = 0, 0, Counter[str]()
        for counts, tally in parts:
            stays = tallies.kept(tally, order_ms)
            moved += tallies.moved(tally, order_ms)
            remaining += max(0, tallies.waiting(counts) - stays.total())
            kept.update(stays)
        return Evacuated(moved, remaining, kept)

    async def _evacuated(self, partition: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
        keys = self._client.keys[partition]
        commands = [["HGETALL", keys.counts], ["HGETALL", keys.evacuated]]
        counts, tally = await self._client.plain(partition, commands)
        return replies.fields(counts), replies.fields(tally)

    async def abort_export(
        self, task_id: str, epoch: int, target: str, *, reason: str, retry_after_ms: int | None
    ) -> State | None:
        """Back to the state before; see ports.Outbox."""
        reply = await self._move(
            "abort_export",
            task_id,
            {
                "task_id": task_id,
                "epoch": epoch,
                "target": target,
                "reason": reason,
                "retry_after_ms": _or_never(retry_after_ms),
            },
        )
        return State(word(reply[1])) if reply[0] == "ok" else None

    async def _said_ok(self, script: str, task_id: str, args: Mapping[str, Arg]) -> bool:
        return (await self._move(script, task_id, args))[0] == "ok"


class InboxRole(MoveRole):
    """See ports.Inbox."""

    async def import_task(
        self,
        task: Exported,
        *,
        hops: bytes,
        timeout_s: float,
        delay_ms: int = 0,
        is_fresh: Callable[[], bool] = lambda: True,
    ) -> ImportAnswer:
        """Store a moved task, idempotent by id and epoch; see ports.Inbox."""
        task_id = task.record.task_id
        partition = partition_in(task_id)
        keys = self._client.keys[partition]
        wait_ms = min(int(timeout_s * SECOND_MS), NOT_AFTER_MS)
        not_after_ms = await self._client.nodes.server_now_ms(partition) + wait_ms
        if not is_fresh():
            return "late"
        died = task.former is State.DEAD_LETTER
        crashes = 0 if died else task.record.crashes
        call = self._client.call(
            "import_task",
            partition,
            {
                **_move_keys(keys, task_id),
                "ready": keys.ready(task.queue, task.priority, suspect=crashes > 0),
                "wake": keys.suspects(task.queue) if crashes else keys.wake(task.queue),
            },
            {
                "deployment": self._client.fleet.deployment,
                "region": self.region,
                "prefix": keys.prefix,
                "task_id": task_id,
                "epoch": task.epoch,
                "not_after_ms": not_after_ms,
                "queue": task.queue,
                "name": task.name,
                "priority": int(task.priority),
                "packed": layout.slim(task.record.packed, task.queue, task.name, self.region),
                "fence": ",".join(task.record.fence),
                "token": task.record.token,
                "hops": hops,
                "hop_count": task.hop_count + task.is_revived,
                "max_crashes": unless_default(task.max_crashes),
                "done_key": task.done_key,
                "age_ms": task.record.created_ms - birth_ms(task_id),
                "expires_ms": task.record.expires_ms or "",
                "keep_ms": self._kept_ms(task.queue, task.done_key),
                "crashes": crashes or "",
                "delay_ms": delay_ms,
                "rests": "" if task.resting is None else resting.text(task.record, task.resting),
            },
        )
        reply = await self._client.run(call, timeout_s=timeout_s)
        if reply[0] == "foreign":
            deployment, region = (part.decode() for part in cast("list[bytes]", reply[1:]))
            expected = self._client.fleet.deployment
            if deployment != expected:
                raise IdentityMismatch(self.region, "deployment", deployment, expected)
            raise IdentityMismatch(self.region, "region", region, self.region)
        return cast("ImportAnswer", reply[0])

    async def remembered(self, task_id: str) -> tuple[int, int]:
        """Epochs of the last import that came and the last refused; see ports.Inbox."""
        keys = self._client.keys[partition_in(task_id)]
        commands = [["GET", keys.memory(task_id)], ["HMGET", keys.task(task_id), "s", "ep"]]
        memory, record = await self._client.plain(partition_in(task_id), commands)
        return _remembered(cast("bytes", memory or b""), cast("list[Any]", record))

    async def settle_import(self, task_id: str, epoch: int) -> bool:
        """The memory of this import may expire; see ports.Inbox."""
        args = {"task_id": task_id, "epoch": epoch, "ttl_ms": IMPORT_MEMORY_MS}
        return (await self._move("settle_import", task_id, args))[0] == "ok"

    async def refuse_import(self, task_id: str, epoch: int) -> Literal["imported", "fenced"]:
        """Make sure that this import cannot happen, or learn that it has; see ports.Inbox."""
        args = {"epoch": epoch, "ttl_ms": _REFUSAL_MS}
        reply = await self._move("refuse_import", task_id, args)
        return "imported" if reply[0] == "imported" else "fenced"

    async def unsettled(self, partition: int, *, older_than_ms: int) -> list[tuple[str, int]]:
        """Imports that no courier has settled yet; see ports.Inbox."""
        keys = self._client.keys[partition]
        before_ms = await self._client.nodes.server_now_ms(partition) - older_than_ms
        (ids,) = await self._client.plain(
            partition, [["ZRANGEBYSCORE", keys.imports, "-inf", before_ms, "LIMIT", 0, 128]]
        )
        names = [task_id.decode() for task_id in cast("list[bytes]", ids)]
        if not names:
            return []
        memories = await self._client.plain(
            partition, [["GET", keys.memory(task_id)] for task_id in names]
        )
        epochs = (replies.remembered_import(cast("bytes", memory or b"")) for memory in memories)
        return [
            (task_id, epoch)
            for task_id, epoch in zip(names, epochs, strict=True)
            if epoch is not None
        ]


def _move_keys(keys: PartitionKeys, task_id: str) -> dict[str, str]:
    return {
        "identity": keys.identity,
        "record": keys.task(task_id),
        "memory": keys.memory(task_id),
        "imports": keys.imports,
        "counts": keys.counts,
        **keys.due,
        "expiry": keys.expiry,
        "dead": keys.dead,
        "dead_until": keys.dead_until,
        "outbox": keys.outbox,
        "moving": keys.moving,
        "hooks": keys.hooks,
        "evacuated": keys.evacuated,
    }


def _remembered(memory: bytes, record: Sequence[bytes | None]) -> tuple[int, int]:
    words = memory.split()
    told = {kind: int(epoch) for kind, epoch in zip(words[::2], words[1::2], strict=True)}
    came, (state, epoch) = told.get(b"in", -1), record
    if state is not None and word(state) != Mark.REFUSED:
        came = max(came, int(epoch or 1))
    return came, told.get(b"no", -1)


def _groups(groups: Sequence[str] | None) -> str:
    return _ANY if groups is None else ",".join(groups)


def _or_never(after_ms: int | None) -> Arg:
    return "" if after_ms is None else after_ms
