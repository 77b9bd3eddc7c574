"""Carries one move to its end, step by step as docs/architecture.md says.

Each step writes down what the next one needs, so that a courier may die anywhere: the next one
goes on from the state it finds.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from tradewind import codec, ids, metrics
from tradewind.audit import AuditRecord
from tradewind.clock import Clock
from tradewind.errors import StoreError, StoreFull
from tradewind.fleet import Fleet
from tradewind.limits import (
    IMPORT_MEMORY_MS,
    MINUTE_MS,
    NOT_AFTER_MS,
    REQUEST_ID_WINDOW_MS,
    SECOND_MS,
    SWEEP_EVERY_MS,
)
from tradewind.ports import Audits, Durables, ImportAnswer, Inbox, Outbox, Vitals
from tradewind.task import Exported

_log = logging.getLogger(__name__)
_TELL_MS: Final = 10 * SECOND_MS  # between two records of what was moved
_IMPORT_TIMEOUT_S: Final = 10.0  # well inside NOT_AFTER_MS, so that a late answer is rare
# What a courier has read of a move is good for so long: if it then stood still for longer, others
# may have carried the move to its end, and the target's memory of it be gone.
_TRUST_MS: Final = 2 * MINUTE_MS  # a pass takes seconds; some tens if the target is silent
LOOK_AGAIN_MS: Final = SWEEP_EVERY_MS  # after a reason that may pass

# Relations between constants.
assert _IMPORT_TIMEOUT_S * SECOND_MS < NOT_AFTER_MS  # noqa: S101
assert _TRUST_MS + NOT_AFTER_MS < IMPORT_MEMORY_MS  # noqa: S101


class Source(Outbox, Audits, Protocol):
    """What a courier needs of the region that tasks leave."""


class Target(Inbox, Vitals, Durables, Protocol):
    """What it needs of another region."""


class Carrier:
    """Carries what leaves one region."""

    def __init__(
        self,
        source: Source,
        fleet: Fleet,
        targets: Mapping[str, Target],
        *,
        clock: Clock,
        on_full: Callable[[str], None],
        order_ms: Callable[[], int],
    ) -> None:
        """`on_full` hears of regions that have no memory left.

        `order_ms()`: when the evacuation was ordered that stands, 0 if none does.
        """
        self._source, self._fleet, self._targets = source, fleet, targets
        self._clock, self._on_full, self._order_ms = clock, on_full, order_ms
        self._moved: dict[str, Counter[str]] = {}  # by reason and target, not told of yet
        self._told_ms = clock.monotonic_ms()

    def follow(self, fleet: Fleet, targets: Mapping[str, Target]) -> None:
        """Go on with another fleet: its fences count at once."""
        self._fleet, self._targets = fleet, targets

    async def carry(self, exported: Exported, read_ms: float) -> bool:
        """From a begun export to its end, or to where the next pass can take it up.

        `read_ms`: monotonic, from before the source was asked. A reading that is too old is worth
        nothing: the next pass asks anew. Returns whether the task has left. Raises StoreError.
        """
        task_id, name = exported.record.task_id, exported.target
        target = self._targets.get(name)
        if target is None:
            _log.error(
                "a move leads to a region that the file no longer names; bring it back",
                extra={"task_id": task_id, "target": name},
            )
            return False
        if not await self._source.seal(ids.parse(task_id).partition):
            self._unsure(exported, self._source.region)
            return False
        if not await self._source.is_moving(task_id, exported.epoch, name):
            return False  # somebody has ended it meanwhile, or the region has lost that it began
        return await self._bring(exported, target, read_ms)

    async def _bring(self, exported: Exported, target: Target, read_ms: float) -> bool:
        """From an export that lasts."""
        task_id, name = exported.record.task_id, exported.target
        # Not before: to be sure took a second or two, and the fence of this moment counts.
        if name not in self._fleet.inside(exported.record.fence):
            return await self._turn_back(exported, target, "the target left the fence")
        try:
            answer = await self._import(exported, target, read_ms)
            is_safe = answer in {"imported", "known"} and await self._has_come(exported, target)
        except StoreFull as error:  # nothing was stored there: look for another region
            if not error.partly:
                self._on_full(name)
            return await self._turn_back(exported, target, f"{name}: full")
        except StoreError as error:
            # Perhaps imported, perhaps not. It stays MOVING, and the next pass repeats the import.
            extra = {"task_id": task_id, "target": name, "reason": str(error)}
            _log.warning("a move waits for its target", extra=extra)
            return False
        match answer:
            case "imported" | "known" if not is_safe:
                self._unsure(exported, name)
                left = False
            case "imported" | "known":
                left = await self._let_go(exported, target)
            case "refused":
                left = await self._turn_back(exported, target, f"{name}: refused")
            case "late":
                extra = {"task_id": task_id, "target": name}
                _log.info("a move came too late to its target and starts over", extra=extra)
                left = False
        return left

    def _unsure(self, exported: Exported, region: str) -> None:
        """It stays MOVING, and the next pass repeats the step."""
        extra = {"task_id": exported.record.task_id, "of": region}
        _log.warning("a move waits until its last step is on a replica, or on disk", extra=extra)

    # A step lasts once its region says that it is sealed and, asked afterwards, still has it: a
    # node that crashed in between, and is back, seals what it has.

    async def _has_come(self, exported: Exported, target: Target) -> bool:
        task_id, epoch = exported.record.task_id, exported.epoch
        if not await target.seal(ids.parse(task_id).partition):
            return False
        came, _ = await target.remembered(task_id)
        return came >= epoch

    async def _is_refused(self, exported: Exported, target: Target) -> bool:
        task_id, epoch = exported.record.task_id, exported.epoch
        if not await target.seal(ids.parse(task_id).partition):
            return False
        _, refused = await target.remembered(task_id)
        return refused >= epoch

    async def _import(self, exported: Exported, target: Target, read_ms: float) -> ImportAnswer:
        passed_ms = int(self._clock.monotonic_ms() - read_ms)
        if (resting := exported.resting) is not None:
            exported = replace(exported, resting=resting.after(passed_ms))
        return await target.import_task(
            exported,
            hops=self._hops(exported),
            timeout_s=_IMPORT_TIMEOUT_S,
            delay_ms=max(0, exported.delay_ms - passed_ms),
            is_fresh=lambda: self._clock.monotonic_ms() - read_ms <= _TRUST_MS,
        )

    async def _let_go(self, exported: Exported, target: Target) -> bool:
        """The target has it: leave a pointer, then let the target forget the import."""
        task_id, epoch, name = exported.record.task_id, exported.epoch, exported.target
        queue = self._fleet.queue(exported.queue)
        keep_ms = max(queue.dedup.window_ms, queue.retention.completed_ms, REQUEST_ID_WINDOW_MS)
        left = await self._source.ack_export(
            task_id, epoch, name, keep_ms=keep_ms, order_ms=self._order_ms()
        )
        if left:
            self._count(exported, "moved")
            self._moved.setdefault(exported.reason, Counter())[name] += 1
            extra = {"task_id": task_id, "target": name, "reason": exported.reason}
            # Others leave by the thousand: of these the metric tells, and the task's own hops.
            level = logging.INFO if exported.is_revived else logging.DEBUG
            _log.log(level, "a task was moved", extra=extra)
        # Were the pointer lost once the target has forgotten, the task would be imported again.
        is_safe = await self._source.seal(ids.parse(task_id).partition)
        if await self._source.is_moving(task_id, epoch, name):
            self._unsure(exported, self._source.region)
            return False
        if is_safe:  # else the target asks about it once it is old
            await target.settle_import(task_id, epoch)
        return True

    async def _turn_back(self, exported: Exported, target: Target, reason: str) -> bool:
        """Make sure that the target can never take this move, then restore the task here."""
        task_id, epoch, name = exported.record.task_id, exported.epoch, exported.target
        if await target.refuse_import(task_id, epoch) == "imported":
            return await self._let_go(exported, target)
        if not await self._is_refused(exported, target):  # its promise has to last
            self._unsure(exported, name)
            return False
        state = await self._source.abort_export(
            task_id, epoch, name, reason=reason, retry_after_ms=LOOK_AGAIN_MS
        )
        if state is not None:
            self._count(exported, "aborted")
            _log.info("a move was given up", extra={"task_id": task_id, "reason": reason})
        return False

    def _hops(self, exported: Exported) -> bytes:
        """The stays so far, the one that ends now included; the same at every repeat."""
        record = exported.record
        return codec.add_hop(
            record.hops,
            region=self._source.region,
            state=exported.former,
            attempts=record.attempts,
            reason=exported.reason,
            at_ms=record.finished_ms if exported.is_revived else exported.begun_ms,
        )

    async def tell(self, who: str) -> None:
        """Leave a record of what was carried away, now and then. Raises StoreError."""
        now_ms = self._clock.monotonic_ms()
        if not self._moved or now_ms - self._told_ms < _TELL_MS:
            return
        moved, self._moved, self._told_ms = self._moved, {}, now_ms
        for reason, counts in moved.items():
            await self._source.audit(
                AuditRecord("moved", who, on=self._source.region, why=reason, counts=counts)
            )

    def _count(self, exported: Exported, outcome: str) -> None:
        metrics.MOVES.labels(self._source.region, exported.target, exported.reason, outcome).inc()
