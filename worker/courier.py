"""Moves out of a region what it cannot finish, or is to let go of (docs/architecture.md).

Three kinds of work, partition by partition: moves that have begun are carried to their end; dead
tasks may move on; and what waits leaves if its region is evacuated, or if nobody serves it there.
Out of a region that is evacuated go the dead letters, too, as they are.
"""

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tradewind.clock import Clock
from tradewind.control import EMPTY, Control, Evacuation
from tradewind.fleet import Fleet
from tradewind.limits import SWEEP_AFTER_LOSS_MS
from tradewind.relocation import Situation, choose, queue_of
from tradewind.state import State
from tradewind.task import DEAD, Heartbeat, Lane, LanePart, MoveReason, Record, Swept
from worker.couriers.allowance import Allowance
from worker.couriers.carrier import LOOK_AGAIN_MS, Carrier, Source, Target
from worker.couriers.served import Served
from worker.views import Views

_log = logging.getLogger(__name__)
_BATCH: Final = 32  # tasks of a partition looked at in one call
_PART: Final = 128  # tasks of a lane looked at in one call
_SIDE_BY_SIDE: Final = 2_048  # moves under way here: each waits a second or two for disks
_BEHIND: Final = 8 * _BATCH  # entries looked at in another region: some are not to be seen
_REASONS: Final = 32  # told apart of what an evacuation leaves behind; the others are OTHERS
_OTHERS: Final = "other reasons"
UNSEEN: Final = "outside the fence of every region whose workers live"
_MOST_STUCK: Final = 4  # then every 160 s: such a pass reads all that waits
_BUSY_MS: Final = 2 * SWEEP_AFTER_LOSS_MS  # partitions with work are looked at every second
_JITTER_S: Final = 0.2  # couriers of one region look at different moments


@dataclass(slots=True)
class _Pass:
    """A look at all that is to leave a partition: what stayed, by reason, and how many left."""

    reason: MoveReason
    older_ms: int | None  # what could have started so long ago; None: all
    kept: Counter[str] = field(default_factory=Counter[str])
    left: int = 0
    back: int = 0  # was to leave and has not: refused there, or somebody came between


