"""Gathering what doctor judges: reads only, on connections of its own, and never an identity left.

It asks each node by itself. What one of them does not answer, or not allow, is left out.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from tradewind.clock import Clock
from tradewind.doctor import (
    NodeFacts,
    PartitionFacts,
    RegionFacts,
    Rights,
    SilentNode,
    Watcher,
)
from tradewind.errors import StoreError, StoreUnavailable
from tradewind.fleet import Fleet, Region
from tradewind.limits import SECOND_MS
from tradewind.store import dial, rights
from tradewind.store.cluster_map import Place, idle_places, node_ids, slot_places, uncovered
from tradewind.store.key_sample import key_sample
from tradewind.store.keys import partition_keys
from tradewind.store.link import Link, Reply
from tradewind.store.tags import SUPPORTED
from tradewind.store.topology import primary_address, why_no_map

ASK_TIMEOUT_S: Final = 5.0
PINGS: Final = 21
PINGS_S: Final = 2.0  # for all of them: a slow node gets fewer
_SETTINGS: Final = (
    *("save", "appendfsync", "min-replicas-to-write", "hash-max-listpack-value"),
    *("cluster-require-full-coverage", "stop-writes-on-bgsave-error"),
)


async def check_up(region: Region, fleet: Fleet, clock: Clock) -> RegionFacts:
    """Look at a region. One that does not answer is a fact, too; raises nothing."""
    visit = _Visit(region, fleet, clock)
    try:
        return await visit.facts()
    finally:
        await visit.close()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A node, and what it said; or why it said nothing."""

    place: Place
    facts: NodeFacts | None = None
    partitions: Sequence[PartitionFacts] = ()  # that it serves
    cause: str = ""


