"""One region on a Redis Cluster, with a router and workers that are processes."""

import asyncio
import urllib.request
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from tests.flow.lab import APP, Lab, free_address
from tests.harness.gateways import Gateway, started
from tests.harness.ledger import Ledger
from tests.harness.patience import PATIENCE_S, until
from tests.redis_keys import leaked_keys, wrong_counts
from tradewind import Client
from tradewind.client.views import TaskView
from tradewind.local.freeports import LOOPBACK
from tradewind.store.keys import partition_keys

QUEUE = "{lease: 10s, attempts: 3, backoff: {initial: 50ms, factor: 2, max: 200ms}, timeout: 60s}"
REGION = "eu-west"
_GET_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class Seeds:
    """The nodes of a Cluster as one server, as Lab writes it into regions.yaml."""

    ports: Sequence[int]

    @property
    def url(self) -> str:
        """A mapping in place of a URL."""
        addresses = ", ".join(f'"{LOOPBACK}:{port}"' for port in self.ports)
        return f"{{cluster: [{addresses}]}}"

    @property
    def port(self) -> int:
        """Of the first one."""
        return self.ports[0]


class Clustered:
    """What runs, with the part of a Yard's face that fits one region."""

    def __init__(self, lab: Lab, router: Gateway, worker_pages: Sequence[str]) -> None:
        """`worker_pages`: where the workers tell how they are."""
        self.lab, self.address = lab, router.address
        self.worker_pages = worker_pages
        self._pages = (router.http, *worker_pages)
        self.ledger = Ledger(lab.ledger)

    def client(self, region: str = REGION, **options: Any) -> Client:
        """A client of the router, standing in the region."""
        return Client(self.address, origin_region=region, **options)

    async def settled(self, client: Client, task_id: str) -> TaskView:
        """Wait until nothing but a redrive could change the task."""
        async with asyncio.timeout(PATIENCE_S):
            return [view async for view in client.watch(task_id)][-1]

    async def pages(self) -> bytes:
        """The metrics of router and workers."""
        return b"\n".join(
            await asyncio.gather(*(asyncio.to_thread(_get, page) for page in self._pages))
        )


def slots_of(partitions: int) -> list[int]:
    """The slot of each partition."""
    return [key_slot(keys.identity.encode()) for keys in partition_keys(partitions)]


@asynccontextmanager
async def clustered(
    home: Path,
    ports: Sequence[int],
    *,
    partitions: int = 16,
    workers: int = 1,
    queues: str = QUEUE,
    app: Path = APP,
) -> AsyncGenerator[Clustered]:
    """Workers and a router on the Cluster that all of them are told by its `ports`.

    `queues`: YAML of queues.default, and of more in lines of their own.
    """
    lab = Lab(home, [Seeds(ports)], queues, partitions=partitions)
    pages = [free_address() for _ in range(workers)]
    try:
        for page in pages:
            lab.start(REGION, "--concurrency", "16", "--app", f"{app}:app", "--http", page)
        log = home / "router.log"
        router = await started(lab, REGION, log)
        try:

            async def all_live() -> bool:
                return len(await lab.stores[REGION].workers()) == workers

            await lab.until(all_live)
            yield Clustered(lab, router, pages)
        finally:
            await router.stop(log)
    finally:
        await lab.close()


async def is_in_order(ports: Sequence[int], patience_s: float = PATIENCE_S) -> None:
    """Wait until every key of the primaries has an owner or a TTL, and every count is right."""

    def nothing_is_wrong() -> bool:
        return not wrong_counts(*ports) and not any(map(leaked_keys, ports))

    await until(nothing_is_wrong, "every key has an owner or a TTL", patience_s=patience_s)


def _get(address: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_GET_TIMEOUT_S) as answer:
        return answer.read()
