"""Whether what was written outlives a crash of its node: on a replica, and on disk.

WAIT and WAITAOF count for what their own connection wrote last, and block whatever is sent behind
them. So a seal has connections of its own to each node: it writes a mark there and waits for that.
A node executes one command after the other, and its log and its replicas take its writes in that
order, so whoever has the mark has all that the node wrote before. That is what others have had
answered by then, as long as it is still there: a node that crashed meanwhile, or gave way to its
replica, may have lost it, and the mark would then stand behind nothing. So the keys that are to be
safe are asked for in front of the mark.

Callers that come while a seal is under way share the next one: many cost as much as one. It does
not wait for the one before for long: where a log goes to disk once a second, both end with the same
write to disk.
"""

import asyncio
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tradewind.errors import StoreError, StoreMoving, StoreUnavailable
from tradewind.fleet import Durability
from tradewind.limits import SECOND_MS
from tradewind.store import durability, refusals, scripts
from tradewind.store.durability import Facts, Purpose
from tradewind.store.link import Command, Link, Reply
from tradewind.store.region_client import PAUSE_FIRST_S, PAUSE_MAX_S, RegionClient
from tradewind.store.role import Role, partition_in
from tradewind.task import LedgerMark

_WAIT_MS: Final = 2_000  # appendfsync everysec: one second, and as much for a busy disk
_MARGIN_S: Final = 3.0  # of the answers, beyond that
_LOOK_S: Final = 30.0  # as the map of nodes: whether there are replicas changes seldom
_AT_ONCE: Final = 8  # seals of a node under way, each on its own connection
_APART_S: Final = 0.25  # how long one waits for the one before: eight of them span _WAIT_MS


class _Round:
    """One seal of a node: the keys that are to be there, by partition."""

    def __init__(self) -> None:
        """Nobody has joined yet."""
        self.keys: dict[int, set[str]] = {}
        self.task: asyncio.Task[Collection[int]] | None = None


