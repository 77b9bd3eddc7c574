"""The Redis nodes of one region: which one serves a partition, and a link to each.

A standalone server is a map with one node. A Cluster is learnt from CLUSTER SLOTS of any node
that answers, and again whenever a node says that a slot is elsewhere. Everything above is the
same code.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.crc import key_slot

from tradewind.errors import IdentityMismatch, SetupError, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet, Region
from tradewind.limits import SECOND_MS
from tradewind.store import replies, scripts
from tradewind.store.keys import PartitionKeys, partition_keys
from tradewind.store.link import Exchange, Link, Reply
from tradewind.store.tags import SUPPORTED, tags

FORMAT = 2  # of the records; a newer one is refused, one older is read
OLDEST_FORMAT = 2  # 1 was that of unreleased versions, whose records lie otherwise
REFRESH_EVERY_S = 30.0
_LEARN_TIMEOUT_S, _ASK_TIMEOUT_S = 3.0, 1.0  # of all nodes, of one: a dead one is not alone
_DOUBT_EVERY_S = 1.0  # a failover takes seconds; asking more often finds nothing new
_KEEPALIVE = True


class Nodes:
    """Links by address, and the owner of every partition."""

    def __init__(self, region: Region, fleet: Fleet, incarnation: str) -> None:
        """`incarnation` is written where a Redis has no identity yet."""
        if region.redis.kind == "sentinel":
            message = (
                f"region {region.name}: Sentinel is not served yet; "
                "name the master as redis://HOST:PORT"
            )
            raise SetupError(message)
        self._region, self._fleet, self._incarnation = region, fleet, incarnation
        self._keys = partition_keys(fleet.partitions)
        self._others = [
            PartitionKeys(tags(number)[0]).identity
            for number in SUPPORTED
            if number != fleet.partitions
        ]
        self._slots = [key_slot(keys.identity.encode()) for keys in self._keys]
        self._links: dict[str, Link] = {}
        self._owners: list[str] = [region.redis.nodes[0]] * fleet.partitions
        self._learnt_s = 0.0  # monotonic time at which the map was asked for last; 0: never
        self._learning: asyncio.Task[None] | None = None
        self._clock_offset_ms: dict[str, float] = {}  # by address: server clock - our monotonic

    async def owner(self, partition: int) -> Link:
        """The link to the node that serves `partition`."""
        if self.is_cluster and not self._learnt_s:
            await self.learn()
        self._refresh()
        return self._link(self._owners[partition])

    def ready_owner(self, partition: int) -> Link | None:
        """The same at once; None unless the node is known and connected."""
        link = self._links.get(self._owners[partition])
        if link is None or not link.is_ready or (self.is_cluster and not self._learnt_s):
            return None
        self._refresh()
        return link

    def _refresh(self) -> None:
        if self.is_cluster and time.monotonic() - self._learnt_s > REFRESH_EVERY_S:
            self._learn_aside()

    @property
    def is_cluster(self) -> bool:
        """Whether partitions may lie on several nodes, and move between them."""
        return self._region.redis.kind == "cluster"

    def doubt(self) -> None:
        """A node did not answer: its replica may have taken over. Learn the map beside the calls.

        Without this the dead node would be asked for ever: no other one is asked for its slots.
        """
        if self.is_cluster and time.monotonic() - self._learnt_s > _DOUBT_EVERY_S:
            self._learn_aside()

    def link_to(self, address: str) -> Link:
        """The link to a node by its address, HOST:PORT."""
        return self._link(address)

    def connection(self, partition: int) -> AbstractConnection:
        """A new, unconnected connection to the partition's node, for blocking calls."""
        return self._make(self._owners[partition])

    def address(self, partition: int) -> str:
        """Of the partition's node, HOST:PORT or a path."""
        return self._owners[partition]

    def link_apart(self, address: str) -> Link:
        """A link of its own to a node, for calls that block what is sent behind them."""
        return Link(self._region.name, self._maker(address), self._greeter(address))

    def owned_together(self) -> dict[str, list[int]]:
        """Partitions by address of their node."""
        together: dict[str, list[int]] = {}
        for partition, address in enumerate(self._owners):
            together.setdefault(address, []).append(partition)
        return together

    async def server_now_ms(self, partition: int) -> int:
        """The clock of the partition's node, by the last reply that told it. May connect."""
        await (await self.owner(partition)).ready()
        offset_ms = self._clock_offset_ms.get(self._owners[partition], 0.0)
        return int(offset_ms + time.monotonic() * SECOND_MS)

    def known_now_ms(self, partition: int) -> int | None:
        """The same without asking anybody; None if no reply has told it yet."""
        offset_ms = self._clock_offset_ms.get(self._owners[partition])
        return None if offset_ms is None else int(offset_ms + time.monotonic() * SECOND_MS)

    def note_clock(self, partition: int, now_ms: int) -> None:
        """A script said what time it is at the partition's node."""
        self._note_clock(self._owners[partition], now_ms)

    def _note_clock(self, address: str, now_ms: int) -> None:
        self._clock_offset_ms[address] = now_ms - time.monotonic() * SECOND_MS

    async def learn(self) -> None:
        """Ask a node who owns what; concurrent callers share one question. Standalone: nothing."""
        if not self.is_cluster:
            return
        try:
            async with asyncio.timeout(_LEARN_TIMEOUT_S):
                await asyncio.shield(self._learn_aside())
        except TimeoutError:
            raise StoreUnavailable(self._region.name, "no node answers", sent=False) from None

    def _learn_aside(self) -> "asyncio.Task[None]":
        if self._learning is None:
            self._learning = asyncio.create_task(self._learn())
            self._learning.add_done_callback(self._learnt)
        return self._learning

    async def close(self) -> None:
        """Close every link. Idempotent."""
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def _learnt(self, task: asyncio.Task[None]) -> None:
        self._learning = None
        if not task.cancelled():
            task.exception()

    async def _learn(self) -> None:
        if self._learnt_s:
            self._learnt_s = time.monotonic()  # also if it fails: not again at once
        failure: Exception = StoreUnavailable(self._region.name, "no node answers", sent=False)
        for address in dict.fromkeys([*self._owners, *self._region.redis.nodes]):
            try:
                reply = await self._link(address).call(
                    [["CLUSTER", "SLOTS"]], timeout_s=_ASK_TIMEOUT_S
                )
            except (StoreUnavailable, IdentityMismatch) as error:
                failure = error
                continue
            if isinstance(reply[0], list):
                self._take(cast("list[Any]", reply[0]), asked=address)
                self._learnt_s = time.monotonic()
                return
        raise failure

    def _take(self, ranges: list[Any], *, asked: str) -> None:
        owner_of: list[tuple[int, int, str]] = []
        for low, high, primary, *_ in ranges:
            host = (primary[0] or b"").decode() or asked.rpartition(":")[0]
            owner_of.append((low, high, f"{host}:{primary[1]}"))
        for partition, slot in enumerate(self._slots):
            for low, high, address in owner_of:
                if low <= slot <= high:
                    self._owners[partition] = address

    def _link(self, address: str) -> Link:
        if address not in self._links:
            self._links[address] = Link(
                self._region.name, self._maker(address), self._greeter(address)
            )
        return self._links[address]

    def _maker(self, address: str) -> Callable[[], AbstractConnection]:
        return lambda: self._make(address)

    def _make(self, address: str) -> AbstractConnection:
        target = self._region.redis
        common: dict[str, Any] = {
            "username": target.username or None,
            "password": target.password or None,
            "db": target.database,
            "protocol": 2,
            "socket_timeout": None,
            "socket_connect_timeout": 3,
            "client_name": "tradewind",
            "decode_responses": False,
        }
        if target.kind == "unix":
            return UnixDomainSocketConnection(path=address, **common)
        host, _, port = address.rpartition(":")
        common |= {"host": host.strip("[]"), "port": int(port), "socket_keepalive": _KEEPALIVE}
        if target.tls is None:
            return Connection(**common)
        return SSLConnection(
            ssl_ca_certs=target.tls.ca or None,
            ssl_certfile=target.tls.cert or None,
            ssl_keyfile=target.tls.key or None,
            **common,
        )

    def _greeter(self, address: str) -> Callable[[Exchange], Any]:
        """Verify the identity of every partition the node is thought to hold."""

        async def greet(exchange: Exchange) -> None:
            script = scripts.load("identity")
            args = {
                "deployment": self._fleet.deployment,
                "region": self._region.name,
                "partitions": self._fleet.partitions,
                "format": FORMAT,
                "incarnation": self._incarnation,
            }
            held = [
                keys
                for keys, owner in zip(self._keys, self._owners, strict=True)
                if owner == address
            ]
            # Another number of partitions has other tags: its tasks would lie there unseen.
            asked = [["TIME"], *(["HGET", key, "partitions"] for key in self._others)]
            clock, *others = await exchange(asked)
            if isinstance(clock, list):  # also of a node that holds no partition yet
                seconds, micros = cast("list[bytes]", clock)
                self._note_clock(address, int(seconds) * SECOND_MS + int(micros) // 1000)
            for answer in others:
                if isinstance(answer, bytes):
                    expected = str(self._fleet.partitions)
                    raise IdentityMismatch(
                        self._region.name, "partitions", answer.decode(), expected
                    )
            answers = await exchange(
                [
                    ["EVAL", script.source, *script.parts({"identity": keys.identity}, args)]
                    for keys in held
                ]
            )
            for answer in answers:
                self._verify(address, answer)

        return greet

    def _verify(self, address: str, answer: Reply) -> None:
        if isinstance(answer, Exception):
            error = replies.error_of(self._region.name, 0, answer)
            if isinstance(error, replies.Elsewhere | replies.Later | StoreMoving):
                return  # of one partition nothing is known; its calls learn the map, or wait
            raise error
        found = replies.identity(answer)
        expected = {
            "deployment": self._fleet.deployment,
            "region": self._region.name,
            "partitions": str(self._fleet.partitions),
        }
        for field, value in expected.items():
            if found[field] != value:
                raise IdentityMismatch(self._region.name, field, found[field], value)
        if not OLDEST_FORMAT <= int(found["format"]) <= FORMAT:
            raise IdentityMismatch(self._region.name, "format", found["format"], str(FORMAT))
        self._note_clock(address, int(found["now_ms"]))
