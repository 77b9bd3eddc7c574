"""An embedded fleet to be looked at from outside: over gRPC, in its Redis, in its logs."""

import asyncio
import contextlib
import urllib.request
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import redis

from tests.harness.ledger import Ledger
from tests.harness.patience import PATIENCE_S, until
from tests.redis_keys import leaked_keys, wrong_counts
from tradewind import Client, regions
from tradewind.client.views import TaskView
from tradewind.local.embedded import EmbeddedFleet
from tradewind.local.plan import EmbeddedOptions, seeing
from tradewind.local.supervisor import Supervisor

_GET_TIMEOUT_S = 5


class Yard:
    """A running fleet, and the ledger its handlers write to."""

    def __init__(self, fleet: EmbeddedFleet, home: Path, ledger: Ledger) -> None:
        self._fleet, self._home, self.ledger = fleet, home, ledger
        self.regions = tuple(fleet.endpoints)

    @property
    def fleet(self) -> EmbeddedFleet:
        """What runs, for whoever breaks the ways between its parts."""
        return self._fleet

    @property
    def supervisor(self) -> Supervisor:
        """The processes: `redis-R`, `router-R`, `worker-R`."""
        return self._fleet.supervisor

    def router(self, region: str) -> str:
        """Where a region's router listens."""
        return self._fleet.endpoints[region].grpc

    def client(self, region: str, **options: Any) -> Client:
        """A client of a region's router, standing in that region."""
        options.setdefault("origin_region", region)
        return Client(self.router(region), **options)

    @property
    def config(self) -> Path:
        """The file that all processes read."""
        return self._home / "regions.yaml"

    @property
    def env(self) -> dict[str, str]:
        """What one more process must be told to find each Redis, without delays."""
        ends = self._fleet.endpoints.values()
        return seeing({end.region: end.redis for end in ends})

    def redis(self, region: str) -> "redis.Redis":
        """A region's Redis, answers in bytes."""
        return redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            self._fleet.endpoints[region].redis_url
        )

    def said(self, region: str) -> bytes:
        """All that a region's processes have printed and logged."""
        files = sorted((self._home / "data" / "logs").glob(f"*-{region}.log"))
        assert len(files) == 3, files
        return b"\n".join(file.read_bytes() for file in files)

    def kept(self, region: str) -> bytes:
        """All that a region's Redis has written to its disk."""
        files = sorted((self._home / "data" / "regions" / region).rglob("*"))
        return b"\n".join(file.read_bytes() for file in files if file.is_file())

    async def pages(self, region: str) -> bytes:
        """The metrics of a region's router and worker."""
        endpoint = self._fleet.endpoints[region]
        urls = [f"http://{address}/metrics" for address in (endpoint.http, endpoint.worker_http)]
        return b"\n".join(await asyncio.gather(*(asyncio.to_thread(_get, url) for url in urls)))

    async def router_page(self, region: str) -> bytes:
        """The metrics of a region's router alone: its workers' end with them."""
        return await asyncio.to_thread(_get, f"http://{self._fleet.endpoints[region].http}/metrics")

    def mentions(self, region: str, text: str) -> list[str]:
        """Every key of a region that has `text` in its name, its members or its values."""
        with contextlib.closing(self.redis(region)) as store:
            keys: list[bytes] = list(store.scan_iter(count=1000))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            found = [key for key in keys if any(text.encode() in p for p in parts_of(store, key))]
        return sorted(key.decode(errors="replace") for key in found)

    @asynccontextmanager
    async def unseen(self, region: str, marks: Mapping[str, str]) -> AsyncGenerator[None]:
        """Hold that these texts, by what they are, are found nowhere in a region after a block.

        Not in a command, a key, a file of its Redis, a log, a metric or what its router says was
        done, in any region.
        """
        async with self.overheard(region) as heard:
            yield
        assert heard, f"nothing was heard in {region}"
        places = {
            "command": bytes(heard),
            "log": self.said(region),
            "disk": self.kept(region),
            "metric": await self.pages(region),
            "audit": await self.audited(region),
        }
        for what, mark in marks.items():
            assert self.mentions(region, mark) == [], (region, what)
            for where, text in places.items():
                assert mark.encode() not in text, (region, what, where)

    async def audited(self, region: str) -> bytes:
        """All that a region's router says operators and couriers have done, anywhere."""
        said, token = list[str](), ""
        async with self.client(region) as client:
            while True:
                page = await client.admin.audit(page_token=token)
                said += map(repr, page.records)
                token = page.next_page_token
                if not token:
                    return "\n".join(said).encode()

    async def settled(self, client: Client, task_id: str) -> TaskView:
        """Wait until nothing but a redrive could change the task."""
        async with asyncio.timeout(PATIENCE_S):
            return [view async for view in client.watch(task_id)][-1]

    async def is_served_everywhere(self, handler: str = "sleep") -> None:
        """Wait until every router sees a live worker for the handler in every region."""
        for region in self.regions:
            async with self.client(region) as client:
                found: list[tuple[str, str]] = []

                async def all_are_eligible(
                    client: Client = client, found: list[tuple[str, str]] = found
                ) -> bool:
                    candidates = (await client.explain(handler)).candidates
                    found[:] = [(each.region, each.excluded_by) for each in candidates]
                    return all(each.eligible for each in candidates)

                what = f"router-{region} finds all regions eligible"
                await until(all_are_eligible, what, seen=found)

    async def is_in_order(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until no Redis holds a key that nobody will remove, or counts a task wrongly."""
        urls = [endpoint.redis_url for endpoint in self._fleet.endpoints.values()]
        ports = [int(url.rpartition(":")[2]) for url in urls]
        found: list[object] = []

        def nothing_is_wrong() -> bool:
            found[:] = [*map(leaked_keys, ports), *map(wrong_counts, ports)]
            return not any(found)

        what = "every key has an owner or a TTL, every count is right"
        await until(nothing_is_wrong, what, patience_s=patience_s, seen=found)

    @asynccontextmanager
    async def overheard(self, region: str) -> AsyncGenerator[bytearray]:
        """Every command that reaches a region's Redis meanwhile, arguments included."""
        host, _, port = (
            self._fleet.endpoints[region].redis_url.removeprefix("redis://").partition(":")
        )
        reader, writer = await asyncio.open_connection(host, int(port))
        heard = bytearray()

        async def listen() -> None:
            while chunk := await reader.read(65_536):
                heard.extend(chunk)

        writer.write(b"MONITOR\r\n")
        assert await reader.readline() == b"+OK\r\n"
        listening = asyncio.create_task(listen())
        try:
            yield heard
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def yard(
    home: Path, text: str, app: Path, ledger: Ledger, *worker_options: str, **options: Any
) -> AsyncGenerator[Yard]:
    """Run the regions that `text` describes, on free ports; everything has ended afterwards.

    `options` are more of EmbeddedOptions.
    """
    config = home / "regions.yaml"
    config.write_text(text)
    chosen = EmbeddedOptions(
        config=config,
        app=f"{app}:app",
        data_dir=home / "data",
        ephemeral_ports=True,
        worker_options=worker_options,
        **options,
    )
    fleet = EmbeddedFleet(regions.load(config), chosen)
    await fleet.start()
    try:
        running = Yard(fleet, home, ledger)
        await running.is_served_everywhere()
        yield running
    finally:
        await fleet.stop()


def parts_of(store: Any, key: bytes) -> Iterator[bytes]:
    """Every text of a key, its name first. `store` answers in bytes."""
    yield key
    match store.type(key):
        case b"string":
            yield store.get(key) or b""
        case b"list":
            yield from store.lrange(key, 0, -1)
        case b"set":
            yield from store.smembers(key)
        case b"zset":
            yield from store.zrange(key, 0, -1)
        case b"hash":
            yield from chain.from_iterable(store.hgetall(key).items())
        case b"stream":
            yield from chain.from_iterable(
                pair for _, fields in store.xrange(key) for pair in fields.items()
            )
        case b"none":  # it has expired since
            pass
        case other:
            raise AssertionError(f"{key!r} is a {other!r}, which nothing here can read")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_GET_TIMEOUT_S) as answer:
        return answer.read()
