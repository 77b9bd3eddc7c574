"""Moves dead-lettered tasks to the next permitted region, by the protocol of design section 7.

Each step writes down what the next one needs, so that a courier may die anywhere: the next one
goes on from the state it finds.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import Final, Protocol

from tradewind import codec, metrics
from tradewind.clock import Clock
from tradewind.errors import NoRegionPermitted, StoreError, StoreFull
from tradewind.fleet import Fleet
from tradewind.limits import (
    IMPORT_MEMORY_MS,
    MINUTE_MS,
    NOT_AFTER_MS,
    REQUEST_ID_WINDOW_MS,
    SECOND_MS,
    SWEEP_EVERY_MS,
)
from tradewind.policy import rules
from tradewind.policy.relocate import Relocation, Stranded, relocate
from tradewind.ports import Inbox, Outbox, Vitals
from tradewind.state import State
from tradewind.task import Draft, Exported, Record
from tradewind.v1.task_pb2 import TASK_STATE_DEAD_LETTER, TaskSpec
from worker.views import Views

_log = logging.getLogger(__name__)
_BATCH: Final = 32  # tasks of a partition looked at in one pass
_SIDE_BY_SIDE: Final = 16  # moves under way in this process: each waits on a far region
_IMPORT_TIMEOUT_S: Final = 10.0  # well inside NOT_AFTER_MS, so that a late answer is rare
# What a courier has read of a move is good for so long: if it then stood still for longer, others
# may have carried the move to its end, and the target's memory of it be gone.
_TRUST_MS: Final = 2 * MINUTE_MS  # a pass takes seconds; some tens if the target is silent
_LOOK_AGAIN_MS: Final = SWEEP_EVERY_MS  # after a reason that may pass

# Relations between constants.
assert _IMPORT_TIMEOUT_S * SECOND_MS < NOT_AFTER_MS  # noqa: S101
assert _TRUST_MS + NOT_AFTER_MS < IMPORT_MEMORY_MS  # noqa: S101


class Target(Inbox, Vitals, Protocol):
    """What a courier needs of another region."""


class Courier:
    """Carries tasks out of one region. `work` is for partitions whose courier lease is held."""

    def __init__(
        self,
        source: Outbox,
        fleet: Fleet,
        targets: Mapping[str, Target],
        views: Views,
        *,
        clock: Clock,
    ) -> None:
        """`targets`: every other region by name."""
        self._source, self._fleet, self._targets, self._views = source, fleet, targets, views
        self._clock = clock
        self._region = fleet.regions[source.region]
        self._room = asyncio.Semaphore(_SIDE_BY_SIDE)

    def follow(self, fleet: Fleet, targets: Mapping[str, Target]) -> None:
        """Go on with another fleet, in the middle of a pass, too: its fences count at once."""
        self._fleet, self._targets = fleet, targets
        self._region = fleet.regions[self._source.region]
        self._views.follow(fleet, targets)

    async def work(self, partition: int) -> None:
        """One pass: finish the moves that have begun, then begin new ones. Raises StoreError."""
        read_ms = self._clock.monotonic_ms()
        moving = await self._source.moving(partition, limit=_BATCH)
        await self._each(self._carry(exported, read_ms) for exported in moving)
        dead = await self._source.outbox(partition, limit=_BATCH)
        await self._each(self._consider(record) for record in dead)

    async def _each(self, moves: Iterable[Coroutine[None, None, None]]) -> None:
        async def one(move: Coroutine[None, None, None]) -> None:
            async with self._room:
                await move

        outcomes = await asyncio.gather(*map(one, moves), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _consider(self, record: Record) -> None:
        """Find a region for a dead task, and move it; or note why it stays."""
        where = await self._relocate(record)
        if not where.target:
            again_ms = None if where.permanent else _LOOK_AGAIN_MS
            await self._source.keep(record, reason=where.reason, retry_after_ms=again_ms)
            extra = {"task_id": record.task_id, "reason": where.reason, "settled": where.permanent}
            _log.info("a dead task stays", extra=extra)
            return
        read_ms = self._clock.monotonic_ms()
        exported = await self._source.begin_export(
            record, where.target, groups=self._region.residency
        )
        if exported is not None:  # else another courier was faster
            await self._carry(exported, read_ms)

    async def _relocate(self, record: Record) -> Relocation:
        views = await self._views.current()  # the rules are those of the moment of the decision
        try:
            spec = codec.unpack(record.packed).spec
            stays = codec.hops(record.hops)
            fence_now = rules.resolve(_draft(spec), self._fleet).fence
        except codec.DamagedRecord as error:
            return Relocation("", str(error), permanent=True)
        except NoRegionPermitted as error:
            return Relocation("", f"today's rules: {error}", permanent=True)
        stranded = Stranded(
            source=self._region.name,
            queue=spec.queue or "default",
            name=spec.name,
            fence=record.fence,
            fence_now=fence_now,
            pin=spec.pin_region,
            visited=[self._region.name, *(stay.region for stay in stays)],
            hop_count=sum(stay.state == TASK_STATE_DEAD_LETTER for stay in stays),
        )
        return relocate(stranded, views, self._fleet)

    async def _carry(self, exported: Exported, read_ms: float) -> None:
        """From a begun export to its end, or to where the next pass can take it up.

        `read_ms`: monotonic, from before the source was asked. A reading that is too old is worth
        nothing: the next pass asks anew.
        """
        task_id, name = exported.record.task_id, exported.target
        target = self._targets.get(name)
        if target is None:
            _log.error(
                "a move leads to a region that the file no longer names; bring it back",
                extra={"task_id": task_id, "target": name},
            )
            return
        try:
            if name not in self._fleet.inside(exported.record.fence):
                await self._turn_back(exported, target, "the target left the fence")
                return
            answer = await target.import_task(
                exported,
                hops=self._hops(exported.record),
                timeout_s=_IMPORT_TIMEOUT_S,
                is_fresh=lambda: self._clock.monotonic_ms() - read_ms <= _TRUST_MS,
            )
        except StoreFull:  # nothing was stored there: look for another region
            self._views.filled(name)
            await self._turn_back(exported, target, f"{name}: full")
            return
        except StoreError as error:
            # Perhaps imported, perhaps not. It stays MOVING, and the next pass repeats the import.
            extra = {"task_id": task_id, "target": name, "reason": str(error)}
            _log.warning("a move waits for its target", extra=extra)
            return
        if answer in {"imported", "known"}:
            await self._let_go(exported, target)
        elif answer == "refused":
            await self._turn_back(exported, target, f"{name}: refused")
        else:
            extra = {"task_id": task_id, "target": name}
            _log.info("a move came too late to its target and starts over", extra=extra)

    async def _let_go(self, exported: Exported, target: Target) -> None:
        """The target has it: leave a pointer, then let the target forget the import."""
        task_id, epoch, name = exported.record.task_id, exported.epoch, exported.target
        queue = self._fleet.queue(exported.queue)
        keep_ms = max(queue.dedup.window_ms, queue.retention.completed_ms, REQUEST_ID_WINDOW_MS)
        if await self._source.ack_export(task_id, epoch, name, keep_ms=keep_ms):
            self._count(exported, "moved")
            extra = {"task_id": task_id, "target": name, "death": exported.record.death}
            _log.info("a dead task was moved", extra=extra)
        await target.settle_import(task_id, epoch)

    async def _turn_back(self, exported: Exported, target: Target, reason: str) -> None:
        """Make sure that the target can never take this move, then restore the task here."""
        task_id, epoch, name = exported.record.task_id, exported.epoch, exported.target
        if await target.refuse_import(task_id, epoch) == "imported":
            await self._let_go(exported, target)
            return
        state = await self._source.abort_export(
            task_id, epoch, name, reason=reason, retry_after_ms=_LOOK_AGAIN_MS
        )
        if state is not None:
            self._count(exported, "aborted")
            _log.info("a move was given up", extra={"task_id": task_id, "reason": reason})

    def _hops(self, record: Record) -> bytes:
        """The stays so far, the one that ends now included; the same at every repeat."""
        return codec.add_hop(
            record.hops,
            region=self._region.name,
            state=State.DEAD_LETTER,
            attempts=record.attempts,
            reason=record.death,
            at_ms=record.finished_ms,
        )

    def _count(self, exported: Exported, outcome: str) -> None:
        metrics.MOVES.labels(
            self._region.name, exported.target, exported.record.death, outcome
        ).inc()


def _draft(spec: TaskSpec) -> Draft:
    """As much of the submit as rules match on."""
    return Draft(
        name=spec.name,
        queue=spec.queue or "default",
        tenant=spec.tenant,
        labels=dict(spec.labels),
        affinity_key=spec.affinity_key,
        residency=tuple(spec.residency),
        pin_region=spec.pin_region,
    )
