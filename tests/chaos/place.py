"""Where a run happens: three regions on this machine, each on another kind of Redis.

eu-west is a Cluster of three primaries with a replica each, eu-north a master with a replica under
three sentinels, us-east one server. Each has two worker processes; there are two routers. All of
these reach each server over a link of their own, which can be spoilt. The clocks of all hosts are
wrong by up to a minute and a half, and those of servers by a little once they have been started
again.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, cast

import redis.asyncio

from tests.chaos import clocks
from tests.chaos.app import LEDGER
from tests.chaos.links import Links
from tradewind.fleet import RedisTarget
from tradewind.local.embedded import answers_ready
from tradewind.local.errors import LocalSetupError
from tradewind.local.freeports import LOOPBACK, free_ports
from tradewind.local.plan import seeing
from tradewind.local.scratch import (
    RedisProcess,
    Watched,
    cluster_nodes,
    redis_process,
    watched_servers,
)
from tradewind.local.supervisor import ProcessSpec, Supervisor

Deployment = Literal["cluster", "sentinel", "standalone"]
REGIONS: Final[Mapping[str, Deployment]] = {
    "eu-west": "cluster",
    "eu-north": "sentinel",
    "us-east": "standalone",
}
OUTSIDE: Final = "us-east"  # of the fence of fenced tasks
ROUTERS: Final = ("eu-west", "us-east")
WORKERS: Final = 2  # processes a region
SERVICE: Final = "main"
PARTITIONS: Final = 16
LEASE_S: Final = 6.0
_SLOTS: Final = 6  # tasks at once, of one worker process
_READY_S: Final = 60.0
_GRACE_S: Final = 10.0
_WHOLE_S: Final = 30.0
_LOOK_S: Final = 0.1
_PRIMARIES: Final[Mapping[Deployment, int]] = {"cluster": 3, "sentinel": 1, "standalone": 1}
# As `tradewind doctor` advises: a primary that was replaced and does not know it has no replica,
# and takes nothing.
_GUARDED: Final = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2")
# Microseconds for each command of the log, which is kept short: a restart answers LOADING for a
# second or two.
_LOADING: Final = (
    *("--key-load-delay", "10", "--loading-process-events-interval-bytes", "1024"),
    *("--auto-aof-rewrite-min-size", "1mb"),
)

_POLICY: Final = """\
version: 1
partitions: PARTITIONS
regions:
  eu-west: {redis: {cluster: [CLUSTER]}, residency: [eu]}
  eu-north: {redis: {sentinel: [SENTINEL], service: main}, residency: [eu]}
  us-east: {redis: "redis://STANDALONE", residency: [us]}
rtt:
  eu-west: {eu-north: 10ms, us-east: 40ms}
  eu-north: {us-east: 50ms}
health: {interval: 1s, timeout: 1s}
queues:
  default:
    attempts: 4
    backoff: {initial: 300ms, factor: 2, max: 2s}
    timeout: 30s
    lease: 6s
    max_crashes: 12
    failover: {on: [exhausted, timeout, crashed], max_hops: 2}
  unique: {dedup: {by: payload}}
  safe: {durability: replica}
failover: {unserved_after: 3s, rescue_after: 8s}
"""


@dataclass(slots=True)
class Place:
    """Everything that runs, for whoever breaks it."""

    supervisor: Supervisor
    servers: Mapping[str, Sequence[RedisProcess]]  # region -> its data servers
    watched: Watched  # those of eu-north
    addresses: Sequence[str]  # of the routers
    links: Links
    logs: Path

    def workers(self, region: str) -> list[str]:
        """Names of a region's worker processes."""
        return [f"worker-{region}-{number}" for number in range(WORKERS)]

    async def primaries(self, region: str) -> list[RedisProcess]:
        """Servers that take writes now."""
        found = await asyncio.gather(*(_role(one) for one in self.servers[region]))
        return [
            one
            for one, role in zip(self.servers[region], found, strict=True)
            if role == "master" and await self._has_slots(region, one)
        ]

    async def replicas(self, region: str) -> list[RedisProcess]:
        """Servers that follow another one."""
        found = await asyncio.gather(*(_role(one) for one in self.servers[region]))
        pairs = zip(self.servers[region], found, strict=True)
        return [one for one, role in pairs if role == "slave"]

    async def whole(self, region: str) -> None:
        """Wait until the region has each of its primaries once, and all others follow one.

        A primary that comes back takes writes until it hears that it was replaced. Raises
        LocalSetupError.
        """
        give_up_at = time.monotonic() + _WHOLE_S
        wanted = _PRIMARIES[REGIONS[region]]
        while True:
            primaries, replicas = await self.primaries(region), await self.replicas(region)
            if len(primaries) == wanted == len(self.servers[region]) - len(replicas):
                return
            if time.monotonic() > give_up_at:
                raise LocalSetupError(
                    f"{region} is not whole {_WHOLE_S:g} s after: {len(primaries)} primaries and "
                    f"{len(replicas)} replicas answer of {len(self.servers[region])} servers"
                )
            await asyncio.sleep(_LOOK_S)

    async def _has_slots(self, region: str, server: RedisProcess) -> bool:
        if REGIONS[region] != "cluster":
            return True
        mine = [
            line
            for line in (await ask(server, "CLUSTER", "NODES")).splitlines()
            if "myself" in line
        ]
        return bool(mine) and len(mine[0].split()) > 8


