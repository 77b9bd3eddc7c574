"""Keeps leases and liveness, from a thread with its own event loop and its own connections.

Apart from the main loop, so that a handler that blocks it costs nobody a lease, and the worker is
not declared dead for being busy.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from tradewind import metrics
from tradewind.clock import Clock
from tradewind.control import Control
from tradewind.errors import StoreError, TradewindError
from tradewind.fleet import Fleet
from tradewind.limits import HEARTBEAT_EVERY_MS, RENEWALS_PER_LEASE
from tradewind.task import Claim, Heartbeat, Renewed
from tradewind.ticks import tick
from worker.gate import OrderedGate
from worker.patience import Patience, lasting
from worker.reach import Reach
from worker.slot import Slot
from worker.watch import Watch

_log = logging.getLogger(__name__)
_STOP_TIMEOUT_S: Final = 5.0  # a store that does not answer must not hold up the exit
_BATCH: Final = 256  # leases renewed in one call


class Leases(Protocol):
    """What the guard needs of a store of its own."""

    async def start(self) -> None:
        """Connect."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def renew(
        self, claims: Sequence[Claim], lease_ms: Mapping[str, int]
    ) -> list[Renewed | StoreError]:
        """See ports.Claims."""
        ...

    async def heartbeat(self, beat: Heartbeat) -> None:
        """See ports.Upkeep."""
        ...

    async def farewell(self, worker_id: str) -> None:
        """See ports.Upkeep."""
        ...

    def held(self) -> Control | None:
        """See ports.Register."""
        ...


