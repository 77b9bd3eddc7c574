"""Carrying a reserved submit through, and answering one that the ledger has seen before.

What holds a reservation stores its task and confirms it, moving on from regions that refuse, or
gives the reservation back. What meets an entry answers with its task, waits for the submit that
made it, or, once that has been silent for a lease, does its work in its place.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NoReturn

from router.job import Deadline, Job, Receipt
from router.lookup import Lookup
from router.reserve import BARE, Ledgers, NotKept, Reservation
from router.route import Routes
from router.storing import Refused, Storing
from tradewind import wire
from tradewind.errors import (
    HomeUnreachable,
    IdempotencyKeyReused,
    InvalidTask,
    RegionSilent,
    StoreContractBroken,
    StoreError,
    StoreUnavailable,
    SubmitInFlight,
    UnknownTask,
)
from tradewind.ports import Intake
from tradewind.state import FINAL, State
from tradewind.task import LedgerHit, Record, Stored

BY_LEDGER: Final = "ledger"  # what decided the region of a duplicate: its first submit
# When to ask again while an identical submit is under way: it takes milliseconds, its lease is for
# a submitter that has died.
_SOON_MS: Final = 100


class StartsOver(Exception):
    """The entry that was met has been removed: its task is cancelled, gone, or of another entry."""

    def __init__(self, task_id: str) -> None:
        """`task_id` of the entry."""
        self.task_id = task_id
        super().__init__(task_id)


class Carrier:
    """The part of a submit that has to do with its ledger entry."""

    def __init__(
        self,
        routes: Routes,
        storing: Storing,
        ledgers: Ledgers,
        lookup: Lookup,
        intakes: Mapping[str, Intake],
    ) -> None:
        """`intakes` by region name."""
        self._routes, self._storing, self._ledgers = routes, storing, ledgers
        self._lookup, self._intakes = lookup, intakes

    @property
    def is_spent(self) -> bool:
        """See Routes."""
        return self._routes.is_spent

    def choose(self, job: Job) -> str:
        """Decide a region among those that have not refused. Raises what there is to answer."""
        decision = self._routes.choose(job.draft, job.resolved, job.identity.home, job.refused)
        job.rule = wire.decided_by(decision)
        return decision.region

    async def reserved(self, job: Job, region: str, task_id: str) -> Receipt:
        """Reserve at home, store at the region, confirm at home.

        Raises Refused or NotKept; then nothing of this attempt is left, or a repeat finds it.
        """
        wanted = _wanted(job, job.homes(region), task_id, region)
        deadline = job.deadline.half() if job.accepts_silence else job.deadline
        try:
            met = await self._ledgers.reserve(wanted, deadline)
        except NotKept as kept:
            if not job.accepts_silence or not isinstance(kept.error, HomeUnreachable):
                raise
            return await self._without(kept.home, job, region, task_id)
        if met is not None:
            return await self.known(job, met.home, met.hit)
        return await self._carry(job, wanted, duplicate=False)

    async def _without(self, silent: str, job: Job, region: str, task_id: str) -> Receipt:
        """Store the task though a home is silent: the other one, or a stand-in, has the entry.

        The first stand-in that answers, in an order that all routers share, so that identical
        submits find each other while home is away.
        """
        job.home_was_silent = True
        homes = [home for home in job.homes(region) if home != silent]
        kept_at: list[str] = []
        for home in (*homes, *job.identity.stand_ins):
            if kept_at and home not in homes:
                break
            wanted = _wanted(job, (home,), task_id, region)
            try:
                met = await self._ledgers.reserve(wanted, job.deadline.half())
            except NotKept:
                continue
            if met is not None:
                await self._ledgers.give_back(replace(wanted, homes=tuple(kept_at)))
                return await self.known(job, met.home, met.hit)
            kept_at.append(home)
        held = _wanted(job, tuple(kept_at), task_id, region)
        return await self._carry(job, held, duplicate=False)

    async def known(self, job: Job, home: str, hit: LedgerHit) -> Receipt:
        """Answer a submit that the ledger has seen before. Raises StartsOver."""
        mark = job.reservation()
        assert mark is not None  # noqa: S101 - the ledger was asked by mark
        theirs = Reservation(
            mark, (home,), hit.task_id, hit.region, hit.epoch, time.monotonic(), adopted=True
        )
        if hit.epoch == BARE:
            if home == job.identity.spare:  # a repeat was faster, and has settled on home
                raise HomeUnreachable(job.identity.home)
            await self._ledgers.discard(theirs, job.deadline)
            raise SubmitInFlight(hit.task_id, 1)
        if hit.state is not None:
            return _ended(job, hit, hit.state)
        if not hit.same_payload:
            await self._refuse_other_payload(job, home, hit, theirs)
        if hit.confirmed:
            return await self._first(job, home, hit)
        if not hit.adopted:
            raise _in_flight(hit)
        if hit.region not in self._intakes:
            raise RegionSilent([hit.region])
        return await self._adopt(job, theirs, hit)

    async def _adopt(self, job: Job, theirs: Reservation, hit: LedgerHit) -> Receipt:
        """Do the work of a submitter that is gone: the same id to the same region.

        Where there are two homes the other one may know more, or of another task.
        """
        patience = job.deadline.half() if job.accepts_silence else job.deadline
        for other in set(job.homes(theirs.region)).difference(theirs.homes):
            try:
                met = await self._ledgers.reserve(replace(theirs, homes=(other,)), patience)
            except NotKept as kept:
                if not job.accepts_silence:
                    raise kept.error from None
                job.home_was_silent = True
                continue
            if met is not None and met.hit.task_id != theirs.task_id:
                await self._give_way(job, theirs)
            elif met is not None and met.hit.state is not None:  # cancelled, and not heard of here
                await self._forget_there(job, theirs.homes, met.hit, met.hit.state)
                return _ended(job, met.hit, met.hit.state)
            elif met is not None and met.hit.confirmed:
                await self._ledgers.confirm(theirs, job.deadline)
                return await self._first(job, other, met.hit)
            elif met is not None:  # it had moved on, and that has not got here yet
                theirs = replace(theirs, region=met.hit.region, epoch=met.hit.epoch)
                if await self._ledgers.reserve(theirs, job.deadline) is not None:
                    raise _in_flight(met.hit)
            theirs = replace(theirs, homes=(*theirs.homes, other))
        return await self._carry(job, theirs, duplicate=not hit.mine)

    async def _give_way(self, job: Job, theirs: Reservation) -> None:
        """Give up an entry of one home, if its task is not there: the other home has another.

        Raises StartsOver. Returns if the task was stored: then there are two, which only a home
        that was not asked can have brought about.
        """
        if await self._refuse_there(theirs, job.deadline) is None:
            await self._ledgers.discard(theirs, job.deadline)
            raise StartsOver(theirs.task_id)

    async def _carry(self, job: Job, held: Reservation, *, duplicate: bool) -> Receipt:
        """Carry a reservation through: store its task, moving on from regions that refuse."""
        while True:
            try:
                state = await self._store_held(job, held)
            except Refused as refused:
                stored = await self._leave(job, held, refused)
                if stored is None:
                    moved = await self._move_on(job, held)
                    if isinstance(moved, Receipt):
                        return moved
                    held = moved
                    continue
                state = stored.state
            await self._ledgers.confirm(held, job.deadline)
            return Receipt(
                held.task_id,
                held.region,
                state,
                duplicate=duplicate,
                rule=job.rule,
                possible_duplicate=job.home_was_silent,
                kept_at=held.homes,
            )

    async def _store_held(self, job: Job, held: Reservation) -> State:
        if not job.permits(held.region):  # adopted from a submit under another fence
            outside = StoreUnavailable(held.region, "outside the fence", sent=False)
            raise Refused(held.region, outside)
        task = job.task(held.task_id, held.region, epoch=held.epoch)
        outcome = await self._storing.store(held.region, task, job.deadline)
        if isinstance(outcome, LedgerHit):
            raise StoreContractBroken("a task without a mark met a ledger entry")
        return outcome.state

    async def _leave(self, job: Job, held: Reservation, refused: Refused) -> Stored | None:
        """Make sure that the task can no longer be stored where it was refused, at this epoch.

        Raises Refused, the reservation given back, if the region does not answer and nobody else
        can have sent anything; RegionSilent if somebody can.
        """
        if refused.tombstone:
            # Whoever left did not get to move the entry on, or has, and then it tells us. The
            # region itself may be the right one again, at the next epoch.
            return None
        try:
            async with asyncio.timeout(job.deadline.left_s()):
                stored = await self._intakes[held.region].refuse(held.task_id, held.epoch)
        except (StoreError, TimeoutError):
            if await self._ledgers.give_back(held):
                raise refused from None
            raise RegionSilent([held.region]) from None
        job.refused[held.region] = refused.error
        return stored

    async def _move_on(self, job: Job, held: Reservation) -> Reservation | Receipt:
        """Choose anew and move the entry there; a receipt if somebody else was faster."""
        try:
            region = self.choose(job)
        except Exception:
            await self._ledgers.discard(held, job.deadline)
            raise
        stays = bool(job.identity.home)
        wanted = replace(
            held,
            homes=held.homes if stays else (region,),
            region=region,
            epoch=held.epoch + 1,
            asked_s=time.monotonic(),
        )
        if not stays:  # scope region: the entry goes where the task goes
            await self._ledgers.discard(held, job.deadline)
        try:
            met = await self._ledgers.reserve(wanted, job.deadline)
        except NotKept as kept:
            raise kept.error from None  # the entry stands as it was, and a repeat moves it on
        return wanted if met is None else await self.known(job, met.home, met.hit)

    async def _refuse_other_payload(
        self, job: Job, home: str, hit: LedgerHit, theirs: Reservation
    ) -> NoReturn:
        """Raise what there is to say, once it is certain that something stands in the way.

        What was given up is removed: try again. So is what stands for nothing: StartsOver.
        """
        if not hit.confirmed:
            if hit.lease_left_ms > 0:
                raise _in_flight(hit)
            stored = await self._refuse_there(theirs, job.deadline)
            if stored is None:
                await self._ledgers.discard(theirs, job.deadline)
                raise SubmitInFlight(hit.task_id, 1)
            await self._ledgers.confirm(theirs, job.deadline)
        await self._find_first(job, home, hit)
        if job.draft.idempotency_key:
            raise IdempotencyKeyReused(hit.task_id)
        raise _names_another(hit)

    async def _refuse_there(self, theirs: Reservation, deadline: Deadline) -> Stored | None:
        if theirs.region not in self._intakes:
            raise RegionSilent([theirs.region])
        try:
            async with asyncio.timeout(deadline.left_s()):
                return await self._intakes[theirs.region].refuse(theirs.task_id, theirs.epoch)
        except (StoreError, TimeoutError):
            raise RegionSilent([theirs.region]) from None

    async def _first(self, job: Job, home: str, hit: LedgerHit) -> Receipt:
        """Answer with the first task, wherever it is by now. Raises StartsOver."""
        record = await self._find_first(job, home, hit)
        return Receipt(
            hit.task_id,
            record.region,
            record.state,
            duplicate=not hit.mine,
            rule=BY_LEDGER,
            possible_duplicate=job.home_was_silent,
            kept_at=None if record.state in FINAL else (home,),
        )

    async def _find_first(self, job: Job, home: str, hit: LedgerHit) -> Record:
        """Return the task of a confirmed entry. Raises StartsOver.

        An entry whose task is gone, or was cancelled and is not what this very submit is about,
        stands for nothing any more (invariant 5): it is removed.
        """
        homes = {home, *job.homes(hit.region)} if not job.home_was_silent else {home}
        try:
            record = await self._lookup.find(hit.task_id, deadline=job.deadline)
        except UnknownTask:
            if hit.region not in self._intakes:  # known to routers with another file
                raise RegionSilent([hit.region]) from None
            await self._forget_there(job, homes, hit, None)
            raise StartsOver(hit.task_id) from None
        if record.state is State.CANCELLED and job.identity.deduplicated and not hit.mine:
            await self._forget_there(job, homes, hit, record.state)
            raise StartsOver(hit.task_id)
        return record

    async def _forget_there(
        self, job: Job, homes: Iterable[str], hit: LedgerHit, ended: State | None
    ) -> None:
        """Free the key at `homes`, unless it is another task's by now."""
        mark = job.reservation()
        assert mark is not None  # noqa: S101 - the ledger was asked by mark
        await self._ledgers.forget(mark, homes, hit.task_id, job.deadline, ended=ended)


def _wanted(job: Job, homes: tuple[str, ...], task_id: str, region: str) -> Reservation:
    mark = job.reservation()
    assert mark is not None  # noqa: S101 - only submits with a mark come here
    return Reservation(mark, homes, task_id, region, 1, time.monotonic())


def _ended(job: Job, hit: LedgerHit, state: State) -> Receipt:
    """Answer a repeat of what was cancelled or purged: it starts nothing."""
    if not hit.same_payload:
        raise _names_another(hit)
    return Receipt(
        hit.task_id,
        hit.region,
        state,
        duplicate=False,
        rule=BY_LEDGER,
        possible_duplicate=job.home_was_silent,
        kept_at=None,
    )


def _names_another(hit: LedgerHit) -> InvalidTask:
    return InvalidTask.field(
        "request_id", f"already names task {hit.task_id} with another payload; use a new one"
    )


def _in_flight(hit: LedgerHit) -> SubmitInFlight:
    return SubmitInFlight(hit.task_id, min(_SOON_MS, hit.lease_left_ms))
