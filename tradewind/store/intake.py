"""Storing new tasks, and the ledger of who already submitted them (ports Intake and Ledger)."""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from tradewind.errors import StoreContractBroken, StoreError, StoreUnavailable
from tradewind.ids import birth_ms, birth_partition
from tradewind.limits import (
    NOT_AFTER_MS,
    REQUEST_ID_WINDOW_MS,
    RESERVATION_LEASE_MS,
    SECOND_MS,
    TOMBSTONE_MS,
)
from tradewind.state import State
from tradewind.store import layout, replies, scripts
from tradewind.store.region_client import CALL_TIMEOUT_S, Call
from tradewind.store.role import Role, partition_in, unless_default
from tradewind.store.scripts import Arg
from tradewind.task import EnqueueOutcome, LedgerHit, LedgerMark, NewTask, Stored


class IntakeRole(Role):
    """See ports.Intake and ports.Ledger."""

    async def enqueue(
        self, tasks: Sequence[NewTask], *, timeout_s: float
    ) -> tuple[list[EnqueueOutcome | StoreError], Mapping[int, int]]:
        """Store each task unless its id or ledger entry is known; see ports.Intake."""
        by_partition: dict[int, list[int]] = {}
        for index, task in enumerate(tasks):
            by_partition.setdefault(birth_partition(task.task_id), []).append(index)
        groups = [(partition, [tasks[i] for i in by]) for partition, by in by_partition.items()]
        answers = await self._enqueue_each(groups, time.monotonic() + timeout_s)
        outcomes: list[EnqueueOutcome | StoreError] = [_UNANSWERED] * len(tasks)
        depths: dict[int, int] = {}
        for (partition, indices), answer in zip(by_partition.items(), answers, strict=True):
            if isinstance(answer, StoreError):
                for index in indices:
                    outcomes[index] = answer
                continue
            self._client.nodes.note_clock(partition, int(cast("bytes", answer[1])))
            depths[partition] = cast("int", answer[2])
            for index, item in zip(indices, answer[3:], strict=True):
                outcomes[index] = replies.enqueued(tasks[index].task_id, item)
        return outcomes, depths

    async def _enqueue_each(
        self, groups: Sequence[tuple[int, list[NewTask]]], until_s: float
    ) -> list[list[Any] | StoreError]:
        """Store the tasks of each partition in one write; answers in the order of `groups`.

        Partitions whose node is not connected go alone: the others are not to wait for that.
        """
        nodes = self._client.nodes
        calls: list[Call] = []
        alone: dict[int, Coroutine[Any, Any, list[Any] | StoreError]] = {}
        for place, (partition, tasks) in enumerate(groups):
            now_ms = nodes.known_now_ms(partition) if nodes.ready_owner(partition) else None
            if now_ms is None:
                alone[place] = self._enqueue_in(partition, tasks, until_s)
            else:
                calls.append(self._enqueue_call(partition, tasks, now_ms, until_s))
        left_s = until_s - time.monotonic()
        together = self._client.run_each(calls, timeout_s=left_s, await_slot=False)
        if not alone:
            return await together
        answers, others = await asyncio.gather(together, asyncio.gather(*alone.values()))
        for place, answer in zip(alone, others, strict=True):
            answers.insert(place, answer)
        return answers

    async def _enqueue_in(
        self, partition: int, tasks: list[NewTask], until_s: float
    ) -> list[Any] | StoreError:
        try:
            async with asyncio.timeout(until_s - time.monotonic()):
                server_now_ms = await self._client.nodes.server_now_ms(partition)
            call = self._enqueue_call(partition, tasks, server_now_ms, until_s)
            left_s = until_s - time.monotonic()
            return await self._client.run(call, timeout_s=left_s, await_slot=False)
        except TimeoutError:
            late = StoreUnavailable(self.region, "no answer in time", sent=False)
            return self._client.lost(partition, late)
        except StoreUnavailable as error:
            return self._client.lost(partition, error)
        except StoreError as error:
            return error

    def _enqueue_call(
        self, partition: int, tasks: list[NewTask], server_now_ms: int, until_s: float
    ) -> Call:
        keys = self._client.keys[partition]
        item_keys: list[Arg] = []
        item_args: list[Arg] = []
        for task in tasks:
            record = keys.task(task.task_id)
            mark = task.mark
            item_keys += (record, record if mark is None else keys.entry(mark.key))
            item_args += (
                task.task_id,
                birth_ms(task.task_id),
                _shape(
                    task.queue, task.name, task.priority, task.epoch, task.max_crashes, task.fence
                ),
                layout.slim(task.packed, task.queue, task.name, self.region),
                self._terms(task, server_now_ms),
                "" if mark is None else _mark(mark),
            )
        left_s = until_s - time.monotonic()
        wait_ms = min(int(left_s * SECOND_MS), NOT_AFTER_MS)
        script = scripts.load("enqueue")
        parts = script.joined(
            {"counts": keys.counts, **keys.due, "expiry": keys.expiry},
            {
                "not_after_ms": server_now_ms + wait_ms,
                "region": self.region,
                "prefix": keys.prefix,
                "lease_ms": RESERVATION_LEASE_MS,
            },
            item_keys,
            item_args,
        )
        return Call(script, partition, parts)

    def _terms(self, task: NewTask, server_now_ms: int) -> Arg:
        """What only few tasks have; the others say nothing."""
        if not (task.delay_ms or task.not_before_ms or task.expires_ms or task.done_key):
            return ""
        kept_ms = self._kept_ms(task.queue, task.done_key)
        done = self._done(task, server_now_ms)
        expires_ms = task.expires_ms or ""
        return f"{task.delay_ms} {task.not_before_ms} {expires_ms} {kept_ms} {done}"

    def _done(self, task: NewTask, server_now_ms: int) -> str:
        """The key that its completion is remembered by, and until when: the end of its window."""
        if not task.done_key:
            return ""
        start_ms = max(server_now_ms + task.delay_ms, task.not_before_ms)
        window_ms = self._client.fleet.queue(task.queue).dedup.window_ms
        return f"{task.done_key.hex()}:{start_ms + window_ms}"

    async def refuse(self, task_id: str, epoch: int) -> Stored | None:
        """Leave a tombstone, or answer the task that is here; see ports.Intake."""
        partition = partition_in(task_id)
        call = self._client.call(
            "refuse",
            partition,
            {"record": self._client.keys[partition].task(task_id)},
            {"epoch": epoch, "ttl_ms": TOMBSTONE_MS},
        )
        reply = await self._client.run(call)
        if reply[0] == "refused":
            return None
        return replies.known(task_id, cast("bytes", reply[1]))

    async def reserve(
        self, mark: LedgerMark, task_id: str, region: str, epoch: int
    ) -> LedgerHit | None:
        """Reserve `mark` for (task_id, region, epoch); see ports.Ledger."""
        reply = await self._entry_call(
            "reserve",
            mark,
            task_id,
            {
                "task_id": task_id,
                "region": region,
                "epoch": epoch,
                "window_ms": mark.window_ms,
                "digest": mark.digest,
                "request_tag": mark.request_tag,
                "lease_ms": RESERVATION_LEASE_MS,
                "not_before_ms": mark.not_before_ms,
            },
        )
        return None if reply[0] == "reserved" else replies.hit(reply)

    async def confirm(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        """The task is stored; see ports.Ledger."""
        args: dict[str, Arg] = {"task_id": task_id, "epoch": epoch}
        return (await self._entry_call("confirm", mark, task_id, args))[0] == "ok"

    async def unreserve(self, mark: LedgerMark, task_id: str, epoch: int) -> bool:
        """Take an unconfirmed reservation back; see ports.Ledger."""
        args: dict[str, Arg] = {"task_id": task_id, "epoch": epoch}
        return (await self._entry_call("unreserve", mark, task_id, args))[0] == "ok"

    async def forget(self, mark: LedgerMark, task_id: str, *, ended: State | None = None) -> bool:
        """The key is free again; see ports.Ledger."""
        args: dict[str, Arg] = {
            "task_id": task_id,
            "state": ended or "",
            "keep_ms": REQUEST_ID_WINDOW_MS,
        }
        return (await self._entry_call("forget", mark, task_id, args))[0] == "ok"

    async def _entry_call(
        self, script: str, mark: LedgerMark, task_id: str, args: Mapping[str, Arg]
    ) -> list[Any]:
        partition = self._entry_partition(mark, task_id)
        keys = self._client.keys[partition]
        call = self._client.call(script, partition, {"entry": keys.entry(mark.key)}, args)
        return await self._client.run(call, timeout_s=CALL_TIMEOUT_S)


def _mark(mark: LedgerMark) -> bytes:
    return b"%d:%d:%b%b" % (mark.window_ms, len(mark.request_tag), mark.request_tag, mark.digest)


@lru_cache(maxsize=1024)
def _shape(
    queue: str, name: str, priority: int, epoch: int, max_crashes: int, fence: tuple[str, ...]
) -> str:
    """What many tasks have in common; see enqueue.lua."""
    crashes = unless_default(max_crashes)
    return f"{queue} {name} {priority:d} {epoch} {crashes} {','.join(fence)}"


_UNANSWERED: Final = StoreContractBroken("enqueue did not answer for all of its tasks")
