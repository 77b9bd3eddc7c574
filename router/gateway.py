"""All parts of a router, put together over the stores of all regions."""

import asyncio
import logging
import random
import secrets
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import grpc.aio

from router.admin import AdminService, Reload
from router.cancel import Canceller, EndingPorts
from router.carry import Carrier
from router.census import Census
from router.control import Orders
from router.decisions import Decisions
from router.durable import Durable
from router.fitness import Fitness
from router.flush import Flush
from router.gauges import Gauges
from router.held_back import HeldBack
from router.keys import Keys
from router.lookup import Lookup
from router.reserve import Ledgers
from router.route import Routes
from router.server_clock import ServerClock
from router.service import MAX_PATIENCE_S, RouterService
from router.storing import Storing
from router.submit import Submitter
from router.watch import Watches
from tradewind.clock import Clock
from tradewind.errors import StoreError
from tradewind.fleet import Fleet, Region
from tradewind.metrics import REGION_RTT_SECONDS, forget
from tradewind.ports import (
    Audits,
    DeadLetters,
    Durables,
    Evacuations,
    Intake,
    Ledger,
    Reads,
    Register,
    Vitals,
)
from tradewind.v1 import admin_pb2_grpc, router_pb2_grpc

_log = logging.getLogger(__name__)
# A region that has left the file is still reached by what began before: no call takes longer.
LINGER_S: Final = MAX_PATIENCE_S


