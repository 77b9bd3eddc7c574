"""One worker process, put together: loop, guard, upkeep and courier around one region's store."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tradewind import metrics
from tradewind.clock import Clock
from tradewind.errors import SetupError, StoreError
from tradewind.fleet import Fleet
from tradewind.litter import rarely_collected
from tradewind.policy_file import PolicyFile
from tradewind.ticks import tick
from worker.children import Children
from worker.courier import Courier
from worker.couriers.abroad import Abroad
from worker.couriers.imports import Imports
from worker.gate import Lookout, OrderedGate
from worker.guard import Guard
from worker.herald import Herald
from worker.loop import Loop
from worker.opens import Elsewhere, Opens
from worker.patience import Patience, lasting
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.reconcile import Reconciler
from worker.signals import listen, resolve
from worker.upkeep import Keeper
from worker.views import Views

_log = logging.getLogger(__name__)
_TELL_EVERY_S: Final = 0.5
_LINGER_S: Final = 60.0  # a step of a move takes 10 s at most (courier.py), and there are three
_STANDS: Final = (False, "a coroutine holds the event loop")


class Service:
    """A worker process from its first connection to its exit."""

    def __init__(
        self,
        pool: Pool,
        *,
        policy: PolicyFile,
        opens: Opens,
        children: Children,
        clock: Clock,
        on_ready: Callable[[bool, str], None] = lambda _ready, _why: None,
    ) -> None:
        """`on_ready` hears, in any thread, of readiness. Raises SetupError."""
        self._pool, self._policy, self._clock = pool, policy, clock
        self._opens, self._children = opens, children
        fleet, here = pool.fleet, pool.fleet.regions[pool.region]
        home = self._home = opens.home(here, fleet)
        elsewhere = [region for region in fleet.regions.values() if region is not here]
        self._others = {region.name: opens.other(region, fleet) for region in elsewhere}
        self._sender = opens.sender(fleet, clock)
        self._leaving: set[asyncio.Task[None]] = set()
        self.worn_out = False
        self._on_ready = on_ready
        self._pace = Pace(pool, clock)
        reach = Reach(clock)
        self._told: tuple[bool, str] | None = None
        self._gate = OrderedGate(pool.region, fleet, clock)
        self._lookout, self._known = Lookout(self._gate, self._others), asyncio.Event()
        pool.gate = self._gate
        self._guard = Guard(
            lambda: opens.leases(here, fleet),
            fleet=pool.fleet,
            clock=clock,
            beat=self._pace.beat,
            reach=reach,
            on_stand=self._stands,
            gate=self._gate,
        )
        self._loop = Loop(
            home,
            pool,
            children=children,
            guard=self._guard,
            pace=self._pace,
            reach=reach,
            clock=clock,
            on_buried=lambda partition, in_ms: self._keeper.visit(partition, in_ms),  # noqa: PLW0108 - made below
        )
        self._herald = Herald(home, pool.fleet, self._sender)
        views = Views(
            pool.region, pool.fleet, self._others, clock, allow_eviction=pool.allow_eviction
        )
        self._courier = Courier(
            home,
            pool.fleet,
            self._others,
            views,
            clock=clock,
            control=lambda: self._gate.control,
            who=pool.worker_id,
        )
        self._imports = Imports(home, pool.fleet, self._others)
        self._abroad = Abroad(
            pool,
            home,
            self._others,
            clock=clock,
            control=lambda: self._gate.control,
            share=lambda: self._keeper.share,
        )
        self._keeper = Keeper(
            home,
            pool,
            courier=self._courier,
            imports=self._imports,
            reach=reach,
            clock=clock,
            on_swept=self._loop.swept,
            on_dead=self._someone_may_hear,
        )
        self._reconciler = Reconciler(home, clock, share=lambda: self._keeper.share)

        policy.tell(self.follow)

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, at once and as a whole; what runs keeps its limits and lease.

        Raises SetupError, and nothing has changed, if this worker cannot.
        """
        own, before = self._pool.region, self._pool.fleet
        if fleet.regions[own].redis != before.regions[own].redis:
            raise SetupError(
                f"regions.{own}.redis: this worker runs the tasks of the Redis it began with; "
                "start another one for the new address, then stop this one"
            )
        others: dict[str, Elsewhere] = {}
        for name, region in fleet.regions.items():
            is_known = name in self._others and before.regions[name].redis == region.redis
            if name != own:
                opened = self._others[name] if is_known else self._opens.other(region, fleet)
                others[name] = opened
        sender = self._sender or self._opens.sender(fleet, self._clock)
        # No await from here on, and nothing that can fail.
        left = [store for name, store in self._others.items() if others.get(name) is not store]
        self._others, self._sender = others, sender
        for store in (self._home, *others.values()):
            store.follow(fleet)
        self._pool.follow(fleet)
        self._guard.follow(fleet)
        self._gate.follow(fleet)
        self._lookout.follow(others)
        self._loop.follow(fleet)
        self._herald.follow(fleet, sender)
        self._courier.follow(fleet, others)
        self._imports.follow(fleet, others)
        self._abroad.follow(fleet, others)
        for store in left:
            leaving = asyncio.create_task(_leave(store))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    def _someone_may_hear(self, partition: int) -> None:
        if self._pool.fleet.hooked:
            self._herald.visit(partition)

    def ready(self) -> tuple[bool, str]:
        """Whether it could take a task right now, and if not, why not. From any thread."""
        return _STANDS if self._guard.watch.stands else self._loop.ready()

    @property
    def left_behind(self) -> int:
        """Handlers that run on although `run` has returned: they cannot be stopped."""
        return self._loop.running

    async def run(self, grace_s: float) -> None:
        """Work until SIGTERM or SIGINT, then finish what runs, for at most `grace_s`.

        Or until too many handlers are stuck: then it finishes what is not, however long that takes,
        and `worn_out` says that this process is to be replaced.

        A second signal shortens the grace. While a coroutine holds the event loop nothing of this
        can be, and the watch ends the process. Raises IdentityMismatch if the region's Redis is
        not what the file says; a region that does not answer is waited for.
        """
        stop, hurry = listen(grace_s, end_in=self._guard.watch.end_in, reread=self._policy.ask)
        following = asyncio.create_task(lasting(self._policy.run, "policy file"))
        try:
            connecting = asyncio.ensure_future(self._connect())
            await asyncio.wait({connecting, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                connecting.cancel()
                return
            connecting.result()
            async with rarely_collected():
                await self._work(grace_s, stop, hurry)
        finally:
            for task in (following, *self._leaving):
                task.cancel()
            await asyncio.gather(following, *self._leaving, return_exceptions=True)
            await self._home.close()
            for other in self._others.values():
                await other.close()
            if self._sender is not None:
                await self._sender.close()

    async def _connect(self) -> None:
        patience = Patience()
        while True:
            try:
                await self._home.start()
            except StoreError as error:
                if not error.retryable:
                    raise
                _log.warning("waiting for the region", extra={"reason": str(error)})
                await patience.wait()
            else:
                return

    async def _work(
        self, grace_s: float, stop: "asyncio.Future[None]", hurry: "asyncio.Future[None]"
    ) -> None:
        loop = asyncio.get_running_loop()
        ticking = asyncio.create_task(self._guard.watch.tick())
        self._gate.listen(lambda: self._gate_changed(loop))
        self._guard.start()
        looking = asyncio.create_task(lasting(self._lookout.run, "looking at other regions"))
        upkeep = asyncio.create_task(lasting(self._once_known(self._keeper.run), "upkeep"))
        going_abroad = self._once_known(self._abroad.run)
        abroad = asyncio.create_task(lasting(going_abroad, "upkeep of other regions"))
        repairing = asyncio.create_task(lasting(self._reconciler.run, "reconcile sweep"))
        telling = asyncio.create_task(lasting(self._herald.run, "herald"))
        taking = asyncio.create_task(self._loop.run())
        saying = asyncio.create_task(self._tell())
        worn_out = asyncio.create_task(self._loop.worn_out.wait())
        _log.info(
            "worker started",
            extra={
                "worker": self._pool.worker_id,
                "queues": self._pool.queues,
                "slots": self._pool.concurrency,
                "tasks": len(self._pool.handlers),
            },
        )
        try:
            waits = {stop, taking, worn_out}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                taking.result()
            # From the signal on, also if it comes while a worn-out process finishes its work.
            stop.add_done_callback(lambda _: loop.call_later(grace_s, resolve, hurry))
            running = {"running": self._loop.running}
            if stop.done():
                _log.info("worker stops", extra={**running, "grace_s": grace_s})
            else:
                _log.error("too many handlers are stuck: worker is to be replaced", extra=running)
            await self._loop.drain(hurry, but_stuck=not stop.done())
            self.worn_out = not stop.done()
        finally:
            aside = (upkeep, abroad, repairing, telling, looking)
            ends: list[asyncio.Task[Any]] = [*aside, taking, saying, worn_out]
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await self._children.close()
            await asyncio.to_thread(self._guard.stop)
            ticking.cancel()
        _log.info("worker stopped", extra={"worker": self._pool.worker_id})

    def _once_known(self, run: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """The same once it is known what operators order: couriers go by it, too."""

        async def waiting() -> None:
            await self._known.wait()
            await run()

        return waiting

    def _gate_changed(self, loop: asyncio.AbstractEventLoop) -> None:
        """Operators let other things start; in any thread."""

        def heard() -> None:
            metrics.CONTROL_EPOCH.set(self._gate.epoch)
            if self._gate.is_known:
                self._known.set()
            self._loop.gate_changed()
            self._lookout.hurry()

        with contextlib.suppress(RuntimeError):  # the loop has closed
            loop.call_soon_threadsafe(heard)

    async def _tell(self) -> None:
        """Report changes of readiness."""
        while True:
            now = self.ready()
            if now != self._told:
                self._told = now
                self._on_ready(*now)
            await tick(_TELL_EVERY_S)

    def _stands(self) -> None:
        """Report it from the guard's thread; `_tell` takes it back if the loop turns again."""
        self._told = _STANDS
        self._on_ready(*_STANDS)


async def _leave(store: Elsewhere) -> None:
    """Close the store of a region that has left the file, once no move can be under way to it."""
    try:
        await asyncio.sleep(_LINGER_S)
    finally:
        await store.close()
