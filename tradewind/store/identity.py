"""Whose data a node holds: asked before anything else is, partition by partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from tradewind.errors import IdentityMismatch, StoreError, StoreMoving, StoreUnavailable
from tradewind.fleet import Fleet
from tradewind.limits import SECOND_MS
from tradewind.store import refusals, replies, scripts
from tradewind.store.keys import PartitionKeys, partition_keys
from tradewind.store.link import Command, Exchange
from tradewind.store.tags import SUPPORTED, tags

FORMAT: Final = 2  # of the records; a newer one is refused, one older is read
OLDEST_FORMAT: Final = 2  # 1 was that of unreleased versions, whose records lie otherwise


@dataclass(frozen=True, slots=True)
class Checked:
    """What a node said. Of a partition in `doubtful` nothing is known, for that reason."""

    now_ms: int | None
    verified: Sequence[int]
    doubtful: dict[int, StoreError]


class Identity:
    """That of a region, as its file has it."""

    def __init__(self, region: str, fleet: Fleet, incarnation: str) -> None:
        """`incarnation` is written where a Redis has no identity yet."""
        self._region, self._fleet, self._incarnation = region, fleet, incarnation
        self._keys = partition_keys(fleet.partitions)
        # Another number of partitions has other tags: its tasks would lie there unseen.
        self._others: list[Command] = [
            ["HGET", PartitionKeys(tags(number)[0]).identity, "partitions"]
            for number in SUPPORTED
            if number != fleet.partitions
        ]

    async def check(self, exchange: Exchange, partitions: Sequence[int]) -> Checked:
        """Ask the node for these partitions. Raises IdentityMismatch, and what cannot pass."""
        clock, *others = await exchange([["TIME"], *self._others])
        for answer in others:
            if isinstance(answer, bytes):
                raise self._mismatch("partitions", answer.decode(), str(self._fleet.partitions))
        now_ms = None
        if isinstance(clock, list):  # also of a node that holds no partition yet
            seconds, micros = cast("list[bytes]", clock)
            now_ms = int(seconds) * SECOND_MS + int(micros) // 1000
        script = scripts.load("identity")
        args = {
            "deployment": self._fleet.deployment,
            "region": self._region,
            "partitions": self._fleet.partitions,
            "format": FORMAT,
            "incarnation": self._incarnation,
        }
        identities = [{"identity": self._keys[partition].identity} for partition in partitions]
        answers = await exchange(
            [["EVAL", script.source, *script.parts(keys, args)] for keys in identities]
        )
        verified: list[int] = []
        doubtful: dict[int, StoreError] = {}
        for partition, answer in zip(partitions, answers, strict=True):
            if isinstance(answer, StoreUnavailable):  # the connection was lost before it came
                raise answer
            if isinstance(answer, Exception):
                error = refusals.error_of(self._region, partition, answer)
                if not isinstance(error, refusals.Elsewhere | refusals.Later | StoreMoving):
                    raise error
                doubtful[partition] = error
            else:
                found = replies.identity(answer)
                self._compare(found)
                now_ms = int(found["now_ms"])
                verified.append(partition)
        return Checked(now_ms, verified, doubtful)

    def _compare(self, found: dict[str, str]) -> None:
        expected = {
            "deployment": self._fleet.deployment,
            "region": self._region,
            "partitions": str(self._fleet.partitions),
        }
        for field, value in expected.items():
            if found[field] != value:
                raise self._mismatch(field, found[field], value)
        if not OLDEST_FORMAT <= int(found["format"]) <= FORMAT:
            raise self._mismatch("format", found["format"], str(FORMAT))

    def _mismatch(self, field: str, found: str, expected: str) -> IdentityMismatch:
        return IdentityMismatch(self._region, field, found, expected)
