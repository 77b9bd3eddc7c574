"""How it is learnt which node of a region serves what: in a Cluster, and behind Sentinels.

Both ask several at once and take the word of those that can know: a node that has lost the others
answers as well as ever, from its memory.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from redis import exceptions as redis_errors

from tradewind.errors import IdentityMismatch, StoreError, StoreUnavailable
from tradewind.fleet import RedisTarget, Region
from tradewind.store import dial
from tradewind.store.causes import cause_of
from tradewind.store.cluster_map import Place, node_ids, slot_places
from tradewind.store.link import Command, Reply, pack, read_reply

ASK_TIMEOUT_S: Final = 2.0  # of one node: connect, TLS, and answer
HEAD_START_S: Final = 0.1  # of one node before the next; a dead one must not hold up the others
_NONE: Final = frozenset[str]()
_OTHERS: Final = (
    "only nodes of another Cluster answer; if that is the new one, restart routers and workers"
)
_NO_SENTINEL: Final = "it is no Sentinel: correct `sentinel` in regions.yaml"

Ask = Callable[[str, Sequence[Command]], Awaitable[list[Reply]]]
Answer = TypeVar("Answer")


class Topology(Protocol):
    """Where a region's primaries are."""

    async def primaries(self, known: Sequence[str], foreign: frozenset[str] = _NONE) -> list[Place]:
        """Those that serve something. Raises StoreUnavailable.

        `known` nodes are asked first; a map with `foreign` ones is taken only for want of another.
        """
        ...


def topology_of(region: Region, ask: Ask) -> Topology | None:
    """The region's; None where its one node is named. `ask` asks a node of a Cluster."""
    match region.redis.kind:
        case "cluster":
            return _Cluster(region, ask)
        case "sentinel":
            return _Watched(region)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _View:
    """What one node of a Cluster says."""

    places: list[Place]
    ids: frozenset[bytes]  # of these nodes: they keep them for good, whatever their addresses
    is_whole: bool  # it is in touch with most primaries: see cluster_state

    def names_any(self, addresses: frozenset[str]) -> bool:
        """Whether one of these is in it."""
        return not addresses.isdisjoint(place.address for place in self.places)


class _Cluster:
    """A Redis Cluster."""

    def __init__(self, region: Region, ask: Ask) -> None:
        """Nobody has been asked yet."""
        self._region, self._ask = region, ask
        self._held: _View | None = None  # the map that was taken last

    async def primaries(self, known: Sequence[str], foreign: frozenset[str] = _NONE) -> list[Place]:
        """See Topology.

        Once a map was taken, only of the same Cluster: a seed may have been given to another one,
        and answer when none of ours does.
        """
        if self._held is not None and self._held.names_any(foreign):
            self._held = None
        view = await self._best(known, foreign)
        if (
            view.ids
        ):  # nodes that have not been made a Cluster yet say nothing of whose they will be
            self._held = view
        return view.places

    async def _best(self, known: Sequence[str], foreign: frozenset[str]) -> _View:
        nodes = dict.fromkeys([*known, *self._region.redis.nodes])
        failure: StoreError = _silence(self._region.name)
        partial, others_answer = None, False
        async with aclosing(
            _answers(self._region.name, self._view, list(nodes), HEAD_START_S)
        ) as views:
            async for view in views:
                if isinstance(view, StoreError):
                    failure = view
                elif self._held is not None and self._held.ids.isdisjoint(view.ids):
                    others_answer = True
                elif view.is_whole and not view.names_any(foreign):
                    return view
                else:
                    partial = partial or view
        if partial is not None:
            return partial
        if others_answer:
            raise StoreUnavailable(self._region.name, _OTHERS, sent=False)
        raise failure

    async def _view(self, address: str) -> _View:
        slots, info = await self._ask(address, [["CLUSTER", "SLOTS"], ["CLUSTER", "INFO"]])
        if isinstance(slots, list):
            is_whole = not isinstance(info, bytes) or b"cluster_state:fail" not in info
            ranges = cast("list[Any]", slots)
            return _View(slot_places(ranges, asked=address), node_ids(ranges), is_whole)
        raise StoreUnavailable(self._region.name, why_no_map(slots), sent=False)


