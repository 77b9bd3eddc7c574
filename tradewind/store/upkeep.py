"""Keeping partitions in order, and signs of life (ports Upkeep and Vitals)."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from typing import Any, cast

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from tradewind.errors import StoreUnavailable
from tradewind.limits import (
    COURIER_LEASE_MS,
    HOUR_MS,
    MAX_PROMOTE,
    SECOND_MS,
    WORKER_GONE_MS,
)
from tradewind.state import State
from tradewind.store import replies
from tradewind.store.claims import queue_keys
from tradewind.store.link import cause_of, read_reply
from tradewind.store.region_client import RegionClient
from tradewind.store.role import Role
from tradewind.task import Heartbeat, LiveWorker, Reaped, Swept

CONTROL = 0  # the partition that keeps what belongs to the region and not to a task
PURGE_PER_SWEEP = 64
_MARGIN_S = 3.0  # a blocking call is given up this long after Redis should have answered


class UpkeepRole(Role):
    """See ports.Upkeep."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        super().__init__(client)
        self._waits: dict[int, AbstractConnection] = {}  # by first partition of a node
        self._turn = 0

    async def wait(
        self, queues: Sequence[str], partitions: Sequence[int], *, timeout_s: float
    ) -> int | None:
        """Block until a partition may have work; see ports.Upkeep.

        One blocking call per node, each on a connection of its own; the first answer wins and the
        other calls end with it, which may swallow their hint: sweeps set it anew.
        """
        wanted = set(partitions)
        waits = [
            asyncio.create_task(self._wait_at(held, queues, timeout_s))
            for held in (
                [p for p in owned if p in wanted]
                for owned in self._client.nodes.owned_together().values()
            )
            if held
        ]
        if not waits:
            await asyncio.sleep(timeout_s)
            return None
        try:
            for done in asyncio.as_completed(waits):
                partition = await done
                if partition is not None:
                    return partition
            return None
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _wait_at(
        self, partitions: list[int], queues: Sequence[str], timeout_s: float
    ) -> int | None:
        # Redis serves the first key that has something: rotate, or the last partition starves.
        self._turn = (self._turn + 1) % len(partitions)
        partitions = partitions[self._turn :] + partitions[: self._turn]
        keys = {self._client.keys[p].wake(q): p for p in partitions for q in queues}
        first = min(partitions)
        connection = self._waits.pop(first, None) or self._client.nodes.connection(first)
        try:
            async with asyncio.timeout(timeout_s + _MARGIN_S):
                await connection.send_command("BLPOP", *keys, max(timeout_s, 0.01))
                reply = await read_reply(connection)
        except (OSError, TimeoutError, redis_errors.RedisError) as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, redis_errors.MovedError):
                await self._client.nodes.learn()
                return None
            raise StoreUnavailable(self.region, cause_of(error), sent=True) from None
        except asyncio.CancelledError:
            # A reply that nobody reads would be taken for the next call's.
            await connection.disconnect(nowait=True)
            raise
        self._waits[first] = connection
        return None if reply is None else keys[reply[0].decode()]

    async def close_waits(self) -> None:
        """Close the connections that block. Idempotent."""
        waits, self._waits = self._waits, {}
        for connection in waits.values():
            await connection.disconnect(nowait=True)

    async def sweep(
        self, partition: int, *, worker_id: str, queues: Sequence[str], courier: bool
    ) -> Swept:
        """Upkeep of one partition; see ports.Upkeep."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "sweep",
            partition,
            {
                "counts": keys.counts,
                "leases": keys.leases,
                "due": keys.due,
                "dead": keys.dead,
                "dead_until": keys.dead_until,
                "outbox": keys.outbox,
                "moving": keys.moving,
                "imports": keys.imports,
                "courier": keys.courier,
            },
            {
                "prefix": keys.prefix,
                "worker_id": worker_id,
                "courier_lease_ms": COURIER_LEASE_MS if courier else "",
                "promote": MAX_PROMOTE,
                "purge": PURGE_PER_SWEEP,
            },
            [(queue_keys(keys, queue), ()) for queue in queues],
        )
        _, now_ms, *numbers, is_courier = cast("list[Any]", await self._client.run(call))
        depth, promoted, expired, next_due_ms, outbox, moving, unsettled = numbers
        return Swept(
            depth=depth,
            promoted=promoted,
            expired_leases=expired,
            next_due_ms=next_due_ms,
            outbox=outbox,
            moving=moving,
            unsettled_imports=unsettled,
            courier=is_courier == 1,
            now_ms=int(now_ms),
        )

    async def reap(self, partition: int, *, limit: int) -> list[Reaped]:
        """Take back expired leases; see ports.Upkeep."""
        keys = self._client.keys[partition]
        call = self._client.call(
            "reap",
            partition,
            {
                "counts": keys.counts,
                "leases": keys.leases,
                "dead": keys.dead,
                "dead_until": keys.dead_until,
                "outbox": keys.outbox,
            },
            {"prefix": keys.prefix, "limit": limit, "deaths": self._deaths()},
        )
        _, *items = cast("list[Any]", await self._client.run(call))
        return [
            Reaped(task_id.decode(), worker_id.decode(), State(state.decode()))
            for task_id, worker_id, state in items
        ]

    def _deaths(self) -> str:
        fleet = self._client.fleet
        policies = {"": fleet.default_queue, **fleet.queues}
        return json.dumps(
            {
                name: [policy.retention.dead_ms, int("crashed" in policy.failover.on)]
                for name, policy in policies.items()
            }
        )

    async def heartbeat(self, beat: Heartbeat) -> None:
        """Say that this worker lives; see ports.Upkeep."""
        report = dataclasses.asdict(beat)
        report["depths"] = [[p, depth, at_ms] for p, (depth, at_ms) in beat.depths.items()]
        await self._beat(beat.worker_id, json.dumps(report, separators=(",", ":")))

    async def farewell(self, worker_id: str) -> None:
        """Say that this worker is gone; see ports.Upkeep."""
        await self._beat(worker_id, "")

    async def _beat(self, worker_id: str, report: str) -> None:
        call = self._client.call(
            "heartbeat",
            CONTROL,
            {"workers": self._client.keys[CONTROL].workers},
            {"worker_id": worker_id, "report": report, "ttl_ms": HOUR_MS},
        )
        await self._client.run(call, timeout_s=WORKER_GONE_MS / SECOND_MS / 3)


class VitalsRole(Role):
    """See ports.Vitals."""

    async def probe(self) -> float:
        """Write, read and delete on every primary; see ports.Vitals."""
        primaries = await self._client.nodes.primaries()

        async def one(partition: int) -> float:
            keys = {"probe": self._client.keys[partition].probe}
            call = self._client.call("probe", partition, keys, {})
            asked_s = time.perf_counter()
            reply = await self._client.run(call, timeout_s=3.0)
            took_ms = (time.perf_counter() - asked_s) * SECOND_MS
            self._client.nodes.note_clock(partition, int(cast("bytes", reply[1])))
            return took_ms

        return max(await asyncio.gather(*(one(partition) for partition in primaries)))

    async def workers(self) -> list[LiveWorker]:
        """Live workers of the region; see ports.Vitals."""
        keys = {"workers": self._client.keys[CONTROL].workers}
        reply = await self._client.run(self._client.call("workers", CONTROL, keys, {}))
        now_ms = int(cast("bytes", reply[1]))
        found: list[LiveWorker] = []
        for entry in replies.fields(reply[2]).values():
            at_ms, _, report = entry.partition(b" ")
            age_ms = now_ms - int(at_ms)
            if age_ms < WORKER_GONE_MS:
                found.append(LiveWorker(_heartbeat(json.loads(report)), age_ms))
        return found


def _heartbeat(report: dict[str, Any]) -> Heartbeat:
    report["queues"] = tuple(report["queues"])
    report["handlers"] = tuple(report["handlers"])
    report["depths"] = {p: (depth, at_ms) for p, depth, at_ms in report["depths"]}
    return Heartbeat(**report)
