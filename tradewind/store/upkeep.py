"""Keeping partitions in order, and signs of life (ports Upkeep and Vitals)."""

import asyncio
import contextlib
import json
import time
from collections.abc import Collection, Sequence
from typing import Any, cast

from tradewind.errors import StoreMoving
from tradewind.limits import (
    COURIER_LEASE_MS,
    HOUR_MS,
    MAX_EXPIRE,
    MAX_PROMOTE,
    REQUEST_ID_WINDOW_MS,
    SECOND_MS,
    WORKER_GONE_MS,
)
from tradewind.state import State
from tradewind.store import replies
from tradewind.store.claims import queue_keys
from tradewind.store.heartbeats import Roll, packed
from tradewind.store.letters import word
from tradewind.store.region_client import RegionClient
from tradewind.store.role import Role
from tradewind.store.waits import Waits, Wants
from tradewind.task import Heartbeat, LiveWorker, Probe, Reaped, Swept

CONTROL = 0  # the partition that keeps what belongs to the region and not to a task
PURGE_PER_SWEEP = 64
PROBE_TIMEOUT_S = 3.0


class UpkeepRole(Role):
    """See ports.Upkeep."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        super().__init__(client)
        self._waits = Waits(client)

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
        """Block until a partition may have work; see ports.Upkeep."""
        wants = Wants(tuple(queues), ready, suspects, frozenset(cold))
        return await self._waits.wait(wants, partitions, timeout_s=timeout_s)

    async def close_waits(self) -> None:
        """Close the connections that block. Idempotent."""
        await self._waits.close()

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
                **keys.due,
                "dead": keys.dead,
                "dead_until": keys.dead_until,
                "outbox": keys.outbox,
                "hooks": keys.hooks,
                "moving": keys.moving,
                "imports": keys.imports,
                "courier": keys.courier,
                "parked": keys.parked,
                "expiry": keys.expiry,
            },
            {
                "prefix": keys.prefix,
                "worker_id": worker_id,
                "courier_lease_ms": COURIER_LEASE_MS if courier else "",
                "promote": MAX_PROMOTE,
                "purge": PURGE_PER_SWEEP,
                "expire": MAX_EXPIRE,
            },
            [(queue_keys(keys, queue), (queue,)) for queue in queues],
        )
        _, now_ms, *numbers, is_courier, ended, hooks, dead = cast(
            "list[Any]", await self._client.run(call, await_slot=False)
        )
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
            expired=ended,
            hooks=hooks,
            dead=dead,
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
                "hooks": keys.hooks,
                "expiry": keys.expiry,
            },
            {
                "prefix": keys.prefix,
                "limit": limit,
                "deaths": self._deaths(),
                "hooked": self._hooked(),
            },
        )
        _, *items = cast("list[Any]", await self._client.run(call, await_slot=False))
        return [
            Reaped(
                task_id.decode(),
                worker_id.decode(errors="replace"),
                State(word(state)),
                queue.decode(),
            )
            for task_id, worker_id, state, queue in items
        ]

    def _deaths(self) -> str:
        """What becomes of those that crash too often, whom no ledger entry must outlive."""
        fleet = self._client.fleet
        policies = {"": fleet.default_queue, **fleet.queues}
        return json.dumps(
            {
                name: [
                    max(policy.retention.dead_ms, policy.dedup.window_ms, REQUEST_ID_WINDOW_MS),
                    fleet.failover.dead_after_ms if "crashed" in policy.failover.on else -1,
                ]
                for name, policy in policies.items()
            }
        )

    async def heartbeat(self, beat: Heartbeat) -> None:
        """Say that this worker lives; see ports.Upkeep."""
        await self._beat(beat.worker_id, packed(beat))

    async def farewell(self, worker_id: str) -> None:
        """Say that this worker is gone; see ports.Upkeep."""
        await self._beat(worker_id, "")

    async def _beat(self, worker_id: str, report: str) -> None:
        call = self._client.call(
            "heartbeat",
            CONTROL,
            _said(self._client),
            {
                "worker_id": worker_id,
                "report": report,
                "ttl_ms": HOUR_MS,
                "known": self._client.holding.known,
            },
        )
        reply = await self._client.run(call, timeout_s=WORKER_GONE_MS / SECOND_MS / 3)
        self._client.holding.take(reply[2], reply[3])


class VitalsRole(Role):
    """See ports.Vitals."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        super().__init__(client)
        self._roll = Roll(client.name)

    async def probe(self) -> Probe:
        """Write, read and delete on every primary; see ports.Vitals."""
        await self._client.nodes.known()
        nodes = self._client.nodes.owned_together().values()
        found = await asyncio.gather(*map(self._probe, nodes))
        return Probe(
            rtt_ms=max(each.rtt_ms for each in found),
            memory=max(each.memory for each in found),
            full=all(each.full for each in found),
            evicts=next((each.evicts for each in found if each.evicts), ""),
        )

    async def _probe(self, partitions: Sequence[int]) -> Probe:
        """Probe one node, by a partition that is not on its way to another."""
        for partition in partitions[:-1]:
            with contextlib.suppress(StoreMoving):
                return await self._probe_at(partition)
        return await self._probe_at(partitions[-1])

    async def _probe_at(self, partition: int) -> Probe:
        keys = {"probe": self._client.keys[partition].probe}
        call = self._client.call("probe", partition, keys, {})
        asked_s = time.perf_counter()
        reply = await self._client.run(
            call, timeout_s=PROBE_TIMEOUT_S, await_slot=False, eager=True
        )
        took_ms = (time.perf_counter() - asked_s) * SECOND_MS
        self._client.nodes.note_clock(partition, int(cast("bytes", reply[1])))
        return replies.probe(reply, took_ms)

    def now_ms(self) -> int | None:
        """The store's clock as last heard of; see ports.Vitals."""
        return self._client.nodes.known_now_ms(CONTROL)

    async def workers(self) -> list[LiveWorker]:
        """Live workers of the region; see ports.Vitals."""
        known = {"known": self._client.holding.known}
        call = self._client.call("workers", CONTROL, _said(self._client), known)
        reply = await self._client.run(call)
        self._client.holding.take(reply[3], reply[4])
        flat = cast("list[bytes]", reply[2])
        entries = zip(flat[::2], flat[1::2], strict=True)
        return self._roll.read(entries, int(cast("bytes", reply[1])))


def _said(client: RegionClient) -> dict[str, str]:
    """Where workers say that they live, and operators what holds."""
    keys = client.keys[CONTROL]
    return {"workers": keys.workers, "control": keys.control}