class _Visit:
    """One look at one region."""

    def __init__(self, region: Region, fleet: Fleet, clock: Clock) -> None:
        """Nothing is connected yet."""
        self._region, self._fleet, self._clock = region, fleet, clock
        self._keys = partition_keys(fleet.partitions)
        self._links: dict[str, Link] = {}

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def facts(self) -> RegionFacts:
        """All of it."""
        region = RegionFacts(self._region.name, self._region.redis.kind)
        try:
            places, strangers = await self._places()
        except StoreError as error:
            cause = error.cause if isinstance(error, StoreUnavailable) else "its answer is odd"
            nodes = self._region.redis.nodes
            return replace(region, silent=tuple(SilentNode(each, cause) for each in nodes))
        seen = list(await asyncio.gather(*(self._node(place) for place in places)))
        if region.kind == "sentinel":
            region = replace(region, watchers=await self._watchers())
            seen += await self._replicas(seen)
        nodes = tuple(each.facts for each in seen if each.facts is not None)
        region = replace(
            region,
            nodes=nodes,
            strangers=tuple(strangers),
            silent=tuple(_silent(each) for each in seen if each.facts is None),
        )
        if region.kind == "cluster":
            answering = [each.place for each in seen if each.facts is not None]
            owned_by_nobody = uncovered(places)
            region = replace(
                region,
                uncovered_slots=owned_by_nobody,
                silent_slots=uncovered(answering) - owned_by_nobody,
            )
        serving = [each for each in seen if each.facts is not None and each.facts.is_primary]
        if not serving:
            return region
        known = {one.number: one for each in serving for one in each.partitions}
        return replace(
            region,
            partitions=tuple(
                known.get(number, PartitionFacts(number, "")) for number in range(len(self._keys))
            ),
            other_partitions=await self._other_partitions([each.place for each in serving]),
            keys=await key_sample([self._asker(each.place.address) for each in serving]),
            rights=await self._rights(serving[0].place.address),
        )

    async def _places(self) -> tuple[list[Place], list[str]]:
        """The nodes of the region, and those named for it that belong to another Cluster.

        Raises StoreError if none of a Cluster's answers.
        """
        target = self._region.redis
        if target.kind == "sentinel":
            return [Place(await primary_address(self._region.name, target))], []
        if target.kind != "cluster":
            return [Place(address) for address in target.nodes[:1]], []
        failure: StoreError = StoreUnavailable(self._region.name, "no node is named", sent=False)
        is_empty = False  # one that was reset, or has not joined yet, knows of nobody
        maps: dict[str, tuple[list[Any], bytes]] = {}
        # Side by side: many that are silent take no longer than one.
        for address, answer in zip(
            target.nodes, await asyncio.gather(*map(self._map, target.nodes)), strict=True
        ):
            if isinstance(answer, StoreError):
                failure = answer
            elif answer[0]:
                maps[address] = answer
            else:
                is_empty = True
        if not maps:
            if is_empty:
                return [], []
            raise failure
        first, (ranges, nodes) = next(iter(maps.items()))
        ours = node_ids(ranges)
        strangers = [each for each, (theirs, _) in maps.items() if not ours & node_ids(theirs)]
        idle = idle_places(nodes, ranges, asked=first)
        return [*slot_places(ranges, asked=first), *idle], strangers

    async def _map(self, address: str) -> tuple[list[Any], bytes] | StoreError:
        """What it answers to CLUSTER SLOTS and CLUSTER NODES, or why it does not."""
        try:
            slots, nodes = await self._ask(address, [["CLUSTER", "SLOTS"], ["CLUSTER", "NODES"]])
        except StoreError as error:
            return error
        if not isinstance(slots, list):
            return StoreUnavailable(self._region.name, why_no_map(slots), sent=False)
        return cast("list[Any]", slots), nodes if isinstance(nodes, bytes) else b""

    async def _watchers(self) -> tuple[Watcher, ...]:
        """What each Sentinel says."""
        target = self._region.redis

        async def ask(address: str) -> Watcher:
            try:
                alone = replace(target, nodes=(address,))
                return Watcher(address, names=await primary_address(self._region.name, alone))
            except StoreUnavailable as error:
                return Watcher(address, cause=error.cause)

        return tuple(await asyncio.gather(*map(ask, target.nodes)))

    async def _replicas(self, seen: Sequence[_Seen]) -> list[_Seen]:
        """Those that the primaries name; only a Cluster lists them itself."""
        named = [each.address for one in seen if one.facts for each in one.facts.replicas]
        places = [Place(address, is_primary=False, slots=()) for address in named]
        return await asyncio.gather(*map(self._node, places))

    async def _node(self, place: Place) -> _Seen:
        address = place.address
        try:
            info, config = await self._ask(address, [["INFO"], ["CONFIG", "GET", *_SETTINGS]])
            if isinstance(info, Exception):
                return _Seen(place, cause="its login may not read INFO")
            pings_ms, skew_ms = await self._pings(address)
            facts = NodeFacts(
                address,
                _lines(cast("bytes", info)),
                _pairs(config),
                pings_ms=tuple(pings_ms),
                skew_ms=skew_ms,
                skew_error_ms=min(pings_ms) / 2,
            )
            partitions = await self._partitions(place) if facts.is_primary else ()
        except StoreUnavailable as error:
            return _Seen(place, cause=error.cause)
        return _Seen(place, facts, partitions)

    async def _pings(self, address: str) -> tuple[list[float], float]:
        """How long each took, ms, and the node's clock less ours by the fastest."""
        pings_ms: list[float] = []
        skew_ms = 0.0
        while len(pings_ms) < PINGS and sum(pings_ms) <= PINGS_S * SECOND_MS:
            asked_s, now_ms = time.perf_counter(), self._clock.now_ms()
            (told,) = await self._ask(address, [["TIME"]])
            took_ms = (time.perf_counter() - asked_s) * SECOND_MS
            if isinstance(told, list) and took_ms < min(pings_ms, default=took_ms + 1):
                seconds, micros = cast("list[bytes]", told)
                there_ms = int(seconds) * SECOND_MS + int(micros) / SECOND_MS
                skew_ms = there_ms - now_ms - took_ms / 2
            pings_ms.append(took_ms)
        return pings_ms, skew_ms

    async def _partitions(self, place: Place) -> list[PartitionFacts]:
        """Those that a primary serves. Raises StoreUnavailable."""
        held = [number for number, keys in enumerate(self._keys) if place.serves(keys.identity)]
        asked = [
            ["HGETALL", key]
            for number in held
            for key in (self._keys[number].identity, self._keys[number].counts)
        ]
        answers = [_pairs(answer) for answer in await self._ask(place.address, asked)]
        return [
            _partition(number, place.address, identity, counts)
            for number, identity, counts in zip(held, answers[::2], answers[1::2], strict=True)
        ]

    async def _other_partitions(self, serving: Sequence[Place]) -> int:
        """With which other number of partitions it is in use: its tasks lie under other tags."""
        others = [number for number in SUPPORTED if number != self._fleet.partitions]
        firsts = [partition_keys(number)[0].identity for number in others]
        for place in serving:
            asked = [["HGET", key, "partitions"] for key in firsts if place.serves(key)]
            with contextlib.suppress(StoreError):
                for said in await self._ask(place.address, asked):
                    if isinstance(said, bytes) and said.isdigit():
                        return int(said)
        return 0

    async def _rights(self, address: str) -> Rights:
        user = self._region.redis.username
        try:
            (who,) = await self._ask(address, [["ACL", "WHOAMI"]])
            user = who.decode() if isinstance(who, bytes) else user or "default"
            said = rights.verdict(await self._ask(address, rights.trials(user)))
        except StoreError:
            said = None
        if said is None:
            return Rights(user)
        return Rights(
            user,
            is_known=True,
            missing=tuple(said.missing),
            unknown=tuple(said.unknown),
            is_almighty=said.is_almighty,
        )

    def _asker(self, address: str) -> "partial[Any]":
        return partial(self._ask, address)

    async def _ask(self, address: str, commands: Sequence[Sequence[Any]]) -> list[Reply]:
        """Ask a node; error replies stand in the list. Raises StoreUnavailable."""
        link = self._links.get(address)
        if link is None:
            target = self._region.redis
            connect = partial(dial.connection, target, address)
            link = self._links[address] = Link(self._region.name, connect)
        answers = await link.call(commands, timeout_s=ASK_TIMEOUT_S)
        for answer in answers:
            if isinstance(answer, StoreUnavailable):
                raise answer
        return answers