async def ask(server: RedisProcess, *command: str | int, timeout_s: float = 3.0) -> Any:
    """One command on a connection of its own, replies decoded. Raises redis-py's errors."""
    options = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    client = cast("Any", redis.asyncio.Redis)(port=server.port, decode_responses=True, **options)
    async with client:
        return await client.execute_command(*command)


@asynccontextmanager
async def place(home: Path, dice: random.Random, tree: Path) -> AsyncGenerator[Place]:
    """Run it all while the block runs. `tree` is where the services' code lies."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_context
        servers: dict[str, Sequence[RedisProcess]] = {}
        servers["eu-west"] = enter(cluster_nodes(home / "cluster", extra_args=_GUARDED, replicas=1))
        watched = enter(watched_servers(home / "sentinel", extra_args=_GUARDED, service=SERVICE))
        servers["eu-north"] = watched.servers
        servers["us-east"] = [enter(redis_process(home / "standalone", _LOADING))]
        for server in chain.from_iterable(servers.values()):
            server.env = clocks.a_little_off(dice)
        targets = _targets(servers, watched)
        policy = home / "regions.yaml"
        policy.write_text(_policy(targets))
        viewers = [f"router-{region}" for region in ROUTERS]
        viewers += [f"worker-{region}-{n}" for region in REGIONS for n in range(WORKERS)]
        nodes = {**servers, "eu-north": [*watched.servers, *watched.sentinels]}
        # All at once: ports that are asked for one after the other may be the same.
        each = sum(map(len, nodes.values())) + 1
        ports = iter(free_ports(each * len(viewers) + len(ROUTERS)))
        links = Links(viewers, nodes, ports)
        await links.proxy.start()
        stack.push_async_callback(links.proxy.stop)
        seen = partial(links.seen_by, targets=targets)
        services = _Services(home, policy, tree, seen, dice, ports)
        routers = [services.router(region) for region in ROUTERS]
        workers = [services.worker(region, n) for region in REGIONS for n in range(WORKERS)]
        supervisor = Supervisor([[*routers, *workers]])
        stack.push_async_callback(supervisor.stop)
        await supervisor.start()
        yield Place(
            supervisor,
            servers,
            watched,
            services.addresses,
            links,
            home / "logs",
        )


def _targets(
    servers: Mapping[str, Sequence[RedisProcess]], watched: Watched
) -> dict[str, RedisTarget]:
    """Where each region is, by the names of its nodes."""
    asked = {**servers, "eu-west": servers["eu-west"][:3], "eu-north": watched.sentinels}
    return {
        region: RedisTarget(
            REGIONS[region],
            tuple(f"{LOOPBACK}:{one.port}" for one in nodes),
            service=SERVICE if nodes is watched.sentinels else "",
        )
        for region, nodes in asked.items()
    }


def _policy(targets: Mapping[str, RedisTarget]) -> str:
    at = {target.kind.upper(): ", ".join(target.nodes) for target in targets.values()}
    text = _POLICY.replace("PARTITIONS", f"{PARTITIONS}")
    for name, where in at.items():
        text = text.replace(name, where)
    return text


class _Services:
    """Specs of routers and workers."""

    def __init__(
        self,
        home: Path,
        policy: Path,
        tree: Path,
        seen: Callable[[str], dict[str, RedisTarget]],
        dice: random.Random,
        ports: Iterator[int],
    ) -> None:
        self._home, self._policy, self._tree, self._seen = home, policy, tree, seen
        self._dice, self._ports = dice, ports
        self.addresses: list[str] = []

    def router(self, region: str) -> ProcessSpec:
        grpc, http = next(self._ports), next(self._ports)
        self.addresses.append(f"{LOOPBACK}:{grpc}")
        listen = ("--listen", self.addresses[-1], "--http", f"{LOOPBACK}:{http}")
        return self._spec(f"router-{region}", "router", region, listen, http)

    def worker(self, region: str, number: int) -> ProcessSpec:
        http = next(self._ports)
        app = f"{Path(__file__).with_name('app.py')}:app"
        options = ("--app", app, "--concurrency", f"{_SLOTS}", "--http", f"{LOOPBACK}:{http}")
        return self._spec(f"worker-{region}-{number}", "worker", region, options, http)

    def _spec(
        self, name: str, module: str, region: str, options: Sequence[str], http: int
    ) -> ProcessSpec:
        argv = [sys.executable, "-P", "-m", module, "--config", str(self._policy)]
        env = {
            **seeing(self._seen(name)),
            **clocks.far_off(self._dice),
            LEDGER: str(self._home / "ledger.jsonl"),
            "PYTHONPATH": str(self._tree),
        }
        return ProcessSpec(
            name=name,
            argv=[*argv, "--region", region, *options],
            env=env,
            log_path=self._home / "logs" / f"{name}.log",
            ready=partial(answers_ready, http),
            ready_timeout_s=_READY_S,
            stop_grace_s=_GRACE_S,
        )


async def _role(server: RedisProcess) -> str:
    try:
        return (await ask(server, "ROLE", timeout_s=1.0))[0]
    except (OSError, redis.asyncio.RedisError):
        return ""
