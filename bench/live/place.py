"""Embedded regions with distances and workers of their own, which a script can break."""

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bench.live.app import HANDLER, LEDGER_VARIABLE
from bench.live.plan import Plan
from bench.sim.matrices import HOME_MS
from bench.sim.outages import GOOD, Condition
from tradewind import Client, regions
from tradewind.fleet import RedisTarget
from tradewind.local.embedded import EmbeddedFleet, answers_ready
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.plan import EmbeddedOptions, RegionPorts, seeing, worker_argv
from tradewind.local.supervisor import ProcessSpec, Supervisor

_APP = Path(__file__).with_name("app.py")
_POLL_S = 0.05


class Place:
    """What runs: `condition` is how each region is by the script, from the moment it is so."""

    def __init__(self, fleet: EmbeddedFleet, crews: Supervisor, workers: int) -> None:
        """All of it runs already."""
        self._fleet, self._crews, self._workers = fleet, crews, workers
        self._well = dict(fleet.links)
        self.condition = dict.fromkeys(fleet.endpoints, GOOD)

    def client(self, region: str, deadline_s: float) -> Client:
        """A caller of that region, at its own router."""
        return Client(self._fleet.endpoints[region].grpc, origin_region=region, deadline=deadline_s)

    async def become(self, region: str, how: Condition) -> None:
        """Bring a region into a condition. One that is drained cannot be played."""
        was, redis = self.condition[region], f"redis-{region}"
        if not how.takes_work:
            self.condition[region] = how
        self._set_links(region, how)
        if how.reach == "refuses" and was.reach != "refuses":
            self._fleet.supervisor.disable_restart(redis)
            self._fleet.supervisor.kill(redis)
        elif was.reach == "refuses" and how.reach != "refuses":
            await self._fleet.supervisor.revive(redis)
        alive = round(how.workers * self._workers)
        for number in range(self._workers):
            name = _worker(region, number)
            if number >= alive:
                self._crews.disable_restart(name)
                self._crews.kill(name)
            elif self._crews.pid_of(name) is None:
                await self._crews.revive(name)
        self.condition[region] = how

    def _set_links(self, region: str, how: Condition) -> None:
        """All routers' ways there."""
        # A call breaks on its way there or back: two chances, for so many failures in all.
        breaks = 1 - (1 - how.refused - how.lost) ** 0.5
        reach = "silent" if how.reach == "silent" else "ok"
        changed = {
            way: replace(
                link, delay_ms=_slowed(link.delay_ms, how.slow), reach=reach, breaks=breaks
            )
            for way, link in self._well.items()
            if way[1] == region
        }
        if any(self._fleet.links[way] != link for way, link in changed.items()):
            self._fleet.set_links(changed)


def _slowed(delay_ms: float, slow: float) -> float:
    return delay_ms if slow == 1 else max(delay_ms, HOME_MS / 2) * slow


@asynccontextmanager
async def place(plan: Plan, config: Path, home: Path, ledger: Path) -> AsyncGenerator[Place]:
    """Run the plan's regions in `home`; everything has ended afterwards."""
    os.environ[LEDGER_VARIABLE] = str(ledger)  # the workers inherit it
    data_dir = home / "data"
    options = EmbeddedOptions(
        config=config,
        app=None,
        data_dir=data_dir,
        wan=True,
        wan_home=True,
        ephemeral_ports=True,
    )
    async with contextlib.AsyncExitStack() as stack:
        fleet = EmbeddedFleet(regions.load(config), options)
        stack.push_async_callback(fleet.stop)
        await fleet.start()
        crews = Supervisor([_crews(plan, config, data_dir, fleet)])
        stack.push_async_callback(crews.stop)
        await crews.start()
        running = Place(fleet, crews, plan.world.workers)
        for region in fleet.endpoints:
            async with running.client(region, 30) as client:
                while not await _sees_all(client):  # noqa: ASYNC110 - other processes tell nothing
                    await asyncio.sleep(_POLL_S)
        yield running


async def _sees_all(client: Client) -> bool:
    route = await client.explain(HANDLER, {"index": 0, "seconds": 0.0})
    return all(each.eligible for each in route.candidates)


def _crews(plan: Plan, config: Path, data_dir: Path, fleet: EmbeddedFleet) -> list[ProcessSpec]:
    """Each region's workers. To their own Redis they have a way of their own, which never breaks.

    So a region that routers cannot reach goes on working, as in the simulator.
    """
    world = plan.world
    ports = iter(free_ports(len(fleet.endpoints) * world.workers))
    specs: list[ProcessSpec] = []
    for region, endpoint in fleet.endpoints.items():
        nodes = {
            other: RedisTarget("standalone", (f"{LOOPBACK}:{link.listen_port}",))
            for (viewer, other), link in fleet.links.items()
            if viewer == region
        }
        nodes[region] = endpoint.redis
        for number in range(world.workers):
            slots = world.slots // world.workers + (number < world.slots % world.workers)
            http, name = next(ports), _worker(region, number)
            more = ("--concurrency", f"{slots}", "--grace", "1")
            specs.append(
                ProcessSpec(
                    name=name,
                    argv=worker_argv(config, region, RegionPorts(0, 0, http), f"{_APP}:app", more),
                    env=seeing(nodes),
                    log_path=data_dir / "logs" / f"{name}.log",
                    ready=functools.partial(answers_ready, http),
                    stop_signal=signal.SIGTERM,
                )
            )
    return specs


def _worker(region: str, number: int) -> str:
    return f"worker-{region}-{number}"