class Courier:
    """Carries tasks out of one region. `work` is for partitions whose courier lease is held.

    `groups`: of the region that the courier itself is of, if that is another one: it is told of no
    task whose fence does not hold it.
    """

    def __init__(
        self,
        source: Source,
        fleet: Fleet,
        targets: Mapping[str, Target],
        views: Views,
        *,
        clock: Clock,
        control: Callable[[], Control] = lambda: EMPTY,
        of: str = "",
        who: str = "",
    ) -> None:
        """`targets`: every other region by name. `of`: the courier's own region, if another.

        `who`: the worker, for those who read what was moved.
        `control()`: what operators have ordered, as it is in force.
        """
        self._source, self._views, self._control, self._clock = source, views, control, clock
        self._of, self._who = of or source.region, who
        self._carrier = Carrier(
            source,
            fleet,
            targets,
            clock=clock,
            on_full=views.filled,
            order_ms=lambda: order.at_ms if (order := self.order) else 0,
        )
        self.served = Served(clock)
        self._allowance = Allowance()
        self._room = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._share: Callable[[], float] = lambda: 1.0
        self._busy_ms = -math.inf  # when there was something to evacuate
        self._stuck: dict[tuple[int, str], int] = {}  # passes in a row in which nothing could leave
        self._again_ms: dict[tuple[int, str], float] = {}  # when to look through a partition anew
        self._follow(fleet)

    def follow(self, fleet: Fleet, targets: Mapping[str, Target]) -> None:
        """Go on with another fleet, in the middle of a pass, too: its fences count at once."""
        self._follow(fleet)
        self._carrier.follow(fleet, targets)
        self._views.follow(fleet, targets)

    def _follow(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._own_groups = fleet.regions[self._of].residency
        is_own = self._of == self._source.region
        self._groups: Sequence[str] | None = None if is_own else self._own_groups
        # What it is not told of stays in front of what it is; at home what was looked at leaves.
        self._offsets = range(0, _BATCH if is_own else _BEHIND, _BATCH)

    def shares(self, held: Callable[[], float]) -> None:
        """`held()`: of all the source's courier leases, the part that this process holds."""
        self._share = held

    @property
    def order(self) -> Evacuation | None:
        """The evacuation of the source, if one is ordered."""
        return self._control().evacuations.get(self._source.region)

    def saw(self, beats: Iterable[Heartbeat]) -> None:
        """These workers of the source live."""
        self.served.saw(beats)

    async def tell(self) -> None:
        """Leave a record of what was moved, if it is time to. Raises StoreError."""
        await self._carrier.tell(self._who)

    async def wanted(self, partition: int, swept: Swept) -> bool:
        """Whether there may be work for a courier. Raises StoreError."""
        if swept.outbox or swept.moving:
            return True
        now_ms, waits = self._clock.monotonic_ms(), swept.depth or swept.next_due_ms >= 0
        if self.order is not None:
            if (waits or swept.dead) and self._is_time(partition, "evacuation"):
                self._busy_ms = now_ms
            # As long as there is work in one, the leases of all: the share of the rate is theirs.
            return now_ms - self._busy_ms <= _BUSY_MS
        if not waits or not self._is_time(partition, "unserved"):
            return False
        return bool(await self._unserved(partition))

    async def work(self, partition: int) -> bool:
        """One pass. Returns whether more is to leave as soon as it may. Raises StoreError."""
        for offset in self._offsets:
            read_ms = self._clock.monotonic_ms()
            moving = await self._source.moving(
                partition, limit=_BATCH, offset=offset, groups=self._groups
            )
            await self._each(self._carrier.carry(exported, read_ms) for exported in moving)
            dead = await self._source.outbox(
                partition, limit=_BATCH, offset=offset, groups=self._groups
            )
            await self._each(self._dead(record) for record in dead)
        order = self.order
        if not self._is_time(partition, "unserved" if order is None else "evacuation"):
            return False
        if order is None:
            return await self._rescue(partition)
        return await self._evacuate(partition, order)

    async def _each(self, moves: Iterable[Awaitable[bool]]) -> list[bool]:
        async def one(move: Awaitable[bool]) -> bool:
            async with self._room:
                return await move

        outcomes = await asyncio.gather(*map(one, moves), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome is True for outcome in outcomes]

    async def _situation(self, now_ms: int) -> Situation:
        views = await self._views.current()  # the rules are those of the moment of the decision
        others = [view for view in views if view.name != self._source.region]
        return Situation(self._source.region, self._fleet, others, self._control(), now_ms)

    async def _dead(self, record: Record) -> bool:
        """Find a region for a dead task, and move it; or note why it stays."""
        where = choose(record, await self._situation(0))
        if where.target:
            return await self._begin(record, where.target, None)
        again_ms = None if where.permanent else LOOK_AGAIN_MS
        await self._source.keep(record, reason=where.reason, retry_after_ms=again_ms)
        extra = {"task_id": record.task_id, "reason": where.reason, "settled": where.permanent}
        _log.info("a dead task stays", extra=extra)
        return False

    async def _begin(self, record: Record, target: str, reason: MoveReason | None) -> bool:
        read_ms = self._clock.monotonic_ms()
        exported = await self._source.begin_export(
            record, target, groups=self._own_groups, reason=reason
        )
        # None: another courier was faster, or somebody has claimed or ended it.
        return exported is not None and await self._carrier.carry(exported, read_ms)

    # --- what waits

    async def _evacuate(self, partition: int, order: Evacuation) -> bool:
        """All that waits is to leave, and every dead letter."""
        found = _Pass("evacuation", None)
        is_through = True
        for lane in await self._source.lanes(partition):
            is_through = is_through and await self._empty(partition, lane, found)
        # What holds up those that are to run need not hold up these.
        is_through = await self._empty(partition, DEAD, found) and is_through
        if not is_through:
            return self.order is not None  # no more may leave now, or the order has ended
        kept = found.kept
        if len(kept) > _REASONS:
            most = Counter(dict(kept.most_common(_REASONS)))
            most[_OTHERS] = kept.total() - most.total()
            kept = most
        await self._source.passed(partition, order.at_ms, kept)
        if kept or found.back:
            self._later(partition, found)
        return False

    async def _rescue(self, partition: int) -> bool:
        """What nobody serves, and has waited for long, is to leave."""
        found = _Pass("unserved", self._fleet.failover.rescue_after_ms)
        lanes = await self._unserved(partition)
        for lane in lanes:
            if not await self._empty(partition, lane, found):
                return True
        if lanes:
            self._later(partition, found)
        return False

    async def _unserved(self, partition: int) -> list[Lane]:
        """Where tasks wait that no live worker of the region runs, though nobody has stopped them.

        Due times count if nobody works there at all: who does makes ready what is due.
        """
        if self._control().state(self._source.region) == "DRAINING":
            return []
        patience_ms = self._fleet.failover.unserved_after_ms
        return [
            lane
            for lane in await self._source.lanes(partition)
            if self.served.unserved_for_ms(lane) > patience_ms
            and not self._control().is_paused(lane.queue)
        ]

    def _is_time(self, partition: int, reason: MoveReason) -> bool:
        return self._again_ms.get((partition, reason), 0.0) <= self._clock.monotonic_ms()

    def _later(self, partition: int, found: "_Pass") -> None:
        """Look again in a while; where nothing may leave ever more seldom."""
        key = (partition, found.reason)
        is_stuck = found.kept and not found.left
        self._stuck[key] = min(self._stuck.get(key, 0) + 1, _MOST_STUCK) if is_stuck else 0
        wait_ms = LOOK_AGAIN_MS * 2 ** self._stuck[key] * random.uniform(0.9, 1.0)
        self._again_ms[key] = self._clock.monotonic_ms() + wait_ms

    async def _empty(self, partition: int, lane: Lane, found: "_Pass") -> bool:
        """Move what may leave a lane. False: no more may, for now; else all of it was looked at."""
        await asyncio.sleep(random.uniform(0, _JITTER_S))
        offset, part = 0, LanePart((), 0, more=True, now_ms=0)
        while part.more:
            part = await self._source.stranded(
                partition,
                lane,
                offset=offset,
                limit=_PART,
                older_than_ms=found.older_ms,
                groups=self._groups,
                pools=await self._pools(),
            )
            now = await self._situation(part.now_ms)
            self._allow(now)
            found.kept += Counter({UNSEEN: part.unseen})
            meant = [r for r in part.records if self._is_meant(r, found, now)]
            leaving = [(r, choose(r, now)) for r in meant]
            stays = [(r, where.reason) for r, where in leaving if not where.target]
            for record, why in stays:
                found.kept[why] += 1
                if record.failover != why and not record.settled:
                    await self._source.keep(record, reason=why, retry_after_ms=LOOK_AGAIN_MS)
            may = [(r, where.target) for r, where in leaving if where.target]
            going = [
                (r, target) for r, target in may if self._allowance.take(target, rests=r.settled)
            ]
            left = await self._each(self._begin(r, target, found.reason) for r, target in going)
            found.left += sum(left)
            found.back += len(left) - sum(left)
            if len(going) < len(may):
                return False
            # Tickets of what has left stay in their list; of a set it is gone.
            offset += part.seen - (sum(left) if lane.kind in {"due", "dead"} else 0)
            if found.reason == "evacuation" and self.order is None:
                return False
        return True

    def _allow(self, now: Situation) -> None:
        order = self.order
        self._allowance.open(
            now.views,
            now.fleet,
            share=self._share(),
            rate_per_s=order.rate_per_s if order else 0.0,
            now_ms=self._clock.monotonic_ms(),
        )

    async def _pools(self) -> Sequence[str]:
        """Groups of every region whose workers live; at home all is seen, so it does not matter."""
        if self._groups is None:
            return ()
        alive = [view.name for view in await self._views.current() if view.served]
        known = [self._fleet.regions[name] for name in alive if name in self._fleet.regions]
        return sorted({*self._groups, *(group for region in known for group in region.residency)})

    def _is_meant(self, record: Record, found: "_Pass", now: Situation) -> bool:
        """Whether it leaves if it may: not what a paused queue holds, which is not unserved.

        Nor a dead task that may still run elsewhere: it leaves for that, or is settled before.
        """
        if found.reason == "unserved":
            return not now.control.is_paused(queue_of(record))  # sets of due times hold all
        if record.state is State.DEAD_LETTER and not record.settled:
            if record.failover:
                found.kept[record.failover] += 1
            return False
        return True