class RegionPorts(
    Intake,
    Ledger,
    Durables,
    Reads,
    Vitals,
    EndingPorts,
    DeadLetters,
    Evacuations,
    Register,
    Audits,
    Protocol,
):
    """What a router needs of one region."""

    async def start(self) -> None:
        """Connect early. Raises StoreError; calls connect on their own as well."""
        ...

    async def close(self) -> None:
        """Disconnect. Idempotent."""
        ...

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, in which this region is at the same address."""
        ...


#: Opens the store of a region. Raises SetupError for a kind of Redis that is not served.
OpenStore = Callable[[Region, Fleet], RegionPorts]


class Gateway:
    """A router without its listener."""

    def __init__(
        self,
        fleet: Fleet,
        region: str,
        open_store: OpenStore,
        clock: Clock,
        *,
        counts: bool = True,
        reload: Reload,
        linger_s: float = LINGER_S,
        allow_eviction: bool = False,
    ) -> None:
        """`region` is the router's own. Raises SetupError.

        `counts`: export what the own region holds; of several processes one does it for all.
        `reload` reads the policy file again, and has had `follow` called if it has changed.
        `linger_s`: how long the store of a region that has left is kept for what is under way.
        `allow_eviction`: use regions whose Redis may delete tasks.
        """
        self.region = region
        self._counts, self._closing = counts, False
        self._fleet, self._open_store, self._linger_s = fleet, open_store, linger_s
        self._stores = {name: open_store(one, fleet) for name, one in fleet.regions.items()}
        self._entropy = random.Random(secrets.randbits(128))
        self._gone: frozenset[str] = frozenset()  # names that the file had, and has no more
        self._leaving: set[asyncio.Task[None]] = set()
        self._left: set[Flush] = set()
        # What may hold work of callers who are gone: of every fleet so far, as long as it does.
        self._holders = weakref.WeakSet[Submitter | Canceller]()
        self.clock = ServerClock(clock, self._near_first())
        self.census = Census(fleet, region, self._stores, clock, allow_eviction=allow_eviction)
        self.orders = Orders(fleet, self._stores, self.census)
        self.census.listen(self.orders.heard)
        self._fitness = Fitness(fleet, self._stores, self.census)
        self._held_back = HeldBack(self._stores, self.census, lambda: self.orders.control.pauses)
        self._flushes = {name: Flush(store, self.census) for name, store in self._stores.items()}
        self._gauges = Gauges(fleet, self._stores[region], self.census)
        self._watches = Watches(self._stores, Lookup(self._stores, fleet.partitions))
        parts = self._parts = self._build()
        self._router = RouterService(
            fleet,
            parts.submitter,
            parts.lookup,
            self._watches,
            parts.canceller,
            control=lambda: self.orders.control,
            view=self.census.view,
        )
        self._admin = AdminService(
            fleet,
            self.census,
            self.orders,
            parts.stores,
            parts.keys,
            parts.lookup,
            reload,
            self.clock,
        )

    @property
    def stores(self) -> Mapping[str, RegionPorts]:
        """The store of each region, as of now."""
        return dict(self._stores)

    def follow(self, fleet: Fleet) -> None:
        """Go on with another fleet, at once and as a whole; what is under way ends by the old one.

        Raises SetupError, and nothing has changed, if a new region cannot be served.
        """
        before, stores = self._fleet, dict[str, RegionPorts]()
        for name, region in fleet.regions.items():
            is_known = name in before.regions and before.regions[name].redis == region.redis
            stores[name] = self._stores[name] if is_known else self._open_store(region, fleet)
        left = {n: s for n, s in self._stores.items() if stores.get(n) is not s}
        # No await from here on, and nothing that can fail.
        for name, store in left.items():
            self._let_go(name, store, self._flushes.pop(name))
        for name, store in stores.items():
            if name in self._flushes:
                store.follow(fleet)
        self._fleet, self._stores = fleet, stores
        self._gone = self._gone.union(before.regions).difference(fleet.regions)
        self.census.follow(fleet, stores)
        self.orders.follow(fleet, stores)
        self._fitness.follow(fleet, stores)
        self._held_back.follow(stores)
        self._flushes = {
            name: self._flushes.get(name) or Flush(store, self.census)
            for name, store in stores.items()
        }
        self.clock.follow(self._near_first())
        self._gauges.follow(fleet, stores[self.region])
        for name in before.regions.keys() - fleet.regions.keys():
            forget(REGION_RTT_SECONDS, name)
        parts = self._parts = self._build()
        self._watches.stand_on(parts.stores, parts.lookup)
        self._router.follow(fleet, parts.submitter, parts.lookup, parts.canceller)
        self._admin.follow(fleet, parts.stores, parts.keys, parts.lookup)

    def _build(self) -> "_Parts":
        """Build what works by one fleet, over what stays."""
        fleet, stores, flushes = self._fleet, dict(self._stores), dict(self._flushes)
        lookup = Lookup(stores, fleet.partitions, self._gone)
        decisions = Decisions(fleet, self.region, self.census.now_ms, random.random)
        routes = Routes(fleet, self.census, random.Random(), decisions)
        storing = Storing(stores, flushes)
        ledgers = Ledgers(stores, self.census)
        carrier = Carrier(routes, storing, ledgers, lookup, stores)
        submitter = Submitter(
            fleet,
            routes,
            storing,
            ledgers,
            carrier,
            Durable(fleet, stores),
            self.clock,
            self._entropy,
        )
        keys = Keys(fleet, stores)
        canceller = Canceller(fleet, stores, keys, lookup, self._watches)
        self._holders.update((submitter, canceller))
        return _Parts(stores, lookup, submitter, keys, canceller)

    def _near_first(self) -> list[RegionPorts]:
        return [self._stores[self.region], *self._stores.values()]

    def _let_go(self, name: str, store: RegionPorts, flush: Flush) -> None:
        """Close the store of a region that has left, once nothing can be under way to it."""
        # Whatever it still says is not about the region that may come under its name.
        flush.unheard()
        self._left.add(flush)

        async def leave() -> None:
            try:
                await asyncio.sleep(self._linger_s)
                await flush.drain()
            finally:
                self._left.discard(flush)
                await store.close()
            _log.info("a region has left the policy file", extra={"of": name})

        leaving = asyncio.create_task(leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve RouterService and AdminService on `server`."""
        router_pb2_grpc.add_RouterServiceServicer_to_server(self._router, server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self._admin, server)

    def ready(self) -> tuple[bool, str]:
        """Whether at least one region can be reached, and which cannot. Any thread may ask."""
        if self._closing:
            return False, "shutting down"
        silent = self.census.silent()
        if len(silent) == len(self.census.views()):
            return False, f"no region answers: {', '.join(silent)}"
        return True, f"ready; silent regions: {', '.join(silent)}" if silent else "ready"

    async def greet(self) -> None:
        """Connect early. A region that is down now is found by the census once it is up."""
        await asyncio.gather(*map(_greet, self._stores.values()))

    async def first_look(self, timeout_s: float) -> None:
        """Return once all regions were asked what they are and can, or in `timeout_s`."""
        await asyncio.gather(self.census.first_look(timeout_s), self._fitness.first_look(timeout_s))

    async def run(self) -> None:
        """Look after regions and watchers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.census.run())
            group.create_task(self.orders.run())
            group.create_task(self._fitness.run())
            group.create_task(self._held_back.run())
            group.create_task(self._watches.run())
            if self._counts:
                group.create_task(self._gauges.run())

    def retire(self) -> None:
        """Say that no more should come; what comes all the same is still served."""
        self._closing = True

    def close(self) -> None:
        """Let open streams end."""
        self.retire()
        self._router.close()

    async def drain(self) -> None:
        """Return once nothing is on its way to a store any more."""
        for holder in list(self._holders):
            await holder.drain()
        await self._admin.drain()
        for flush in [*self._flushes.values(), *self._left]:
            await flush.drain()

    async def disconnect(self) -> None:
        """Close every store. Nothing can be asked of it any more."""
        for leaving in self._leaving:
            leaving.cancel()
        closing = (store.close() for store in self._stores.values())
        await asyncio.gather(*closing, *self._leaving, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What works by one fleet and no other."""

    stores: Mapping[str, RegionPorts]
    lookup: Lookup
    submitter: Submitter
    keys: Keys
    canceller: Canceller


async def _greet(store: RegionPorts) -> None:
    try:
        await store.start()
    except StoreError as error:
        _log.warning("a region is not usable yet", extra={"of": store.region, "cause": str(error)})
