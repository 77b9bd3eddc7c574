"""All parts of a router, put together over the stores of all regions."""

import asyncio
import random
import secrets
from collections.abc import Mapping
from typing import Protocol

import grpc.aio

from router.admin import AdminService
from router.cancel import Canceller, EndingPorts
from router.carry import Carrier
from router.census import Census
from router.flush import Flush
from router.gauges import Gauges
from router.keys import Keys
from router.lookup import Lookup
from router.reserve import Ledgers
from router.route import Routes
from router.server_clock import ServerClock
from router.service import RouterService
from router.storing import Storing
from router.submit import Submitter
from router.watch import Watches
from tradewind.clock import Clock
from tradewind.fleet import Fleet
from tradewind.ports import DeadLetters, Intake, Ledger, Reads, Vitals
from tradewind.v1 import admin_pb2_grpc, router_pb2_grpc


class RegionPorts(Intake, Ledger, Reads, Vitals, EndingPorts, DeadLetters, Protocol):
    """What a router needs of one region."""


class Gateway:
    """A router without its listener."""

    def __init__(
        self,
        fleet: Fleet,
        region: str,
        stores: Mapping[str, RegionPorts],
        clock: Clock,
        *,
        counts: bool = True,
    ) -> None:
        """`region` is the router's own; `stores` has every region of the fleet.

        `counts`: export what the own region holds; of several processes one does it for all.
        """
        self.region = region
        self._counts, self._closing = counts, False
        self.census = Census(fleet, region, stores, clock)
        self._flushes = {name: Flush(store, self.census) for name, store in stores.items()}
        self._gauges = Gauges(fleet, stores[region], self.census)
        lookup = Lookup(stores, fleet.partitions)
        self._watches = Watches(stores, lookup)
        self.clock = ServerClock(clock, [stores[region], *stores.values()])
        routes = Routes(fleet, self.census, random.Random())
        storing = Storing(stores, self._flushes)
        ledgers = Ledgers(stores, self.census)
        carrier = Carrier(routes, storing, ledgers, lookup, stores)
        entropy = random.Random(secrets.randbits(128))
        self._submitter = Submitter(fleet, routes, storing, ledgers, carrier, self.clock, entropy)
        keys = Keys(fleet, stores)
        self._canceller = Canceller(fleet, stores, keys, lookup, self._watches)
        self._router = RouterService(fleet, self._submitter, lookup, self._watches, self._canceller)
        self._admin = AdminService(fleet, self.census, stores, keys)

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

    async def run(self) -> None:
        """Look after regions and watchers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.census.run())
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
        await self._submitter.drain()
        await self._canceller.drain()
        for flush in self._flushes.values():
            await flush.drain()
