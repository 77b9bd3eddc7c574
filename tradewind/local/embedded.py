"""A whole fleet on one machine: what `tradewind up`, the demo and the benchmarks start.

A redis-server, a router and a worker pool a region, and the delays between regions if asked.
"""

import asyncio
import contextlib
import functools
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tradewind import regions
from tradewind.client import Client
from tradewind.errors import ConfigError, TradewindError
from tradewind.fleet import Fleet, RedisTarget
from tradewind.local import wan
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK
from tradewind.local.outages import Outages
from tradewind.local.plan import (
    EmbeddedOptions,
    Layout,
    router_argv,
    seeing,
    targets,
    wan_links,
    worker_argv,
)
from tradewind.local.prepare import choose_layout, locked, must_be_over, region_home
from tradewind.local.redis_server import ServerBinary, find_server
from tradewind.local.store_files import lay_out
from tradewind.local.store_specs import store_specs
from tradewind.local.supervisor import ProcessSpec, Supervisor
from tradewind.policy_file import forbidden, told
from tradewind.regions.watch import FileWatch

_HTTP_TIMEOUT_S = 2.0
_SERVED_EVERY_S = 0.1

# Between the end of a worker's grace and SIGKILL: it hands back what still runs.
_HAND_BACK_S = 3.0

_WAN = "wan"  # its process


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one region is served. `worker_http` is empty without an app."""

    region: str
    grpc: str
    http: str
    worker_http: str
    redis: RedisTarget

    @property
    def redis_url(self) -> str:
        """Of its Redis where that is one server; else of the first to ask."""
        return f"redis://{self.redis.nodes[0]}"


class EmbeddedFleet:
    """Starts and stops a fleet. One fleet per data directory at a time; use from the main thread.

    Process names: `redis-R`, `router-R`, `worker-R` for each region R, and `wan`. Of a Redis that
    is several servers `redis-R.1` and so on, and `redis-R.sentinel-1`.
    """

    def __init__(
        self,
        fleet: Fleet,
        options: EmbeddedOptions,
        *,
        on_exit: Callable[[str, int], None] | None = None,
        on_restart: Callable[[str, int], None] | None = None,
    ) -> None:
        """Take the plan; nothing runs before `start()`. The callbacks are the supervisor's."""
        self._fleet = fleet
        self._options = options
        self._on_exit = on_exit
        self._on_restart = on_restart
        self._held = contextlib.ExitStack()
        self._supervisor: Supervisor | None = None
        self._layout: Layout | None = None
        self._links: Mapping[tuple[str, str], wan.Link] = {}
        self._outages: Outages | None = None
        self._missing = "a redis-server to run and free ports"
        #: Set once this machine was found able to begin, before anything is started.
        self.prepared = asyncio.Event()
        self._file = FileWatch(options.config)
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Start everything, and return once every router and worker pool is ready.

        Raises LocalSetupError, with nothing left running, if this machine cannot do it: no
        redis-server, a taken port, a data directory in use, a process that ends or is never ready.
        """
        try:
            self._layout, stages = await asyncio.to_thread(self._prepare)
            self.prepared.set()
            self._supervisor = Supervisor(
                stages, on_exit=self._on_exit, on_restart=self._on_restart
            )
            await self._supervisor.start()
        except BaseException:
            self._held.close()
            raise

    async def until_served(self, timeout_s: float | None = None) -> None:
        """Return once every router sees a live worker in every region: now it can route.

        A router learns of workers by their heartbeats, so this comes a moment after `start()`.
        Raises LocalSetupError, naming a router and what it misses, after `timeout_s` (by default
        the options' `ready_timeout_s`).
        """
        timeout_s = self._options.ready_timeout_s if timeout_s is None else timeout_s
        self._missing = "no router answered"
        try:
            async with asyncio.timeout(timeout_s):
                for endpoint in self.endpoints.values():
                    async with Client(endpoint.grpc, origin_region=endpoint.region) as client:
                        while unserved := await _unserved(client):
                            self._missing = f"router-{endpoint.region} sees no worker in {unserved}"
                            await asyncio.sleep(_SERVED_EVERY_S)
        except TimeoutError:
            raise LocalSetupError(
                f"{self._missing} after {timeout_s:g} s; the logs are in {self.log_dir}"
            ) from None

    @property
    def missing(self) -> str:
        """What `start` or `until_served` waits for, in words."""
        unready = () if self._supervisor is None else self._supervisor.unready
        return ", ".join(unready) or self._missing

    async def follow(self, say: Callable[[str], None]) -> None:
        """Tell of changes of the user's file, and make the outages asked for, until cancelled.

        All processes read that file themselves, and see a change as soon as we do. `say` takes a
        sentence on each change.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            if self._outages is not None:
                group.create_task(self._outages.follow(self.supervisor, say))
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    say(await asyncio.to_thread(self._renew))
                except (ConfigError, OSError) as error:
                    say(f"{error}\nthe old policy stays in force")

    def reload(self) -> None:
        """Have every process read the policy file again: it may name files that have changed."""
        self._changed.set()
        if self._supervisor is not None:
            for region in self.endpoints:
                for name in (f"router-{region}", f"worker-{region}"):
                    if name.startswith("router") or self._options.app is not None:
                        self._supervisor.kill(name, signal.SIGHUP)

    async def _watch(self) -> None:
        async for _ in self._file.changes():
            self._changed.set()

    def _renew(self) -> str:
        """Read the file again, as its processes do. Raises ConfigError and OSError."""
        fleet = regions.load(self._options.config)
        before = self._fleet
        stays = next((name for name in before.regions if name in fleet.regions), "")
        if why := forbidden(before, fleet, stays):
            raise ConfigError(str(self._options.config), why)
        self._fleet = fleet
        strangers = ", ".join(fleet.regions.keys() - self.endpoints.keys())
        added = f"; to run {strangers} here, too, start anew" if strangers else ""
        return f"policy {fleet.version} is in force within seconds{added}"

    @property
    def links(self) -> Mapping[tuple[str, str], wan.Link]:
        """The way to each Redis by (viewer, node), as in Layout. Empty without `wan`."""
        return self._links

    def set_links(self, links: Mapping[tuple[str, str], wan.Link]) -> None:
        """Let these ways be so from a moment later on: farther, broken, silent or well again.

        The others stay as they are. Raises KeyError for one that there is not.
        """
        if unknown := links.keys() - self._links.keys():
            raise KeyError(min(unknown))
        self._links = {**self._links, **links}
        self._write_links()
        self.supervisor.kill(_WAN, signal.SIGHUP)

    def _write_links(self) -> Path:
        spec = self._options.data_dir.resolve() / "wan.json"
        return _write(spec, wan.dump(tuple(self._links.values())))

    def hurry(self) -> None:
        """Shorten a stop, under way or to come, to a few seconds: running tasks are handed back."""
        if self._supervisor is not None:
            self._supervisor.hurry()

    async def stop(self) -> None:
        """Stop everything in order. May be called twice."""
        if self._supervisor is not None:
            await self._supervisor.stop()
        self._held.close()

    @property
    def supervisor(self) -> Supervisor:
        """The processes, to look at or to break. Raises LocalSetupError before `start()`."""
        if self._supervisor is None:
            raise LocalSetupError("the fleet was not started: call start() first")
        return self._supervisor

    @property
    def log_dir(self) -> Path:
        """Where every process logs, each to a file of its name."""
        return (self._options.log_dir or self._options.data_dir / "logs").resolve()

    @property
    def outage_dir(self) -> Path:
        """Where a file of a region's name takes its Redis away while `follow` runs."""
        return self._options.data_dir.resolve() / "down"

    @property
    def redis_at_file(self) -> Path:
        """What `tradewind doctor` is told in TRADEWIND_REDIS_AT to find each region's Redis."""
        return self._options.data_dir.resolve() / "redis-at.json"

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Where each region is served, in file order. Empty before `start()`."""
        if self._layout is None:
            return {}
        with_workers = self._options.app is not None
        redis_at = targets(self._layout)
        return {
            region: Endpoint(
                region=region,
                grpc=f"{LOOPBACK}:{ports.grpc}",
                http=f"{LOOPBACK}:{ports.http}",
                worker_http=f"{LOOPBACK}:{ports.worker_http}" if with_workers else "",
                redis=redis_at[region],
            )
            for region, ports in self._layout.regions.items()
        }

    def _prepare(self) -> tuple[Layout, list[list[ProcessSpec]]]:
        server = find_server()
        data_dir = self._options.data_dir.resolve()
        try:
            self._held.enter_context(locked(data_dir))
            layout = choose_layout(self._fleet, self._options)
            for region, store in layout.stores.items():
                must_be_over(store, region_home(data_dir, region))
            for region, store in layout.stores.items():
                lay_out(store, region_home(data_dir, region), server)
            _write(self.redis_at_file, told(targets(layout)))
            self._outages = Outages(self.outage_dir, layout.stores)
            return layout, self._stages(server, layout, data_dir)
        except OSError as error:
            raise LocalSetupError(
                f"{error.filename}: {error.strerror}: choose another directory with --data-dir"
            ) from error

    def _stages(
        self, server: ServerBinary, layout: Layout, data_dir: Path
    ) -> list[list[ProcessSpec]]:
        options, log_dir, config = self._options, self.log_dir, self._options.config.resolve()
        worker_options = ("--grace", f"{options.stop_grace_s:g}", *options.worker_options)
        stores = [
            spec
            for region, store in layout.stores.items()
            for spec in store_specs(server, store, region_home(data_dir, region), log_dir)
        ]
        if layout.wan:
            self._links = wan_links(self._fleet, layout)
            stores.append(_wan_spec(layout, self._write_links(), log_dir))

        def service(
            kind: Literal["router", "worker"], region: str, argv: list[str], http_port: int
        ) -> ProcessSpec:
            name = f"{kind}-{region}"
            return ProcessSpec(
                name=name,
                argv=argv,
                env=seeing(targets(layout, layout.viewer(kind, region))),
                log_path=log_dir / f"{name}.log",
                ready=functools.partial(answers_ready, http_port),
                ready_timeout_s=options.ready_timeout_s,
                stop_grace_s=options.stop_grace_s + _HAND_BACK_S,
            )

        services: list[ProcessSpec] = []
        for region, ports in layout.regions.items():
            argv = router_argv(config, region, ports)
            services.append(service("router", region, argv, ports.http))
            if options.app is not None:
                more = (*worker_options, *options.region_options.get(region, ()))
                argv = worker_argv(config, region, ports, options.app, more)
                services.append(service("worker", region, argv, ports.worker_http))
        return [stores, services]


async def _unserved(client: Client) -> str:
    """Regions without a worker that the client's router sees, or why it cannot tell."""
    try:
        regions, _ = await client.admin.regions()
    except TradewindError as error:
        return f"any region yet: {error}"
    return ", ".join(each.name for each in regions if not each.workers or each.rtt_ms is None)


async def answers_ready(http_port: int) -> bool:
    """Whether `GET /readyz` on a loopback port gives 200."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_HTTP_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, http_port)
            writer.write(f"GET /readyz HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
            status_line = await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
    return status_line.split()[1:2] == [b"200"]


async def _listens(ports: Iterable[int]) -> bool:
    for port in ports:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            return False
        writer.close()
    return True


def _write(path: Path, text: str) -> Path:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    return new.replace(path)


def _wan_spec(layout: Layout, spec_path: Path, log_dir: Path) -> ProcessSpec:
    return ProcessSpec(
        name=_WAN,
        # By path, as the leash: the proxy needs nothing of ours but itself.
        argv=[sys.executable, "-I", "-S", wan.__file__, str(spec_path)],
        log_path=log_dir / "wan.log",
        ready=functools.partial(_listens, tuple(layout.wan.values())),
    )