def _silent(seen: _Seen) -> SilentNode:
    place = seen.place
    # One without slots serves nothing: its replica was promoted, or it has not begun yet.
    return SilentNode(place.address, seen.cause, is_primary=place.is_primary and bool(place.slots))


def _partition(
    number: int, node: str, identity: Mapping[str, str], counts: Mapping[str, str]
) -> PartitionFacts:
    sums = {"ready": _number(counts.get("P", "")), "s": 0, "f": 0, "m": 0, "r": 0, "d": 0}
    for field, tasks in counts.items():
        kind, colon, _ = field.partition(":")
        if colon and kind in sums:
            sums[kind] += _number(tasks)
    return PartitionFacts(
        number,
        node,
        identity,
        waiting=sums["ready"] + sums["s"] + sums["f"] + sums["m"],
        running=sums["r"],
        dead=sums["d"],
    )


def _number(text: str) -> int:
    """A count; one that is damaged is 0 until the reconcile sweep has counted anew."""
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _lines(info: bytes) -> dict[str, str]:
    """INFO, name by name."""
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _pairs(answer: Reply) -> dict[str, str]:
    """A flat list of names and values; empty for anything else, such as a refusal."""
    if not isinstance(answer, list):
        return {}
    flat = [part.decode(errors="replace") for part in cast("list[bytes]", answer)]
    return dict(zip(flat[::2], flat[1::2], strict=True))