class _Seal:
    """Of one node, for one purpose. Belongs to one event loop."""

    def __init__(self, client: RegionClient, address: str, purpose: Purpose) -> None:
        """Nothing is connected yet."""
        self._client, self._address = client, address
        self._purpose: Purpose = purpose
        self._facts: Facts | None = None
        self._looked_s = -math.inf
        self._links: list[Link] = []
        self._is_closed = False
        self._idle: list[Link] = []
        self._began_s = -math.inf
        self._running: set[asyncio.Task[Collection[int]]] = set()
        self._next: _Round | None = None

    async def sealed(self, partition: int, keys: Iterable[str] = ()) -> bool:
        """Whether what the node has answered by now is safe. Raises StoreError.

        `keys` of the partition are part of that, and are there.
        """
        this = self._next
        if this is None or this.task is None:
            this = self._next = _Round()
            this.task = asyncio.create_task(self._run(this))
            this.task.add_done_callback(_seen)
        this.keys.setdefault(partition, set()).update(keys)
        return partition in await asyncio.shield(this.task)

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        self._is_closed = True
        await asyncio.gather(*(link.close() for link in self._links))
        under_way = [*self._running, *([self._next.task] if self._next else [])]
        await asyncio.gather(*(t for t in under_way if t is not None), return_exceptions=True)

    async def _run(self, this: _Round) -> Collection[int]:
        """Return the partitions of which all that was asked for is safe."""
        clock = asyncio.get_running_loop().time
        while self._running:
            left_s = self._began_s + _APART_S - clock()
            is_full = len(self._running) >= _AT_ONCE
            if left_s <= 0 and not is_full:
                break
            await asyncio.wait(
                list(self._running),
                timeout=None if is_full else left_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        # From here on who comes is too late for this one.
        self._next, self._began_s = None, clock()
        task = this.task
        assert task is not None  # noqa: S101 - it is this very one
        self._running.add(task)
        try:
            link = self._idle.pop() if self._idle else self._link()
            try:
                return await self._ask(link, this.keys)
            finally:
                self._idle.append(link)
        finally:
            self._running.discard(task)

    def _link(self) -> Link:
        if self._is_closed:
            raise StoreUnavailable(self._client.name, "closed", sent=False)
        link = self._client.nodes.link_apart(self._address)
        self._links.append(link)
        return link

    async def _ask(self, link: Link, wanted: Mapping[int, Collection[str]]) -> Collection[int]:
        partition = next(iter(wanted))
        facts = await self._look(link, partition)
        if self._purpose != "move" and facts.lacks(self._purpose):
            self._looked_s = -math.inf
            return ()
        waits = facts.waits(self._purpose, _WAIT_MS)
        there = {place: keys for place, keys in wanted.items() if keys}
        asked: list[Command] = [["EXISTS", *keys] for keys in there.values()]
        marked = [self._mark(partition), *waits] if waits else []
        try:
            said = await self._said(link, partition, [*asked, *marked], may_fail=len(asked))
        except StoreError:
            self._looked_s = -math.inf  # as below; or it refused to wait, run in another way by now
            raise
        if not all(map(durability.reached, said[len(asked) + 1 :])):
            self._looked_s = -math.inf  # perhaps the node is not what it was
            return ()
        gone = {
            place
            for (place, keys), found in zip(there.items(), said, strict=False)
            if found != len(keys)
        }
        return wanted.keys() - gone

    def _mark(self, partition: int) -> Command:
        script = scripts.load("seal")
        keys = {"mark": self._client.keys[partition].probe}
        return ["EVAL", script.source, *script.parts(keys, {})]

    async def _look(self, link: Link, partition: int) -> Facts:
        now_s = time.monotonic()
        if self._facts is None or now_s - self._looked_s > _LOOK_S:
            asked = durability.QUESTIONS
            said = await link.call(asked, timeout_s=_MARGIN_S)
            self._facts = durability.read(
                [*_raised(self._client.name, partition, said[:-1]), said[-1]]
            )
            self._looked_s = now_s
        return self._facts

    async def _said(
        self, link: Link, partition: int, commands: Sequence[Command], *, may_fail: int
    ) -> list[Reply]:
        """Ask; only the first `may_fail` answers may be errors."""
        timeout_s = 2 * _WAIT_MS / SECOND_MS + _MARGIN_S
        said = await link.call(commands, timeout_s=timeout_s)
        _raised(self._client.name, partition, said[may_fail:])
        return said


class SealRole(Role):
    """Part of ports.Outbox and ports.Inbox, and ports.Durables."""

    def __init__(self, client: RegionClient) -> None:
        """`client` of the region."""
        super().__init__(client)
        self._seals: dict[tuple[str, Purpose], _Seal] = {}

    async def seal(self, partition: int) -> bool:
        """What was written there is safe; see ports.Outbox."""
        return await (await self._at(partition, "move")).sealed(partition)

    async def lacks(self) -> dict[Durability, str]:
        """Which durabilities its nodes cannot give; see ports.Durables."""
        nodes = self._client.nodes
        await nodes.known()
        owned = [places[0] for places in nodes.owned_together().values()]
        each = await asyncio.gather(*map(self._facts, owned))
        found: dict[Durability, str] = {}
        for asked in ("fsync", "replica"):
            reasons = [reason for facts in each if (reason := facts.lacks(asked))]
            if reasons:
                of = f" ({len(reasons)} of {len(each)} nodes)" if len(each) > 1 else ""
                found[asked] = reasons[0] + of
        return found

    async def tasks_safe(
        self, durability: Durability, task_ids: Sequence[str], *, timeout_s: float
    ) -> list[bool]:
        """Whether each task is there, and that durably; see ports.Durables."""
        until_s = time.monotonic() + timeout_s
        by_partition: dict[int, list[str]] = {}
        for task_id in task_ids:
            partition = partition_in(task_id)
            key = self._client.keys[partition].task(task_id)
            by_partition.setdefault(partition, []).append(key)
        answers = await asyncio.gather(
            *(self._safe(durability, *each, until_s) for each in by_partition.items())
        )
        safe = dict(zip(by_partition, answers, strict=True))
        return [safe[partition_in(task_id)] for task_id in task_ids]

    async def entry_safe(
        self, durability: Durability, mark: LedgerMark, task_id: str, *, timeout_s: float
    ) -> bool:
        """Whether the entry is there, and that durably; see ports.Durables."""
        partition = self._entry_partition(mark, task_id)
        key = self._client.keys[partition].entry(mark.key)
        return await self._safe(durability, partition, [key], time.monotonic() + timeout_s)

    async def close_seals(self) -> None:
        """Close their connections. Idempotent."""
        seals, self._seals = self._seals, {}
        await asyncio.gather(*(seal.close() for seal in seals.values()))

    async def _safe(
        self, durability: Durability, partition: int, keys: Sequence[str], until_s: float
    ) -> bool:
        if durability == "memory":
            return True
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                async with asyncio.timeout(until_s - time.monotonic()):
                    seal = await self._at(partition, durability)
                    return await seal.sealed(partition, keys)
            except (refusals.Elsewhere, refusals.Later, StoreMoving, StoreUnavailable):
                self._client.nodes.doubt()
            except (StoreError, TimeoutError):
                return False
            if time.monotonic() + pause_s >= until_s:
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_MAX_S, pause_s * 2)

    async def _at(self, partition: int, purpose: Purpose) -> _Seal:
        nodes = self._client.nodes
        await nodes.owner(partition)
        address = nodes.address(partition)
        seal = self._seals.get((address, purpose))
        if seal is None:
            seal = self._seals[address, purpose] = _Seal(self._client, address, purpose)
            # A node is new: what leads to one that holds no partition any more is closed.
            known = nodes.owned_together()
            gone = [self._seals.pop(key) for key in list(self._seals) if key[0] not in known]
            await asyncio.gather(*(other.close() for other in gone))
        return seal

    async def _facts(self, partition: int) -> Facts:
        said = await self._client.plain(partition, durability.QUESTIONS[:-1])
        try:
            config = await self._client.plain(partition, durability.QUESTIONS[-1:])
        except StoreError:
            config = [None]
        return durability.read([*said, *config])


def _seen(task: "asyncio.Task[Collection[int]]") -> None:
    """Whoever waited for it may be gone."""
    if not task.cancelled():
        task.exception()


def _raised(region: str, partition: int, answers: Sequence[Reply]) -> Sequence[Reply]:
    """Raise the first error among answers, or return them."""
    for answer in answers:
        if isinstance(answer, Exception):
            lost = isinstance(answer, StoreError)  # the connection, before it came
            raise answer if lost else refusals.error_of(region, partition, answer)
    return answers
