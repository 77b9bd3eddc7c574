"""Carrying out faults, and writing down when each was in force."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import redis
from redis.crc import key_slot

from tests.chaos.faults import Fault, Strike
from tests.chaos.history import Struck
from tests.chaos.place import PARTITIONS, REGIONS, Place, ask
from tests.harness.reshard import Pace, resharder
from tradewind import Client
from tradewind.errors import TradewindError
from tradewind.local.errors import LocalSetupError
from tradewind.local.scratch import RedisProcess, fail_over
from tradewind.local.supervisor import Supervisor
from tradewind.store.keys import partition_keys

_log = logging.getLogger(__name__)

_RESHARD_S: Final = 20.0
_SLOTS: Final = 2  # of those that hold a partition
_PACE: Final = Pace(keys=2, keys_s=0.01)  # some hundred keys: a second or two
_LOADED_S: Final = 60.0  # until a server has read its log, however busy this machine is
_AGAIN_S: Final = 0.2
_ORDER_S: Final = 20.0
_FULL_ROOM_BYTES: Final = 64 * 1024  # until the first refusal: some dozens of tasks

#: What can go wrong in each region.
_ANYWHERE: Final = (
    *(Fault.KILL_PRIMARY, Fault.PAUSE_PRIMARY, Fault.FLUSH_SCRIPTS, Fault.KILL_CLIENTS),
    *(Fault.FULL, Fault.KILL_WORKER, Fault.PAUSE_WORKER, Fault.CORDON, Fault.DRAIN),
    *(Fault.EVACUATE, Fault.SILENT_LINK, Fault.RESET_LINK, Fault.LOSSY_LINK),
)
_WITH_REPLICAS: Final = (Fault.KILL_REPLICA, Fault.PAUSE_REPLICA)


def possible() -> dict[str, Sequence[Fault]]:
    """Faults by region."""
    extra: Mapping[str, Sequence[Fault]] = {
        "eu-west": (
            *(*_WITH_REPLICAS, Fault.FAILOVER, Fault.RESHARD),
            *(Fault.KILL_ROUTER, Fault.PAUSE_ROUTER),
        ),
        "eu-north": (*_WITH_REPLICAS, Fault.SWITCH),
        "us-east": (Fault.KILL_ROUTER, Fault.PAUSE_ROUTER),
    }
    return {region: (*_ANYWHERE, *extra[region]) for region in REGIONS}


class Nemesis:
    """Strikes a place."""

    def __init__(self, place: Place, client: Client) -> None:
        """`client` gives the orders that an operator would."""
        self._place, self._client = place, client
        self._down: set[str] = set()
        self.struck: list[Struck] = []
        self.failed: list[str] = []  # faults that could not be made, with the reason

    async def play(self, strikes: Sequence[Strike]) -> None:
        """Strike at its time each, and return once all is well again."""
        zero = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for strike in strikes:
                await asyncio.sleep(zero + strike.at_s - time.monotonic())
                group.create_task(self._carry_out(strike))

    async def _carry_out(self, strike: Strike) -> None:
        began_at, what = time.monotonic(), "nothing"
        try:
            async with self._made(strike) as what:
                _log.info("%s at %s: %s", strike.fault, strike.region, what)
                await asyncio.sleep(strike.lasts_s)
        except (OSError, redis.RedisError, TradewindError, LocalSetupError) as error:
            self.failed.append(f"{strike.fault} at {strike.region}: {type(error).__name__} {error}")
            _log.info("%s", self.failed[-1])
        self.struck.append(Struck(strike, began_at, time.monotonic(), what))

    def _made(self, strike: Strike) -> AbstractAsyncContextManager[str]:
        ways: Mapping[Fault, Callable[[Strike], AbstractAsyncContextManager[str]]] = {
            Fault.KILL_PRIMARY: self._killed_server,
            Fault.KILL_REPLICA: self._killed_server,
            Fault.PAUSE_PRIMARY: self._paused_server,
            Fault.PAUSE_REPLICA: self._paused_server,
            Fault.FAILOVER: self._failed_over,
            Fault.SWITCH: self._switched,
            Fault.RESHARD: self._resharded,
            Fault.FLUSH_SCRIPTS: partial(self._told, command=("SCRIPT", "FLUSH")),
            Fault.KILL_CLIENTS: partial(self._told, command=("CLIENT", "KILL", "TYPE", "normal")),
            Fault.FULL: self._full,
            Fault.KILL_WORKER: self._killed_service,
            Fault.PAUSE_WORKER: self._paused_service,
            Fault.KILL_ROUTER: self._killed_service,
            Fault.PAUSE_ROUTER: self._paused_service,
            Fault.SILENT_LINK: self._spoilt,
            Fault.RESET_LINK: self._spoilt,
            Fault.LOSSY_LINK: self._spoilt,
            Fault.CORDON: self._ordered,
            Fault.DRAIN: self._ordered,
            Fault.EVACUATE: self._ordered,
        }
        return ways[strike.fault](strike)

    async def _server(self, strike: Strike) -> RedisProcess:
        of_replica = strike.fault in {Fault.KILL_REPLICA, Fault.PAUSE_REPLICA, Fault.FAILOVER}
        asked = self._place.replicas if of_replica else self._place.primaries
        found = await asked(strike.region)
        if not found:
            raise LocalSetupError(
                f"{strike.region} has no {'replica' if of_replica else 'primary'}"
            )
        return found[int(strike.choice * len(found))]

    @asynccontextmanager
    async def _killed_server(self, strike: Strike) -> AsyncGenerator[str]:
        server = await self._server(strike)
        server.kill()
        try:
            yield f"server {server.port}"
        finally:
            await asyncio.to_thread(server.start, _LOADED_S)
            await self._place.whole(strike.region)

    @asynccontextmanager
    async def _paused_server(self, strike: Strike) -> AsyncGenerator[str]:
        server = await self._server(strike)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            yield f"server {server.port}"
        finally:
            os.kill(server.pid, signal.SIGCONT)
            await self._place.whole(strike.region)

    @asynccontextmanager
    async def _failed_over(self, strike: Strike) -> AsyncGenerator[str]:
        replica = await self._server(strike)
        await asyncio.to_thread(fail_over, replica)
        yield f"server {replica.port} promoted"

    @asynccontextmanager
    async def _switched(self, strike: Strike) -> AsyncGenerator[str]:
        replica = await asyncio.to_thread(self._place.watched.fail_over)
        yield f"server {replica.port} promoted"
        await self._place.whole(strike.region)

    @asynccontextmanager
    async def _resharded(self, strike: Strike) -> AsyncGenerator[str]:
        async with asyncio.timeout(_RESHARD_S):
            while True:
                try:
                    what = await self._reshard(strike)
                    break
                except redis.ResponseError:  # after a failover not all have heard of it
                    await asyncio.sleep(_AGAIN_S)
        yield what

    async def _reshard(self, strike: Strike) -> str:
        primaries = await self._place.primaries(strike.region)
        source = primaries[int(strike.choice * len(primaries))]
        target = primaries[(primaries.index(source) + 1) % len(primaries)]
        async with resharder(primaries, source, target) as moving:
            ours = {key_slot(keys.identity.encode()) for keys in partition_keys(PARTITIONS)}
            slots = [slot for slot in await moving.owned() if slot in ours][:_SLOTS]
            await moving.move(slots, _PACE)
        return f"{len(slots)} slots from {source.port} to {target.port}"

    @asynccontextmanager
    async def _told(self, strike: Strike, command: Sequence[str]) -> AsyncGenerator[str]:
        for server in await self._place.primaries(strike.region):
            await ask(server, *command)
        yield " ".join(command[:2])

    @asynccontextmanager
    async def _full(self, strike: Strike) -> AsyncGenerator[str]:
        primaries = await self._place.primaries(strike.region)
        for server in primaries:
            used = int((await ask(server, "INFO", "memory"))["used_memory"])
            await ask(server, "CONFIG", "SET", "maxmemory", used + _FULL_ROOM_BYTES)
        try:
            yield "all primaries"
        finally:
            for server in self._place.servers[strike.region]:
                with contextlib.suppress(OSError, redis.RedisError):
                    await ask(server, "CONFIG", "SET", "maxmemory", 0)

    def _service(self, strike: Strike) -> str:
        if strike.fault in {Fault.KILL_ROUTER, Fault.PAUSE_ROUTER}:
            return f"router-{strike.region}"
        workers = self._place.workers(strike.region)
        return workers[int(strike.choice * len(workers))]

    @contextmanager
    def _alone(self, name: str) -> Generator[str]:
        """A process that is struck: by nobody else until it is well again."""
        if name in self._down:
            raise LocalSetupError(f"{name} has not come back from the fault before")
        self._down.add(name)
        try:
            yield name
        finally:
            self._down.discard(name)

    @asynccontextmanager
    async def _killed_service(self, strike: Strike) -> AsyncGenerator[str]:
        supervisor: Supervisor = self._place.supervisor
        with self._alone(self._service(strike)) as name:
            supervisor.disable_restart(name)
            supervisor.kill(name)
            try:
                yield name
            finally:
                await supervisor.revive(name)

    @asynccontextmanager
    async def _paused_service(self, strike: Strike) -> AsyncGenerator[str]:
        with self._alone(self._service(strike)) as name:
            self._place.supervisor.kill(name, signal.SIGSTOP)
            try:
                yield name
            finally:
                self._place.supervisor.kill(name, signal.SIGCONT)

    @asynccontextmanager
    async def _spoilt(self, strike: Strike) -> AsyncGenerator[str]:
        faults = {
            Fault.SILENT_LINK: {"reach": "silent"},
            Fault.RESET_LINK: {"reach": "resets"},
            Fault.LOSSY_LINK: {"loses": 0.05},
        }
        ways = self._place.links.ways_to(strike.region)
        way = ways[int(strike.choice * len(ways))]
        spoilt: dict[str, Any] = faults[strike.fault]
        proxy = self._place.links.proxy
        await proxy.change([replace(link, **spoilt) for link in way.links])
        try:
            yield way.name
        finally:
            await proxy.change(way.links)

    @asynccontextmanager
    async def _ordered(self, strike: Strike) -> AsyncGenerator[str]:
        region, admin = strike.region, self._client.admin
        # The last region of a fence may not be drained; an operator would be told so.
        state = "CORDONED" if strike.fault is Fault.CORDON else "DRAINING"
        watching: asyncio.Task[None] | None = None
        try:
            await admin.set_region_state(region, state, reason="chaos")
            if strike.fault is Fault.EVACUATE:
                watching = asyncio.create_task(self._evacuate(region))
            yield state if watching is None else "evacuation"
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            await _insist(lambda: admin.set_region_state(region, "ACTIVE", reason="chaos"))

    async def _evacuate(self, region: str) -> None:
        async for _ in self._client.admin.evacuate(region):
            pass


async def _insist(order: Callable[[], Any]) -> None:
    """Give an order until it is taken: whatever else is broken meanwhile will be mended."""
    give_up_at = time.monotonic() + _ORDER_S * 3
    while True:
        try:
            return await order()
        except TradewindError:
            if time.monotonic() > give_up_at:
                raise
            await asyncio.sleep(1.0)
