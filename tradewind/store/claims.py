"""Taking and settling work (port Claims)."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tradewind.errors import StoreError
from tradewind.limits import KIB, MAX_CLAIM, MAX_ERROR_BYTES
from tradewind.store import replies
from tradewind.store.keys import PartitionKeys, place_of
from tradewind.store.listening import listen
from tradewind.store.region_client import CALL_TIMEOUT_S, Call, RegionClient
from tradewind.store.role import Role, batched
from tradewind.store.scripts import Arg, Item
from tradewind.store.tightness import Tightness
from tradewind.task import (
    Bury,
    Cancel,
    Claim,
    ClaimBatch,
    Crash,
    Failure,
    Finish,
    Priority,
    Progress,
    Release,
    Renewed,
    RetryAt,
    Settled,
    Settlement,
)

Settling = TypeVar("Settling", bound=Settlement | Progress)
Answer = TypeVar("Answer")
Anything = TypeVar("Anything")

MAX_NOTE_BYTES = 1 * KIB  # of progress; many a record holds one
# Due tasks of each priority that a claim makes ready first, or as many as it may take: more, and
# what is due and low would come before what is due and high.
PROMOTE_PER_CLAIM = 16


class ClaimsRole(Role):
    """See ports.Claims."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        super().__init__(client)
        self._tightness = Tightness(client)

    async def close_claims(self) -> None:
        """End what is asked beside the calls. Idempotent."""
        await self._tightness.close()

    async def claim(
        self,
        partition: int,
        *,
        worker_id: str,
        lease_ms: Mapping[str, int],
        handlers: Sequence[str],
        limit: int,
        suspects: int = 0,
        starvation_ms: Mapping[str, int] | None = None,
    ) -> ClaimBatch:
        """Claim up to `limit` tasks of one partition; see ports.Claims."""
        keys = self._client.keys[partition]
        patience_ms = starvation_ms or {}
        call = self._client.call(
            "claim",
            partition,
            {
                "counts": keys.counts,
                "leases": keys.leases,
                **keys.due,
                "parked": keys.parked,
                "expiry": keys.expiry,
            },
            {
                "prefix": keys.prefix,
                "worker_id": worker_id,
                "limit": min(limit, MAX_CLAIM),
                "suspects": min(suspects, MAX_CLAIM),
                "handlers": json.dumps(list(handlers)),
                "promote": min(max(limit, PROMOTE_PER_CLAIM), MAX_CLAIM),
            },
            [
                (queue_keys(keys, queue), (queue, lease, patience_ms.get(queue, "")))
                for queue, lease in lease_ms.items()
            ],
        )
        _, now_ms, depth, next_due_ms, parked, *claims = cast(
            "list[Any]", await self._client.run(call, await_slot=False)
        )
        self._client.nodes.note_clock(partition, int(now_ms))
        return ClaimBatch(
            claims=tuple(
                replies.claim(self.region, partition, parts, int(now_ms))
                for parts in zip(claims[::3], claims[1::3], claims[2::3], strict=True)
            ),
            depth=depth,
            next_due_ms=next_due_ms,
            now_ms=int(now_ms),
            parked=parked > 0,
        )

    async def renew(
        self, claims: Sequence[Claim], lease_ms: Mapping[str, int]
    ) -> list[Renewed | StoreError]:
        """Extend leases; see ports.Claims."""

        def item(keys: PartitionKeys, claim: Claim) -> Item:
            return (
                (keys.task(claim.task_id),),
                (claim.task_id, claim.token, claim.epoch, lease_ms[claim.queue]),
            )

        def decode(indices: Sequence[int], parts: Sequence[Any]) -> list[Renewed]:
            return [
                replies.renewed(part, claims[index].token)
                for index, part in zip(indices, parts, strict=True)
            ]

        return await self._each("renew", claims, claims, item, decode)

    async def finish(self, items: Sequence[Finish]) -> list[Settled | StoreError]:
        """Record success; see ports.Claims."""
        return await self._settle(
            "finish", items, lambda f: (f.retention_ms, f.result, f.content_type)
        )

    async def retry(self, items: Sequence[RetryAt]) -> list[Settled | StoreError]:
        """State FAILED until due; see ports.Claims."""
        return await self._settle(
            "retry",
            items,
            lambda r: (r.delay_ms, *self._told(r.claim, r.failure)),
        )

    async def bury(self, items: Sequence[Bury]) -> list[Settled | StoreError]:
        """State DEAD_LETTER; see ports.Claims."""
        return await self._settle(
            "bury",
            items,
            lambda b: (
                b.retention_ms,
                b.kind,
                b.move_after_ms if b.may_move else "",
                b.failover,
                *self._told(b.claim, b.failure),
            ),
        )

    async def release(self, items: Sequence[Release]) -> list[Settled | StoreError]:
        """State PENDING again; see ports.Claims."""

        def item(keys: PartitionKeys, release: Release) -> Item:
            claim = release.claim
            hint = keys.suspects if claim.suspect else keys.wake
            return (
                (
                    keys.task(claim.task_id),
                    keys.ready(claim.queue, claim.priority, suspect=claim.suspect),
                    hint(claim.queue),
                ),
                (
                    claim.task_id,
                    claim.token,
                    claim.epoch,
                    claim.queue,
                    place_of(claim.priority, suspect=claim.suspect),
                ),
            )

        return await self._each(
            "release", [i.claim for i in items], items, item, _settled_by("release")
        )

    async def confirm_cancel(self, items: Sequence[Cancel]) -> list[Settled | StoreError]:
        """State CANCELLED; see ports.Claims."""
        return await self._settle("confirm_cancel", items, lambda c: (c.retention_ms,))

    async def crashed(self, items: Sequence[Crash]) -> list[Settled | StoreError]:
        """The attempts' processes died; see ports.Claims."""

        def item(keys: PartitionKeys, crash: Crash) -> Item:
            claim = crash.claim
            return (
                (
                    keys.task(claim.task_id),
                    keys.ready(claim.queue, claim.priority, suspect=True),
                    keys.suspects(claim.queue),
                ),
                (
                    claim.task_id,
                    claim.token,
                    claim.epoch,
                    cut(crash.message, MAX_ERROR_BYTES),
                    crash.retention_ms,
                    crash.move_after_ms if crash.may_move else "",
                    crash.failover,
                ),
            )

        return await self._each(
            "crashed", [i.claim for i in items], items, item, _settled_by("crashed")
        )

    async def progress(self, items: Sequence[Progress]) -> list[Settled | StoreError]:
        """How far attempts have come; see ports.Claims."""
        return await self._settle(
            "progress",
            items,
            lambda p: (f"{min(1.0, max(0.0, p.fraction)):.4f}", cut(p.note, MAX_NOTE_BYTES)),
        )

    def cancels(self) -> AsyncIterator[str]:
        """Ids of running tasks to be cancelled; see ports.Claims."""
        return listen(self._client, [keys.cancels for keys in self._client.keys])

    def _told(self, claim: Claim, failure: Failure) -> tuple[str, str, str]:
        """What is kept of a failure: where memory is tight no traceback, up to 16 KiB a task."""
        is_tight = self._tightness.at(claim.partition)
        return failure.kind, failure.message, "" if is_tight else failure.traceback

    async def _settle(
        self, script: str, items: Sequence[Settling], rest: Callable[[Settling], tuple[Arg, ...]]
    ) -> list[Settled | StoreError]:
        def item(keys: PartitionKeys, settlement: Settling) -> Item:
            claim = settlement.claim
            return (
                (keys.task(claim.task_id),),
                (claim.task_id, claim.token, claim.epoch, *rest(settlement)),
            )

        return await self._each(script, [i.claim for i in items], items, item, _settled_by(script))

    async def _each(
        self,
        script: str,
        claims: Sequence[Claim],
        items: Sequence[Anything],
        item: Callable[[PartitionKeys, Anything], Item],
        decode: Callable[[Sequence[int], Sequence[Any]], Sequence[Answer]],
    ) -> list[Answer | StoreError]:
        def build(partition: int, indices: Sequence[int]) -> Call:
            keys = self._client.keys[partition]
            shared = {
                "counts": keys.counts,
                "leases": keys.leases,
                **keys.due,
                "expiry": keys.expiry,
                "dead": keys.dead,
                "dead_until": keys.dead_until,
                "outbox": keys.outbox,
                "hooks": keys.hooks,
            }
            return self._client.call(
                script,
                partition,
                shared,
                {
                    "prefix": keys.prefix,
                    "hooked": self._hooked(),
                    "tight": int(script == "finish" and self._tightness.at(partition)),
                },
                [item(keys, items[index]) for index in indices],
            )

        return await batched(
            self._client,
            [claim.partition for claim in claims],
            build,
            decode,
            timeout_s=CALL_TIMEOUT_S,
        )


def _settled_by(script: str) -> Callable[[Sequence[int], Sequence[Any]], list[Settled]]:
    return lambda _indices, parts: [replies.settled(part, script) for part in parts]


def cut(text: str, most: int) -> bytes:
    """UTF-8 of at most `most` bytes, no character halved."""
    data = text.encode(errors="replace")
    return data if len(data) <= most else data[:most].decode(errors="ignore").encode()


def queue_keys(keys: PartitionKeys, queue: str) -> tuple[str, ...]:
    """The keys that claim and sweep take for each queue."""
    ready = (keys.ready(queue, priority) for priority in Priority)
    return (*ready, keys.wake(queue), keys.others(queue), keys.suspects(queue))