class Guard:
    """Renews what is held, sends the heartbeat, tells who has lost a lease, watches the main loop.

    `hold` and `drop` may be called from any thread. A lease that cannot be renewed makes its task's
    lease doubtful; only the store's explicit word that it is lost ends it.
    """

    def __init__(
        self,
        open_store: Callable[[], Leases],
        *,
        fleet: Fleet,
        clock: Clock,
        beat: Callable[[], Heartbeat],
        reach: Reach,
        on_stand: Callable[[], None] = lambda: None,
        gate: OrderedGate | None = None,
    ) -> None:
        """`open_store` is called, and its store used, only in the guard's thread.

        `gate` hears what comes back with heartbeats. `on_stand`: see Watch; the calling thread is
        the one that is watched.
        """
        self.watch = Watch(fleet, clock, on_stand)
        self._open_store, self._fleet, self._clock, self._beat = open_store, fleet, clock, beat
        self._reach, self._gate = reach, gate
        self._held: dict[tuple[str, int], Slot] = {}
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main, name="guard", daemon=True)

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet; leases that are held keep their length."""
        self._fleet = fleet
        self.watch.follow(fleet)

    def start(self) -> None:
        """Begin. Does not wait for the store: it may be away."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Say farewell and end. May be called twice."""
        if self._loop is not None and self._work is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has just ended by itself
                self._loop.call_soon_threadsafe(self._work.cancel)
            self._thread.join(2 * _STOP_TIMEOUT_S)

    def hold(self, slots: Sequence[Slot], asked_ms: float) -> None:
        """Keep the leases of `slots`, asked for at monotonic `asked_ms`, until `drop`.

        Their `lost` and `called_off` are called in the guard's thread; the latter with every
        renewal that says that a task's cancel was asked for.
        """
        queue = self._fleet.queue
        for slot in slots:
            slot.lease_ms = lease_ms = queue(slot.claim.queue).lease_ms
            slot.due_ms = asked_ms + lease_ms / RENEWALS_PER_LEASE
            slot.trusted_until_ms = asked_ms + lease_ms
        with self._lock:
            self._held.update({(s.claim.task_id, s.claim.token): s for s in slots})

    def reported(self, claims: Iterable[Claim]) -> None:
        """Their handlers' ends are on their way to the store, and end the leases: that is no loss.

        Until `drop` they are renewed, since the report may have to wait.
        """
        with self._lock:
            for claim in claims:
                if held := self._held.get((claim.task_id, claim.token)):
                    held.is_reported = True

    def drop(self, claims: Iterable[Claim]) -> None:
        """Let go of them: settled, or lost."""
        with self._lock:
            for claim in claims:
                self._held.pop((claim.task_id, claim.token), None)

    @property
    def held(self) -> int:
        """How many leases it keeps."""
        return len(self._held)

    def recheck(self) -> None:
        """Renew everything now: word of a requested cancel may have been missed."""
        with self._lock:
            for held in self._held.values():
                held.due_ms = -float("inf")

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.current_task()
        self._ready.set()
        store = self._open_store()
        watching = asyncio.create_task(lasting(self.watch.look, "watching the event loop"))
        try:
            await self._connect(store)
            async with asyncio.TaskGroup() as group:
                group.create_task(lasting(lambda: self._renewals(store), "renewing leases"))
                group.create_task(lasting(lambda: self._heartbeats(store), "heartbeats"))
        except asyncio.CancelledError:
            pass
        finally:
            watching.cancel()
            with contextlib.suppress(TradewindError, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await store.farewell(self._beat().worker_id)
            await store.close()

    async def _connect(self, store: Leases) -> None:
        patience = Patience()
        while True:
            try:
                await store.start()
            except StoreError as error:
                _log.warning("the guard has no connection", extra={"reason": str(error)})
                await patience.wait()
            else:
                return

    async def _renewals(self, store: Leases) -> None:
        while True:
            now_ms = self._clock.monotonic_ms()
            with self._lock:
                due = [held for held in self._held.values() if held.due_ms <= now_ms]
                next_ms = min((held.due_ms for held in self._held.values()), default=now_ms + 1000)
            for start in range(0, len(due), _BATCH):
                await self._renew(store, due[start : start + _BATCH])
            if not due:
                await asyncio.sleep(min(max(next_ms - now_ms, 1), self._tick_ms) / 1000)

    @property
    def _tick_ms(self) -> float:
        """How long to sleep at most: a lease taken meanwhile must not be overslept."""
        policies = [self._fleet.default_queue, *self._fleet.queues.values()]
        return min(policy.lease_ms for policy in policies) / RENEWALS_PER_LEASE / 2

    async def _renew(self, store: Leases, due: Sequence[Slot]) -> None:
        asked_ms = self._clock.monotonic_ms()
        lease_ms = {held.claim.queue: held.lease_ms for held in due}
        answers: Sequence[Renewed | StoreError]
        try:
            answers = await store.renew([held.claim for held in due], lease_ms)
        except StoreError as error:
            answers = [error] * len(due)
        for held, answer in zip(due, answers, strict=True):
            if isinstance(answer, StoreError):
                self._not_renewed(held, answer)
            elif answer.lost:
                self._lost(held)
            else:
                held.due_ms = asked_ms + held.lease_ms / RENEWALS_PER_LEASE
                held.trusted_until_ms = asked_ms + held.lease_ms
                held.signals.doubtful.clear()
                if answer.cancel_requested:
                    held.called_off()

    def _not_renewed(self, held: Slot, error: StoreError) -> None:
        self._reach.failed(error)
        now_ms, period_ms = self._clock.monotonic_ms(), held.lease_ms / RENEWALS_PER_LEASE
        held.due_ms = now_ms + period_ms / 2
        if now_ms + period_ms >= held.trusted_until_ms and not held.signals.doubtful.is_set():
            held.signals.doubtful.set()
            extra = {"task_id": held.claim.task_id, "reason": str(error)}
            _log.warning("a lease cannot be renewed and may end", extra=extra)

    def _lost(self, held: Slot) -> None:
        with self._lock:
            if self._held.pop((held.claim.task_id, held.claim.token), None) is None:
                return  # settled while the renewal was under way
        if held.is_reported:
            return  # by us: the answer to the report tells if it was another
        metrics.LEASE_LOST.inc()
        _log.warning("a lease went to another holder", extra={"task_id": held.claim.task_id})
        held.lost()

    async def _beat_once(self, store: Leases) -> bool:
        """Say that this worker lives. True: the answer says what is new to it."""
        beat, gate = self._beat(), self._gate
        if gate is None:
            await store.heartbeat(beat)
            return False
        asked_ms = self._clock.monotonic_ms()
        await store.heartbeat(replace(beat, control=gate.epoch))
        return gate.heard(store.held(), asked_ms)

    async def _heartbeats(self, store: Leases) -> None:
        while True:
            try:
                if await self._beat_once(store):
                    continue  # at once, so that others see that it obeys
            except StoreError as error:
                self._reach.failed(error)
                _log.debug("no heartbeat", extra={"reason": str(error)})
            await tick(HEARTBEAT_EVERY_MS / 1000)
