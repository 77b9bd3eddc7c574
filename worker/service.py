"""One worker process, put together: loop, guard, upkeep and courier around one region's store."""

import asyncio
import itertools
import logging
import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final, Protocol

from tradewind.clock import Clock
from tradewind.errors import StoreError
from tradewind.ports import Claims, Inbox, Intake, Notices, Outbox, Repairs, Upkeep, Vitals
from worker.children import Children
from worker.courier import Courier
from worker.guard import Guard, Leases
from worker.herald import Herald, Sender
from worker.litter import rarely_collected
from worker.loop import Loop
from worker.patience import Patience, lasting
from worker.pool import Pace, Pool
from worker.reach import Reach
from worker.reconcile import Reconciler
from worker.upkeep import Keeper
from worker.views import Views

_log = logging.getLogger(__name__)
_TELL_EVERY_S: Final = 0.2
_SHORT_GRACE_S: Final = 1.0  # what a second signal leaves
_STANDS: Final = (False, "a coroutine holds the event loop")


class Home(Claims, Upkeep, Repairs, Outbox, Vitals, Notices, Intake, Protocol):
    """The store of the worker's own region."""

    async def start(self) -> None:
        """Connect and verify. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class Elsewhere(Inbox, Vitals, Protocol):
    """The store of another region: a courier's target."""

    async def close(self) -> None:
        """Disconnect."""
        ...


class Service:
    """A worker process from its first connection to its exit."""

    def __init__(
        self,
        pool: Pool,
        *,
        home: Home,
        others: Mapping[str, Elsewhere],
        open_leases: Callable[[], Leases],
        children: Children,
        clock: Clock,
        sender: Sender | None = None,
        on_ready: Callable[[bool, str], None] = lambda _ready, _why: None,
    ) -> None:
        """`open_leases` makes the guard's own store; `on_ready` hears, in any thread, of readiness.

        `sender` carries webhooks; it may only be None if no queue of the fleet has one.
        """
        self._pool, self._home, self._others = pool, home, others
        self._sender, self._children = sender, children
        self.worn_out = False
        self._on_ready = on_ready
        self._pace = Pace(pool, clock)
        reach = Reach(clock)
        self._told: tuple[bool, str] | None = None
        self._guard = Guard(
            open_leases,
            fleet=pool.fleet,
            clock=clock,
            beat=self._pace.beat,
            reach=reach,
            on_stand=self._stands,
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
        self._herald = Herald(home, pool.fleet, sender)
        views = Views(pool.region, pool.fleet, others, clock)
        self._keeper = Keeper(
            home,
            pool,
            courier=Courier(home, pool.fleet, others, views, clock=clock),
            reach=reach,
            clock=clock,
            on_swept=self._loop.swept,
            on_dead=self._herald.visit if pool.fleet.hooked else lambda _partition: None,
        )
        self._reconciler = Reconciler(home, clock, share=lambda: self._keeper.share)

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
        stop, hurry = self._signals(grace_s)
        try:
            connecting = asyncio.ensure_future(self._connect())
            await asyncio.wait({connecting, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                connecting.cancel()
                return
            connecting.result()
            with rarely_collected():
                await self._work(grace_s, stop, hurry)
        finally:
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
        self._guard.start()
        upkeep = asyncio.create_task(lasting(self._keeper.run, "upkeep"))
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
            stop.add_done_callback(lambda _: loop.call_later(grace_s, _resolve, hurry))
            running = {"running": self._loop.running}
            if stop.done():
                _log.info("worker stops", extra={**running, "grace_s": grace_s})
            else:
                _log.error("too many handlers are stuck: worker is to be replaced", extra=running)
            await self._loop.drain(hurry, but_stuck=not stop.done())
            self.worn_out = not stop.done()
        finally:
            ends = (upkeep, repairing, telling, taking, saying, worn_out)
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await self._children.close()
            await asyncio.to_thread(self._guard.stop)
            ticking.cancel()
        _log.info("worker stopped", extra={"worker": self._pool.worker_id})

    async def _tell(self) -> None:
        """Report changes of readiness."""
        while True:
            now = self.ready()
            if now != self._told:
                self._told = now
                self._on_ready(*now)
            await asyncio.sleep(_TELL_EVERY_S)

    def _stands(self) -> None:
        """Report it from the guard's thread; `_tell` takes it back if the loop turns again."""
        self._told = _STANDS
        self._on_ready(*_STANDS)

    def _signals(self, grace_s: float) -> "tuple[asyncio.Future[None], asyncio.Future[None]]":
        """(stop, hurry): set by the first and the second SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        stop: asyncio.Future[None] = loop.create_future()
        hurry: asyncio.Future[None] = loop.create_future()

        def signalled() -> None:
            if stop.done():
                loop.call_later(_SHORT_GRACE_S, _resolve, hurry)
            _resolve(stop)

        graces = itertools.chain((grace_s,), itertools.repeat(_SHORT_GRACE_S))

        def noted(_number: int, _frame: FrameType | None) -> None:
            self._guard.watch.end_in(next(graces))

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled)
            # In place of the loop's own, which does nothing: the loop hears by a file, when it
            # turns; this hears at once.
            signal.signal(number, noted)
        return stop, hurry


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
