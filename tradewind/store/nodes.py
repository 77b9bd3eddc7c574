"""The Redis nodes of one region: which one serves a partition, and a link to each.

A standalone server is a map with one node, Sentinels give a map whose one node changes, a Cluster
one whose nodes share the partitions. Everything above is the same code.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, cast

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot

from tradewind.errors import IdentityMismatch, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet, Region
from tradewind.limits import SECOND_MS
from tradewind.store import dial
from tradewind.store.cluster_map import Place, redirected
from tradewind.store.identity import Checked, Identity
from tradewind.store.keys import partition_keys
from tradewind.store.link import CONNECT_TIMEOUT_S, Command, Exchange, Link, Reply
from tradewind.store.refusals import Elsewhere
from tradewind.store.topology import ASK_TIMEOUT_S, topology_of

REFRESH_EVERY_S: Final = 30.0
PART_AFTER_S: Final = 10.0  # from a node that left the map: no call under way there lasts as long
_LEARN_TIMEOUT_S: Final = 3.0  # of all nodes
_REDIRECTIONS: Final = 4  # from node to node, until they agree who owns a slot
# It would work until a node fails: nobody would learn who has taken over.
_OF_A_CLUSTER: Final = "it is a node of a Cluster: name it as {cluster: [...]} in regions.yaml"
_DOUBT_EVERY_S: Final = 1.0  # a failover takes seconds; asking more often finds nothing new


class Nodes:
    """Links by address, and the owner of every partition."""

    def __init__(self, region: Region, fleet: Fleet, incarnation: str) -> None:
        """`incarnation` is written where a Redis has no identity yet."""
        self._region = region
        self._identity = Identity(region.name, fleet, incarnation)
        self._topology = topology_of(region, self._ask)
        self._slots = [
            key_slot(keys.identity.encode()) for keys in partition_keys(fleet.partitions)
        ]
        self._links: dict[str, Link] = {}
        first = "" if self._topology else region.redis.nodes[0]
        self._owners = [first] * fleet.partitions
        self._unverified = set(range(fleet.partitions))  # at the node that owns it now
        self._learnt_s = 0.0  # monotonic time at which the map was asked for last; 0: never
        self._learning: asyncio.Task[None] | None = None
        self._checking: dict[str, asyncio.Task[Checked]] = {}  # by address
        self._doubting: asyncio.TimerHandle | None = None
        self._parting: dict[str, asyncio.TimerHandle] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._clock_offset_ms: dict[str, float] = {}  # by address: server clock - our monotonic
        # Of another region, as they say themselves: a seed may have gone over to its Cluster.
        self._foreign: set[str] = set()
        self._closed = False

    async def owner(
        self, partition: int, *, timeout_s: float = CONNECT_TIMEOUT_S, eager: bool = False
    ) -> Link:
        """The link to the node that serves `partition`, whose data is ours.

        Raises StoreError; as calls do, Elsewhere, Later or StoreMoving if the node cannot tell now.

        The link may have to connect yet, which then verifies the same. `eager`: see Link.call.
        """
        if self._topology and not self._learnt_s:
            await self.learn()
        self._refresh()
        if partition not in self._unverified:
            return self._link(self._owner(partition))
        try:
            async with asyncio.timeout(timeout_s):
                for _ in range(_REDIRECTIONS):
                    link = self._link(self._owner(partition))
                    if partition not in self._unverified:
                        return link
                    await self._verify(partition, link, eager=eager)
        except TimeoutError:
            self.doubt()
            raise self._unavailable("no answer in time") from None
        except StoreUnavailable:
            self.doubt()
            raise
        self.doubt()
        raise StoreMoving(self._region.name, partition)

    def ready_owner(self, partition: int) -> Link | None:
        """The same at once; None unless the node is known and connected, and verified."""
        link = self._links.get(self._owners[partition])
        if link is None or not link.is_ready or partition in self._unverified:
            return None
        self._refresh()
        return link

    async def known(self) -> None:
        """Return once it is known who serves what. Raises StoreUnavailable."""
        if self._topology and not self._learnt_s:
            await self.learn()
        self._refresh()

    @property
    def is_cluster(self) -> bool:
        """Whether partitions may lie on several nodes, and move between them."""
        return self._region.redis.kind == "cluster"

    def others_answer(self, partition: int) -> bool:
        """Whether primaries of other partitions are connected."""
        others = {*self._owners} - {self._owners[partition]}
        return any(address in self._links and self._links[address].is_ready for address in others)

    def doubt(self) -> None:
        """A node did not answer: its replica may have taken over. Learn the map beside the calls.

        Without this the dead node would be asked for ever: no other one is asked for its slots.
        """
        if self._topology is None or self._closed or self._doubting is not None:
            return
        wait_s = self._learnt_s + _DOUBT_EVERY_S - time.monotonic()
        if wait_s <= 0:
            self._learn_aside()
        else:
            self._doubting = asyncio.get_running_loop().call_later(wait_s, self._doubted)

    def moved(self, partition: int, address: str) -> None:
        """The owner said that another node is; the rest of the map may be old as well.

        Raises StoreUnavailable for a server of its own, which has no other nodes.
        """
        if self._topology is None:
            raise self._unavailable(_OF_A_CLUSTER)
        self._own(partition, address)
        self.doubt()

    def demoted(self, partition: int) -> None:
        """Its node is a replica: what it holds may be another region's when it no longer is."""
        address = self._owners[partition]
        self._unverified |= {one for one, owner in enumerate(self._owners) if owner == address}

    def link_to(self, address: str) -> Link:
        """The link to a node by its address, HOST:PORT."""
        return self._link(address)

    def connection(self, partition: int) -> AbstractConnection:
        """A new, unconnected connection to the partition's node, for blocking calls."""
        return dial.connection(self._region.redis, self._owners[partition])

    def address(self, partition: int) -> str:
        """Of the partition's node, HOST:PORT or a path."""
        return self._owners[partition]

    def link_apart(self, address: str) -> Link:
        """A link of its own to a node, for calls that block what is sent behind them."""
        link = Link(
            self._region.name,
            partial(dial.connection, self._region.redis, address),
            partial(self._greet, address),
        )
        link.on_loss = self.doubt
        return link

    def owned_together(self) -> dict[str, list[int]]:
        """Partitions by address of their node, as far as they have one."""
        together: dict[str, list[int]] = {}
        for partition, address in enumerate(self._owners):
            if address:
                together.setdefault(address, []).append(partition)
        return together

    async def server_now_ms(self, partition: int) -> int:
        """The clock of the partition's node, by the last reply that told it. May connect."""
        await self.known()
        try:
            await self._link(self._owner(partition)).ready()
        except StoreUnavailable:
            self.doubt()
            raise
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
        """Ask who owns what; concurrent callers share one question. Standalone: nothing.

        Raises StoreUnavailable.
        """
        if self._topology is None:
            return
        try:
            async with asyncio.timeout(_LEARN_TIMEOUT_S):
                await asyncio.shield(self._learn_aside())
        except TimeoutError:
            raise self._unavailable("no node answers") from None

    async def close(self) -> None:
        """Close every link. Idempotent."""
        self._closed = True
        for timer in (self._doubting, *self._parting.values()):
            if timer is not None:
                timer.cancel()
        asking: list[asyncio.Task[Any]] = list(self._checking.values())
        if self._learning is not None:
            asking.append(self._learning)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._farewells)

    def _refresh(self) -> None:
        if self._topology and time.monotonic() - self._learnt_s > REFRESH_EVERY_S:
            self._learn_aside()

    def _learn_aside(self) -> "asyncio.Task[None]":
        if self._learning is None:
            self._learning = asyncio.create_task(self._learn())
            self._learning.add_done_callback(self._learnt)
        return self._learning

    def _doubted(self) -> None:
        self._doubting = None
        self._learn_aside()

    def _learnt(self, task: "asyncio.Task[None]") -> None:
        self._learning = None
        if not task.cancelled():
            task.exception()

    async def _learn(self) -> None:
        if self._closed:
            raise self._unavailable("closed")
        assert self._topology is not None  # noqa: S101 - its callers ask
        if self._learnt_s:
            self._learnt_s = time.monotonic()  # also if it fails: not again at once
        # A node that answers at once goes first; one that is lost need not be asked.
        known = sorted(self.owned_together().keys() - self._foreign, key=self._is_lost)
        self._take(await self._topology.primaries(known, frozenset(self._foreign)))
        self._learnt_s = time.monotonic()

    def _is_lost(self, address: str) -> bool:
        link = self._links.get(address)
        return link is None or not link.is_ready

    def _take(self, places: Sequence[Place]) -> None:
        for place in places:
            for partition, slot in enumerate(self._slots):
                if place.holds(slot):
                    self._own(partition, place.address)
        self._part_from(self._links.keys() - self._owners)

    def _owner(self, partition: int) -> str:
        address = self._owners[partition]
        if not address:
            raise self._unavailable("no node serves the partition")
        return address

    def _own(self, partition: int, address: str) -> None:
        if self._owners[partition] != address:
            self._owners[partition] = address
            self._unverified.add(partition)

    def _part_from(self, addresses: Iterable[str]) -> None:
        """Close links that nobody needs, once no call can be under way there."""
        loop = asyncio.get_running_loop()
        for address in addresses:
            if address not in self._parting:
                self._parting[address] = loop.call_later(PART_AFTER_S, self._part, address)

    def _part(self, address: str) -> None:
        del self._parting[address]
        if address in self._owners:  # it has come back
            return
        self._clock_offset_ms.pop(address, None)
        farewell = asyncio.create_task(self._links.pop(address).close())
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    def _link(self, address: str) -> Link:
        if address not in self._links:
            self._links[address] = self.link_apart(address)
        return self._links[address]

    async def _ask(self, address: str, commands: Sequence[Command]) -> list[Reply]:
        return await self._link(address).call(commands, timeout_s=ASK_TIMEOUT_S)

    async def _greet(self, address: str, exchange: Exchange) -> None:
        """Verify every partition that the node is thought to hold."""
        if self._region.redis.kind == "sentinel":
            (role,) = await exchange([["ROLE"]])
            if isinstance(role, list) and cast("list[Any]", role)[0] != b"master":
                raise self._unavailable("its primary has become a replica")
        held = [partition for partition, owner in enumerate(self._owners) if owner == address]
        self._note(address, await self._identify(address, exchange, held))

    async def _identify(
        self, address: str, exchange: Exchange, partitions: Sequence[int]
    ) -> Checked:
        """Have it say whose data it holds. Raises as Identity.check."""
        try:
            checked = await self._identity.check(exchange, partitions)
        except IdentityMismatch:
            self._foreign.add(address)
            self.doubt()
            raise
        if checked.verified:
            self._foreign.discard(address)
        return checked

    async def _verify(self, partition: int, link: Link, *, eager: bool) -> None:
        """Verify a partition that has come to a node which was greeted before, or in vain.

        It may turn out that another node is its owner. Raises what the node says if it cannot tell.
        """
        address = self._owners[partition]
        await link.ready(eager=eager)
        if partition not in self._unverified or self._owners[partition] != address:
            return
        if address not in self._checking:
            checking = asyncio.create_task(self._check(address, link))
            checking.add_done_callback(partial(self._checked, address))
            self._checking[address] = checking
        checked = await asyncio.shield(self._checking[address])
        match checked.doubtful.get(partition):
            case None:
                pass
            case Elsewhere(to=to) if to:
                self.moved(partition, redirected(to, asked=address))
            case refusal:
                self.doubt()
                raise refusal

    async def _check(self, address: str, link: Link) -> Checked:
        held = [one for one in sorted(self._unverified) if self._owners[one] == address]
        exchange = partial(link.call, timeout_s=CONNECT_TIMEOUT_S)
        checked = await self._identify(address, exchange, held)
        self._note(address, checked)
        return checked

    def _checked(self, address: str, task: "asyncio.Task[Checked]") -> None:
        del self._checking[address]
        if not task.cancelled():
            task.exception()

    def _note(self, address: str, checked: Checked) -> None:
        if checked.now_ms is not None:
            self._note_clock(address, checked.now_ms)
        held = {partition for partition, owner in enumerate(self._owners) if owner == address}
        self._unverified -= held.intersection(checked.verified)
        self._unverified |= held.intersection(checked.doubtful)

    def _unavailable(self, cause: str) -> StoreUnavailable:
        return StoreUnavailable(self._region.name, cause, sent=False)