def why_no_map(answer: Reply) -> str:
    """What a node says that has no answer to CLUSTER SLOTS, in our words."""
    if isinstance(answer, redis_errors.NoPermissionError):
        return "its login may not ask for the map: allow it +cluster|slots"
    if isinstance(answer, Exception) and "cluster support disabled" not in str(answer):
        return cause_of(answer)
    return "it is no Cluster: name it as redis://HOST:PORT in regions.yaml"


class _Watched:
    """A primary that Sentinels watch."""

    def __init__(self, region: Region) -> None:
        """Nobody has been asked yet."""
        self._region = region

    async def primaries(
        self,
        known: Sequence[str],  # noqa: ARG002 - Sentinels know
        foreign: frozenset[str] = _NONE,  # noqa: ARG002
    ) -> list[Place]:
        """See Topology."""
        return [Place(await primary_address(self._region.name, self._region.redis))]


async def primary_address(region: str, target: RedisTarget) -> str:
    """Where the primary is, by most of the Sentinels that answer. Raises StoreUnavailable.

    One Sentinel that was cut off does not know of a failover.
    """

    async def ask(address: str) -> str | None:
        return await _told(region, target, address)

    failure: StoreError = _silence(region)
    votes = Counter[str]()
    async with aclosing(_answers(region, ask, target.nodes, 0)) as answers:
        async for answer in answers:
            if isinstance(answer, StoreError):
                failure = answer
            elif answer is None:
                failure = StoreUnavailable(
                    region,
                    f"its Sentinels watch no master named {target.service}: correct `service` "
                    "in regions.yaml, or have them monitor it",
                    sent=False,
                )
            else:
                votes[answer] += 1
                if 2 * votes[answer] > len(target.nodes):
                    break
    if not votes:
        raise failure
    return votes.most_common(1)[0][0]


async def _told(region: str, target: RedisTarget, address: str) -> str | None:
    """What one Sentinel says; None if it knows no such master. Raises StoreUnavailable.

    Sentinels may have the servers' login, or none: they are asked again without.
    """
    question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service]
    try:
        try:
            reply = await _reply(target, address, question, login=True)
        except redis_errors.AuthenticationError:
            reply = await _reply(target, address, question, login=False)
    except (OSError, TimeoutError, redis_errors.RedisError) as error:
        if "unknown command" in str(error):
            raise StoreUnavailable(region, _NO_SENTINEL, sent=False) from None
        raise StoreUnavailable(region, f"of a Sentinel: {cause_of(error)}", sent=False) from None
    match reply:
        case None:
            return None
        case [bytes(host), bytes(port)]:
            return f"{host.decode()}:{port.decode()}"
        case _:
            raise StoreUnavailable(region, _NO_SENTINEL, sent=False)


async def _reply(target: RedisTarget, address: str, question: Command, *, login: bool) -> Any:
    connection = dial.connection(target, address, login=login)
    try:
        await connection.connect()
        await connection.send_packed_command([pack(question)], check_health=False)
        return await read_reply(connection)
    finally:
        await connection.disconnect(nowait=True)


async def _answers(
    region: str,
    ask: Callable[[str], Awaitable[Answer]],
    addresses: Sequence[str],
    head_start_s: float,
) -> AsyncGenerator[Answer | StoreError]:
    """What each says, or why it says nothing, as it comes.

    The next one is asked once the one before has answered, or has had its head start.
    """
    left = deque(addresses)
    asking: set[asyncio.Task[Answer | StoreError]] = set()
    try:
        while left or asking:
            if left:
                asking.add(asyncio.create_task(_answer(region, ask, left.popleft())))
            done, asking = await asyncio.wait(
                asking,
                timeout=head_start_s if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                yield task.result()
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _answer(
    region: str, ask: Callable[[str], Awaitable[Answer]], address: str
) -> Answer | StoreError:
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            return await ask(address)
    except (StoreUnavailable, IdentityMismatch) as error:
        return error
    except TimeoutError:
        return StoreUnavailable(region, "no answer in time", sent=False)


def _silence(region: str) -> StoreError:
    return StoreUnavailable(region, "no node answers", sent=False)
