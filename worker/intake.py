"""Claims tasks for the slots that are free, and has them started."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tradewind.errors import StoreError
from tradewind.limits import MAX_CLAIM
from tradewind.ports import Claims
from tradewind.task import Claim, ClaimBatch
from worker.line import Line
from worker.patience import MOVING_MS, Patience, is_partial
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.runner import Runner

_SIDE_BY_SIDE: Final = 4  # partitions claimed from at the same time: they leave in one write
# Fewer slots than these are claimed for at once; of more a half, by turns: Redis works on one claim
# while the handlers of the other run. Measured with 128 slots: 15 to 20 % more tasks a second.
_UNDIVIDED: Final = 32
# While a handler holds the event loop nobody reads an answer, so nobody renews the leases that came
# with it. Where that takes longer than this, no claim is under way when handlers begin.
_HELD_MS: Final = 50.0
_FORGETS: Final = 0.5  # of that with every batch that began


class Change:
    """Wakes those who wait for something to hold."""

    def __init__(self) -> None:
        """Nothing has changed yet."""
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Something may hold now."""
        self._event.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once `holds()`."""
        while not holds():
            self._event.clear()
            await self._event.wait()


@dataclass(frozen=True, slots=True)
class Says:
    """Who hears of what an intake finds out."""

    answer: Callable[[StoreError | None], None]  # the store has answered a claim, or has failed
    due: Callable[[int, int], None]  # (partition, in_ms): something can run there then


class Intake:
    """Fills free slots from the partitions in `line`. `run` works until cancelled."""

    def __init__(
        self,
        store: Claims,
        pool: Pool,
        *,
        line: Line,
        runner: Runner,
        pace: Pace,
        reach: Reach,
        change: Change,
        says: Says,
    ) -> None:
        """`change` is told, by whoever knows, when there may be room or work."""
        self._store, self._pool, self._line, self._runner = store, pool, line, runner
        self._pace, self._reach, self._clock = pace, reach, pace.clock
        self._change, self._says = change, says
        self._asked_ms: list[float] = []  # of each claim whose tasks have not been started yet
        self._arriving = 0  # such tasks, of claims that were answered, that will take slots
        self._arriving_suspects = 0  # and places
        self._beginning = 0  # batches whose handlers have not had their first turn yet
        self._held_ms = 20 * _HELD_MS  # how long the loop was held by a batch, of late; no idea yet
        self._closed = False

    def close(self) -> None:
        """Claim nothing more; what comes yet is handed back."""
        self._closed = True

    @property
    def is_under_way(self) -> bool:
        """Whether tasks may come that have not been started yet."""
        return bool(self._asked_ms)

    @property
    def free(self) -> int:
        """Slots that could take a task; none while too many settlements wait."""
        taken = self._runner.busy + self._arriving
        return max(self._pool.concurrency - taken, 0) if self._takes else 0

    @property
    def places(self) -> int:
        """Free ones for suspects."""
        free = self._runner.suspects.free - self._arriving_suspects
        return max(free, 0) if self._takes else 0

    @property
    def has_room(self) -> bool:
        """Whether it could take anything."""
        return self.free > 0 or self.places > 0

    @property
    def _takes(self) -> bool:
        if self._closed or self._runner.backlog > self._pool.concurrency:
            return False
        return bool(self._pool.open_queues)

    @property
    def _is_quick(self) -> bool:
        """Whether an answer would be read in time although handlers begin before it comes."""
        return self._held_ms < _HELD_MS

    async def run(self) -> None:
        """Claim whenever there is room and a partition that may have work for it."""
        patience = Patience()
        while True:
            await self._change.until(self._may_take)
            free = min(self.free, max(self._pool.concurrency // 2, _UNDIVIDED))
            places = self.places
            most = min(_SIDE_BY_SIDE, free or places) if self._is_quick else 1
            chosen = self._line.choose(most, free or places)
            # The first one gets a single place: who waits for it goes before who just came.
            chosen.sort(key=self._runner.suspects.in_front, reverse=True)
            limits, suspects = _shares(free, len(chosen)), self._for_suspects(places, chosen)
            claims = [*map(self._claim, chosen, limits, suspects)]
            # A single one needs no task of its own, and leaves with the reports of what has ended.
            answers = [await claims[0]] if len(claims) == 1 else await asyncio.gather(*claims)
            if all(answers):
                patience.reset()
            else:
                await patience.wait()

    def forget_cancels(self) -> None:
        """Forget those that no task on its way may be told of: it was claimed after them."""
        self._runner.arrived(min(self._asked_ms, default=self._clock.monotonic_ms()))

    def _for_suspects(self, places: int, chosen: list[int]) -> list[int]:
        """How many suspects to ask for: places, and what may have to be handed back in front."""
        in_front = self._runner.suspects.in_front
        shares = _shares(places, len(chosen))
        return [n and n + in_front(p) for n, p in zip(shares, chosen, strict=True)]

    def _may_take(self) -> bool:
        """Suspects come with a hint; without a free slot the rest of the line is not for us."""
        if self._beginning and not self._is_quick:
            return False
        if self.free > 0:
            return bool(self._line)
        return self.places > 0 and self._line.has_hint

    async def _claim(self, partition: int, limit: int, suspects: int) -> bool:
        """Claim and start up to `limit` tasks and `suspects`. False if the store did not answer."""
        asked_ms = self._clock.monotonic_ms()
        self._asked_ms.append(asked_ms)
        claims: Sequence[Claim] = ()
        lease_ms = self._pool.lease_ms
        try:
            batch = await self._store.claim(
                partition,
                worker_id=self._pool.worker_id,
                lease_ms=lease_ms,
                handlers=self._pool.handlers,
                limit=limit,
                suspects=suspects,
                starvation_ms=self._pool.starvation_ms,
            )
            claims = batch.claims
        except StoreError as error:
            if is_partial(error):  # the others go on; this one is asked again in a moment
                self._reach.failed(error)
                self._says.due(partition, MOVING_MS)
                return True
            self._says.answer(error)
            self._line.has_more(partition, limit)
            return False
        else:
            self._says.answer(None)
            self._reach.reached((partition,))
            self._note(partition, batch, limit)
            return True
        finally:
            self._arrived(_Arrival(claims, asked_ms, lease_ms))

    def _arrived(self, arrival: "_Arrival") -> None:
        """Start them; if there is a lot to do, once the next claim is on its way.

        That takes two turns of the loop: in one it is asked for, in one the connection writes.
        """
        self._held_ms = max(self._held_ms, self._clock.monotonic_ms() - arrival.asked_ms)
        self._arriving += len(arrival.claims) - arrival.suspects
        self._arriving_suspects += arrival.suspects
        if len(arrival.claims) >= _UNDIVIDED and self._is_quick and self._may_take():
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._start, arrival)
            self._change.tell()
        else:
            self._start(arrival)

    def _start(self, arrival: "_Arrival") -> None:
        claims, asked_ms = arrival.claims, arrival.asked_ms
        self._arriving -= len(claims) - arrival.suspects
        self._arriving_suspects -= arrival.suspects
        try:
            if claims:
                now_ms = self._clock.monotonic_ms()
                in_time, late = arrival.by_lease(now_ms)
                gate, barred = self._pool.gate, list[Claim]()
                if gate.is_shut or gate.paused:
                    barred = [claim for claim in in_time if not gate.lets(claim.queue)]
                    in_time = [claim for claim in in_time if gate.lets(claim.queue)]
                self._runner.start(in_time, asked_ms, stopping=self._closed)
                if late or barred:  # somebody else may run the late ones by now
                    self._runner.start([*late, *barred], asked_ms, stopping=True)
                self._beginning += 1
                asyncio.get_running_loop().call_soon(self._began, now_ms)
        finally:
            self._asked_ms.remove(asked_ms)
            self.forget_cancels()
            self._change.tell()

    def _began(self, since_ms: float) -> None:
        """Handlers that were started then have had their first turn."""
        self._beginning -= 1
        took_ms = self._clock.monotonic_ms() - since_ms
        self._held_ms = max(took_ms, _FORGETS * self._held_ms)
        self._change.tell()

    def _note(self, partition: int, batch: ClaimBatch, limit: int) -> None:
        """What the partition said of itself, asked for `limit` tasks."""
        self._pace.depths[partition] = (batch.depth, batch.now_ms)
        if (batch.claims or not limit) and batch.depth:
            self._line.has_more(partition, batch.depth)
        if batch.parked and limit and not batch.claims:
            self._line.chill(partition, self._clock.monotonic_ms())
        self._says.due(partition, batch.next_due_ms)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """What a claim has brought, asked for at monotonic `asked_ms`, with a lease by queue."""

    claims: Sequence[Claim]
    asked_ms: float
    lease_ms: Mapping[str, int]

    @property
    def suspects(self) -> int:
        return sum(claim.suspect for claim in self.claims)

    def by_lease(self, now_ms: float) -> tuple[Sequence[Claim], Sequence[Claim]]:
        """Those whose leases hold, and those whose are over: the answer has lain for so long."""
        passed_ms = now_ms - self.asked_ms
        if passed_ms < min(self.lease_ms.values()):
            return self.claims, ()
        late = [claim for claim in self.claims if passed_ms >= self.lease_ms[claim.queue]]
        return [claim for claim in self.claims if claim not in late], late


def _shares(room: int, among: int) -> list[int]:
    """`room` divided fairly, the first ones getting what is over."""
    each, over = divmod(room, among)
    return [min(each + (place < over), MAX_CLAIM) for place in range(among)]
